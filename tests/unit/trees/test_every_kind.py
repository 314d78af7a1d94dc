"""What holds for every kind of ensemble: reading is right, writing changes the copy and nothing else."""

from __future__ import annotations

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import TreeEnsemble, ensemble_of
from tests.tree_models import GROW, Grown, grown, rounded, scores_with

SINGLE = np.finfo(np.float32).eps


@pytest.fixture(params=GROW)
def case(request: pytest.FixtureRequest) -> Grown:
    return grown(request.param)


def tolerance(ensemble: TreeEnsemble) -> float:
    """Return what rounding may move a score by: some units in the last place for every tree."""
    eps = SINGLE if ensemble.significand_bits == 24 else 2.0**-47
    return 2 * eps * ensemble.n_trees * max(1.0, float(np.abs(ensemble.values).max()))


def added_up(ensemble: TreeEnsemble, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Evaluate the definition: one value of each tree, added up."""
    starts = np.cumsum([0, *ensemble.n_leaves[:-1]])
    return values[starts + codes].sum(axis=1)


def other_values(ensemble: TreeEnsemble, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = ensemble.bounds
    if np.isfinite(high):
        return rng.uniform(low, high, len(ensemble.values))
    return ensemble.values + rng.normal(scale=0.1, size=len(ensemble.values))


def test_values_of_the_leaves_add_up_to_the_scores_of_the_library(case):
    ensemble = ensemble_of(case.model)
    leaves = ensemble.leaves(case.fresh)
    assert [len(levels) for levels in leaves.categories] == list(ensemble.n_leaves)
    assert len(ensemble.values) == sum(ensemble.n_leaves)
    scores = added_up(ensemble, ensemble.values, leaves.codes)
    np.testing.assert_allclose(scores, ensemble.scores(case.fresh), rtol=0, atol=tolerance(ensemble))
    assert np.ptp(scores) > 0


def test_leaves_are_those_that_the_library_finds_when_categories_come_in_another_order(case):
    if not hasattr(case.fresh, "columns"):
        pytest.skip("no categories")
    ensemble = ensemble_of(case.model)
    categories = case.fresh["e"].cat.categories
    shuffled = case.fresh.assign(e=case.fresh["e"].cat.set_categories(categories[::-1]))
    scores = added_up(ensemble, ensemble.values, ensemble.leaves(shuffled).codes)
    np.testing.assert_allclose(scores, ensemble.scores(shuffled), rtol=0, atol=tolerance(ensemble))


def test_rows_reach_most_leaves(case):
    # Leaves that were numbered wrongly would still add up if, say, all codes were 0 and so were all values.
    leaves = ensemble_of(case.model).leaves(case.fresh)
    n_reached = sum(len(np.unique(column)) for column in leaves.codes.T)
    assert n_reached > 0.6 * leaves.n_levels


def test_a_copy_with_the_same_values_predicts_the_same(case):
    ensemble = ensemble_of(case.model)
    copied = ensemble.with_values(ensemble.values)
    assert type(copied.model) is type(case.model)
    np.testing.assert_allclose(
        copied.scores(case.fresh), ensemble.scores(case.fresh), rtol=0, atol=tolerance(ensemble)
    )


def test_a_copy_with_other_values_scores_their_sums_to_the_last_bit(case):
    ensemble = ensemble_of(case.model)
    values = other_values(ensemble)
    leaves = ensemble.leaves(case.fresh)
    written = ensemble.with_values(values)
    scores = written.scores(case.fresh)
    np.testing.assert_allclose(
        scores, added_up(ensemble, values, leaves.codes), rtol=0, atol=tolerance(ensemble)
    )
    np.testing.assert_array_equal(scores, scores_with(ensemble, values, leaves))
    np.testing.assert_array_equal(written.leaves(case.fresh).codes, leaves.codes)
    np.testing.assert_array_equal(written.values, rounded(ensemble, values))


def test_the_original_is_left_as_it_was(case):
    ensemble = ensemble_of(case.model)
    before = ensemble.scores(case.fresh)
    ensemble.with_values(other_values(ensemble))
    np.testing.assert_array_equal(ensemble_of(case.model).scores(case.fresh), before)
    np.testing.assert_array_equal(ensemble_of(case.model).values, ensemble.values)


def test_rounded_values_are_near_and_stay_when_rounded_again(case):
    ensemble = ensemble_of(case.model)
    values = other_values(ensemble)
    near = rounded(ensemble, values)
    assert np.abs(near - values).max() <= tolerance(ensemble)
    np.testing.assert_array_equal(rounded(ensemble, near), near)


def test_written_models_survive_copies_and_files(case):
    written = ensemble_of(case.model).with_values(other_values(ensemble_of(case.model)))
    expected = written.scores(case.fresh)
    file = io.BytesIO()
    joblib.dump(written.model, file)
    file.seek(0)
    for model in (copy.deepcopy(written.model), pickle.loads(pickle.dumps(written.model)), joblib.load(file)):
        np.testing.assert_array_equal(ensemble_of(model).scores(case.fresh), expected)


def test_written_estimators_keep_parameters_and_can_be_cloned(case):
    if not isinstance(case.model, BaseEstimator):
        pytest.skip("boosters are no estimators")
    ensemble = ensemble_of(case.model)
    written = ensemble.with_values(other_values(ensemble)).model
    assert str(written.get_params()) == str(case.model.get_params())
    assert written.n_features_in_ == case.model.n_features_in_
    with pytest.raises(InputError, match=f"{type(case.model).__name__} is not fitted"):
        ensemble_of(clone(written))


def test_the_class_is_predicted_above_the_threshold(case):
    ensemble = ensemble_of(case.model)
    if ensemble.kind == "regressor":
        assert ensemble.threshold is None
        assert ensemble.classes is None
        np.testing.assert_array_equal(case.model.predict(case.fresh), ensemble.scores(case.fresh))
        return
    if ensemble.classes is None:
        pytest.skip("boosters do not know their labels")
    written = ensemble.with_values(other_values(ensemble))
    scores = written.scores(case.fresh)
    is_above = scores > written.threshold
    assert 0.05 < is_above.mean() < 0.95
    off = np.abs(scores - written.threshold) > 1e-6
    np.testing.assert_array_equal(
        written.model.predict(case.fresh)[off], written.classes[is_above.astype(int)][off]
    )
    probabilities = written.model.predict_proba(case.fresh)[:, 1]
    expected = scores if written.score_kind == "probability" else 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(probabilities, expected, atol=4 * SINGLE)


def test_leaves_of_few_rows_are_those_of_all(case, monkeypatch):
    ensemble = ensemble_of(case.model)
    whole = ensemble.leaves(case.fresh).codes
    monkeypatch.setattr("partialfair.trees.ensembles._CHUNK_CELLS", 3_001 * ensemble.n_trees)
    np.testing.assert_array_equal(ensemble.leaves(case.fresh).codes, whole)
    values = other_values(ensemble)
    np.testing.assert_array_equal(
        scores_with(ensemble, values, ensemble.leaves(case.fresh)),
        ensemble.with_values(values).scores(case.fresh),
    )


def test_a_wrong_number_of_columns_is_refused_by_the_library(case):
    narrow = case.fresh.iloc[:, :3] if hasattr(case.fresh, "iloc") else case.fresh[:, :3]
    with pytest.raises(Exception, match=r"[Ff]eature|columns"):
        ensemble_of(case.model).leaves(narrow)


def test_a_wrong_number_of_values_is_refused(case):
    ensemble = ensemble_of(case.model)
    with pytest.raises(
        InputError, match=f"values has 3 entries, but there are {len(ensemble.values)} leaves"
    ):
        ensemble.with_values(np.zeros(3))
    with pytest.raises(InputError, match="values"):
        ensemble.with_values(np.full(len(ensemble.values), np.nan))
