"""Whether population guarantees hold, and how often one is given.

Run
``python benchmarks/population.py [--draws 2000] [--acs-draws 400] [--splits 40] [--only PART] [--jobs N]``;
data files as in docs/data.md. The parts:

- sequences: samples of two groups under nine models with known true gaps, tested in an adverse order; how
  often a model is returned whose gap exceeds the limit by 1e-6 (the limit: 0.06, nominal 0.05), and how often
  any model is returned if all gaps are 0.7 times the limit
- acs: all rows of ACS income are the population, and samples of 5,000 rows are the data.
  ``best(max_gap=0.3)`` returns a model (2,500 held-out rows rarely validate 0.2); how often its gap on all
  rows is larger (the limit: 0.075)
- law: law school in thirds, interval scale, ``best(max_gap=0.2)``; in how many splits a model qualifies (the
  limit: half), and how often its gap on the last third is larger

Parts that are not run keep their earlier results. Draws of acs and law, which take long, are recorded at once
in population.jsonl, and a run resumes after an interruption (``--fresh`` starts again).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import optimize, stats

from _data import LOADERS, Part, as_part
from _record import COMMIT, RESULTS, write
from partialfair import PartialFairClassifier, fairness_path
from partialfair.estimators.fitted_path import validate_places
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.metrics.evaluation import EvaluatedScores
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.report import metric_row

ERROR, N_RESAMPLES = 0.05, 400
ALLOWED, ALLOWED_ON_ACS, HAIR = 0.2, 0.3, 1e-6
SIZES, INTERVAL = (4000, 6000), (0.1, 0.6)
N_GAPS = 8
FIRST_SPLIT = 1000
"""Splits of law school from 0 on were used to choose the number of starts."""

COMMON = 0.9
"""Correlation of two models' scores of a row."""

METRIC_BARS = {"statistical_parity": 0.06, "demographic_parity": 0.06}
ADVERSE = {
    "all too wide": "000000000",
    "too wide and narrow enough by turns": "010101010",
    "the first five at .7, then too wide": "777770000",
}
"""True gaps in the order of the tests: slightly above the limit (0), below it (1), or 0.7 times it (7)."""

Row = dict[str, Any]


def true_gap(metric: str, shift: float) -> float:
    """Return the gap of two normal populations, one of them shifted."""
    low, high = INTERVAL
    inside = [np.clip(stats.norm.sf(_THETA - by), low, high) for by in (0.0, shift)]
    differences = np.abs(inside[0] - inside[1]) / (high - low)
    at = np.searchsorted(_THETA, _THRESHOLD)
    return float(differences.max() if metric == "statistical_parity" else differences[at])


_THETA = np.linspace(-4, 6, 200_001)
_THRESHOLD = float(_THETA[np.searchsorted(_THETA, stats.norm.isf(sum(INTERVAL) / 2))])


def shift_with(metric: str, gap: float) -> float:
    """Return the shift that gives a true gap."""
    return float(optimize.brentq(lambda shift: true_gap(metric, shift) - gap, 0.0, 1.0, xtol=1e-13))


def returned(
    metric: str, gaps: list[float], rng: np.random.Generator, shifts: dict[float, float]
) -> list[int]:
    """Draw rows, test the models on them, and return the indices of the validated ones."""
    groups = np.repeat([0, 1], SIZES)
    person = rng.normal(size=groups.size)
    setting = Setting("interval", _THRESHOLD, "group")
    draw = int(rng.integers(2**31))

    def passes(place: int, level: float) -> bool:
        own = np.random.default_rng([draw, place])
        noise = np.sqrt(COMMON) * person + np.sqrt(1 - COMMON) * own.normal(size=groups.size)
        scored = scored_groups(noise + shifts[gaps[place]] * groups, groups, INTERVAL, None, None)
        evaluated, seed = EvaluatedScores(scored, setting), int(own.integers(2**31))
        return metric_row(metric, evaluated, 0.95, N_RESAMPLES, seed).bound_above(level) <= ALLOWED

    return list(validate_places(len(gaps), ERROR, passes))


def sequences(n_draws: int, n_jobs: int) -> list[Row]:
    """Return how often infeasible models are validated in adverse orders, and feasible ones in the best."""
    of_digit = {"0": ALLOWED + HAIR, "1": ALLOWED - HAIR, "7": 0.7 * ALLOWED}
    rows = []
    for metric, bar in METRIC_BARS.items():
        shifts = {gap: shift_with(metric, gap) for gap in of_digit.values()}
        for name, digits in [*ADVERSE.items(), ("all at .7", "777777777")]:
            gaps = [of_digit[digit] for digit in digits]
            found = Parallel(n_jobs)(
                delayed(returned)(metric, gaps, np.random.default_rng([k]), shifts) for k in range(n_draws)
            )
            wrong = np.mean([any(gaps[place] > ALLOWED for place in places) for places in found])
            some = np.mean([bool(places) for places in found])
            bad = "0" in digits
            rows.append(
                {
                    "part": "sequences",
                    "what": f"{metric}, true gaps: {name}",
                    "draws": n_draws,
                    "too wide a gap returned": f"{wrong:.4f}" if bad else "",
                    "a model returned": f"{some:.3f}",
                    "bar": f"too wide ≤ {bar}" if bad else "",
                }
            )
            print(rows[-1], flush=True)
    return rows


def gap_of(model: Any, rows: Part, interval: Any) -> float:
    """Return the gap of a model's scores."""
    scores = model.decision_function(rows.X)
    return float(
        partial_statistical_parity_difference(None, scores, sensitive_features=rows.groups, interval=interval)
    )


