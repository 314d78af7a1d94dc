"""The paper's quadratic baselines: what they state, in any unit, and in files."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair import PartialFairClassifier, load_model, persistence, save_model
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.utils import extras
from partialfair_paper.penalty import Penalty
from partialfair_paper.projected import ProjectedGradient
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from tests.blocks import atoms_of, functions_of

N = 60


def people(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c"])[np.arange(N) % 3]
    return encode_groups(labels), labels, np.arange(N) // 3 % 2 == 0, rng


def mean_square(scores, weights, first, second, margin=1.0):
    """Mean of ½ (margin + s − t)² over all pairs."""
    quadratic = 0.5 * (margin + np.subtract.outer(scores[first], scores[second])) ** 2
    both = np.outer(weights[first], weights[second])
    return (both * quadratic).sum() / both.sum()


def group_auc(cell, k, other):
    return [(cell(k), cell(other))]


def inter_group(cell, k, other):
    return [(cell(k, True), cell(other, False)), (cell(k, False), cell(other, True))]


def intra_group(cell, k, other):
    return [(cell(k, True), cell(k, False)), (cell(other, False), cell(other, True))]


@pytest.mark.parametrize("margin", [1.0, 0.3, -2.0])
@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (QuadraticGroupAUC, group_auc),
        (InterGroupPairwise, inter_group),
        (IntraGroupPairwise, intra_group),
    ],
)
@given(seed=st.integers(0, 1000))
def test_baselines_say_what_the_paper_writes(kind, cells, margin, seed):
    """(inprocess_gauc_approx), (inprocess_igpf_approx) and (inprocess_itgpf_approx), by all pairs.

    There the margin is 1; with any, scores that are all equal have the value −κ. Functions are divided by
    max(κ, margin²).
    """
    groups, labels, positive, rng = people(seed)
    scores, weights, kappa = 3 * rng.normal(size=N), rng.random(N), 1.5

    def cell(k, label=None):
        return (labels == k) & (True if label is None else positive == label)

    expected = []
    for k, other in permutations("abc", 2):
        means = [mean_square(scores, weights, *pair, margin) for pair in cells(cell, k, other)]
        expected.append(sum(means) - 0.5 * margin**2 * len(means) - kappa)
    block = kind(kappa, margin=margin).build(groups, weights, Ramp(1.0), positive)
    scale = max(kappa, margin**2)
    assert functions_of(block, np.full(N, 0.7)) == pytest.approx(-kappa / scale)
    assert functions_of(block, scores) == pytest.approx(np.array(expected) / scale)
    assert block.system.parts(atoms_of(block, scores))[1].tolist() == [0] * block.system.m


def test_baselines_take_the_papers_gaps_and_no_interval():
    assert QuadraticGroupAUC(15.0).max_gap == 15
    with pytest.raises(InputError, match="max_gap must be at least 0"):
        InterGroupPairwise(-1.0)
    with pytest.raises(TypeError, match="interval"):
        IntraGroupPairwise(interval=(0.1, 0.5))
    for margin in (0.0, np.nan):
        with pytest.raises(InputError, match="the margin of quadratic group AUC must"):
            QuadraticGroupAUC(1.0, margin=margin)


@pytest.mark.parametrize("unit", [0.25, 1024.0, -1.0, -8.0])
@pytest.mark.parametrize("kappa", [0.0, 2.0])
@pytest.mark.parametrize("kind", [QuadraticGroupAUC, InterGroupPairwise, IntraGroupPairwise])
def test_baselines_in_other_units_are_the_same_functions(kind, kappa, unit):
    """f(s) = f'(s / unit), also where the unit is negative, and where κ is the least one."""
    groups, _, positive, rng = people(3)
    scores, weights = 5 * rng.normal(size=N), rng.random(N)
    stated, scaled = kind(kappa), kind(kappa).in_units(unit)
    block, other = (c.build(groups, weights, Ramp(1.0), positive) for c in (stated, scaled))
    assert functions_of(block, scores) == pytest.approx(
        functions_of(other, scores / unit), rel=1e-9, abs=1e-9
    )
    assert scaled.in_units(1 / unit) == stated


