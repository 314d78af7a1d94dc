"""Rows on which the models of a path are evaluated: held-out rows, or all rows with out-of-fold scores.

With ``cv`` each model is fitted once on all rows, and once without the rows of each fold f. The rows of a
fold are scored by the model that was trained without them. There are as many such scores as rows, but they
come from several models, which raises two questions.

**What they estimate.** Let ``d_f(u)`` be the difference between two groups under the model of fold f, in the
population, at the score that a fraction u of the population exceeds. The pooled out-of-fold scores estimate
``max_u |mean_f d_f(u)|``: the gap of the average of models trained like these, on that fraction of the rows.
It is not the gap of the model that is fitted on all rows, and no guarantee for it follows. If models hardly
depend on any single row, means over the rows of all folds have the same error as means over an independent
test set of that size (Bayle, Bayle, Janson and Mackey 2020), so confidence intervals are those of a report.

Two errors remain, and both make the gap smaller. Differences of opposite sign in different models cancel. And
folds depend on each other: a group whose scores are too high in the rows of a fold has scores that are too
low in the rows that its model was trained on, and the constraint corrects them in the wrong direction. If the
constraint is satisfied by fitting the noise of the training rows, the two cancel in the mean, completely in
the worst case (one threshold, one intercept per group). Evaluating each fold separately and averaging the
gaps of five folds is worse: a gap is a maximum, and its upward bias is √5 times as large on a fifth of the
rows.

**On which scale.** Models of different folds differ in intercept and spread, and the more so the fewer rows
there are. Pooled without alignment, their scores would mix rows of different ranks, which hides part of the
difference between groups. All gaps that are proportions depend on the order of scores only, so the scores of
each fold may be replaced by an increasing function of them. They are mapped to the mean scale of the folds:
with ``P_f`` the fraction of a fold's rows below a score, and ``Q_g`` its inverse for fold g,

    t = mean_g Q_g(P_f(s)).

Equal fractions get equal scores in all folds, in the units of the scores. Thresholds stay in place, because
decisions would change otherwise: fractions on either side of a threshold are first stretched to their mean
over the folds. The weight of a group in ``P_f`` is its weight among all rows, not its weight in the fold.
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
        """Raise `InputError`, before any fit, if the rows cannot be scored or allow no gap."""
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
                    f"group {group_name(unknown[0])!r} is in the validation rows, but not in the training "
                    f"rows, and group_terms={estimator.group_terms!r} needs it in both"
                )


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Rows in folds: models are fitted on all rows, and again without each fold, whose rows are then scored.

    Attributes
    ----------
    evaluated
        All rows.
    folds : (n,)
        The fold of each row.
    """

    evaluated: Samples
    folds: Ints

    @property
    def numbers(self) -> list[int]:
        """Numbers of the folds."""
        return [int(fold) for fold in np.unique(self.folds)]

    def split(self, fold: int) -> tuple[Samples, Samples]:
        """Return the rows of the other folds, and the rows of a fold."""
        return self.evaluated.split(self.folds == fold)

    def check(self, estimator: Any, scoring: str) -> None:
        """Raise `InputError`, before any fit, for folds that cannot be left out or cannot be scored."""
        groups, weights, labels = self.evaluated.groups, self.evaluated.row_weights, self.evaluated.y
        _check_target(estimator, self.evaluated, self.evaluated, scoring)
        for fold in self.numbers:
            inside = self.folds == fold
            others, members = (np.flatnonzero(part & (weights > 0)) for part in (~inside, inside))
            if not members.size:
                raise InputError(f"fold {fold + 1} of cv has no row with weight; use fewer folds")
            if not is_regressor(estimator) and len(np.unique(labels[others])) < 2:
                raise InputError(f"without fold {fold + 1} of cv one class is left in y; use more folds")
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
        """Return the scores of all rows from the scores by fold, in the order of `numbers`."""
        scores = np.empty(self.folds.size)
        for fold, of_fold in zip(self.numbers, by_fold, strict=True):
            scores[self.folds == fold] = of_fold
        return scores

    def align(self, scores: Floats, thresholds: Sequence[float]) -> Floats:
        """Return scores of the folds' models on their common scale; see the module docstring."""
        rows = self.evaluated
        return align_folds(scores, self.folds, rows.row_weights, rows.groups.codes, thresholds)


def hold_out(estimator: Any, samples: Samples, validation: Any, clusters: Any, seed: int) -> HeldOut:
    """Hold out a fraction of the rows to evaluate models, or use the rows in ``validation``.

    Parameters
    ----------
    estimator
        The estimator that read the samples; it also reads the validation rows.
    samples, clusters
        The rows, and their clusters as the user named them.
    validation
        A fraction, or ``(X, y, sensitive_features)`` with optional ``sample_weight`` and ``clusters``.
    seed
        Seed of the draw.
    """
    # Checked here, because paths pass a `validation` that no estimator has checked.
    check_validation(validation)
    if not is_rows(validation):
        return HeldOut(*samples.hold_out(validation, seed))
    X, y, groups, *more = validation
    weights, other_clusters = [*more, None, None][:2]
    if clusters is not None and other_clusters is not None:
        # Compared by name: integer codes of two arrays do not correspond.
        both = set(np.asarray(clusters).tolist()) & set(np.asarray(other_clusters).tolist())
        if both:
            raise InputError(
                f"cluster {shown(next(iter(both)))} is among the training rows and among the validation "
                "rows; move all of its rows to one side"
            )
    try:
        groups = in_columns_of(estimator._group_columns, groups)
        return HeldOut(samples, read_samples(estimator, X, y, groups, weights, other_clusters, reset=False))
    except ValueError as error:  # includes the errors of scikit-learn
        raise InputError(f"validation: {error}") from error


