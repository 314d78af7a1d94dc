"""Tables of many shapes and logistic regressions on them, the baseline of price.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.preprocessing import StandardScaler

from _data import Part
from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets import fetch_a9a, fetch_acs_income

A9A_TRAINING_ROWS = 32_561
ONE_HOT_ROWS, ONE_HOT_COLUMNS = 200_000, 500
TEXT_ROWS, TEXT_WORDS, WORDS_OF_A_ROW = 100_000, 50_000, 50
LEAF_ROWS, TREES, LEAVES = 30_000, 300, 67
MANY_GROUPS, ROWS_OF_A_GROUP, COLUMNS_OF_A_GROUP = 20, 2_000, 500


@dataclass(frozen=True)
class Table:
    """Rows to fit, and the settings of the fit.

    Attributes
    ----------
    rows
        Features, labels and groups.
    interval
        The constrained interval.
    settings
        Parameters of the classifier that differ from those of all tables.
    """

    rows: Part
    interval: tuple[float, float]
    settings: dict[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        X = self.rows.X
        return (X.n_rows, X.n_levels) if isinstance(X, CategoricalCodes) else X.shape

    def plain(self) -> Any:
        """Return the features for scikit-learn."""
        X = self.rows.X
        return X.to_csr() if isinstance(X, CategoricalCodes) else X


def a9a(path: Path | None) -> Table:
    """Return the training rows of a9a, sparse."""
    data = fetch_a9a(path=path, drop_sensitive=True)
    everybody = Part(data.X, data.y, data.sensitive_features.to_numpy())
    return Table(everybody.take(np.arange(A9A_TRAINING_ROWS)), data.interval, {})


def dense_a9a(path: Path | None) -> Table:
    """Return the training rows of a9a, dense and standardized."""
    table = a9a(path)
    X = StandardScaler().fit_transform(table.rows.X.toarray())
    return Table(Part(X, table.rows.y, table.rows.groups), table.interval, {})


def one_hot(path: Path | None) -> Table:
    """Return some rows of ACS, with their most common columns as a sparse matrix."""
    table = acs(path)
    chosen = np.random.default_rng(0).choice(len(table.rows.y), ONE_HOT_ROWS, replace=False)
    rows = table.rows.take(chosen)
    X = rows.X.to_csr()
    common = np.sort(np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")[:ONE_HOT_COLUMNS])
    return Table(Part(sparse.csr_matrix(X[:, common]), rows.y, rows.groups), table.interval, {})


def acs(path: Path | None) -> Table:
    """Return all rows of ACS as codes."""
    data = fetch_acs_income(path=path)
    return Table(Part(data.X, np.asarray(data.y), data.sensitive_features.to_numpy()), data.interval, {})


def text(path: Path | None) -> Table:
    """Return rows like hashed text: few of many words, common and rare, some of which depend on the group."""
    rng = np.random.default_rng(0)
    groups = rng.random(TEXT_ROWS) < 0.3
    commonness = 1 / (10.0 + np.arange(TEXT_WORDS))
    of_group = commonness * np.where(rng.random(TEXT_WORDS) < 0.1, np.exp(rng.normal(size=TEXT_WORDS)), 1.0)
    words = np.empty((TEXT_ROWS, WORDS_OF_A_ROW), dtype=np.int64)
    for code, weights in enumerate((commonness, of_group)):
        members = groups == code
        drawn = rng.choice(TEXT_WORDS, (members.sum(), WORDS_OF_A_ROW), p=weights / weights.sum())
        words[members] = drawn
    values = np.full(words.size, 1 / np.sqrt(WORDS_OF_A_ROW))
    indptr = WORDS_OF_A_ROW * np.arange(TEXT_ROWS + 1)
    X = sparse.csr_matrix((values, words.ravel(), indptr), (TEXT_ROWS, TEXT_WORDS))
    X.sum_duplicates()
    scores = X @ (3 * rng.normal(size=TEXT_WORDS)) + 0.8 * groups
    y = (scores + rng.logistic(size=TEXT_ROWS) > np.quantile(scores, 0.6)).astype(int)
    return Table(Part(X, y, groups.astype(int)), (0.1, 0.4), {"tol": 1e-3})


def leaves(path: Path | None) -> Table:
    """Return the leaves of other rows in boosted trees that were trained on half of the rows of a9a."""
    data = fetch_a9a(path=path, drop_sensitive=True)
    X, groups = data.X.toarray(), data.sensitive_features.to_numpy()
    order = np.random.default_rng(0).permutation(len(data.y))
    grown, kept = order[LEAF_ROWS:], order[:LEAF_ROWS]
    trees = GradientBoostingClassifier(
        n_estimators=TREES, max_leaf_nodes=LEAVES, max_depth=None, subsample=0.5, random_state=0
    ).fit(X[grown], data.y[grown])
    reached = trees.apply(X[kept])[:, :, 0].astype(np.int64)
    columns = [np.unique(column, return_inverse=True) for column in reached.T]
    codes = CategoricalCodes(
        np.stack([codes for _, codes in columns], axis=1).astype(np.uint16),
        tuple(labels for labels, _ in columns),
        tuple(f"tree {number}" for number in range(TREES)),
    )
    return Table(Part(codes, data.y[kept], groups[kept]), data.interval, {"alpha": 3e-3, "tol": 1e-3})


def many_groups(path: Path | None) -> Table:
    """Return rows of many groups, each with its own model."""
    rng = np.random.default_rng(0)
    n = MANY_GROUPS * ROWS_OF_A_GROUP
    groups = rng.integers(MANY_GROUPS, size=n)
    X = rng.normal(size=(n, COLUMNS_OF_A_GROUP))
    common, own = rng.normal(size=COLUMNS_OF_A_GROUP), rng.normal(size=(MANY_GROUPS, COLUMNS_OF_A_GROUP))
    vectors = (common + 0.3 * own) / np.sqrt(COLUMNS_OF_A_GROUP)
    scores = 2 * (X * vectors[groups]).sum(axis=1) + 0.5 * rng.normal(size=MANY_GROUPS)[groups]
    y = (scores + rng.logistic(size=n) > 0).astype(int)
    return Table(Part(X, y, groups), (0.1, 0.4), {"group_terms": "interactions", "tol": 1e-3})


TABLES: dict[str, Callable[[Path | None], Table]] = {
    "a9a, sparse": a9a,
    "a9a, dense": dense_a9a,
    "one-hot": one_hot,
    "ACS": acs,
    "text": text,
    "leaves": leaves,
    "many groups": many_groups,
}
