"""Do trees that are grown for the constraint pay? More trees for a refit of leaf values, at equal test gaps.

Run ``python benchmarks/growing.py [--only TEXT] [--splits 4] [--rows 10000] [--more 50] [--data DIR]``; data
files as in docs/data.md. `PartialFairTrees` keeps trees that were grown for the loss alone. With the scores
s*, the thresholds θ and the multipliers λ of a refit under the surrogate constraints, boosting can go on from
s* on the slope and the curvature of

    L(s) = loss(s) + Σ λ_i f_i(s, θ)

(`ScoreLagrangian`): at s* no leaf that there is lowers it, so that new trees split where the constraint, too,
has something to gain. Three paths of models, from loose to strict, are fitted on the same rows:

- refit: the trees that the library grew;
- for the loss: these, and more that are grown from s* for the loss alone, since more leaves may gain anyway;
- for the constraint: these, and as many more that are grown from s* for L.

λ and s* are those of the middle one of the gaps. New leaves begin with 0, so that all refits are drawn to the
same model, the library's own, by the same ``alpha``. Models are trained on some rows, and tested on the rest.
Only gaps of the test rows are compared, so that surrogate constraints will do; ``--enforce exact`` takes five
times as long.

Growing for the constraint pays if accuracy, on average over the levels that count, is higher by .001 and by
two standard errors on both scales of at least two tables, beside the refit and beside trees grown for the
loss; and if on no table accuracy or AUC are lower than those of the refit by two standard errors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from _equal_gaps import Paired
from _levels import MEASURES, Frontier, differences, read_at, told
from _record import RESULTS, write
from _tree_tables import Tables, grower, load_tables
from partialfair.constraints import StatisticalParity
from partialfair.groups import encode_groups
from partialfair.objectives import Logistic
from partialfair.problems import ScoreLagrangian
from partialfair.trees import PartialFairTrees, ensemble_of
from trees import TREES, Asked, frontier

TABLES = ("law_school", "bank", "a9a")
MAX_GAPS = {"interval": (0.3, 0.15, 0.07, 0.03), "absolute": (0.15, 0.08, 0.04, 0.02)}
LEAST_CURVATURE = 1e-6
"""Of a row: LightGBM divides sums of slopes by sums of curvatures."""
BAR, ERRORS_BAR, TABLES_BAR = 0.001, 2.0, 2
"""By how much accuracy is to rise, in units and in standard errors, and on how many tables."""
REFIT, LOSS, CONSTRAINT = "refit", "for the loss", "for the constraint"
COMPARED = ((REFIT, CONSTRAINT), (REFIT, LOSS), (LOSS, CONSTRAINT))

Derivatives = Callable[[Any], tuple[Any, Any]]
"""From scores to slope and curvature in each."""
Frontiers = dict[str, Frontier]
Row = tuple[str, str]
"""Table and scale."""


@dataclass(frozen=True, eq=False)
class Refit:
    """Leaf values under the surrogate constraints, and the Lagrangian there.

    Attributes
    ----------
    scores, theta, multipliers
        s*, θ and λ.
    lagrangian
        L, tied to the training rows.
    """

    scores: Any
    theta: Any
    multipliers: Any
    lagrangian: ScoreLagrangian

    @classmethod
    def of(cls, trees: PartialFairTrees, train: Tables, stated: StatisticalParity) -> Refit:
        """Return what trees that were fitted on these rows know of the constraint that was stated."""
        result, even = trees.result_, np.ones(len(train.y))
        block = stated.build(encode_groups(train.groups), even, result.surrogate)
        signs = np.where(train.y == trees.classes_[1], 1.0, -1.0)
        lagrangian = ScoreLagrangian(Logistic().build(signs, even), block)
        scores = trees.decision_function(train.trees)
        return cls(scores, result.thresholds, result.kkt.multipliers, lagrangian)

    def slopes(self, multipliers: Any) -> Derivatives:
        """Return slope and curvature of L, in units of a row's loss, for these multipliers or others.

        L is concave in some scores. The curvature is that of its convex part, which is an upper bound.
        """
        n = len(self.scores)

        def derivatives(scores: Any) -> tuple[Any, Any]:
            gradient = self.lagrangian.gradient(scores, self.theta, multipliers)
            convex, _ = self.lagrangian.curvature(scores, self.theta, multipliers)
            return n * gradient.scores, np.maximum(n * convex, LEAST_CURVATURE)

        return derivatives


def with_more_trees(model: Any, train: Tables, begin: Any, derivatives: Derivatives, n_trees: int) -> Any:
    """Return a booster with a model's trees and more that are grown from scores, whose leaves hold 0."""
    import lightgbm

    booster = model.booster_
    own = model.predict(train.trees, raw_score=True)
    data = lightgbm.Dataset(train.trees, label=np.zeros(len(train.y)))
    settings = {
        # LightGBM counts from the scores of the trees that there are: what new ones add to them counts here.
        "objective": lambda scores, _: derivatives(begin + (scores - own)),
        "learning_rate": model.learning_rate,
        "num_leaves": model.num_leaves,
        "seed": model.random_state,
        "num_threads": 1,
        "verbose": -1,
    }
    grown = lightgbm.train(settings, data, num_boost_round=n_trees, init_model=booster)
    # A booster with an objective of one's own does not say what its scores are.
    named = grown.model_to_string().replace("feature_names=", "objective=binary sigmoid:1\nfeature_names=", 1)
    ensemble, values = ensemble_of(lightgbm.Booster(model_str=named)), ensemble_of(model).values
    return ensemble.with_values(np.append(values, np.zeros(len(ensemble.values) - len(values)))).model


