"""Put a reproduction of the paper among the pages: ``python docs/make_reproduction.py RESULTS [DIRECTORY]``.

RESULTS is where ``partialfair reproduce all --report --out RESULTS`` wrote its report and figures.
"""

import io
import re
import sys
from pathlib import Path

from PIL import Image

COLOURS = 128


def main(results: Path, directory: Path) -> None:
    """Copy the report, and the figures that it shows with fewer colours."""
    images = directory / "images" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    text = (results / "report.md").read_text()
    for name in re.findall(r"\]\((\w+\.png)\)", text):
        packed = io.BytesIO()
        with Image.open(results / name) as image:
            image.convert("RGB").quantize(COLOURS).save(packed, "PNG", optimize=True)
        (images / name).write_bytes(packed.getvalue())
    (directory / "reproduction.md").write_text(
        re.sub(r"\]\((\w+\.png)\)", r"](images/reproduction/\1)", text)
    )


if __name__ == "__main__":
    here = Path(__file__).parent
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else here)
