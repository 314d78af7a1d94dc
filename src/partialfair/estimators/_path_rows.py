"""Rows of a path: read, parted into those to train on and those held out, and checked before any fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from partialfair._checks import check_choice, check_count, check_weights, finite_vector, refuse_lazy, shown
from partialfair._typing import Ints, SmallGroups
from partialfair.categoricals import CategoricalCodes
from partialfair.constraints import Constraint
from partialfair.data.splits import drawn_rows, strata_of
from partialfair.estimators._inputs import check_labels, read_target
from partialfair.exceptions import InputError
from partialfair.groups import Groups, encode_groups, group_name
from partialfair.metrics._inputs import cluster_codes
from partialfair.metrics.catalogue import check_judgeable
from partialfair.training.placing import Automatic

__all__ = [
    "GivenRows",
    "check_apart",
    "check_held_out",
    "check_judged",
    "check_members",
    "check_validation",
    "read_rows",
    "split_rows",
]


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Some rows, as they are handed to an estimator."""

    X: Any
    y: Any
    groups: Any
    weights: Any = None
    clusters: npt.NDArray[Any] | None = None

    @property
    def n(self) -> int:
        """Their number, that of the features."""
        return self.X.n_rows if isinstance(self.X, CategoricalCodes) else int(_num_samples(self.X))

    @property
    def cluster_codes(self) -> Ints | None:
        """Number of the cluster of every row; None where each is an observation of its own."""
        return None if self.clusters is None else cluster_codes(self.clusters, self.n)

    @property
    def strata(self) -> Ints:
        """What splits keep in proportion: group and, where labels are two, label."""
        labels = np.unique(np.asarray(self.y), return_inverse=True)[1]
        return strata_of(encode_groups(self.groups, missing="ignore").codes, labels)

    def take(self, which: Ints) -> GivenRows:
        """Return some of them."""
        X = self.X.take(which) if isinstance(self.X, CategoricalCodes) else _safe_indexing(self.X, which)
        weights = None if self.weights is None else np.asarray(self.weights)[which]
        known = isinstance(self.groups, Groups)
        groups = self.groups.take(which) if known else _safe_indexing(self.groups, which)
        clusters = None if self.clusters is None else self.clusters[which]
        return GivenRows(X, _safe_indexing(self.y, which), groups, weights, clusters)

    def parted(self, held_out: npt.NDArray[np.bool_]) -> tuple[GivenRows, GivenRows]:
        """Return those that are not held out, and those that are."""
        return self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))


def read_rows(
    estimator: Any, X: Any, y: Any, groups: Any, weights: Any = None, clusters: Any = None, *, of: str = ""
) -> GivenRows:
    """Return rows, refusing columns of different lengths, rows without a group and negative weights."""
    import pandas as pd

    together = None if clusters is None else np.asarray(clusters)
    rows = GivenRows(X, y, pd.DataFrame(groups) if isinstance(groups, Mapping) else groups, weights, together)
    if y is None:
        raise InputError(f"y{of} is missing")
    if (found := _num_samples(y)) != rows.n:
        raise InputError(f"y{of} has {found} rows, but X{of} has {rows.n}")
    advice = "; missing_groups='ignore' lets such rows count in the loss only"
    if sparse.issparse(X):
        rows = replace(rows, X=X.tocsr())  # other formats have no rows to take
    try:
        rows = replace(rows, y=read_target(y, rows.n))
        if not is_regressor(estimator):
            check_labels(rows.y)
        encode_groups(
            rows.groups, n_rows=rows.n, rows_of="rows of X", missing=estimator.missing_groups, advice=advice
        )
        if weights is not None:
            check_weights(weights, rows.n, "rows of X")
        if clusters is not None:
            cluster_codes(clusters, rows.n)
    except InputError as error:
        if of:
            raise InputError(f"validation: {error}") from error
        raise
    return rows


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


def check_apart(train: GivenRows, held_out: GivenRows) -> None:
    """Refuse rows held out that belong to clusters which are trained on."""
    if train.clusters is None or held_out.clusters is None:
        return
    both = set(train.clusters.tolist()) & set(held_out.clusters.tolist())
    if both:
        raise InputError(
            f"cluster {shown(next(iter(both)))} is among the rows to train on and among the validation rows; "
            "rows that belong together must be on one side"
        )


def check_held_out(estimator: Any, train: GivenRows, held_out: GivenRows, scoring: str) -> None:
    """Refuse, before any fit, rows on which the models could not be judged."""
    shapes = [np.shape(rows.X) for rows in (train, held_out) if not isinstance(rows.X, CategoricalCodes)]
    if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] != shapes[1][1]:
        raise InputError(f"X of validation has {shapes[1][1]} columns, and X has {shapes[0][1]}")
    if is_regressor(estimator):
        finite_vector(held_out.y, "y of validation")
        return
    classes, present = (set(np.asarray(rows.y).ravel().tolist()) for rows in (train, held_out))
    if present - classes:
        raise InputError(
            f"y of validation holds {next(iter(present - classes))!r}, which is not among the classes of y"
        )
    if scoring == "roc_auc" and len(present) < 2:
        raise InputError(f"scoring='roc_auc' needs both classes in the {held_out.n} validation rows")


def check_members(estimator: Any, train: GivenRows, held_out: GivenRows) -> None:
    """Refuse, before any fit, rows held out on which no gap could be measured."""
    counted = np.ones(held_out.n, bool) if held_out.weights is None else np.asarray(held_out.weights) > 0
    groups = encode_groups(held_out.groups, missing="ignore").take(counted)
    if len(groups.labels) < 2:
        who = f"only group {group_name(groups.labels[0])!r}" if groups.labels else "no group"
        raise InputError(f"the {held_out.n} validation rows have {who}; a gap needs at least two groups")
    if estimator.group_terms is not None:
        known = encode_groups(train.groups, missing="ignore").labels
        strange = [label for label in groups.labels if label not in known]
        if strange:
            raise InputError(
                f"group {group_name(strange[0])!r} is in the validation rows and not in those to train on, "
                f"and group_terms={estimator.group_terms!r} needs it there"
            )


def check_judged(
    estimator: Any,
    constraint: Constraint,
    metric: str,
    train: GivenRows,
    held_out: GivenRows,
    min_group_size: int,
    small_groups: SmallGroups,
) -> None:
    """Refuse, before any fit, rows held out on which too few groups could be judged."""
    check_count(min_group_size, "min_group_size")
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    if isinstance(constraint.interval, Automatic) or small_groups != "list":
        return
    labels = None if is_regressor(estimator) else np.asarray(held_out.y) == np.unique(np.asarray(train.y))[-1]
    present = encode_groups(held_out.groups, missing="ignore").labels
    try:
        check_judgeable(
            held_out.groups,
            constraint.among(present).interval,
            metric=metric,
            positive=labels,
            sample_weight=held_out.weights,
            clusters=held_out.clusters,
            min_group_size=min_group_size,
            missing_groups="ignore",
        )
    except InputError as error:
        raise InputError(f"of the {held_out.n} validation rows: {error}; or hold out more rows") from error


def split_rows(rows: GivenRows, share: float, seed: int) -> tuple[GivenRows, GivenRows]:
    """Hold out a share of the rows, or clusters, of every group and, if there are few of them, label."""
    return rows.parted(drawn_rows(rows.strata, share, seed, rows.cluster_codes))
