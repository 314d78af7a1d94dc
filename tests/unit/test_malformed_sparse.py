"""Sparse matrices whose arrays do not fit each other: refused before compiled code follows them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from partialfair import PartialFairClassifier
from partialfair.estimators.regressor import PartialFairRegressor
from partialfair.exceptions import InputError
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees
from partialfair.utils.checks import check_sparse

RNG = np.random.default_rng(0)
ROWS = sparse.random(60, 5, density=0.5, random_state=0, format="csr")
LABELS = RNG.integers(0, 2, 60)
GROUPS = np.repeat(["a", "b"], 30)


def malformed(kind: str, layout: str = "csr") -> sparse.csr_matrix:
    """Return a matrix that was changed after SciPy looked at it."""
    X = sparse.csr_matrix(ROWS).asformat(layout)
    indices, starts = X.indices.copy(), X.indptr.copy()
    if kind == "an index out of range":
        indices[3] = 10**8
    elif kind == "a negative index":
        indices[0] = -5
    elif kind == "pointers that fall":
        starts[4] = starts[-1] + 10**6
    elif kind == "pointers that fall to nothing":
        starts[-1] = 0
    elif kind == "negative pointers":
        starts[2] = -7
    elif kind == "a pointer beyond the entries":
        starts[-1] = 10**6
    elif kind == "too few pointers":
        starts = starts[:-3]
    elif kind == "pointers that are fractions":
        starts = starts.astype(float)
    elif kind == "too few values":
        X.data = X.data[:-2]
    X.indices, X.indptr = indices, starts
    return X


KINDS = [
    "an index out of range",
    "a negative index",
    "pointers that fall",
    "pointers that fall to nothing",
    "negative pointers",
    "a pointer beyond the entries",
    "too few pointers",
    "pointers that are fractions",
    "too few values",
]


def fitted() -> dict[str, tuple[object, tuple[str, ...]]]:
    linear = PartialFairClassifier(constraint=None).fit(ROWS, LABELS)
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(ROWS, LABELS)
    trees = PartialFairTrees(forest, constraint=None, alpha=0.1)
    adjuster = PartialParityAdjuster(interval=(0, 1), max_gap=1.0, estimator=forest)
    return {
        "linear": (linear, ("predict", "predict_proba", "decision_function")),
        "regressor": (PartialFairRegressor(constraint=None).fit(ROWS, LABELS), ("predict",)),
        "trees": (trees.fit(ROWS, LABELS), ("predict", "predict_proba", "decision_function")),
        "adjuster": (adjuster.fit(ROWS, sensitive_features=GROUPS), ("transform", "predict_proba")),
    }


@pytest.fixture(scope="module")
def models() -> dict[str, tuple[object, tuple[str, ...]]]:
    return fitted()


@pytest.mark.parametrize("kind", KINDS)
def test_scoring(models, kind):
    for estimator, methods in models.values():
        groups = {"sensitive_features": GROUPS} if isinstance(estimator, PartialParityAdjuster) else {}
        for method in methods:
            for layout in ("csr", "csc"):
                with pytest.raises(InputError, match="X is a sparse matrix whose arrays do not fit"):
                    getattr(estimator, method)(malformed(kind, layout), **groups)


@pytest.mark.parametrize("kind", KINDS)
def test_fitting(kind):
    X = malformed(kind)
    for estimator in (
        PartialFairClassifier(interval=(0, 1)),
        PartialFairRegressor(interval=(0, 1)),
        PartialFairTrees(GradientBoostingClassifier(n_estimators=2), interval=(0, 1)),
        PartialParityAdjuster(interval=(0, 1), estimator=LogisticRegression().fit(ROWS, LABELS)),
    ):
        with pytest.raises(InputError, match="X is a sparse matrix whose arrays do not fit"):
            estimator.fit(X, LABELS, sensitive_features=GROUPS)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(60, 5), (4, 4), (0, 3), (3, 0)])
def test_good_ones_pass_and_are_not_changed(layout, shape):
    for X in (sparse.random(*shape, density=0.4, random_state=1), sparse.csr_array(shape)):
        X = X.asformat(layout)
        before = X.copy()
        check_sparse(X, "X")
        assert (before != X).nnz == 0


def test_room_behind_the_entries_is_allowed():
    """As SciPy leaves it where entries were removed: it is not looked at."""
    X = sparse.csr_matrix((np.ones(3), [0, 1, 99], [0, 1, 2]), shape=(2, 2))
    X.data, X.indices = np.ones(4), np.array([0, 1, 99, -1], dtype=np.int32)
    check_sparse(X, "X")
    assert len(X.indices) == 4


@pytest.mark.parametrize("change", ["row", "col", "data"])
def test_coordinates(change):
    X = sparse.coo_matrix(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        setattr(X, change, X.data[:-1] if change == "data" else np.full(X.nnz, 99, dtype=np.int32))
    with pytest.raises(InputError, match="X is a sparse matrix"):
        check_sparse(X, "X")
