"""``python -m partialfair``: the command line, where its script is not on the path."""

from partialfair.cli import main

if __name__ == "__main__":
    main()
