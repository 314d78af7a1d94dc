"""Trees beside linear models at equal test fairness, without the group at prediction; and what they cost.

Run ``python benchmarks/trees.py [--only TEXT] [--splits 5] [--data DIR]``; it goes on where it was stopped
(``--fresh`` begins anew). Data files as in docs/data.md. Every frontier of a table, a scale and a split is
measured in a process of its own, cheap tables first, and written down at once.

- linear: paths of linear models and of trees from loose to strict, whose test accuracies and AUCs are read at
  the same test gaps. The bars: accuracy nowhere below that of linear models by more than a standard error,
  everywhere .003 above on at least three tables, and the AUC above on all.
- settings: trees that are grown with LightGBM's own settings, beside `SAMPLED`, which the others have
- alpha: the same trees with ``alpha="auto"``, beside the default
- rows: refits on the rows that the trees were grown on, beside refits on other rows
- speed: a refit of 300 trees of 31 leaves on 30,000 rows, at most 30 s; with LightGBM's settings, and sampled
- memory: one of 100 trees of 31 leaves on 1.5 million rows of ACS, at most 3 GiB for the whole process

A level counts where both frontiers have a model as fair in at least half of the splits. The floor is the
median test gap of random scores, which are fair: lower levels are reached by luck alone, however strict the
models that are asked for, and the strictest ones ask for less than the floor on every table.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score

import partialfair
from _earlier import ROOT, answer_of
from _levels import MEASURES, Frontier, Verdict, differences, overall
from _record import RESULTS, write
from _tree_tables import SAMPLED, Tables, grower, load_tables
from partialfair import PartialFairClassifier, fairness_path
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.trees import PartialFairTrees
from partialfair.trees.ensembles import ensemble_of

MAX_GAPS = {"interval": (0.4, 0.3, 0.2, 0.1, 0.05, 0.02), "absolute": (0.3, 0.2, 0.1, 0.05, 0.02, 0.01)}
ROWS = {"law_school": None, "bank": None, "a9a": None, "adult": None, "acs_income": 300_000}
"""Rows of each table, None for all, cheap tables first; a fifth of them are for testing."""
N_RANDOM = 50
"""Random scorings whose test gaps the floor is the median of."""
TREES = 500
"""Early stopping leaves fewer."""

Answer = dict[str, Any]
Row = tuple[str, str, str]
"""Question, table and scale."""


@dataclass(frozen=True)
class Asked:
    """One thing to measure: all that the answer depends on.

    Attributes
    ----------
    what
        The models of a path, or the cost that is measured.
    rows
        How many are drawn; None for all.
    max_gaps
        What models are asked for, from loose to strict.
    """

    what: str
    table: str
    scale: str
    split: int
    rows: int | None
    trees: int
    leaves: int
    max_gaps: tuple[float, ...]

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Asked:
        """Return what JSON holds."""
        return cls(**{**told, "max_gaps": tuple(told["max_gaps"])})

    def __str__(self) -> str:
        return f"{self.what} {self.table} {self.scale} split {self.split}"


COSTS = {
    "speed": Asked("speed", "a9a", "interval", 0, 30_000, 300, 31, (0.1,)),
    "speed, sampled": Asked("speed, sampled", "a9a", "interval", 0, 30_000, 300, 31, (0.1,)),
    "memory": Asked("memory", "acs_income", "interval", 0, 1_500_000, 100, 31, (0.1,)),
}
COST_SETTINGS: dict[str, dict[str, Any]] = {"speed": {}, "speed, sampled": SAMPLED, "memory": {}}
"""Of the trees that are grown to be refitted."""
SPEED_BAR = ("seconds of the refit", 30.0)
BARS = {"speed": SPEED_BAR, "speed, sampled": SPEED_BAR, "memory": ("peak GiB", 3.0)}
COMPARED = {
    "linear": ("linear", "trees"),
    "settings": ("trees, LightGBM's settings", "trees"),
    "alpha": ("trees", "trees, alpha chosen"),
    "rows": ("trees, other rows", "trees"),
}
"""Whose frontiers are compared."""


def plan(splits: int, leaves: int) -> dict[Row, list[Asked]]:
    """Return all that the rows of the tables need, in the order in which it is measured."""
    every = {(name, asked.table, asked.scale): [asked] for name, asked in COSTS.items()}
    for question, sides in COMPARED.items():
        for table, rows in ROWS.items():
            for scale, max_gaps in MAX_GAPS.items():
                every[question, table, scale] = [
                    Asked(what, table, scale, split, rows, TREES, leaves, max_gaps)
                    for split in range(splits)
                    for what in sides
                ]
    return every


def frontier(estimator: Any, form: str, train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return test gap, accuracy and AUC of the models of a path."""
    settings = {"interval": train.interval, "gap_scale": asked.scale}
    path = fairness_path(
        estimator.set_params(**settings),
        getattr(train, form),
        train.y,
        sensitive_features=train.groups,
        max_gaps=asked.max_gaps,
        validation=(getattr(test, form), test.y, test.groups),
        random_state=0,
    )
    positive = test.y == np.unique(test.y)[-1]
    return [
        {
            "gap": partial_statistical_parity_difference(
                None, point.scores, sensitive_features=test.groups, **settings
            ),
            "accuracy": float(np.mean((point.scores > 0) == positive)),
            "auc": float(roc_auc_score(positive, point.scores)),
            "training gap": float(point.training_gap),
            "alpha": float(point.alpha),
            "seconds": point.seconds,
        }
        for point in path.points
    ]


