"""Rows that evaluate the models of a path: held out, or all of them, scored out of fold.

With ``cv`` each model is fitted once on all rows but those of a fold, for every fold f, and once on all rows.
Rows are scored by the model of their own fold, which has not seen them. Such scores are many, as many as
there are rows, and of several models, which raises two questions.

**What they estimate.** Let ``d_f(u)`` be the difference that the model of fold f makes, in truth, between two
groups at the score that a fraction u of the population exceeds. Scores of all folds together show
``max_u |mean_f d_f(u)|``: the gap that models trained like this, on such a fraction of the rows, have on the
average. It is not the gap of the model that is fitted on all rows, and no guarantee about it. Means over the
rows of all folds have the errors of so many independent rows, as those of one test sample would, if a model
hardly depends on any one row (Bayle, Bayle, Janson and Mackey 2020), so intervals are those of a report.

Two errors are left, both towards a smaller gap. Where the models' differences have different signs, they
cancel. And folds lean against each other: a group that is too high in the rows of a fold is too low in those
that its model was trained on, which a constraint corrects the wrong way. Where the constraint is met by
fitting the noise of the training rows, the two cancel in the mean, to the last row in the worst case (one
threshold and an intercept per group). Evaluating fold by fold and averaging five gaps instead is worse: gaps
are maxima, and those of a fifth of the rows are too large by √5 times as much.

**On which scale.** Models of different folds differ in intercept and spread, more so the fewer the rows. Put
side by side as they are, their scores mix rows of different ranks, which hides part of the groups'
difference. All gaps that are proportions depend on scores by their order alone, so that each fold's scores
may be replaced by any increasing function of them. They are brought to the folds' mean scale: with ``P_f``
the fraction of a fold's rows below a score and ``Q_g`` its inverse for fold g,

    t = mean_g Q_g(P_f(s)).

Equal fractions get equal scores in all folds; units stay those of the scores. Thresholds stay where they are,
or else decisions would change: fractions on either side of a threshold are stretched to their mean over the
folds first. A group's weight in ``P_f`` is that among all rows, whatever the fold happened to get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, get_args

import numpy as np
from sklearn.base import is_regressor

from partialfair.constraints.base import Constraint
from partialfair.data.groups import group_name
from partialfair.data.intervals import require_interval
from partialfair.data.samples import Samples, apply_splitter, draw_folds
from partialfair.estimators.inputs import in_columns_of, read_samples
from partialfair.estimators.parameters import check_validation, is_rows
from partialfair.exceptions import InputError
from partialfair.metrics.evaluation import check_comparable
from partialfair.training.named_constraints import Automatic
from partialfair.utils.checks import check_choice, check_count, finite_vector, shown
from partialfair.utils.text import percent
from partialfair.utils.typing import Floats, Ints, SmallGroups


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows to train on, and rows that are held out to evaluate models."""

    train: Samples
    evaluated: Samples
    folds: None = None

    def check(self, estimator: Any, scoring: str) -> None:
        """Refuse, before any fit, rows on which models could not be scored, or no gap be measured."""
        _check_target(estimator, self.train, self.evaluated, scoring)
        groups = self.evaluated.with_weight().groups
        if len(groups.labels) < 2:
            found = f"only group {group_name(groups.labels[0])!r}" if groups.labels else "no group"
            raise InputError(
                f"the {self.evaluated.n} validation rows have {found}; a gap needs at least two groups"
            )
        if estimator.group_terms is not None:
            known = self.train.groups.labels
            unknown = [label for label in groups.labels if label not in known]
            if unknown:
                raise InputError(
                    f"group {group_name(unknown[0])!r} is in the validation rows and not in those to train "
                    f"on, and group_terms={estimator.group_terms!r} needs it there"
                )


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Rows in folds: models are fitted on all, and again without every fold, whose rows are then scored.

    Attributes
    ----------
    evaluated
        All rows.
    folds : (n,)
        The fold of each.
    """

    evaluated: Samples
    folds: Ints

    @property
    def numbers(self) -> list[int]:
        """Numbers of the folds."""
        return [int(fold) for fold in np.unique(self.folds)]

    def split(self, fold: int) -> tuple[Samples, Samples]:
        """Return the rows of the other folds, and those of a fold."""
        return self.evaluated.split(self.folds == fold)

    def check(self, estimator: Any, scoring: str) -> None:
        """Refuse, before any fit, folds that could not be trained without, or not be scored."""
        groups, weights, labels = self.evaluated.groups, self.evaluated.row_weights, self.evaluated.y
        _check_target(estimator, self.evaluated, self.evaluated, scoring)
        for fold in self.numbers:
            inside = self.folds == fold
            others, members = (np.flatnonzero(part & (weights > 0)) for part in (~inside, inside))
            if not members.size:
                raise InputError(f"fold {fold + 1} of cv has no row with weight; take fewer folds")
            if not is_regressor(estimator) and len(np.unique(labels[others])) < 2:
                raise InputError(f"without fold {fold + 1} of cv one class is left in y; take more folds")
            known = groups.take(others).labels
            if len(known) < 2:
                raise InputError(f"without fold {fold + 1} of cv fewer than two groups are left")
            lost = [label for label in groups.take(members).labels if label not in known]
            if lost and estimator.group_terms is not None:
                raise InputError(
                    f"all of group {group_name(lost[0])!r} is in fold {fold + 1} of cv, and group_terms="
                    f"{estimator.group_terms!r} needs it among the other rows"
                )

    def join(self, by_fold: Sequence[Floats]) -> Floats:
        """Return the scores of all rows from those of the folds, in the order of `numbers`."""
        scores = np.empty(self.folds.size)
        for fold, of_fold in zip(self.numbers, by_fold, strict=True):
            scores[self.folds == fold] = of_fold
        return scores

    def align(self, scores: Floats, thresholds: Sequence[float]) -> Floats:
        """Return scores of the folds' models on a scale that they share; see the module's text."""
        rows = self.evaluated
        return align_folds(scores, self.folds, rows.row_weights, rows.groups.codes, thresholds)


def hold_out(estimator: Any, samples: Samples, validation: Any, clusters: Any, seed: int) -> HeldOut:
    """Hold out a fraction of the rows to evaluate models, or take the rows that ``validation`` holds.

    Parameters
    ----------
    estimator
        What has read the samples, and reads validation rows like them.
    samples, clusters
        The rows to train on, and their clusters as users name them.
    validation
        A fraction, or ``(X, y, sensitive_features)``, and ``sample_weight`` and ``clusters`` if need be.
    seed
        Of the rows that are drawn.
    """
    # Here, since paths pass validation that no estimator has checked.
    check_validation(validation)
    if not is_rows(validation):
        return HeldOut(*samples.hold_out(validation, seed))
    X, y, groups, *more = validation
    weights, other_clusters = [*more, None, None][:2]
    if clusters is not None and other_clusters is not None:
        # As users name them: codes of two arrays do not correspond.
        both = set(np.asarray(clusters).tolist()) & set(np.asarray(other_clusters).tolist())
        if both:
            raise InputError(
                f"cluster {shown(next(iter(both)))} is among the rows to train on and among the validation "
                "rows; rows that belong together must be on one side"
            )
    try:
        groups = in_columns_of(estimator._group_columns, groups)
        return HeldOut(samples, read_samples(estimator, X, y, groups, weights, other_clusters, reset=False))
    except ValueError as error:  # scikit-learn's complaints among them
        raise InputError(f"validation: {error}") from error


def read_folds(cv: Any, samples: Samples, seed: int) -> Ints:
    """Return the fold of every row: drawn within groups and labels, or by a splitter of scikit-learn."""
    if hasattr(cv, "split") and not isinstance(cv, str | bytes | type):
        return apply_splitter(cv, samples.y, samples.clusters)
    if not isinstance(cv, Integral):
        raise InputError(f"cv must be a number of folds or a splitter of scikit-learn, not {shown(cv)}")
    check_count(cv, "cv", low=2)
    return draw_folds(samples.strata, int(cv), seed, samples.clusters)


def _check_target(estimator: Any, train: Samples, evaluated: Samples, scoring: str) -> None:
    """Refuse validation rows whose target models could not be compared by."""
    if is_regressor(estimator):
        finite_vector(evaluated.y, "y of validation")
        return
    classes, present = (set(samples.y.tolist()) for samples in (train, evaluated))
    if present - classes:
        raise InputError(
            f"y of validation holds {next(iter(present - classes))!r}, which is not among the classes of y"
        )
    if scoring == "roc_auc" and len(present) < 2:
        raise InputError(f"scoring='roc_auc' needs both classes in the {evaluated.n} validation rows")


def check_group_sizes(
    estimator: Any,
    constraint: Constraint,
    metric: str,
    train: Samples,
    evaluated: Samples,
    min_group_size: int,
    small_groups: SmallGroups,
) -> None:
    """Refuse, before any fit, validation rows with fewer than two groups that are large enough."""
    check_count(min_group_size, "min_group_size")
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    if isinstance(constraint.interval, Automatic) or small_groups != "list":
        return
    # The second class of training, even if the validation rows hold one only.
    labels = None if is_regressor(estimator) else evaluated.y == np.unique(train.y)[-1]
    try:
        check_comparable(
            evaluated.groups,
            require_interval(constraint.among(evaluated.groups.labels).interval),
            metric=metric,
            positive=labels,
            sample_weight=evaluated.weights,
            clusters=evaluated.clusters,
            min_group_size=min_group_size,
            missing_groups="ignore",
        )
    except InputError as error:
        raise InputError(f"of the {evaluated.n} validation rows: {error}; or hold out more rows") from error


def explain_folds(folds: Ints) -> str:
    """Say what out-of-fold figures are about."""
    n_folds = len(np.unique(folds))
    trained = percent(1 - 1 / n_folds, 0)
    return (
        f"out of fold: every row was scored by one of {n_folds} models, each trained without a fold of the "
        f"rows; gaps and scores say how models trained like this, on {trained} of the rows, do on the "
        "average, and not what the model that is fitted on all rows does"
    )


def align_folds(
    scores: Floats, folds: Ints, weights: Floats, codes: Ints, thresholds: Sequence[float]
) -> Floats:
    """Return scores of several folds' models on the folds' mean scale (see the module's text).

    The order within each fold is kept, ties stay ties, and every score stays on its side of the thresholds.

    Parameters
    ----------
    scores, folds, weights : (n,)
        Scores, which model they are of, and weights of the rows; rows without weight have no say.
    codes : (n,)
        Group of each row; −1 is one as well.
    thresholds
        Scores at which rows are selected.
    """
    # Weights by which every group is the same fraction of each fold that it is of all rows.
    _, group = np.unique(codes, return_inverse=True)
    _, fold = np.unique(folds, return_inverse=True)
    in_fold = np.zeros((fold.max() + 1, group.max() + 1))
    np.add.at(in_fold, (fold, group), weights)
    total = in_fold.sum(axis=0)
    factors = np.divide(total, in_fold, out=np.zeros_like(in_fold), where=in_fold > 0)
    even = weights * factors[fold, group]
    fixed = np.array(sorted({float(threshold) for threshold in thresholds}))
    members = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    scales = [_FoldScale.of(scores[rows], even[rows], fixed) for rows in members]
    # Where the thresholds are, on the common scale.
    common = np.mean([scale.cuts for scale in scales], axis=0)
    inverses = [scale.inverse(common, fixed) for scale in scales]
    aligned = np.empty(scores.size)
    for rows, scale in zip(members, scales, strict=True):
        below = np.interp(scores[rows], scale.values, scale.fractions)  # P_f(s)
        stretched = scale.stretch(below, common)
        aligned[rows] = np.mean([np.interp(stretched, *inverse) for inverse in inverses], axis=0)
    for threshold in fixed.tolist():  # rounding must not move a decision
        less, more = np.nextafter(threshold, [-np.inf, np.inf])
        aligned = np.where(scores < threshold, np.minimum(aligned, less), aligned)
        aligned = np.where(scores > threshold, np.maximum(aligned, more), aligned)
        aligned = np.where(scores == threshold, threshold, aligned)
    return aligned


@dataclass(frozen=True, eq=False)
class _FoldScale:
    """How the scores of one fold's rows are distributed.

    Attributes
    ----------
    values, fractions : (v,)
        Scores that occur, ascending, and the fraction of rows below each, half of those at it included.
    cuts : (2 t,)
        For every threshold the fraction of rows below it, and below or at it.
    """

    values: Floats
    fractions: Floats
    cuts: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats, thresholds: Floats) -> _FoldScale:
        """Count the rows with weight."""
        values, at = np.unique(scores[weights > 0], return_inverse=True)
        amounts = np.bincount(at, weights=weights[weights > 0])
        up_to = np.concatenate([[0.0], np.cumsum(amounts)]) / amounts.sum()
        # Fractions below each threshold, and below or at it.
        sides = [np.searchsorted(values, thresholds, side=side) for side in ("left", "right")]
        return cls(values, (up_to[:-1] + up_to[1:]) / 2, up_to[np.stack(sides, axis=1).ravel()])

    def stretch(self, fractions: Floats, common: Floats) -> Floats:
        """Return fractions with those at the thresholds moved to common ones, others in proportion."""
        before, after = (np.concatenate([[0.0], cuts, [1.0]]) for cuts in (self.cuts, common))
        # Between equal cuts there are no rows; the last of them is where the next rows begin.
        segment = np.clip(np.searchsorted(before, fractions, side="right") - 1, 0, before.size - 2)
        length = before[segment + 1] - before[segment]
        along = np.divide(fractions - before[segment], length, out=np.zeros_like(fractions), where=length > 0)
        return np.asarray(after[segment] + along * (after[segment + 1] - after[segment]))

    def inverse(self, common: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return fractions and scores of ``Q`` between which it is linear."""
        fractions = np.concatenate([self.stretch(self.fractions, common), common])
        # Thresholds are points of the inverse, so that scores stay on their side.
        values = np.concatenate([self.values, np.repeat(thresholds, 2)])
        order = np.lexsort((values, fractions))
        return fractions[order], values[order]
