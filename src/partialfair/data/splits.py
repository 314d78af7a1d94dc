"""Who is held out, and which fold everybody is in: drawn within strata, and never through a cluster.

Rows of one cluster, as several of one person are, stay together: a model that has seen one of them knows the
others, and what it does on these is no news. So clusters are drawn where there are any, and rows where not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.typing import ArrayLike, Ints

__all__ = ["apply_splitter", "draw_folds", "draw_rows", "refuse_straddling", "strata_of"]


def strata_of(codes: Ints, labels: Ints) -> Ints:
    """Return the stratum of every row: its group and, where labels are two, its label."""
    if labels.max(initial=0) > 1:
        return np.asarray(codes, dtype=np.int64)
    return 2 * codes.astype(np.int64) + labels


def draw_rows(strata: Ints, share: float, seed: int, clusters: Ints | None = None) -> npt.NDArray[np.bool_]:
    """Draw a share of every stratum: of its rows, or of its clusters."""
    drawn = np.zeros(_n_units(strata, clusters), dtype=bool)
    for members in _shuffled(strata, seed, clusters):
        drawn[members[: round(share * members.size)]] = True
    return drawn if clusters is None else drawn[clusters]


def draw_folds(strata: Ints, n_folds: int, seed: int, clusters: Ints | None = None) -> Ints:
    """Deal every stratum out to folds, one after the other; the next one goes on where the last ended.

    So folds have as many rows (clusters), and as many of every stratum, as can be, give or take one.
    """
    n_units = _n_units(strata, clusters)
    if n_folds > n_units:
        what = "rows" if clusters is None else "clusters"
        raise InputError(f"{n_folds} folds need at least as many {what}, and there are {n_units}")
    folds = np.empty(n_units, dtype=np.int64)
    n_dealt = 0
    for members in _shuffled(strata, seed, clusters):
        folds[members] = (n_dealt + np.arange(members.size)) % n_folds
        n_dealt += members.size
    return folds if clusters is None else folds[clusters]


def apply_splitter(splitter: Any, labels: ArrayLike, clusters: Ints | None) -> Ints:
    """Return the folds of a splitter of scikit-learn, which must hold out every row just once."""
    n_rows = len(np.asarray(labels))
    folds = np.full(n_rows, -1, dtype=np.int64)
    n_held_out = 0
    with warnings.catch_warnings():
        # What it does with clusters is checked below.
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        parts = list(splitter.split(np.zeros((n_rows, 1)), labels, clusters))
    for fold, (train, test) in enumerate(parts):
        n_held_out += len(test)
        folds[test] = fold
        if len(train) + len(test) != n_rows:
            raise InputError(
                f"cv={splitter} leaves rows out of both parts; those of a fold must train or judge"
            )
    if n_held_out != n_rows or (folds < 0).any():
        raise InputError(
            f"cv={splitter} must hold out every row just once, and holds out {n_held_out} of {n_rows} rows"
        )
    if clusters is not None:
        refuse_straddling(clusters, folds, f"cv={splitter}")
    return folds


def refuse_straddling(clusters: Ints, parts: Ints, culprit: str) -> None:
    """Refuse parts through which a cluster goes."""
    first = np.empty(int(clusters.max(initial=-1)) + 1, dtype=parts.dtype)
    first[clusters] = parts
    if (away := np.flatnonzero(first[clusters] != parts)).size:
        raise InputError(
            f"{culprit} parts rows of one cluster, row {away[0]} from others of its own; such rows must stay "
            "together"
        )


def _n_units(strata: Ints, clusters: Ints | None) -> int:
    return strata.size if clusters is None else int(clusters.max(initial=-1)) + 1


def _shuffled(strata: Ints, seed: int, clusters: Ints | None) -> Iterator[Ints]:
    """Yield the rows, or the clusters, of every stratum in random order."""
    of_unit = strata if clusters is None else _rarest(strata, clusters)
    shuffled = np.random.default_rng(seed).permutation(of_unit.size)
    for stratum in np.unique(of_unit):
        yield shuffled[of_unit[shuffled] == stratum]


def _rarest(strata: Ints, clusters: Ints) -> Ints:
    """Return the stratum of each cluster, the rarest that its rows are in: small groups are spread."""
    _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    commonness = np.argsort(np.argsort(sizes, kind="stable"))
    found = np.full(int(clusters.max(initial=-1)) + 1, sizes.size)
    np.minimum.at(found, clusters, commonness[stratum])
    return found