def acs(folder: Path | None, n_draws: int, begun: Path, n_jobs: int) -> list[Row]:
    """Return how often the model of a sample has a larger gap on all rows than guaranteed."""
    data = LOADERS["acs_income"](path=folder)
    everybody = as_part(data)

    def true_gap_of_best(draw: int) -> float | None:
        rng = np.random.default_rng(draw)
        sample = everybody.take(rng.choice(len(everybody.y), 5000, replace=False))
        train, held_out = (sample.take(rows) for rows in np.array_split(rng.permutation(5000), 2))
        model = _best(train, held_out, data.interval, draw, ALLOWED_ON_ACS, alpha=1e-2)
        return None if model is None else gap_of(model, everybody, data.interval)

    draws = _drawn("acs", n_draws, true_gap_of_best, begun, n_jobs)
    what = f"best(max_gap={ALLOWED_ON_ACS:g}), ACS income, 5,000 of all rows, half held out"
    return [_promise("acs", what, draws, ALLOWED_ON_ACS, "too wide ≤ 0.075")]


def law(folder: Path | None, n_splits: int, begun: Path, n_jobs: int) -> list[Row]:
    """Return in how many splits of law school a model qualifies."""
    data = LOADERS["law_school"](path=folder)
    everybody = as_part(data)

    def test_gap_of_best(split: int) -> float | None:
        order = np.random.default_rng(FIRST_SPLIT + split).permutation(len(data.y))
        train, held_out, test = (everybody.take(rows) for rows in np.array_split(order, 3))
        model = _best(train, held_out, data.interval, split, ALLOWED)
        return None if model is None else gap_of(model, test, data.interval)

    draws = _drawn("law", n_splits, test_gap_of_best, begun, n_jobs)
    what = f"best(max_gap={ALLOWED:g}), law school in thirds; gaps are those of the last third, a sample"
    return [_promise("law", what, draws, ALLOWED, "a model returned ≥ .5")]


def _drawn(
    part: str, n_draws: int, gap_of_best: Callable[[int], float | None], begun: Path, n_jobs: int
) -> list[Row]:
    """Return the gap and the seconds of each draw's model; known draws are not repeated."""

    def measure(draw: int) -> Row:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        gap = gap_of_best(draw)
        return {"part": part, "draw": draw, "gap": gap, "seconds": time.perf_counter() - start}

    lines = [json.loads(line) for line in begun.read_text().splitlines()] if begun.exists() else []
    known = {line["draw"]: line for line in lines if line["part"] == part}
    missing = (draw for draw in range(n_draws) if draw not in known)
    for line in Parallel(n_jobs, return_as="generator_unordered")(delayed(measure)(k) for k in missing):
        known[line["draw"]] = line
        with begun.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(part, line["draw"], "none" if line["gap"] is None else f"{line['gap']:.3f}", flush=True)
    return [known[draw] for draw in range(n_draws)]


def _best(train: Part, held_out: Part, interval: Any, seed: int, max_gap: float, alpha: float = 1e-4) -> Any:
    path = fairness_path(
        PartialFairClassifier(interval=interval, alpha=alpha),
        train.X,
        train.y,
        sensitive_features=train.groups,
        max_gaps=max_gap * np.geomspace(1, 0.1, N_GAPS),
        validation=(held_out.X, held_out.y, held_out.groups),
        random_state=seed,
    )
    try:
        return path.best(max_gap, 1 - ERROR)
    except InputError:
        return None


def _promise(part: str, what: str, draws: list[Row], allowed: float, bar: str) -> Row:
    gaps = [draw["gap"] for draw in draws if draw["gap"] is not None]
    wide, n_draws = sum(gap > allowed for gap in gaps), len(draws)
    seconds = sum(draw["seconds"] for draw in draws) / max(n_draws, 1)
    return {
        "part": part,
        "what": f"{what}; {seconds:.0f} s each",
        "draws": n_draws,
        "too wide a gap returned": f"{wide / max(n_draws, 1):.4f} ({wide} times)",
        "a model returned": f"{len(gaps) / max(n_draws, 1):.3f} ({len(gaps)} times)",
        "bar": bar,
    }


def main() -> None:
    """Measure, and write together with earlier results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="of sequences")
    parser.add_argument("--acs-draws", type=int, default=400)
    parser.add_argument("--splits", type=int, default=40, help="of law school")
    parser.add_argument("--only", default="", choices=["", "sequences", "acs", "law"])
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--fresh", action="store_true", help="discard the draws of an earlier run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    begun = arguments.out / "population.jsonl"
    if arguments.fresh:
        begun.unlink(missing_ok=True)
    parts = {
        "sequences": lambda: sequences(arguments.draws, arguments.jobs),
        "acs": lambda: acs(arguments.data, arguments.acs_draws, begun, arguments.jobs),
        "law": lambda: law(arguments.data, arguments.splits, begun, arguments.jobs),
    }
    measured = {
        name: [{**row, "commit": COMMIT} for row in part()]
        for name, part in parts.items()
        if arguments.only in ("", name)
    }
    file = arguments.out / "population.json"
    earlier = json.loads(file.read_text())["rows"] if file.exists() else []
    rows = [
        row for name in parts for row in measured.get(name, [row for row in earlier if row["part"] == name])
    ]
    title = "Population guarantees: how often they are given, and how often they fail"
    seeds = f"number of the draw; law school: {FIRST_SPLIT} + number of the split"
    write("population", title, rows, arguments.out, seeds=seeds)


if __name__ == "__main__":
    main()
