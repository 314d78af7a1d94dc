"""The origin and the unit of a feature, and the unit of y, are nobody's business."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from partialfair import PartialFairClassifier, PartialFairRegressor
from partialfair.constraints import (
    DemographicParity,
    StatisticalParity,
)
from partialfair.exceptions import SurrogateWarning, UncenteredFeatureWarning
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.optimization.solvers import Status
from partialfair.training.units import measure_columns
from partialfair_paper.quadratic import QuadraticGroupAUC

SEEDS = st.integers(0, 10_000)
TERMS = st.sampled_from([None, "intercept", "interactions"])
CONSTRAINTS = st.sampled_from(["statistical_parity", "demographic_parity"])
ASKED = {"interval": (0.1, 0.7), "max_gap": 0.15}


@dataclass(frozen=True)
class Task:
    """Features in odd units, one of which tells the groups apart, and what to subtract from none of them."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    weights: np.ndarray | None
    offsets: np.ndarray

    def fit(self, moved, estimator):
        """Fit an estimator to the features as they are or moved; return it with its training scores."""
        X = self.X + self.offsets if moved else self.X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(X, self.y, sensitive_features=self.groups, sample_weight=self.weights)
        return estimator, estimator.decision_function(X, self.groups)


@st.composite
def tasks(draw):
    rng = np.random.default_rng(draw(SEEDS))
    n, d, n_groups = int(rng.integers(60, 200)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    groups = rng.integers(n_groups, size=n)
    X = rng.normal(size=(n, d)) + 0.5 * np.eye(d)[0] * groups[:, None]
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    X = X * 10.0 ** rng.uniform(-1, 1, size=d)
    X = np.round(X, 1) if draw(st.booleans()) else X
    weights = rng.integers(0, 3, size=n).astype(float) if draw(st.booleans()) else None
    offsets = rng.choice([-1, 1], size=d) * 10.0 ** rng.uniform(0, 6, size=d)
    return Task(X, (y > np.median(y)).astype(int), groups, weights, offsets)


@settings(max_examples=20)
@given(tasks(), TERMS)
def test_an_unconstrained_model_does_not_see_offsets(task, terms):
    made = [task.fit(moved, PartialFairClassifier(None, group_terms=terms)) for moved in (False, True)]
    (near, scores), (far, moved_scores) = made
    assert near.result_.status is far.result_.status is Status.CONVERGED
    assert moved_scores == pytest.approx(scores, abs=1e-6)
    assert far.coef_ == pytest.approx(near.coef_, abs=1e-6)
    assert len(far.result_.history) == len(near.result_.history)


@settings(max_examples=15)
@given(tasks(), TERMS, CONSTRAINTS)
def test_a_surrogate_fit_does_not_see_offsets(task, terms, constraint):
    (near, scores), (far, moved_scores) = (
        task.fit(
            moved,
            PartialFairClassifier(constraint, **ASKED, enforce="surrogate", group_terms=terms, max_iter=100),
        )
        for moved in (False, True)
    )
    if near.result_.status is Status.CONVERGED:  # elsewhere a solver lost its way, which rounding may change
        assert far.result_.status is Status.CONVERGED
        assert moved_scores == pytest.approx(scores, abs=1e-6)


@pytest.mark.slow
@settings(max_examples=4)  # each some ten seconds
@given(tasks(), TERMS, CONSTRAINTS)
def test_exact_fits_do_not_see_offsets(task, terms, constraint):
    check_exact_fits(task, terms, constraint)


def check_exact_fits(task, terms, constraint):
    """Compare exact fits with and without offsets; return whether there was anything to compare."""
    free, _ = task.fit(False, PartialFairClassifier(None, group_terms=terms))
    (near, _), (far, moved_scores) = (
        task.fit(moved, PartialFairClassifier(constraint, **ASKED, group_terms=terms, max_iter=100))
        for moved in (False, True)
    )
    if near.result_.status is not Status.CONVERGED:
        return False
    assert far.result_.status is Status.CONVERGED
    assert far.result_.satisfied
    price = near.result_.objective - free.result_.objective
    assert abs(far.result_.objective - near.result_.objective) <= 0.01 * price + 1e-9
    if constraint == "statistical_parity":  # the promise is about scores as anybody computes them
        present = np.ones(task.y.size) if task.weights is None else task.weights
        gap = partial_statistical_parity_difference(
            None,
            moved_scores,
            sensitive_features=task.groups,
            interval=ASKED["interval"],
            sample_weight=present,
        )
        assert gap == far.result_.gap
    return True


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 400)
    X = rng.normal(size=(400, 3)) + np.outer(groups == "a", [0.5, 0, 0])
    y = (X @ [1.5, 1, 0] + 0.5 * rng.normal(size=400) > 0.3).astype(int)
    return X, y, groups


