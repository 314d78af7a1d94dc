"""The result of loaders, and the entries of data sets before they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.data.samples import n_rows_of, take_rows
from partialfair.datasets.source import DataFile
from partialfair.exceptions import InputError
from partialfair.utils.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

    from partialfair.data.categoricals import CategoricalCodes

    Features: TypeAlias = pd.DataFrame | sparse.csr_matrix | CategoricalCodes


@dataclass(frozen=True, eq=False)
class Split:
    """Row positions of the three parts, each in increasing order."""

    train: npt.NDArray[np.intp]
    validation: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Shares:
    """How a dataset is split.

    Parameters
    ----------
    train, validation, test
        Shares of the rows, which sum to one. ``test=None`` keeps the official test rows and splits the
        others.
    """

    train: float
    validation: float
    test: float | None

    def __post_init__(self) -> None:
        parts = (self.train, self.validation, self.test or 0.0)
        if min(parts) < 0 or not np.isclose(sum(parts), 1.0):
            raise InputError(f"the shares {parts} of a split must be non-negative and sum to one")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A binary scoring task with a sensitive feature.

    Parameters
    ----------
    name
        Its name in the registry.
    X
        Features: a pandas frame, a SciPy CSR matrix, or `CategoricalCodes`.
    y
        Labels, 0 or 1 (``int8``).
    sensitive_features
        The group of each row, a pandas categorical series with readable labels.
    feature_names
        Names of the columns (of the one-hot columns, for `CategoricalCodes`).
    target_name
        What ``y == 1`` means.
    interval
        The paper's interval of ranks, counted from the top.
    description
        What the rows are and what was done to them.
    shares
        Fractions of `split`.
    max_gaps
        The paper's κ grid by constraint name, on the absolute scale; empty where it gives none.
    official_partition
        0, 1, 2 for rows published as training, validation and test data, if they were.
    historical_score
        A given score of the rows: of a committee, or out-of-fold of a model.
    """

    name: str
    X: Features
    y: npt.NDArray[np.int8]
    sensitive_features: pd.Series[Any]
    feature_names: tuple[str, ...]
    target_name: str
    interval: tuple[float, float]
    description: str
    shares: Shares = field(default_factory=lambda: Shares(0.6, 0.2, 0.2))
    max_gaps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    official_partition: npt.NDArray[np.int8] | None = None
    historical_score: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        n_rows = n_rows_of(self.X)
        columns: dict[str, Sized | None] = {
            "y": self.y,
            "sensitive_features": self.sensitive_features,
            "official_partition": self.official_partition,
            "historical_score": self.historical_score,
        }
        for name, column in columns.items():
            if column is not None and len(column) != n_rows:
                raise InputError(f"{name} has {len(column)} entries, but X has {n_rows} rows")
        if self.shares.test is None and self.official_partition is None:
            raise InputError("shares keep the official test rows, but there is no official_partition")

    def __repr__(self) -> str:
        counts = self.sensitive_features.value_counts(sort=False)
        groups = ", ".join(f"{group} {count:,}" for group, count in counts.items())
        return (
            f"<Dataset {self.name}: {len(self.y):,} rows, {len(self.feature_names)} features,"
            f" {self.sensitive_features.name}: {groups}>"
        )

    def split(self, seed: int) -> Split:
        """Split the rows at random in the paper's shares; the same seed gives the same split."""
        fixed_test = np.empty(0, dtype=np.intp)
        if self.shares.test is None:  # which needs a partition; 2 is the test part
            fixed_test = np.flatnonzero(np.asarray(self.official_partition) == 2)
        pool = np.setdiff1d(np.arange(len(self.y)), fixed_test, assume_unique=True)
        shuffled = np.random.default_rng(seed).permutation(pool)  # results of the paper depend on this order
        ends = np.cumsum([self.shares.train, self.shares.validation]) * len(pool)
        train, validation, rest = np.split(shuffled, np.rint(ends).astype(np.intp))
        test = fixed_test if self.shares.test is None else rest
        # Sorted: the rows of a part are then read in the order they lie in memory.
        return Split(np.sort(train), np.sort(validation), np.sort(test))

    def subset(
        self, rows: npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]
    ) -> tuple[Features, npt.NDArray[np.int8], pd.Series[Any]]:
        """Return ``(X, y, sensitive_features)`` of the given rows (positions or a mask)."""
        rows = np.asarray(rows)
        return take_rows(self.X, rows), self.y[rows], self.sensitive_features.iloc[rows]


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Parameters
    ----------
    name
        What users call it.
    loader
        Returns the `Dataset`; all its arguments are optional keywords.
    files
        Files that it finds or downloads; empty for synthetic data and data in the package.
    summary, terms
        One line each: the content, and the source with its terms of use.
    """

    name: str
    loader: Callable[..., Dataset]
    files: tuple[DataFile, ...]
    summary: str
    terms: str


@dataclass(frozen=True)
class LocatedEntry:
    """A dataset and where each of its files lies on this machine (None: to be fetched)."""

    entry: Entry
    paths: Mapping[str, Path | None]

    @property
    def available(self) -> bool:
        """Return whether it can be loaded without a network."""
        return None not in self.paths.values()


def categorical(codes: npt.NDArray[np.integer[Any]], labels: Iterable[Any]) -> pd.Categorical[Any]:
    """Return ``labels[code]`` for every row, missing where the code is -1."""
    import pandas as pd

    return pd.Categorical.from_codes(codes, pd.Index(labels))


def group_series(name: str, codes: ArrayLike, labels: Sequence[str]) -> pd.Series[Any]:
    """Return the sensitive feature ``name``: ``labels[code]`` for every row, codes being small or boolean."""
    import pandas as pd

    return pd.Series(categorical(np.asarray(codes, dtype=np.int8), labels), name=name)
