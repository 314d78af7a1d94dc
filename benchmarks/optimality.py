"""Excess of default exact fits over the best feasible model, relative to the increase by the constraint.

Run ``python benchmarks/optimality.py [--only two-feature tiny ties real] [--problems PATTERN]`` to fit every
problem at default settings and compare with the references in ``results/references.json``; results go to
``results/optimality.md``. The excess is ``(f − f*) / (f* − f_unc)``: f is the objective of the fit, f_unc
that of the unconstrained model and f* that of the reference, all evaluated here; "beyond" subtracts 1e-5
f_unc first. Lower objectives of fits become references after the comparison, never during it.

``--make`` searches for better references instead, for ``--seconds`` per setting (all κ together). It writes
after every setting and can be interrupted and repeated. References with the method "GPU search" come from
``gpu_references.py`` at commit b74b186; they are evaluated here like all others.

- two-feature: pSP on two features; f* is the global optimum, by a sweep of all critical angles.
- tiny: up to 25 rows, 2 to 4 features; f* is the global optimum, by mixed-integer programming.
- ties: integer features, 3 to 10 groups; f* is the best known objective.
- real: law school, a9a, bank, Adult, ACS income; f* is the best known objective.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _hunting import make_best_known
from _judging import ROUNDING, Case
from _real import real_settings
from _record import RESULTS, write
from _references import Reference, References
from _tied import tied_settings
from _tiny import make_tiny, tiny_cases
from _two_features import make_two_features, two_feature_cases

SHARES = (0.01, 0.02, 0.05, 0.1)
"""Limits of the relative excess, in addition to `ROUNDING_OF_LOSSES`."""
ROUNDING_OF_LOSSES = 1e-5
"""Fraction of the unconstrained objective that does not count as excess."""
CLEARLY_POSSIBLE = 0.9
"""A fit must find a feasible model if the reference's gap is at most this fraction of κ."""

Setting = list[Case]
"""Problems that differ only in κ, from the strictest on."""


@dataclass(frozen=True)
class Family:
    """Problems of one kind, and the search for their references."""

    settings: Callable[[argparse.Namespace], Iterator[Setting]]
    make: Callable[[Setting, References, float], None]


def _wanted(arguments: argparse.Namespace) -> Callable[[str], bool]:
    """Return a function that decides whether the problem of a key is selected."""
    return lambda key: re.search(arguments.problems, key) is not None


def _single(cases: Callable[[], list[Case]]) -> Callable[[argparse.Namespace], Iterator[Setting]]:
    """Return settings with one problem each."""
    return lambda arguments: ([case] for case in cases() if _wanted(arguments)(case.key))


FAMILIES = {
    "two-feature": Family(_single(two_feature_cases), make_two_features),
    "tiny": Family(_single(tiny_cases), make_tiny),
    "ties": Family(lambda arguments: tied_settings(_wanted(arguments)), make_best_known),
    "real": Family(lambda arguments: real_settings(arguments.data, _wanted(arguments)), make_best_known),
}


def shares_of_price(objective: float | None, reference: Reference) -> tuple[float | None, float | None]:
    """Return the excess of a fit and the part beyond rounding; None if they are undefined."""
    if objective is None or reference.objective is None:
        return None, None
    excess = objective - reference.objective
    allowance = ROUNDING_OF_LOSSES * reference.free_objective
    share = excess / reference.price if reference.price > allowance else None
    beyond = max(excess - allowance, 0.0) / max(reference.price, 1e-300) if excess > allowance else 0.0
    return share, beyond


def compared(case: Case, reference: Reference, references: References, **settings: Any) -> dict[str, Any]:
    """Fit at default settings except for those given, evaluate, and compare."""
    start = time.perf_counter()
    clf = case.fitted(**settings)
    seconds = time.perf_counter() - start
    model = case.model_of(clf)
    objective, gap, ties = case.objective(model), case.judged_gap(model.scores), case.ties(model.scores)
    kept = gap <= case.max_gap + ROUNDING
    says_kept = clf.result_.satisfied or str(clf.result_.status) == "converged"
    known = reference.objective
    share, beyond = shares_of_price(objective if kept else None, reference)
    # Fits reject models whose loss is not below that of constant scores.
    is_predictive = known is not None and known < clf.result_.constant_objective
    possible = is_predictive and reference.gap <= CLEARLY_POSSIBLE * case.max_gap
    result = {
        "problem": case.key,
        "status": str(clf.result_.status),
        "objective": objective if kept else None,
        "gap/κ": gap / case.max_gap,
        "f*": known,
        "f_unc": reference.free_objective,
        "proof": reference.proof,
        "excess": share,
        "beyond": beyond,
        "seconds": seconds,
        "tied block": ties.block,
        "tied in band": ties.band,
        "more ties": not ties.within(reference.free_ties),
        "broken promise": bool(says_kept and not kept),
        "stated objective differs": bool(abs(clf.result_.objective - objective) > 1e-9),
        "missed": bool(not kept and possible),
    }
    references.offer(case, model, "a default fit" if not settings else f"a fit with {settings}")
    return result


