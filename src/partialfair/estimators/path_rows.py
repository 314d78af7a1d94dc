"""Which rows evaluate the models of a path, and what is refused before any fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from sklearn.base import is_regressor

from partialfair.constraints import Constraint
from partialfair.data.groups import group_name
from partialfair.data.samples import Samples
from partialfair.estimators.inputs import in_columns_of
from partialfair.exceptions import InputError
from partialfair.metrics.evaluation import check_comparable
from partialfair.training.placing import Automatic
from partialfair.utils.checks import check_choice, check_count, finite_vector, refuse_lazy, shown
from partialfair.utils.typing import SmallGroups

__all__ = [
    "check_apart",
    "check_held_out",
    "check_judged",
    "check_members",
    "check_validation",
    "read_validation",
]


def check_validation(validation: Sequence[Any]) -> None:
    """Refuse validation rows that are not three to five things."""
    if not 3 <= len(validation) <= 5:
        raise InputError(
            "validation must be a share of the rows, or (X, y, sensitive_features), with sample_weight as a "
            f"fourth and clusters as a fifth if need be, not {len(validation)} things"
        )
    names = ("X", "y", "sensitive_features", "sample_weight", "clusters")
    for values, name in zip(validation, names, strict=False):
        refuse_lazy(values, f"{name} of validation")


def read_validation(estimator: Any, validation: Sequence[Any]) -> Samples:
    """Return validation rows, read as an estimator reads them that has read the rows to train on."""
    X, y, groups, *more = validation
    weights, clusters = [*more, None, None][:2]
    try:
        groups = in_columns_of(estimator._group_columns, groups)
        samples: Samples = estimator._read_samples(X, y, groups, weights, clusters, reset=False)
        return samples
    except ValueError as error:  # scikit-learn's complaints among them
        raise InputError(f"validation: {error}") from error


def check_apart(train_clusters: Any, clusters: Any) -> None:
    """Refuse held-out rows that belong to clusters of training rows; clusters are as users name them."""
    if train_clusters is None or clusters is None:
        return
    both = set(np.asarray(train_clusters).tolist()) & set(np.asarray(clusters).tolist())
    if both:
        raise InputError(
            f"cluster {shown(next(iter(both)))} is among the rows to train on and among the validation rows; "
            "rows that belong together must be on one side"
        )


def check_held_out(estimator: Any, train: Samples, held_out: Samples, scoring: str) -> None:
    """Refuse, before any fit, rows on which the models could not be evaluated."""
    if is_regressor(estimator):
        finite_vector(held_out.y, "y of validation")
        return
    classes, present = (set(samples.y.tolist()) for samples in (train, held_out))
    if present - classes:
        raise InputError(
            f"y of validation holds {next(iter(present - classes))!r}, which is not among the classes of y"
        )
    if scoring == "roc_auc" and len(present) < 2:
        raise InputError(f"scoring='roc_auc' needs both classes in the {held_out.n} validation rows")


def check_members(estimator: Any, train: Samples, held_out: Samples) -> None:
    """Refuse, before any fit, held-out rows on which no gap could be measured."""
    groups = held_out.with_weight().groups
    if len(groups.labels) < 2:
        who = f"only group {group_name(groups.labels[0])!r}" if groups.labels else "no group"
        raise InputError(f"the {held_out.n} validation rows have {who}; a gap needs at least two groups")
    if estimator.group_terms is not None:
        known = train.groups.labels
        unknown = [label for label in groups.labels if label not in known]
        if unknown:
            raise InputError(
                f"group {group_name(unknown[0])!r} is in the validation rows and not in those to train on, "
                f"and group_terms={estimator.group_terms!r} needs it there"
            )


def check_judged(
    estimator: Any,
    constraint: Constraint,
    metric: str,
    train: Samples,
    held_out: Samples,
    min_group_size: int,
    small_groups: SmallGroups,
) -> None:
    """Refuse, before any fit, held-out rows with fewer than two groups that are large enough."""
    check_count(min_group_size, "min_group_size")
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    if isinstance(constraint.interval, Automatic) or small_groups != "list":
        return
    labels = None if is_regressor(estimator) else held_out.y == np.unique(train.y)[-1]
    groups = held_out.groups
    try:
        check_comparable(
            groups,
            constraint.among(groups.labels).interval,
            metric=metric,
            positive=labels,
            sample_weight=held_out.weights,
            clusters=held_out.clusters,
            min_group_size=min_group_size,
            missing_groups="ignore",
        )
    except InputError as error:
        raise InputError(f"of the {held_out.n} validation rows: {error}; or hold out more rows") from error
