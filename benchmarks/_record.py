"""Timing, and tables that name the machine they were measured on."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
"""Where tables are kept, unless a benchmark is given another ``--out``."""


def best_of(call: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least wall-clock seconds of some calls, after one that compiles and warms up."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def machine() -> dict[str, Any]:
    """Return what the timings depend on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    packages = ("numpy", "scipy", "scikit-learn", "pandas", "numba")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def write(name: str, title: str, rows: list[dict[str, Any]], out: Path = RESULTS) -> None:
    """Write rows as JSON and as a Markdown table into a directory, and print the table."""
    host = machine()
    out.mkdir(parents=True, exist_ok=True)
    record = {"title": title, "machine": host, "rows": rows}
    (out / f"{name}.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    columns = list(rows[0])
    lines = [
        f"# {title}",
        "",
        "Machine: " + ", ".join(f"{key} {value}" for key, value in host.items()),
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows),
    ]
    text = "\n".join(lines) + "\n"
    (out / f"{name}.md").write_text(text)
    print(text)