def summary(rows: list[dict[str, Any]]) -> str:
    """Return a summary of the table in one line."""
    judged = [row for row in rows if row["f*"] is not None]
    found = [row for row in judged if row["objective"] is not None]
    within = [str(sum(row["beyond"] <= share for row in found)) for share in SHARES]
    worst = max((row["beyond"] for row in found), default=0.0)
    return (
        f"{', '.join(within)} of {len(judged)} problems within {', '.join(map(str, SHARES))} of the price, "
        f"worst {worst:.3g}; "
        f"none found {len(judged) - len(found)}, of which with a reference clearly inside "
        f"{sum(row['missed'] for row in judged)}; "
        f"broken promises {sum(row['broken promise'] for row in rows)}; "
        f"with more ties {sum(row['more ties'] for row in found)}"
    )


def dominated(rows: list[dict[str, Any]]) -> int:
    """Count fits that are worse than a stricter fit of the same setting; rows are ordered by κ."""
    objectives = [row["objective"] for row in rows if row["objective"] is not None]
    return sum(later > min(objectives[: at + 1]) * (1 + 1e-9) for at, later in enumerate(objectives[1:]))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table."""
    digits = {"gap/κ": ".3f", "excess": ".4f", "beyond": ".4f", "seconds": ".2f"}
    digits |= {"tied block": ".3f", "tied in band": ".3f"}
    text = {}
    for name, value in row.items():
        if value is None:
            text[name] = "none"
        elif isinstance(value, bool):
            text[name] = "yes" if value else ""
        else:
            text[name] = format(value, digits.get(name, ".6f")) if isinstance(value, float) else value
    return text


def make(arguments: argparse.Namespace, references: References) -> None:
    """Search for better references, setting by setting."""
    for name in arguments.only:
        for setting in FAMILIES[name].settings(arguments):
            start = time.perf_counter()
            FAMILIES[name].make(setting, references, arguments.seconds)
            references.save()
            for case in setting:
                known = references.of(case)
                assert known is not None
                best = "none" if known.objective is None else f"{known.objective:.6f} at gap {known.gap:.4f}"
                print(f"{case.key}: {best}, {known.method} ({known.proof}); free {known.free_objective:.6f}")
            print(f"  {time.perf_counter() - start:.1f} s", flush=True)


def compare(arguments: argparse.Namespace, references: References) -> None:
    """Fit every problem that has a reference, and write the tables."""
    halvings = arguments.surrogate_halvings
    settings = {"options__surrogate_halvings": halvings} if halvings else {}
    results, behind = [], 0
    for name in arguments.only:
        for setting in FAMILIES[name].settings(arguments):
            rows = []
            for case in setting:
                reference = references.of(case)
                if reference is not None:
                    rows.append(compared(case, reference, references, **settings))
                    print(shown(rows[-1]), flush=True)
            behind += dominated(rows)
            results += rows
    lines = {
        name: summary([row for row in results if row["problem"].startswith(f"{name}/")])
        for name in arguments.only
    }
    fits = f"Exact fits with surrogate_halvings={halvings}" if halvings else "Default exact fits"
    title = f"{fits} against references {references.digest}. "
    title += " ".join(f"{name}: {line}." for name, line in lines.items())
    title += f" Objectives that a stricter fit of the same setting beats: {behind}."
    table = [shown(row) for row in results]
    write(arguments.name, title, table, arguments.out, seeds="in the names of synthetic problems")
    references.save()


def main() -> None:
    """Compare with the references, or search for better ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--problems", default="", help="only problems whose name matches this pattern")
    parser.add_argument("--make", action="store_true", help="search for better references instead")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each setting, with --make")
    parser.add_argument("--surrogate-halvings", type=int, default=0, help="of the fits")
    parser.add_argument("--references", type=Path, default=RESULTS / "references.json")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--name", default="optimality", help="of the tables that are written")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    references = References(arguments.references)
    (make if arguments.make else compare)(arguments, references)


if __name__ == "__main__":
    main()
