"""Draw the layers of the import contract in CONTRIBUTING.md: ``python docs/make_layers.py``."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUBJECTS = {
    "cli": "commands",
    "data": "samples, groups, intervals, splits",
    "constraints": "constraints, surrogates, DC functions",
    "estimators": "scikit-learn API, paths of models",
    "extension": "names for other distributions",
    "metrics": "exact metrics, bounds, reports",
    "optimization": "models, losses, problems, solvers",
    "report": "HTML",
    "theory": "generalization bounds",
    "training": "the fit as a function",
    "utils": "checks, files, clock",
}


def draw_layers() -> str:
    """Return the layers as a Mermaid flowchart, upper ones first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    lines = ["```mermaid", "flowchart TB"]
    for number, layer in enumerate(layers):
        packages = [name.removeprefix("partialfair.") for name in re.split(r" [|:] ", layer)]
        words = [
            f"<b>{name}</b> {SUBJECTS[name]}" if name in SUBJECTS else f"<b>{name}</b>" for name in packages
        ]
        lines.append(f'    layer{number}["{" · ".join(words)}"]')
    lines += [f"    layer{number} --> layer{number + 1}" for number in range(len(layers) - 1)]
    return "\n".join([*lines, "```"])


def replace_drawing(page: str) -> str:
    """Return a page with the current drawing."""
    return re.sub(
        r"```mermaid\nflowchart TB\n.*?```", lambda _: draw_layers(), page, count=1, flags=re.DOTALL
    )


if __name__ == "__main__":
    page = ROOT / "CONTRIBUTING.md"
    page.write_text(replace_drawing(page.read_text()))
