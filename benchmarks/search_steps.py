"""What steps on the exact gap gain, and what they cost: fits with `search_steps` from 0 to 1000.

Run ``python benchmarks/search_steps.py [--only two-feature tiny ties real] [--problems PATTERN]``; it writes
a table and a picture, and takes about ten minutes on one core. The problems are a fixed selection of those of
optimality.py: the first ten with two features, all tiny ones, eight with ties, twelve on law school and a9a.

The excess is ``(f − f*) / (f* − f_unc)``, as there, with the lower of the reference and of all that is found
here as f*; the file of references is left as it is. Costs are seconds of the same problem relative to no
steps, the median over problems. "compared" are problems with a price for which every number of steps found a
model that keeps the promise; "none found" counts fits that found none. `search_steps` is scaled by the number
of rows: where they are few a fit takes up to sixty times as many steps, where they are many fewer.
"""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from _judging import Case
from _record import RESULTS, write
from _references import References
from optimality import FAMILIES, compared, shares_of_price
from partialfair import PartialFairClassifier

STEPS = (0, 10, 30, 100, 300, 1000)
SELECTION = {
    "two-feature": r"two-feature/0\d ",
    "tiny": r"tiny/",
    "ties": r"ties/[1346] ",
    "real": r"real/(law_school|a9a) (pSP|pDP) (absolute .*|interval one model) κ=0\.05$",
}
"""By family, what the names of its problems match."""
MEASURES = {"median": 50, "90th percentile": 90, "largest": 100}
"""Percentiles of the excess."""
LEAST_DRAWN = 0.01
"""Percent: less is drawn here, since the axis has logarithms."""


def selected(arguments: argparse.Namespace) -> list[Case]:
    """Return the problems of the families that are asked for."""
    cases = []
    for name in arguments.only:
        family = argparse.Namespace(problems=SELECTION[name], data=arguments.data)
        cases += [case for setting in FAMILIES[name].settings(family) for case in setting]
    return [case for case in cases if re.search(arguments.problems, case.key)]


def fits_of(case: Case, references: References) -> dict[int, dict[str, Any]]:
    """Return the fits of a problem by their number of steps, each with its excess."""
    reference = references.of(case)
    assert reference is not None, f"{case.key} has no reference"
    fits = {steps: compared(case, reference, references, search_steps=steps) for steps in STEPS}
    lowest = references.of(case)  # fits were offered
    assert lowest is not None
    return {
        steps: {**fit, "excess": shares_of_price(fit["objective"], lowest)[0]} for steps, fit in fits.items()
    }


def curve(name: str, problems: list[dict[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a row for each number of steps: the excess of some problems, and the cost."""
    both = [fits for fits in problems if all(fit["excess"] is not None for fit in fits.values())]
    rows = []
    for steps in STEPS:
        shares = [fits[steps]["excess"] for fits in both]
        costs = [fits[steps]["seconds"] / fits[0]["seconds"] for fits in problems]
        rows.append(
            {
                "problems": name,
                "search_steps": steps,
                "compared": len(both),
                "none found": sum(fits[steps]["objective"] is None for fits in problems),
                **{
                    measure: float(np.percentile(shares, percent)) if shares else None
                    for measure, percent in MEASURES.items()
                },
                "cost": float(np.median(costs)),
                "median seconds": float(np.median([fits[steps]["seconds"] for fits in problems])),
            }
        )
    return rows


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table."""
    digits = {**dict.fromkeys(MEASURES, ".4f"), "cost": ".2f", "median seconds": ".2f"}
    return {
        name: "none" if value is None else format(value, digits[name]) if name in digits else value
        for name, value in row.items()
    }


def draw(rows: list[dict[str, Any]], target: Path) -> None:
    """Draw the excess over the cost, with the number of steps at every point."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    default = PartialFairClassifier().search_steps
    costs = [row["cost"] for row in rows]
    fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    drawn = []
    for measure, color in zip(MEASURES, ("#0072b2", "#009e73", "#d55e00"), strict=True):
        drawn.append([max(100 * row[measure], LEAST_DRAWN) for row in rows])
        ax.plot(costs, drawn[-1], "o-", color=color, label=measure)
    for steps, cost, share in zip(STEPS, costs, drawn[-1], strict=True):
        ax.annotate(
            str(steps),
            (cost, share),
            xytext=(2, 6),
            textcoords="offset points",
            rotation=45,
            fontweight="bold" if steps == default else "normal",
        )
    at_default = costs[STEPS.index(default)]
    ax.axvline(at_default, color="#767676", linewidth=0.8, linestyle=":", label="default")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(right=1.2 * max(costs))
    ax.set_ylim(min(map(min, drawn)) / 1.5, 3 * max(map(max, drawn)))
    for axis, ticks in (
        (ax.xaxis, (1, 1.5, 2, 3, 5, 10, 20, 50)),
        (ax.yaxis, (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)),
    ):
        low, high = axis.get_view_interval()
        kept = [tick for tick in ticks if low <= tick <= high]
        axis.set_ticks(kept, [f"{tick:g}" for tick in kept])
        axis.set_ticks([], minor=True)
    ax.set(
        xlabel="median cost, relative to search_steps=0",
        ylabel="excess, % of the price of fairness",
        title=f"Exact fits of {rows[0]['compared']} problems, points labelled by search_steps",
    )
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(target, dpi=150)


def main() -> None:
    """Fit every problem with every number of steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(SELECTION), choices=list(SELECTION))
    parser.add_argument("--problems", default="", help="only problems whose name matches this pattern, too")
    parser.add_argument("--references", type=Path, default=RESULTS / "references.json")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    references, cases = References(arguments.references), selected(arguments)
    cases[0].fitted()  # compiles
    found: dict[str, list[dict[int, dict[str, Any]]]] = {}
    for at, case in enumerate(cases, start=1):
        fits = fits_of(case, references)
        found.setdefault(case.key.split("/")[0], []).append(fits)
        shares = ", ".join(
            "none" if fit["excess"] is None else f"{fit['excess']:.4f}" for fit in fits.values()
        )
        seconds = ", ".join(f"{fit['seconds']:.2f}" for fit in fits.values())
        print(f"{at} of {len(cases)}, {case.key}: excess {shares}; seconds {seconds}", flush=True)
    everything = curve("all", [fits for family in found.values() for fits in family])
    rows = [*everything, *(row for name, family in found.items() for row in curve(name, family))]
    default = PartialFairClassifier().search_steps
    at_default = next(shown(row) for row in everything if row["search_steps"] == default)
    title = (
        f"Excess over the best known, as a share of the price, by search_steps; at the default of {default}: "
        + ", ".join(f"{measure} {at_default[measure]}" for measure in MEASURES)
        + f", {at_default['cost']} times the seconds of none"
    )
    write("search_steps", title, [shown(row) for row in rows], arguments.out)
    draw(everything, arguments.out / "search_steps.png")


if __name__ == "__main__":
    main()
