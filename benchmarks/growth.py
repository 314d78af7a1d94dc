"""How the time of one certified fit grows with the number of rows: ACS income, one-hot, interactions.

Run ``python benchmarks/growth.py [--data DIR]``; writes a table and a picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from _record import RESULTS, write
from engine import in_a_process

SIZES = (15_000, 70_000, 325_000, 0)


def main() -> None:
    """Fit four sizes with and without the constraint, each in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=10.0, help="limit of a row")
    arguments = parser.parse_args()
    methods = ("ours", "ours, unconstrained")
    rows = [in_a_process("acs_income", "pSP", m, n, arguments) for m in methods for n in SIZES]
    times = {m: [(row["rows"], row["seconds"]) for row in rows if row["method"] == m] for m in methods}
    powers = {m: float(np.polyfit(*np.log(np.array(times[m])).T, 1)[0]) for m in methods}
    table = [
        {
            "method": row["method"],
            "rows": f"{row['rows']:,}",
            "seconds": f"{row['seconds']:.2f}",
            "passes": row["passes"],
            "status": row["status"],
            "peak GiB": f"{row['peak GiB']:.2f}",
            "power of n": f"{powers[row['method']]:.2f}",
        }
        for row in rows
    ]
    write("growth", "Time of one fit on ACS income", table, arguments.out)
    draw(times, powers, arguments.out / "growth.png")


def draw(times: dict[str, list[tuple[int, float]]], powers: dict[str, float], target: Path) -> None:
    """Draw seconds over rows, on logarithmic axes."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for method, color in zip(times, ("#0072b2", "#d55e00"), strict=True):
        label = f"{method}: n^{powers[method]:.2f}"
        ax.loglog(*np.array(times[method]).T, "o-", color=color, label=label)
    ax.set(xlabel="rows", ylabel="seconds", title="One fit on ACS income, one-hot, one model per group")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(target, dpi=150)


if __name__ == "__main__":
    main()
