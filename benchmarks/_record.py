"""Records of benchmarks: tables as JSON and Markdown that state their commit and command."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from _earlier import ROOT, commit_of

RESULTS = Path(__file__).parent / "results"
"""Default directory of records (``--out``)."""

COMMIT = os.environ.get("BENCHMARK_COMMIT") or commit_of(ROOT)
"""Environment variable with the measured commit, for machines that have the files without git."""

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "numba",
    "piqp",
    "clarabel",
    "lightgbm",
    "fairlearn",
    "torch",
)


def machine() -> dict[str, Any]:
    """Return the hardware on which timings depend."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    hardware = {"cpu": cpu, "cores": os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        hardware["gpu"] = torch.cuda.get_device_name()
    return hardware


def packages() -> dict[str, str]:
    """Return the versions of Python and of installed packages."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def command_line() -> str:
    """Return the running command; paths outside the repository are shortened to their last part."""

    def relative(word: str) -> str:
        option, equals, value = word.rpartition("=")
        path = Path(value)
        if not path.is_absolute():
            return word
        return f"{option}{equals}{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}"

    script = relative(str(Path(sys.argv[0]).resolve()))
    return shlex.join(["python", script, *map(relative, sys.argv[1:])])


def write(
    name: str,
    title: str,
    rows: list[dict[str, Any]],
    out: Path = RESULTS,
    *,
    seeds: str | None = None,
    **more: Any,
) -> None:
    """Write rows as JSON and as a Markdown table, with commit and command, and print the table.

    Parameters
    ----------
    name, title
        Name and title of the record.
    rows
        Rows with the same columns. Rows of several runs have a column with the commit of each.
    out
        Directory of the files.
    seeds
        Random seeds, if any.
    more
        Further entries of the JSON.
    """
    out.mkdir(parents=True, exist_ok=True)
    origin = {"commit": COMMIT, "command": command_line(), "seeds": seeds}
    record = {"title": title, **origin, "machine": machine(), "packages": packages(), "rows": rows, **more}
    record = {key: value for key, value in record.items() if value is not None}
    (out / f"{name}.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    text = as_markdown(record)
    (out / f"{name}.md").write_text(text)
    print(text)


def as_markdown(record: dict[str, Any]) -> str:
    """Return a record as Markdown."""

    def shown(value: Any) -> str:
        return ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value

    rows, columns = record["rows"], list(record["rows"][0])
    origin = [key for key in ("commit", "command", "seeds", "machine", "packages") if key in record]
    lines = [
        f"# {record['title']}",
        "",
        *(f"- {key.capitalize()}: {shown(record[key])}" for key in origin),
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
