"""Copy a reproduction of the paper to the docs: ``python docs/make_reproduction.py RESULTS [NAME]``.

RESULTS is the directory of ``partialfair reproduce all --report --out RESULTS``. The page is NAME.md, by
default reproduction.md. For Figure 12, whose networks need a GPU, NAME is reproduction_faces, and RESULTS
comes from ``benchmarks/celeba.py store RESULTS`` and ``partialfair reproduce fig12 --report --out RESULTS``.
"""

import io
import re
import sys
from pathlib import Path

from PIL import Image

COLOURS = 128


def main(results: Path, directory: Path, name: str = "reproduction") -> None:
    """Copy the report, and its figures with fewer colors."""
    images = directory / "images" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    text = (results / "report.md").read_text()
    for picture in re.findall(r"\]\((\w+\.png)\)", text):
        packed = io.BytesIO()
        with Image.open(results / picture) as image:
            image.convert("RGB").quantize(COLOURS).save(packed, "PNG", optimize=True)
        (images / picture).write_bytes(packed.getvalue())
    (directory / f"{name}.md").write_text(re.sub(r"\]\((\w+\.png)\)", r"](images/reproduction/\1)", text))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent, *sys.argv[2:3])
