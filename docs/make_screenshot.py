"""Draw the images of the demo and of its report: ``python docs/make_screenshot.py [DIRECTORY]``.

Needs Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

COMMAND = [sys.executable, "-c", "from partialfair.cli import main; main()"]
PICTURES = ("rank_curves.png", "unfairness_map.png", "frontier.png")


def main(directory: Path) -> None:
    """Run the demo in a temporary directory, and copy the images of the docs."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        subprocess.run([*COMMAND, "demo", "--out", made], check=True)
        for name in PICTURES:
            shutil.copy(Path(made) / name, directory / f"demo_{name}")
        browser = driver.chromium.launch(executable_path=chromium, chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1440, "height": 2090})
        page.goto((Path(made) / "demo.html").as_uri())
        page.screenshot(path=directory / "demo_page.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
