"""Systems of thousands of functions: the same values and slopes in a hundredth of the memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from partialfair import PartialFairClassifier
from partialfair.constraints import DemographicParity, GroupAUC
from partialfair.constraints.dc import algebra
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups


def build(constraint, n_groups, n=600):
    groups = encode_groups(np.arange(n) % n_groups)
    return constraint.build(groups, np.ones(n), Ramp(1.0))


@pytest.mark.parametrize(
    "constraint", [GroupAUC((0.1, 0.5), 0.05), DemographicParity([(0.1, 0.3), (0.5, 0.7)], 0.05)], ids=str
)
def test_sparse_slopes_are_the_dense_ones(monkeypatch, constraint):
    atoms = np.random.default_rng(0).random(build(constraint, 5).system.n_atoms)
    found = []
    for most in (1 << 22, 0):
        monkeypatch.setattr(algebra, "_MOST_DENSE", most)
        system = build(constraint, 5).system
        slopes = [algebra.dense_rows(side, slice(None)) for side in system.slopes(atoms)]
        ties = system.ties(atoms, np.ones(system.m, dtype=bool), 10.0)
        found.append(
            [*system.parts(atoms), *slopes, *system.combined(atoms, np.arange(system.m)), ties.slopes]
        )
    for dense, sparse in zip(*found, strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-12)


def test_a_fit_does_not_depend_on_how_slopes_are_stored(monkeypatch):
    rng = np.random.default_rng(1)
    groups = np.arange(300) % 3
    X = rng.normal(size=(300, 3)) + 0.3 * groups[:, None]
    y = X[:, 0] + rng.normal(size=300) > 1
    fits = []
    for most in (1 << 22, 0):
        monkeypatch.setattr(algebra, "_MOST_DENSE", most)
        fits.append(
            PartialFairClassifier("group_auc", interval=(0, 1), max_gap=0.1).fit(
                X, y, sensitive_features=groups
            )
        )
    assert fits[0].result_.status == fits[1].result_.status
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-5)


def test_group_auc_of_a_hundred_groups_takes_little_memory():
    tracemalloc.start()
    try:
        system = build(GroupAUC((0.1, 0.5), 0.05), 100).system
        atoms = np.linspace(0, 1, system.n_atoms)
        plus, minus = system.slopes(atoms)
        values, (_, peak) = system.values(atoms), tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values.shape == (9900,)
    assert plus.shape == minus.shape == (9900, system.n_atoms)
    assert peak < 200 * 2**20  # dense, the slopes alone take 6 GiB
