"""The rows of a data set, encoded once, and their splits by group, label and cluster.

Splits are drawn within strata and never through a cluster: rows of one cluster, such as several of one
person, stay together. A model that was trained on one of them has information on the others, so that its
scores of these are not out of sample. So clusters are drawn where they are given, else rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import Groups
from partialfair.exceptions import InputError
from partialfair.utils.checks import scale_weights
from partialfair.utils.typing import ArrayLike, Floats, Ints

Features: TypeAlias = Any
"""Dense array, CSR matrix or `CategoricalCodes`, all finite."""


def n_rows_of(X: Features) -> int:
    """Return the number of rows."""
    return X.n_rows if isinstance(X, CategoricalCodes) else int(X.shape[0])


def take_rows(X: Any, rows: npt.NDArray[Any]) -> Any:
    """Return rows of features or of a table, by positions or (not in other libraries' tables) a mask."""
    if isinstance(X, CategoricalCodes):
        return X.take(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    # Frames of other libraries take lists of positions, not always arrays.
    is_matrix = isinstance(X, np.ndarray) or hasattr(X, "tocsr")
    return X[rows] if is_matrix else X[rows.tolist()]


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of a data set.

    Attributes
    ----------
    X
        Features: array, CSR matrix, `CategoricalCodes`, or a table for models that take tables.
    y : (n,)
        Labels or numbers; in a fit of a classifier whether the label is the positive one.
    groups
        Group of each row; `Groups.none` where groups are unknown and not needed.
    weights : (n,)
        The given weight of each row; None if every row has weight 1.
    clusters : (n,)
        Number of each row's cluster; None if every row is an independent observation.
    """

    X: Any
    y: npt.NDArray[Any]
    groups: Groups
    weights: Floats | None = None
    clusters: Ints | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def row_weights(self) -> Floats:
        """Weight of each row, 1 where none were given.

        Given weights are scaled by a power of two, which is exact: sums and squares then stay in range.
        """
        return np.ones(self.n) if self.weights is None else scale_weights(self.weights)

    @property
    def positive(self) -> npt.NDArray[np.bool_] | None:
        """Return which rows are positive, in a fit of a classifier; None for numeric targets."""
        return self.y if self.y.dtype == bool else None

    @property
    def strata(self) -> Ints:
        """Strata of splits: group and, for two labels, label."""
        return strata_of(self.groups.codes, np.unique(self.y, return_inverse=True)[1])

    def take(self, rows: Ints) -> Samples:
        """Return the rows at some positions."""
        return Samples(
            take_rows(self.X, rows),
            self.y[rows],
            self.groups.take(rows),
            None if self.weights is None else self.weights[rows],
            None if self.clusters is None else self.clusters[rows],
        )

    def split(self, held_out: npt.NDArray[np.bool_]) -> tuple[Samples, Samples]:
        """Return the rows that are not held out, and those that are."""
        return self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))

    def hold_out(self, fraction: float, seed: int) -> tuple[Samples, Samples]:
        """Split off a fraction of the rows (clusters) of every group and label; return both parts."""
        return self.split(draw_rows(self.strata, fraction, seed, self.clusters))

    def with_weight(self) -> Samples:
        """Return the rows whose weight is positive; the others are absent."""
        if self.weights is None or self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights > 0))

    def with_features(self, X: Any) -> Samples:
        """Return the same rows with other features."""
        return replace(self, X=X)


def strata_of(codes: Ints, labels: Ints) -> Ints:
    """Return the stratum of every row: its group and, for two labels, its label."""
    if labels.max(initial=0) > 1:  # numbers to predict, of which each may occur once
        return np.asarray(codes, dtype=np.int64)
    return 2 * codes.astype(np.int64) + labels


def draw_rows(
    strata: Ints, fraction: float, seed: int, clusters: Ints | None = None
) -> npt.NDArray[np.bool_]:
    """Draw a fraction of every stratum: of its rows, or of its clusters."""
    drawn = np.zeros(strata.size if clusters is None else _count_clusters(clusters), dtype=bool)
    for members in _shuffle(strata, seed, clusters):
        drawn[members[: round(fraction * members.size)]] = True
    return drawn if clusters is None else drawn[clusters]


def draw_folds(strata: Ints, n_folds: int, seed: int, clusters: Ints | None = None) -> Ints:
    """Assign the units of every stratum to folds in turn; each stratum continues after the last fold used.

    So numbers of rows (clusters), and of rows of each stratum, differ by at most one between folds.
    """
    n_units = strata.size if clusters is None else _count_clusters(clusters)
    if n_folds > n_units:
        what = "rows" if clusters is None else "clusters"
        raise InputError(f"{n_folds} folds need at least as many {what}, and there are {n_units}")
    folds = np.empty(n_units, dtype=np.int64)
    n_dealt = 0
    for members in _shuffle(strata, seed, clusters):
        folds[members] = (n_dealt + np.arange(members.size)) % n_folds
        n_dealt += members.size  # so that the first folds do not get all the remainders
    return folds if clusters is None else folds[clusters]


def apply_splitter(splitter: Any, labels: ArrayLike, clusters: Ints | None) -> Ints:
    """Return the folds of a scikit-learn splitter, which must hold out every row exactly once."""
    n_rows = len(np.asarray(labels))
    folds = np.full(n_rows, -1, dtype=np.int64)
    n_held_out = 0
    with warnings.catch_warnings():
        # Clusters are checked below.
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        parts = list(splitter.split(np.zeros((n_rows, 1)), labels, clusters))
    for fold, (train, test) in enumerate(parts):
        n_held_out += len(test)
        folds[test] = fold
        if len(train) + len(test) != n_rows:  # as splits of time series do
            raise InputError(
                f"cv={splitter} leaves rows out of both parts; each row of a fold must be in the training "
                "set or in the test set"
            )
    if n_held_out != n_rows or (folds < 0).any():
        raise InputError(
            f"cv={splitter} must hold out every row just once, and holds out {n_held_out} of {n_rows} rows"
        )
    if clusters is not None:
        # The fold of one row of each cluster; its other rows must be in the same one.
        fold_of_cluster = np.empty(_count_clusters(clusters), dtype=folds.dtype)
        fold_of_cluster[clusters] = folds
        if (away := np.flatnonzero(fold_of_cluster[clusters] != folds)).size:
            raise InputError(
                f"cv={splitter} parts rows of one cluster, row {away[0]} from others of its own; such rows "
                "must stay together"
            )
    return folds


def _count_clusters(clusters: Ints) -> int:
    return int(clusters.max(initial=-1)) + 1


def _shuffle(strata: Ints, seed: int, clusters: Ints | None) -> Iterator[Ints]:
    """Yield the rows, or the clusters, of every stratum in random order."""
    if clusters is not None:
        # A cluster in several strata is assigned to the rarest one, so that small groups are spread over
        # folds.
        _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
        commonness = np.argsort(np.argsort(sizes, kind="stable"))
        rarest = np.full(_count_clusters(clusters), sizes.size)
        np.minimum.at(rarest, clusters, commonness[stratum])
        strata = rarest
    shuffled = np.random.default_rng(seed).permutation(strata.size)
    for stratum in np.unique(strata):
        yield shuffled[strata[shuffled] == stratum]