def read_folds(cv: Any, samples: Samples, seed: int) -> Ints:
    """Return the fold of every row: drawn within groups and labels, or given by a scikit-learn splitter."""
    if hasattr(cv, "split") and not isinstance(cv, str | bytes | type):
        return apply_splitter(cv, samples.y, samples.clusters)
    if not isinstance(cv, Integral):
        raise InputError(f"cv must be a number of folds or a splitter of scikit-learn, not {shown(cv)}")
    check_count(cv, "cv", low=2)
    return draw_folds(samples.strata, int(cv), seed, samples.clusters)


def _check_target(estimator: Any, train: Samples, evaluated: Samples, scoring: str) -> None:
    """Raise `InputError` for validation rows whose target does not allow to compare models."""
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
    """Raise `InputError`, before any fit, unless two groups of the validation rows are large enough."""
    check_count(min_group_size, "min_group_size")
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    if isinstance(constraint.interval, Automatic) or small_groups != "list":
        return
    # The second class in training, even if the validation rows hold only one class.
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
    """Return an explanation of out-of-fold figures."""
    n_folds = len(np.unique(folds))
    trained = percent(1 - 1 / n_folds, 0)
    return (
        f"out of fold: every row was scored by one of {n_folds} models, each trained without a fold of the "
        f"rows; gaps and scores are averages over models trained like this, on {trained} of the rows, and "
        "not figures of the model that is fitted on all rows"
    )


def align_folds(
    scores: Floats, folds: Ints, weights: Floats, codes: Ints, thresholds: Sequence[float]
) -> Floats:
    """Return scores of several folds' models on the folds' mean scale; see the module docstring.

    The order within each fold is preserved, ties stay ties, and every score stays on its side of thresholds.

    Parameters
    ----------
    scores, folds, weights : (n,)
        Scores, the fold of each row, and row weights; rows with weight 0 have no influence.
    codes : (n,)
        Group of each row; −1 counts as a group.
    thresholds
        Scores at which rows are selected.
    """
    # Weights that give every group the same fraction in each fold as among all rows.
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
    # The positions of the thresholds on the common scale.
    common = np.mean([scale.cuts for scale in scales], axis=0)
    inverses = [scale.inverse(common, fixed) for scale in scales]
    aligned = np.empty(scores.size)
    for rows, scale in zip(members, scales, strict=True):
        below = np.interp(scores[rows], scale.values, scale.fractions)  # P_f(s)
        stretched = scale.stretch(below, common)
        aligned[rows] = np.mean([np.interp(stretched, *inverse) for inverse in inverses], axis=0)
    for threshold in fixed.tolist():  # rounding must not change a decision
        less, more = np.nextafter(threshold, [-np.inf, np.inf])
        aligned = np.where(scores < threshold, np.minimum(aligned, less), aligned)
        aligned = np.where(scores > threshold, np.maximum(aligned, more), aligned)
        aligned = np.where(scores == threshold, threshold, aligned)
    return aligned


@dataclass(frozen=True, eq=False)
class _FoldScale:
    """The distribution of scores in one fold.

    Attributes
    ----------
    values, fractions : (v,)
        Distinct scores in ascending order, and the fraction of rows below each plus half of those at it.
    cuts : (2 t,)
        For every threshold the fraction of rows below it, and the fraction below or at it.
    """

    values: Floats
    fractions: Floats
    cuts: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats, thresholds: Floats) -> _FoldScale:
        """Return the distribution of the rows with weight."""
        values, at = np.unique(scores[weights > 0], return_inverse=True)
        amounts = np.bincount(at, weights=weights[weights > 0])
        up_to = np.concatenate([[0.0], np.cumsum(amounts)]) / amounts.sum()
        # Fractions below each threshold, and below or at it.
        sides = [np.searchsorted(values, thresholds, side=side) for side in ("left", "right")]
        return cls(values, (up_to[:-1] + up_to[1:]) / 2, up_to[np.stack(sides, axis=1).ravel()])

    def stretch(self, fractions: Floats, common: Floats) -> Floats:
        """Return fractions, stretched piecewise linearly to map those at thresholds to the common ones."""
        before, after = (np.concatenate([[0.0], cuts, [1.0]]) for cuts in (self.cuts, common))
        # There are no rows between equal thresholds; use the last of them, where the next rows begin.
        segment = np.clip(np.searchsorted(before, fractions, side="right") - 1, 0, before.size - 2)
        length = before[segment + 1] - before[segment]
        along = np.divide(fractions - before[segment], length, out=np.zeros_like(fractions), where=length > 0)
        return np.asarray(after[segment] + along * (after[segment + 1] - after[segment]))

    def inverse(self, common: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the fractions and scores between which ``Q`` is linear."""
        fractions = np.concatenate([self.stretch(self.fractions, common), common])
        # Thresholds are nodes of the inverse, so scores stay on their side.
        values = np.concatenate([self.values, np.repeat(thresholds, 2)])
        order = np.lexsort((values, fractions))
        return fractions[order], values[order]