def test_an_exact_fit_does_not_see_offsets(people):
    task = Task(*people, None, np.array([-30.0, 2e3, 1e6]))
    assert check_exact_fits(task, None, "statistical_parity")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_single_precision_is_only_less_precise_data(people, offset, dtype):
    X, y, groups = people
    moved = np.round(X * 8) / 8 + offset  # single precision holds these
    near, far = (
        PartialFairClassifier(**ASKED, enforce="surrogate").fit(features, y, sensitive_features=groups)
        for features in (moved - offset, moved.astype(dtype))
    )
    assert far.decision_function(moved.astype(dtype)) == pytest.approx(
        near.decision_function(moved - offset), abs=1e-6
    )


def test_units_do_not_matter_either(people):
    X, y, groups = people
    scores = [
        PartialFairClassifier(**ASKED, enforce="surrogate", alpha=0.0)
        .fit(X * unit + offset, y, sensitive_features=groups)
        .decision_function(X * unit + offset)
        for unit, offset in ((1.0, 0.0), (np.array([1e-3, 1.0, 1e5]), np.array([1.0, -50.0, 3e5])))
    ]
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)


@pytest.mark.parametrize("offset", [0.0, 0.5, 3.0])
def test_without_an_intercept_nothing_is_centred(people, offset):
    """The optimum through the origin is another one for every offset."""
    X, y, _ = people
    X = X + offset
    ours = PartialFairClassifier(None, fit_intercept=False, alpha=1e-2, tol=1e-6).fit(X, y)
    theirs = LogisticRegression(C=1 / (1e-2 * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000)
    assert ours.coef_[0] == pytest.approx(theirs.fit(X, y).coef_[0], abs=1e-5)
    assert ours.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("constraint", [None, "statistical_parity"])
@pytest.mark.parametrize("terms", [None, "intercept", "interactions"])
@pytest.mark.parametrize("offset", [0.0, 30.0, 500.0])
def test_sparse_features_give_the_model_of_dense_ones(people, constraint, terms, offset):
    X, y, groups = people
    X = np.where(np.abs(X) > 0.8, X, 0.0) + offset
    made = []
    for features in (X, sparse.csr_matrix(X)):
        clf = PartialFairClassifier(constraint, group_terms=terms, enforce="surrogate")
        clf.set_params(**({} if constraint is None else ASKED)).fit(features, y, sensitive_features=groups)
        assert clf.result_.status is Status.CONVERGED
        made.append((clf.decision_function(features, groups), clf.result_.objective))
    # Half of these values are the same, and there rounding errors change how a solver ends: both models are
    # within tol of a solution.
    assert made[1][0] == pytest.approx(made[0][0], abs=1e-6 if constraint is None else 1e-4)
    assert made[1][1] == pytest.approx(made[0][1], abs=1e-8)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("terms", [None, "intercept", "interactions"])
def test_constant_features_are_left_to_the_intercepts(people, kind, terms):
    X, y, groups = people
    constants = np.broadcast_to([0.1, -1e100, 3.0], X.shape)
    settings = {**ASKED, "enforce": "surrogate", "group_terms": terms}
    without = PartialFairClassifier(**settings).fit(kind(X), y, sensitive_features=groups)
    beside = PartialFairClassifier(**settings).fit(
        kind(np.hstack([X, constants])), y, sensitive_features=groups
    )
    assert not beside.coef_[:, 3:].any()
    assert beside.coef_[:, :3] == pytest.approx(without.coef_, abs=1e-6)
    assert beside.intercept_ == pytest.approx(without.intercept_, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_nothing_but_constant_features(alpha, people):
    _, y, _ = people
    with pytest.warns(SurrogateWarning, match="equal"):
        clf = PartialFairClassifier(None, alpha=alpha).fit(np.full((y.size, 2), 0.1), y)
    assert clf.result_.status is Status.CONVERGED
    assert clf.predict_proba(np.full((1, 2), 0.1))[0, 1] == pytest.approx(y.mean(), abs=1e-6)


def test_sparse_features_far_from_zero_are_named(people):
    X, y, groups = people
    frame = pd.DataFrame(X, columns=["merit", "year", "sex"]).assign(sex=groups, year=X[:, 1] + 1e5)
    far = sparse.csr_matrix(np.column_stack([frame["merit"], frame["year"]]))
    clf = PartialFairClassifier(**ASKED, enforce="surrogate", time_limit=5)
    for further in (0.0, 1e9):  # where rounding errors leave nothing of a difference of sums
        far.data[far.indices == 1] += further
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SurrogateWarning)
            with pytest.warns(UncenteredFeatureWarning, match=r"^feature 1 of X: .*dense"):
                clf.fit(far, y, sensitive_features=groups)
    clf = PartialFairClassifier(None, sensitive_columns=-1)
    clf.fit(frame, y)  # dense ones are centred
    assert clf.result_.status is Status.CONVERGED
    with pytest.warns(UncenteredFeatureWarning, match=r"^feature 'year': .*subtract"):
        clf.fit(frame.assign(year=X[:, 1] + 1e12), y)


def test_indicators_that_nearly_everybody_has_are_not_far_from_zero():
    """One in two million lacks it: its mean is 1,400 standard deviations from 0, and nothing is lost."""
    n = 2_000_000
    rows = np.arange(1, n)
    nearly = sparse.csr_matrix((np.ones(n - 1), (rows, np.zeros(n - 1, int))), shape=(n, 1))
    units = measure_columns(nearly, np.ones(n), centered=True)
    assert not units.far
    assert units.centers.tolist() == [0.0]
    assert units.scales == pytest.approx([1.0])


@given(SEEDS, st.booleans(), st.sampled_from([np.asarray, sparse.csr_matrix]))
@settings(max_examples=20)
def test_units_are_weighted_means_and_standard_deviations(seed, centred, kind):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(50, 3)) * [1, 10, 0] + [2, 0, 0], rng.random(50)
    units = measure_columns(kind(X), weights, centered=centred)
    means = np.average(X, axis=0, weights=weights) if centred else np.zeros(3)
    spreads = np.sqrt(np.average((X - means) ** 2, axis=0, weights=weights))
    assert units.centers == pytest.approx(means, abs=1e-12)
    assert units.scales == pytest.approx([spreads[0], spreads[1], 1.0])