def floor(test: Tables, scale: str) -> float:
    """Return the median test gap of scores that know nothing of anybody."""
    settings = {"sensitive_features": test.groups, "interval": test.interval, "gap_scale": scale}
    drawn = np.random.default_rng(0).random((N_RANDOM, len(test.y)))
    return float(np.median([partial_statistical_parity_difference(None, one, **settings) for one in drawn]))


def of_linear(train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return the frontier of linear models."""
    return frontier(PartialFairClassifier(tol=1e-3), "linear", train, test, asked)


def sampled(asked: Asked) -> Any:
    """Return what is grown, of trees that each see some of the columns and of the rows."""
    return grower(asked.trees, asked.leaves, asked.split, **SAMPLED)


def of_trees(train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return the frontier of trees that are refitted on all rows, most of which they were grown on."""
    trees = PartialFairTrees(sampled(asked))
    return frontier(trees, "trees", train, test, asked)


def of_own_settings(train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return the frontier of trees that are grown as LightGBM does if it is told nothing."""
    trees = PartialFairTrees(grower(asked.trees, asked.leaves, asked.split))
    return frontier(trees, "trees", train, test, asked)


def of_chosen_alpha(train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return the frontier of the same trees with the alpha that some of the rows choose."""
    trees = PartialFairTrees(sampled(asked), alpha="auto")
    return frontier(trees, "trees", train, test, asked)


def of_other_rows(train: Tables, test: Tables, asked: Asked) -> Frontier:
    """Return the frontier of trees that are grown on one half of the rows and refitted on the other."""
    from lightgbm import early_stopping

    half = len(train.y) // 2
    first, second = train.take(np.arange(half)), train.take(np.arange(half, len(train.y)))
    model = sampled(asked)
    stop = [early_stopping(20, verbose=False)]
    model.fit(first.trees, first.y, eval_set=[(second.trees, second.y)], callbacks=stop)
    return frontier(PartialFairTrees(FrozenEstimator(model)), "trees", second, test, asked)


def cost(tables: Tables, asked: Asked) -> Answer:
    """Measure one refit: seconds of its parts, and the peak memory of the process."""
    rows = np.random.default_rng(asked.split).permutation(len(tables.y))[: asked.rows]
    people = tables.take(rows)
    peak_before = _peak()
    start = time.perf_counter()
    settings = COST_SETTINGS[asked.what]
    grown = grower(asked.trees, asked.leaves, asked.split, **settings).fit(people.trees, people.y)
    grow = time.perf_counter() - start
    (max_gap,) = asked.max_gaps
    stated = {"interval": people.interval, "gap_scale": asked.scale, "max_gap": max_gap}
    trees = PartialFairTrees(FrozenEstimator(grown), **stated)
    few = people.take(np.arange(min(2000, len(rows))))
    trees.fit(few.trees, few.y, sensitive_features=few.groups)  # compiles
    start = time.perf_counter()
    leaves = ensemble_of(grown).leaves(people.trees)
    read = time.perf_counter() - start
    del leaves
    start = time.perf_counter()
    trees.fit(people.trees, people.y, sensitive_features=people.groups)
    return {
        "seconds of growing": grow,
        "seconds of reading leaves": read,
        "seconds of the refit": time.perf_counter() - start,
        "status": trees.result_.status.value,
        "gap": trees.result_.gap,
        "peak GiB before": peak_before,
        "peak GiB": _peak(),
    }


def _peak() -> float:
    """Return the most memory that this process has had, in GiB (Linux counts KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


FRONTIERS: dict[str, Callable[[Tables, Tables, Asked], Frontier]] = {
    "linear": of_linear,
    "trees": of_trees,
    "trees, LightGBM's settings": of_own_settings,
    "trees, alpha chosen": of_chosen_alpha,
    "trees, other rows": of_other_rows,
}


def answered(asked: Asked, folder: Path | None) -> Answer:
    """Measure one thing."""
    warnings.simplefilter("ignore")
    tables = load_tables(asked.table, folder)
    if asked.what in COSTS:
        return cost(tables, asked)
    train, test = tables.parts(asked.rows, asked.split)
    return {"points": FRONTIERS[asked.what](train, test, asked), "floor": floor(test, asked.scale)}


@dataclass(frozen=True)
class Compared:
    """The frontiers of a row, split by split, and the floor of each split."""

    before: list[Frontier]
    after: list[Frontier]
    floors: list[float]

    @classmethod
    def of(cls, needed: list[Asked], known: dict[Asked, Answer]) -> Compared:
        """Return what is known, of the splits in which both frontiers are."""
        by_split: dict[int, list[Answer]] = {}
        for asked in needed:
            if asked in known:
                by_split.setdefault(asked.split, []).append(known[asked])
        both = [pair for pair in by_split.values() if len(pair) == 2]
        points = [[answer["points"] for answer in pair] for pair in both]
        return cls([a for a, _ in points], [b for _, b in points], [pair[0]["floor"] for pair in both])

    @property
    def shown_floor(self) -> str:
        """The mean floor."""
        return f"{np.mean(self.floors):.3f}"

    @property
    def shown_seconds(self) -> str:
        """What the paths took on average."""
        sides = (self.before, self.after)
        means = (np.mean([sum(point["seconds"] for point in one) for one in side]) for side in sides)
        return " / ".join(f"{mean:.0f}" for mean in means)


def lines_of(row: Row, both: Compared) -> Iterator[dict[str, Any]]:
    """Yield the lines of a row: by how much the second is better at every level."""
    question, table, scale = row
    for measure in MEASURES:
        yield {
            "what": " − ".join(reversed(COMPARED[question])),
            "table": table,
            "scale": scale,
            "measure": measure,
            "splits": len(both.before),
            "floor": both.shown_floor,
            **{f"{found.level:g}": str(found) for found in differences(both.before, both.after, measure)},
            "seconds a path": both.shown_seconds,
        }


def judged(rows: dict[Row, Compared]) -> list[dict[str, Any]]:
    """Return for every table and scale whether trees clear the bars, and how many tables do."""
    lines, verdicts = [], {}
    for (question, table, scale), both in rows.items():
        if question == "linear":
            verdicts[table, scale] = verdict = Verdict.on(both.before, both.after)
            told = {"splits": len(both.before), "floor": both.shown_floor}
            lines.append({"table": table, "scale": scale, **told, **verdict.row()})
    last = {"table": "all", "scale": "both", "splits": "", "floor": ""}
    return [*lines, {**last, **overall(verdicts)}] if lines else []


def costs(known: dict[Asked, Answer]) -> list[dict[str, Any]]:
    """Return what was measured of single refits, and whether it clears the bars."""
    lines = []
    for name, asked in COSTS.items():
        if asked in known:
            answer, (what, bar) = known[asked], BARS[name]
            lines.append(
                {
                    "what": name,
                    "table": f"{asked.rows:,} rows of {asked.table}",
                    "trees": f"{asked.trees} × {asked.leaves}",
                    **{key: f"{value:.2f}" if key != "status" else value for key, value in answer.items()},
                    "bar": f"{what} ≤ {bar:g}: {'yes' if answer[what] <= bar else 'no'}",
                }
            )
    return lines


def write_tables(every: dict[Row, list[Asked]], known: dict[Asked, Answer], out: Path) -> None:
    """Write what is known of what is asked."""
    found = {row: Compared.of(needed, known) for row, needed in every.items() if row[0] in COMPARED}
    rows = {row: both for row, both in found.items() if both.before}
    tables = {
        "trees": ("Trees at equal test gaps", [line for row in rows for line in lines_of(row, rows[row])]),
        "trees_summary": ("Are trees better than linear models at equal test gaps", judged(rows)),
        "trees_costs": ("What a refit of leaves costs", costs(known)),
    }
    for name, (title, lines) in tables.items():
        if lines:
            write(name, title, lines, out, seeds="number of the split")


def main() -> None:
    """Measure what is not known yet, and write it down at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--only", default="", help="rows that hold this text, such as 'linear law_school interval' or 'speed'"
    )
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=8, help="of each tree")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured of them")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help="one thing to measure, as JSON")
    arguments = parser.parse_args()
    if arguments.one is not None:
        answer = answered(Asked.from_dict(json.loads(arguments.one)), arguments.data)
        print(json.dumps({"package": partialfair.__file__, **answer}))
        return
    every = plan(arguments.splits, arguments.leaves)
    wanted = {row: needed for row, needed in every.items() if arguments.only in " ".join(row)}
    begun = arguments.out / "trees.jsonl"
    known = _known(begun)
    if arguments.fresh:
        forgotten = {asked for needed in wanted.values() for asked in needed}
        known = {asked: answer for asked, answer in known.items() if asked not in forgotten}
        _write_down(known, begun, "w")
    for needed in wanted.values():
        for asked in needed:
            if asked not in known:
                known[asked] = _measured(asked, arguments.data)
                _write_down({asked: known[asked]}, begun, "a")
                print(asked, flush=True)
        write_tables(every, known, arguments.out)


def _measured(asked: Asked, folder: Path | None) -> Answer:
    """Measure one thing in a process of its own."""
    data = [] if folder is None else ["--data", str(folder)]
    answer = answer_of(__file__, ["--one", json.dumps(asdict(asked)), *data], ROOT, str(asked))
    return {key: value for key, value in answer.items() if key != "package"}


def _write_down(answers: dict[Asked, Answer], begun: Path, mode: str) -> None:
    """Write answers down, a line each."""
    begun.parent.mkdir(parents=True, exist_ok=True)
    with begun.open(mode) as lines:
        for asked, answer in answers.items():
            lines.write(json.dumps({"asked": asdict(asked), "answer": answer}) + "\n")


def _known(begun: Path) -> dict[Asked, Answer]:
    """Return what was measured before."""
    if not begun.exists():
        return {}
    lines = (json.loads(line) for line in begun.read_text().splitlines())
    return {Asked.from_dict(line["asked"]): line["answer"] for line in lines}


if __name__ == "__main__":
    main()
