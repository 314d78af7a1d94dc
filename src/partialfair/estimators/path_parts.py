"""Which rows train and which judge the models of a path: some are held out, or all are scored out of fold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.parallel import Parallel, delayed

from partialfair.constraints import Constraint
from partialfair.data.groups import group_name
from partialfair.data.samples import Samples, apply_splitter, draw_folds
from partialfair.estimators.folds import on_one_scale
from partialfair.estimators.path_fits import (
    FittedModel,
    Known,
    PathPoint,
    chain,
    judged_on,
    point_of,
    predictions_of,
    scores_of,
)
from partialfair.estimators.path_rows import check_held_out, check_members
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_count, shown
from partialfair.utils.typing import Floats, Ints

__all__ = ["HeldOut", "OutOfFold", "read_folds"]


def read_folds(cv: Any, samples: Samples, seed: int) -> Ints:
    """Return the fold of every row: drawn within groups and labels, or by a splitter of scikit-learn."""
    if hasattr(cv, "split") and not isinstance(cv, str | bytes | type):
        return apply_splitter(cv, samples.y, samples.clusters)
    if not isinstance(cv, Integral):
        raise InputError(f"cv must be a number of folds or a splitter of scikit-learn, not {shown(cv)}")
    check_count(cv, "cv", low=2)
    return draw_folds(samples.strata, int(cv), seed, samples.clusters)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows to train on, and rows that are held out to judge models."""

    train: Samples
    judged: Samples
    folds: None = None

    def check(self, estimator: Any, scoring: str) -> None:
        """Refuse, before any fit, rows on which models could not be judged."""
        check_held_out(estimator, self.train, self.judged, scoring)
        check_members(estimator, self.train, self.judged)

    def points(
        self,
        estimator: Any,
        gaps: Sequence[float],
        penalties: Sequence[float | None],
        scoring: str,
        known: Known,
        n_jobs: int | None,
        say: Callable[[PathPoint], None],
    ) -> list[PathPoint]:
        """Fit the models of every penalty, and judge each as it is finished."""
        judged, ready = judged_on(self.judged, scoring), estimator._prepare_fits(self.train, gaps)
        jobs = (delayed(chain)(ready, self.train, gaps, alpha, judged, say, known) for alpha in penalties)
        return [point for chained in Parallel(n_jobs=n_jobs)(jobs) for point in chained]


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Rows in folds: models are fitted on all, and again without every fold, whose rows are then scored.

    Attributes
    ----------
    judged
        All rows.
    folds : (n,)
        The fold of each.
    """

    judged: Samples
    folds: Ints

    def part(self, fold: int, *, held_out: bool) -> Samples:
        """Return the rows of a fold, or all others."""
        return self.judged.take(np.flatnonzero((self.folds == fold) == held_out))

    @property
    def numbers(self) -> list[int]:
        """Numbers of the folds."""
        return [int(fold) for fold in np.unique(self.folds)]

    def check(self, estimator: Any, scoring: str) -> None:
        """Refuse, before any fit, folds that could not be trained without, or not be scored."""
        everybody, weights, labels = self.judged.groups, self.judged.row_weights, self.judged.y
        check_held_out(estimator, self.judged, self.judged, scoring)
        for fold in self.numbers:
            inside = self.folds == fold
            others, own = (np.flatnonzero(part & (weights > 0)) for part in (~inside, inside))
            if not own.size:
                raise InputError(f"fold {fold + 1} of cv has no row with weight; take fewer folds")
            if not is_regressor(estimator) and len(np.unique(labels[others])) < 2:
                raise InputError(f"without fold {fold + 1} of cv one class is left in y; take more folds")
            known = everybody.take(others).labels
            if len(known) < 2:
                raise InputError(f"without fold {fold + 1} of cv fewer than two groups are left")
            lost = [label for label in everybody.take(own).labels if label not in known]
            if lost and estimator.group_terms is not None:
                raise InputError(
                    f"all of group {group_name(lost[0])!r} is in fold {fold + 1} of cv, and group_terms="
                    f"{estimator.group_terms!r} needs it among the other rows"
                )

    def points(
        self,
        estimator: Any,
        gaps: Sequence[float],
        penalties: Sequence[float | None],
        scoring: str,
        known: Known,
        n_jobs: int | None,
        say: Callable[[PathPoint], None],
    ) -> list[PathPoint]:
        """Fit the models of every penalty on all rows and without each fold, and then judge them."""
        fitted_on_all = estimator._prepare_fits(self.judged, gaps)
        on_all = Parallel(n_jobs=n_jobs)(
            delayed(chain)(fitted_on_all, self.judged, gaps, alpha, _as_it_is, _nothing, known)
            for alpha in penalties
        )
        # An interval that is chosen by the scores is chosen once, on all rows: five would not be comparable.
        settled = [_settled(estimator, fits[0].constraint) for fits in on_all]
        by_fold = Parallel(n_jobs=n_jobs)(
            delayed(self._scored)(one, fold, gaps, alpha, known)
            for one, alpha in zip(settled, penalties, strict=True)
            for fold in self.numbers
        )
        n_folds = len(self.numbers)
        points = [
            self._point(fitted, [chained[k] for chained in by_fold[n_folds * a : n_folds * (a + 1)]], scoring)
            for a, fits in enumerate(on_all)
            for k, fitted in enumerate(fits)
        ]
        for point in points:
            say(point)
        return points

    def _scored(
        self, estimator: Any, fold: int, gaps: Sequence[float], alpha: float | None, known: Known
    ) -> list[tuple[FittedModel, Floats]]:
        """Fit models without a fold, and score its rows."""
        train, held_out = (self.part(fold, held_out=which) for which in (False, True))
        with warnings.catch_warnings():
            # The models on all rows have said it; how these fits ended is in `PathPoint.fold_models`.
            warnings.simplefilter("ignore")
            fits = chain(estimator._prepare_fits(train, gaps), train, gaps, alpha, _as_it_is, _nothing, known)
        return [(fitted, scores_of(fitted.model, held_out)) for fitted in fits]

    def _point(
        self, fitted: FittedModel, by_fold: Sequence[tuple[FittedModel, Floats]], scoring: str
    ) -> PathPoint:
        raw = self.joined([scores for _, scores in by_fold])
        scores = self.on_one_scale(raw, _thresholds(fitted.model, fitted.constraint))
        point = point_of(fitted, self.judged, scores, predictions_of(fitted.model, raw), scoring)
        return replace(
            point,
            seconds=fitted.seconds + sum(without.seconds for without, _ in by_fold),
            fold_models=tuple(without.model for without, _ in by_fold),
        )

    def joined(self, by_fold: Sequence[Floats]) -> Floats:
        """Return the scores of all rows from those of the folds, in the order of `numbers`."""
        scores = np.empty(self.folds.size)
        for fold, of_fold in zip(self.numbers, by_fold, strict=True):
            scores[self.folds == fold] = of_fold
        return scores

    def on_one_scale(self, scores: Floats, thresholds: Sequence[float]) -> Floats:
        """Return scores of the folds' models on a scale that they share; see `_folds`."""
        judged = self.judged
        return on_one_scale(scores, self.folds, judged.row_weights, judged.groups.codes, thresholds)


def _thresholds(model: Any, constraint: Constraint) -> list[float]:
    """Return the scores at which decisions are made, or groups are compared."""
    compared = getattr(constraint, "threshold", None)
    decided = [] if is_regressor(model) else [0.0]
    return decided if compared is None else [*decided, float(compared)]


def _settled(estimator: Any, constraint: Constraint) -> Any:
    """Return the estimator with the interval that was chosen, where it chooses one."""
    if isinstance(estimator.interval, str):
        return estimator._copy_unfitted().set_params(interval=constraint.interval)
    return estimator


def _as_it_is(fitted: FittedModel) -> FittedModel:
    return fitted


def _nothing(fitted: FittedModel) -> None:
    """Say nothing: a model is judged when all folds are scored."""