def test_a_warm_start_begins_at_the_last_model(people):
    X, y, groups = people
    X = X + 1e5
    clf = PartialFairClassifier(**ASKED, enforce="surrogate", warm_start=True)
    cold = clf.fit(X, y, sensitive_features=groups).result_
    warm = clf.fit(X, y, sensitive_features=groups).result_
    assert warm.history[0].objective == pytest.approx(cold.objective, abs=1e-9)
    assert warm.history[-1].passes < cold.history[-1].passes
    assert warm.objective <= cold.objective + 1e-6


def test_a_model_that_tells_hardly_anybody_apart_is_not_silent():
    """The only feature tells the groups: to keep them alike, scores are shrunk until they are the same."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 200)
    x = np.where(groups == "a", 3.0, 0.0) + rng.normal(size=200)
    y = (x + rng.normal(size=200) > 1.5).astype(int)
    clf = PartialFairClassifier(QuadraticGroupAUC(max_gap=1e-7))
    with pytest.warns(SurrogateWarning, match="nearly equal"):
        clf.fit(x[:, None], y, sensitive_features=groups)


@settings(max_examples=12)
@given(
    seed=SEEDS,
    exponent=st.integers(-20, 20),
    kind=st.sampled_from(["parity", "threshold", "group auc", "none"]),
    terms=TERMS,
)
def test_predictions_scale_with_y_exactly(seed, exponent, kind, terms):
    """Powers of two round nothing: thresholds are in units of y, quadratic bounds in units of y²."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], 150)
    X = rng.normal(size=(150, 3)) + np.outer(groups == "a", [0.5, 0, 0]) + rng.normal(size=3)
    y = X @ [1.5, 1, 0] + rng.normal(size=150) + 3

    def predictions(unit):
        constraint = {
            "parity": StatisticalParity((0.1, 0.6), 0.2),
            "threshold": DemographicParity((0.0, 0.6), 0.1, threshold=4 * unit),
            "group auc": QuadraticGroupAUC(2.0 * unit**2, margin=unit),
            "none": None,
        }[kind]
        reg = PartialFairRegressor(constraint, group_terms=terms, enforce="surrogate", max_iter=60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reg.fit(X, unit * y, sensitive_features=groups)
        return reg.predict(X, groups)

    unit = 2.0**exponent
    assert np.array_equal(predictions(unit), unit * predictions(1.0))
