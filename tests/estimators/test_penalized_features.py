"""Columns in units so small that the penalty disables them are named; ordinary columns are not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from partialfair import PartialFairClassifier, PartialFairRegressor
from partialfair.exceptions import PenalizedFeatureWarning

RNG = np.random.default_rng(0)
N = 400
PLAIN = RNG.normal(size=(N, 5))
SCALES = np.array([1e-8, 1e-4, 1.0, 1e4, 1e8])
Y = (PLAIN.sum(axis=1) + RNG.normal(size=N) > 0).astype(int)


def penalized(X, y=Y, kind=PartialFairClassifier, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(constraint=None, **options).fit(X, y)
    found = [str(one.message) for one in caught if isinstance(one.message, PenalizedFeatureWarning)]
    return model, found


@pytest.mark.parametrize("kind", [PartialFairClassifier, PartialFairRegressor])
@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_matrix, pd.DataFrame], ids=lambda form: form.__name__
)
def test_disabled_columns_are_named_and_they_are_disabled(kind, form):
    names = list("abcde")
    X = PLAIN * SCALES
    table = pd.DataFrame(X, columns=names) if form is pd.DataFrame else form(X)
    target = Y if kind is PartialFairClassifier else 1e3 * PLAIN.sum(axis=1)
    model, (message,) = penalized(table, target, kind)
    first, second = ("feature 'a'", "feature 'b'") if form is pd.DataFrame else ("feature 0", "feature 1")
    assert first in message
    assert second in message
    assert "feature 2" not in message
    assert "feature 'c'" not in message
    assert len(message) <= 250
    without, found = penalized(X[:, 2:], target, kind)
    assert not found
    np.testing.assert_allclose(model.coef_[0, 2:], without.coef_[0], rtol=1e-2)
    # What the columns would add is lost: in ordinary units, or without the penalty, it is not.
    assert model.score(table, target) < penalized(PLAIN, target, kind)[0].score(PLAIN, target) - 0.02


def test_the_remedies_help():
    X = PLAIN * SCALES
    _, found = penalized((X - X.mean(axis=0)) / X.std(axis=0))
    assert not found
    lower, found = penalized(X[:, 1:], alpha=1e-12)
    assert not found
    assert lower.score(X[:, 1:], Y) > penalized(X[:, 2:])[0].score(X[:, 2:], Y)


@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 1e-2])
def test_ordinary_columns_are_not_named(alpha):
    """Rare indicators, constants, proportions, counts, years and amounts."""
    rare = np.zeros((N, 3))
    rare[0, 0] = rare[:2, 1] = 1
    X = np.c_[
        rare,
        np.ones(N),
        RNG.random(N),
        RNG.integers(0, 9, N),
        2000 + RNG.integers(0, 9, N),
        1e6 * RNG.random(N),
    ]
    assert not penalized(X, alpha=alpha)[1]
    assert not penalized(sparse.csr_matrix(X), alpha=alpha)[1]
    assert not penalized(X, alpha=alpha, fit_intercept=False)[1]