def measured(model: Any, train: Tables, test: Tables, asked: Asked, enforce: str) -> Frontier:
    """Return the frontier of refits of a fitted model, with what they took, in seconds of one core."""
    start = time.process_time()
    points = frontier(PartialFairTrees(model, enforce=enforce), "trees", train, test, asked)
    seconds = (time.process_time() - start) / len(points)
    return [{**point, "seconds": seconds} for point in points]


def frontiers(train: Tables, test: Tables, asked: Asked, more: int, enforce: str) -> Frontiers:
    """Return the three frontiers of a split."""
    middle = asked.max_gaps[len(asked.max_gaps) // 2]
    stated = StatisticalParity(train.interval, middle, asked.scale)  # type: ignore[arg-type]
    first = PartialFairTrees(grower(asked.trees, asked.leaves, asked.split), stated, enforce="surrogate")
    model = first.fit(train.trees, train.y, sensitive_features=train.groups).grown_
    refit = Refit.of(first, train, stated)
    found = {REFIT: measured(FrozenEstimator(model), train, test, asked, enforce)}
    for what, multipliers in ((LOSS, np.zeros_like(refit.multipliers)), (CONSTRAINT, refit.multipliers)):
        booster = with_more_trees(model, train, refit.scores, refit.slopes(multipliers), more)
        found[what] = measured(booster, train, test, asked, enforce)
    return found


def over_levels(before: Sequence[Frontier], after: Sequence[Frontier], measure: str) -> Paired:
    """Return by how much the second of two frontiers is better, on average over the levels that count."""
    levels = [found.level for found in differences(before, after, measure) if found.counts]
    by_split = [
        np.nanmean([read_at(b, level, measure) - read_at(a, level, measure) for level in levels])
        for a, b in zip(before, after, strict=True)
        if any(np.isfinite(read_at(a, level, measure) + read_at(b, level, measure)) for level in levels)
    ]
    return Paired.of(by_split)


def lines_of(table: str, scale: str, splits: Sequence[Frontiers]) -> list[dict[str, Any]]:
    """Return the lines of a table and a scale: by how much one frontier is better than another."""
    lines = []
    for before, after in COMPARED:
        sides = [[of_split[side] for of_split in splits] for side in (before, after)]
        seconds = [np.mean([point["seconds"] for points in side for point in points]) for side in sides]
        for measure in MEASURES:
            at_levels = differences(*sides, measure)
            lines.append(
                {
                    "what": f"{after} − {before}",
                    "table": table,
                    "scale": scale,
                    "measure": measure,
                    "splits": len(splits),
                    "mean": told(over_levels(*sides, measure)),
                    **{f"{found.level:g}": str(found) for found in at_levels},
                    "CPU seconds a refit": " / ".join(f"{mean:.1f}" for mean in seconds),
                }
            )
    return lines


def clears(paired: Paired) -> bool:
    """Whether a difference is as large as growing for the constraint has to make it, to pay."""
    return paired.mean >= BAR and paired.in_errors > ERRORS_BAR


def loses(paired: Paired) -> bool:
    """Whether a difference is below 0 by more than chance."""
    return paired.in_errors < -ERRORS_BAR


def judged(before: str, found: dict[Row, list[Frontiers]]) -> dict[str, str]:
    """Say where trees that are grown for the constraint clear the bar beside others, and where they lose."""
    paired = {
        (measure, *row): over_levels(
            *([one[side] for one in splits] for side in (before, CONSTRAINT)), measure
        )
        for measure in MEASURES
        for row, splits in found.items()
    }
    tables = list(dict.fromkeys(table for table, _ in found))
    cleared = [
        table for table in tables if all(clears(paired["accuracy", *row]) for row in found if row[0] == table)
    ]
    lost = [" ".join(key) for key, difference in paired.items() if loses(difference)]
    return {
        "beside": before,
        "tables": ", ".join(tables),
        f"accuracy higher by {BAR:g} and {ERRORS_BAR:g} standard errors": ", ".join(cleared) or "nowhere",
        "lower by as many standard errors": ", ".join(lost) or "nothing",
        "pays": "yes" if len(cleared) >= TABLES_BAR and not lost else "no",
    }


def main() -> None:
    """Measure the three frontiers of every table, scale and split, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="rows that hold this text, such as 'law_school interval'")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10_000, help="that are trained on; the others test")
    parser.add_argument("--more", type=int, default=50, help="trees that are grown after a refit")
    parser.add_argument("--leaves", type=int, default=8, help="of each tree")
    parser.add_argument("--enforce", choices=("surrogate", "exact"), default="surrogate")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # that some gaps cannot be kept is no part of the question
    found: dict[Row, list[Frontiers]] = {}
    for scale, max_gaps in MAX_GAPS.items():
        for table in TABLES:
            if arguments.only not in f"{table} {scale}":
                continue
            people = load_tables(table, arguments.data)
            for split in range(arguments.splits):
                order = np.random.default_rng(split).permutation(len(people.y))
                train, test = people.take(order[: arguments.rows]), people.take(order[arguments.rows :])
                asked = Asked(
                    "growing", table, scale, split, arguments.rows, TREES, arguments.leaves, max_gaps
                )
                of_split = frontiers(train, test, asked, arguments.more, arguments.enforce)
                found.setdefault((table, scale), []).append(of_split)
                print(asked, flush=True)
    lines = [line for row, splits in found.items() for line in lines_of(*row, splits)]
    verdicts = [judged(before, found) for before in (REFIT, LOSS)]
    write("growing", "Trees that are grown for the constraint, at equal test gaps", lines, arguments.out)
    write("growing_summary", "Do trees that are grown for the constraint pay", verdicts, arguments.out)


if __name__ == "__main__":
    main()
