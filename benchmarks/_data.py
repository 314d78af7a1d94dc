"""The data sets of the benchmarks, as rows to train on and rows to test on.

Only public names of the package are used here, so that earlier versions of it can be measured as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from _earlier import import_moved
from partialfair.datasets import fetch_a9a, fetch_acs_income, fetch_bank, fetch_law_school
from partialfair.datasets.task import Dataset

CategoricalCodes = import_moved("CategoricalCodes")

LOADERS = {
    "law_school": fetch_law_school,
    "bank": fetch_bank,
    "a9a": lambda path: fetch_a9a(path=path, drop_sensitive=True),
    "acs_income": fetch_acs_income,
}
CONSTRAINTS = {"pSP": "statistical_parity", "pDP": "demographic_parity"}


@dataclass(frozen=True)
class Part:
    """Some rows of a data set."""

    X: Any
    y: Any
    groups: Any

    def take(self, rows: Any) -> Part:
        """Return some of its rows, in their order; the features of all of them are not copied."""
        kept = np.zeros(len(self.y), dtype=bool)
        kept[rows] = True
        if kept.all():
            return self
        X = self.X.take(kept) if isinstance(self.X, CategoricalCodes) else self.X[kept]
        return Part(X, self.y[kept], self.groups[kept])

    def few(self) -> Part:
        """Return rows to warm up on: enough to compile everything."""
        n = len(self.y)
        return self.take(np.random.default_rng(1).choice(n, min(2000, n), replace=False))

    def blocks(self) -> Any:
        """Return its features as scikit-learn wants them: one sparse block of columns for each group."""
        X = self.X.to_csr() if isinstance(self.X, CategoricalCodes) else sparse.csr_matrix(self.X)
        codes = np.unique(self.groups, return_inverse=True)[1]
        by_group = [sparse.diags_array((codes == k).astype(float)) @ X for k in range(codes.max() + 1)]
        shift = sparse.csr_matrix((codes > 0).astype(float)[:, None])
        return sparse.csr_matrix(sparse.hstack([*by_group, shift], format="csr"))


def as_part(data: Dataset) -> Part:
    """Return all rows of a data set, with dense features standardised."""
    X: Any = data.X
    if not isinstance(X, CategoricalCodes) and not sparse.issparse(X):
        X = StandardScaler().fit_transform(X.to_numpy(dtype=float))
    return Part(X, data.y, data.sensitive_features.to_numpy())


def load(name: str, path: Path | None, n: int | None) -> tuple[Dataset, Part, Part]:
    """Return the data set with the training and test part of its first split, or n of its training rows."""
    data = LOADERS[name](path=path)
    whole = as_part(data)
    split = data.split(0)
    train = split.train
    if name == "acs_income":  # all rows count for the speed; those of the test are then not new
        train = np.arange(len(data.y))
    if n is not None:
        train = np.random.default_rng(0).choice(train, n, replace=False)
    return data, whole.take(train), whole.take(split.test)