def test_messages_about_other_units_are_about_the_statement():
    groups, _, _, _ = people()
    blocks = [
        c.build(groups, np.ones(N), Ramp(1.0))
        for c in (QuadraticGroupAUC(2.0), QuadraticGroupAUC(2.0).in_units(4.0))
    ]
    assert blocks[0].names[0] == "quadratic group AUC of a over b at most 2"
    assert blocks[1].names[0] == "quadratic group AUC of a over b at most 2 squared margins"


@pytest.mark.parametrize("kind", [InterGroupPairwise, IntraGroupPairwise])
def test_baselines_by_label_need_labels(kind):
    groups, _, positive, _ = people()
    with pytest.raises(InputError, match=r"-group pairwise fairness compares .* needs labels"):
        kind(1.0).build(groups, np.ones(N), Ramp(1.0))
    with pytest.raises(InputError, match="group 'c' has no positives or negatives to compare"):
        kind(1.0).build(groups, np.ones(N), Ramp(1.0), positive | (np.arange(N) % 3 == 2))
    QuadraticGroupAUC(1.0).build(groups, np.ones(N), Ramp(1.0))


def test_baselines_that_were_stored_before_margins_have_the_papers():
    stored = QuadraticGroupAUC.__new__(QuadraticGroupAUC)
    stored.__setstate__({"interval": (0.0, 1.0), "max_gap": 2.0, "gap_scale": "interval"})
    assert stored == QuadraticGroupAUC(2.0)


def fitted(constraint, solver="auto"):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 2)), np.arange(90) % 2
    y = X @ [1.0, 0.5] + 0.5 * groups + rng.normal(size=90) > 0
    clf = PartialFairClassifier(constraint, enforce="surrogate", solver=solver, tol=0.1)
    return clf.fit(X, y, sensitive_features=groups), X, groups


SAVED = [
    (QuadraticGroupAUC(1.0), "auto"),
    (InterGroupPairwise(1.0), "auto"),
    (IntraGroupPairwise(1.0), "auto"),
    (QuadraticGroupAUC(1.0), ProjectedGradient(max_iter=2)),
    (QuadraticGroupAUC(1.0), Penalty(1.0, max_iter=2)),
]
every_saved = pytest.mark.parametrize(("constraint", "solver"), SAVED, ids=str)


@pytest.mark.filterwarnings("ignore")  # two steps are too few
@every_saved
def test_models_with_baselines_are_saved_and_loaded(constraint, solver, tmp_path):
    clf, X, groups = fitted(constraint, solver)
    save_model(clf, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert (again.constraint, again.solver) == (constraint, solver)
    assert (again.decision_function(X, groups) == clf.decision_function(X, groups)).all()


def test_without_the_package_such_a_file_says_how_to_install_it(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    save_model(fitted(QuadraticGroupAUC(1.0))[0], path)
    monkeypatch.setattr(persistence, "_registered", set())
    with pytest.raises(InputError, match="QuadraticGroupAUC, which is not part of a model"):
        load_model(path)  # of a class that the package has not registered
    monkeypatch.setattr(persistence, "find_spec", lambda name: None)
    with pytest.raises(InputError) as caught:
        load_model(path)
    needed = f"{path} needs partialfair-paper, which is not installed; run: pip install partialfair-paper"
    assert str(caught.value) == needed


def test_a_class_is_registered_when_a_file_holds_it(tmp_path, monkeypatch):
    """Extensions are loaded once, and not before a file holds a class that is unknown."""
    monkeypatch.setattr(persistence, "_registered", set())
    loads = []
    monkeypatch.setattr(persistence, "load_extensions", lambda: loads.append(_load_again()))
    save_model(PartialFairClassifier(constraint=None), tmp_path / "plain.skops")
    assert not loads
    save_model(fitted(QuadraticGroupAUC(1.0))[0], tmp_path / "model.skops")
    assert loads


def _load_again():
    extras.load_extensions.cache_clear()
    extras.load_extensions()
