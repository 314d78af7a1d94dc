"""What out-of-fold scores say of the models' true gaps, beside other ways to judge them.

Run ``python benchmarks/out_of_fold.py [--draws 400]``; results go to ``benchmarks/results/``. People of two
groups have normal features, and labels by a linear score. Models are least squares, fast enough for many
draws, and made fair in ways that are as bad as can be for cross-validation: they fit the noise of the
training rows completely.

- *ordinary*: nothing is done.
- *means removed*: each group's mean training score is taken from its scores (what a constraint on statistical
  parity does with an intercept per group). Judged by statistical parity at ranks 10–60 %.
- *decisions evened*: the same with the score that a share of .3 of a group's training rows exceeds. The
  training gap of demographic parity at 0 is then 0, and so is, nearly, that of all folds together.

The truth is the mean of the five models' gaps among 40,000 people, of whom those in the folds are a sample.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _record import RESULTS, write
from partialfair import metrics
from partialfair.estimators._folds import on_one_scale
from partialfair.estimators._splits import drawn_folds, strata_of
from partialfair.exceptions import SmallGroupWarning
from partialfair.metrics import fairness_report
from partialfair.metrics.report import ReportRow

N_FOLDS, N_FEATURES, N_NEW, N_RESAMPLES = 5, 10, 40_000, 300
SIZES = ((100, 200), (500, 1000))


@dataclass(frozen=True)
class People:
    """Features, labels and groups."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    @classmethod
    def drawn(cls, sizes: tuple[int, int], rng: np.random.Generator) -> People:
        """Draw people of two groups, of which one scores higher."""
        groups = np.repeat([0, 1], sizes)
        X = rng.normal(size=(groups.size, N_FEATURES)) + np.outer(
            groups, np.r_[0.6, np.zeros(N_FEATURES - 1)]
        )
        return cls(X, X[:, :4].sum(axis=1) + rng.normal(size=groups.size) > 0.5, groups)

    def take(self, which: np.ndarray) -> People:
        """Return some of them."""
        return People(self.X[which], self.y[which], self.groups[which])


Scorer = Callable[[People], np.ndarray]


def ordinary(train: People) -> Scorer:
    """Regress labels on features."""
    design = np.c_[np.ones(len(train.y)), train.X]
    weights = np.linalg.lstsq(design, 2.0 * train.y - 1, rcond=None)[0]
    return lambda people: weights[0] + people.X @ weights[1:]


def means_removed(train: People) -> Scorer:
    """Give groups the same mean in training."""
    return _less(train, np.mean)


def decisions_evened(train: People) -> Scorer:
    """Select the same share of every group in training."""
    return _less(train, lambda scores: np.quantile(scores, 0.7))


def _less(train: People, of: Callable[[np.ndarray], float]) -> Scorer:
    score = ordinary(train)
    scores = score(train)
    taken = np.array([of(scores[train.groups == group]) for group in (0, 1)])
    return lambda people: score(people) - taken[people.groups]


CASES = (
    ("ordinary", ordinary, "statistical_parity", {"interval": (0.1, 0.6)}),
    ("means removed", means_removed, "statistical_parity", {"interval": (0.1, 0.6)}),
    ("decisions evened", decisions_evened, "demographic_parity", {"interval": (0.0, 1.0), "threshold": 0.0}),
)


def line_of(scores: np.ndarray, people: People, metric: str, settings: dict) -> ReportRow:
    """Judge scores."""
    return fairness_report(
        None, scores, sensitive_features=people.groups, n_resamples=N_RESAMPLES, random_state=0, **settings
    )[metric]


def draw(case: tuple, sizes: tuple[int, int], new: People, seed: int) -> dict[str, float]:
    """Return what the ways to judge say in one sample, and the truth."""
    _, learner, metric, settings = case
    people = People.drawn(sizes, np.random.default_rng(seed))
    folds = drawn_folds(strata_of(people.groups, people.y.astype(int)), N_FOLDS, seed)
    raw, true_gaps, by_fold = np.empty(folds.size), [], []
    for fold in range(N_FOLDS):
        score = learner(people.take(folds != fold))
        own = people.take(folds == fold)
        raw[folds == fold] = score(own)
        by_fold.append(line_of(score(own), own, metric, settings))
        true_gaps.append(gap_of(score(new), new, metric, settings))
    even = np.ones(folds.size)
    scores = on_one_scale(raw, folds, even, people.groups, [0.0])
    row, truth = line_of(scores, people, metric, settings), float(np.mean(true_gaps))
    return {
        "true gap": truth,
        "out of fold": row.value,
        "as they are": line_of(raw, people, metric, settings).value,
        "mean of folds": float(np.mean([one.value for one in by_fold])),
        "interval holds": row.low <= truth <= row.high,
        "at most holds": truth <= row.at_most,
        "width": row.high - row.low,
        "width of one fold": by_fold[0].high - by_fold[0].low,
    }


def gap_of(scores: np.ndarray, people: People, metric: str, settings: dict) -> float:
    """Return the exact gap of very many people."""
    measure = getattr(metrics, f"partial_{metric}_difference")
    return float(measure(None, scores, sensitive_features=people.groups, **settings))


def main() -> None:
    """Draw samples of every setting, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallGroupWarning)  # folds have few members, which is the question
    new = People.drawn((N_NEW // 3, N_NEW - N_NEW // 3), np.random.default_rng(2**32))
    rows = []
    for case in CASES:
        for sizes in SIZES:
            found = [draw(case, sizes, new, seed) for seed in range(arguments.draws)]
            means = {name: np.mean([one[name] for one in found]) for name in found[0]}
            rows.append(
                {"models": case[0], "members": " and ".join(map(str, sizes))}
                | {name: f"{value:.3f}" for name, value in means.items()}
            )
    lowest = min(float(row["interval holds"]) for row in rows)
    write(
        "out_of_fold",
        f"Gaps out of fold, five folds, {arguments.draws} draws: intervals of nominal 0.95 hold the models' "
        f"mean gap in {lowest:.3f} or more",
        rows,
        arguments.out,
    )


if __name__ == "__main__":
    main()
