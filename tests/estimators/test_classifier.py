"""PartialFairClassifier as its users meet it."""

import pickle
import re
import warnings
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError, SurrogateWarning
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_statistical_parity_difference,
)
from partialfair.optimization.solvers import IDCA, SQP, DirectSwitching, MultiStartSQP, Status, Switching
from tests.solvers.problems import Exact

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)

INTERVAL = (0.1, 0.6)
QUICK = {
    "enforce": "surrogate",
    "interval": INTERVAL,
    "max_gap": 0.1,
    "options": FitOptions(n_points=4),
    "max_iter": 10,
}


def quick(**settings):
    return PartialFairClassifier(**{**QUICK, **settings})


def gap_of(clf, people, **options):
    scores = clf.decision_function(people.X)
    return partial_statistical_parity_difference(
        None, scores, sensitive_features=people.groups, interval=INTERVAL, **options
    )


def test_without_a_constraint_it_is_logistic_regression(people):
    alpha, n = 1e-2, len(people.y)
    ours = PartialFairClassifier(constraint=None, alpha=alpha).fit(people.X, people.y)
    theirs = LogisticRegression(C=1 / (alpha * n), tol=1e-10, max_iter=10_000).fit(people.X, people.y)
    assert ours.result_.status is Status.CONVERGED
    assert ours.coef_ == pytest.approx(theirs.coef_, rel=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-4)
    assert (ours.predict(people.X) == theirs.predict(people.X)).all()
    assert ours.predict_proba(people.X) == pytest.approx(theirs.predict_proba(people.X), rel=1e-5)
    assert np.exp(ours.predict_log_proba(people.X)) == pytest.approx(ours.predict_proba(people.X))


@pytest.mark.parametrize("class_weight", ["balanced", {"hired": 3.0}, {"hired": 0.5, "passed over": 2.0}])
def test_class_weights_are_scikit_learns(people, class_weight):
    ours = PartialFairClassifier(constraint=None, alpha=1e-2, class_weight=class_weight)
    ours.fit(people.X, people.y)
    # scikit-learn sums the weighted losses where we take their weighted mean.
    total = compute_sample_weight(class_weight, people.y).sum()
    theirs = LogisticRegression(C=1 / (1e-2 * total), class_weight=class_weight, tol=1e-10, max_iter=10_000)
    theirs.fit(people.X, people.y)
    assert ours.coef_ == pytest.approx(theirs.coef_, rel=1e-4)


@pytest.mark.parametrize(("solver", "max_iter"), [("auto", 30), ("idca-switching", 10), ("switching", 2000)])
def test_the_gap_shrinks_and_the_result_says_by_how_much(people, solver, max_iter):
    free = PartialFairClassifier(constraint=None).fit(people.X, people.y)
    clf = quick(solver=solver, max_iter=max_iter)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    result = clf.result_
    assert gap_of(clf, people) < 0.5 * gap_of(free, people)
    assert result.gap == pytest.approx(gap_of(clf, people))
    assert set(result.binding.groups) == {"f", "m"}
    assert result.gaps == (result.binding,)
    assert result.thresholds.shape == (4,)
    assert result.objective >= free.result_.objective
    assert result.max_violation == pytest.approx(result.kkt.feasibility)
    assert result.history[-1].step == clf.n_iter_
    assert "exact training gap" in str(result)


def test_exact_inner_steps_converge_with_a_certificate(people):
    """The certificate is what makes a fit CONVERGED, whoever solved it."""
    solver = IDCA(max_iter=200, inner=Exact(), mu=0.005, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = quick(solver=solver, max_iter=None, options=FitOptions(surrogate_width=1.0, n_points=2))
        clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.CONVERGED
    assert clf.result_.kkt.holds(clf.tol)


@pytest.mark.parametrize("constraint", ["statistical_parity", "demographic_parity"])
@pytest.mark.parametrize("group_terms", [None, "interactions"])
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
def test_sqp_converges_in_few_passes(people, constraint, group_terms):
    clf = quick(constraint=constraint, group_terms=group_terms, solver=SQP(), max_iter=None, tol=5e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.CONVERGED
    assert clf.result_.history[-1].passes < 1000


def test_unfinished_work_is_said_to_be_unfinished(people):
    with pytest.warns(ConvergenceWarning, match=r"status max_iter after 2 steps: raise max_iter or tol"):
        clf = quick(max_iter=2).fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.MAX_ITER


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
def test_demographic_parity_at_a_threshold(people):
    clf = quick(constraint="demographic_parity", constraint_threshold=0.2, max_iter=30)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    expected = partial_demographic_parity_difference(
        None,
        clf.decision_function(people.X),
        sensitive_features=people.groups,
        interval=INTERVAL,
        threshold=0.2,
    )
    assert clf.result_.gap == pytest.approx(expected)
    assert clf.result_.thresholds.size == 0


def test_several_constraints_on_unions_and_by_group(people):
    constraints = [
        StatisticalParity([(0.1, 0.3), (0.5, 0.6)], max_gap=0.2, n_points=3),
        DemographicParity({"f": (0.1, 0.6), "m": (0.2, 0.7)}, max_gap=0.3, threshold=0.1),
    ]
    clf = PartialFairClassifier(constraints, enforce="surrogate", max_iter=5)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert len(clf.result_.gaps) == 2
    excess = [gap.value - one.max_gap for gap, one in zip(clf.result_.gaps, constraints, strict=True)]
    assert clf.result_.binding == clf.result_.gaps[int(np.argmax(excess))]


@pytest.mark.parametrize("group_terms", [None, "intercept", "interactions"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shapes_and_scores_by_group_terms(people, group_terms, fit_intercept):
    clf = quick(group_terms=group_terms, fit_intercept=fit_intercept)
    if group_terms == "intercept" and not fit_intercept:
        with pytest.raises(ValueError, match="needs fit_intercept=True"):
            clf.fit(people.X, people.y, sensitive_features=people.groups)
        return
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    scores = clf.decision_function(people.X, sensitive_features=people.groups)
    own = np.searchsorted(clf.groups_.astype(str), people.groups)
    coef = clf.coef_[own if len(clf.coef_) > 1 else np.zeros_like(own)]
    intercept = clf.intercept_[own if len(clf.intercept_) > 1 else np.zeros_like(own)]
    assert scores == pytest.approx((coef * people.X).sum(axis=1) + intercept)
    assert clf.coef_.shape == (2 if group_terms == "interactions" else 1, 2)
    assert clf.intercept_.shape == (2 if group_terms else 1,)
    assert fit_intercept or not clf.intercept_.any()


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        lambda X: pl.DataFrame(X, schema=["0", "1"]),
        sparse.csr_matrix,
        sparse.csc_array,
        np.asfortranarray,
        lambda X: X.tolist(),
    ],
)
def test_any_container_gives_the_same_model(people, convert):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn on integer column names
        X = convert(people.X)
        if isinstance(X, pd.DataFrame):
            X.columns = ["a", "b"]
        clf = quick().fit(X, people.y, sensitive_features=people.groups)
        expected = quick().fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.coef_ == pytest.approx(expected.coef_, rel=1e-6)
    assert clf.decision_function(X) == pytest.approx(expected.decision_function(people.X), rel=1e-6)


def test_single_precision_stays_single(people):
    X = people.X.astype(np.float32)
    clf = quick(max_iter=3).fit(X, people.y, sensitive_features=people.groups)
    expected = quick(max_iter=3).fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.coef_ == pytest.approx(expected.coef_, rel=1e-2)


def test_integer_codes_are_one_hot_features(people):
    frame = pd.DataFrame(
        {"merit": pd.cut(people.X[:, 0], 5).astype(str), "income": pd.cut(people.X[:, 1], 4).astype(str)}
    )
    codes = CategoricalCodes.from_frame(frame)
    one, other = (quick().fit(X, people.y, sensitive_features=people.groups) for X in (codes, codes.to_csr()))
    assert one.coef_ == pytest.approx(other.coef_)
    assert one.coef_.shape == (1, 9)
    assert one.decision_function(codes) == pytest.approx(other.decision_function(codes.to_csr()))
    assert one.feature_names_in_[0].startswith("merit=")
    fewer = CategoricalCodes.from_frame(frame.iloc[:3])
    with pytest.raises(ValueError, match="the columns or categories of X differ"):
        one.predict(fewer)


def test_sensitive_columns_are_read_and_dropped(people):
    expected = quick().fit(people.X, people.y, sensitive_features=people.groups)
    frames = [(people.frame, "sex"), (people.frame, ["sex"]), (people.frame, 1), (people.frame, -2)]
    frames += [(pl.from_pandas(people.frame), "sex"), (pa.Table.from_pandas(people.frame), ["sex"])]
    frames += [(people.numeric.to_numpy(dtype=float), 1)]
    frames += [(sparse.csr_matrix(people.numeric.to_numpy(dtype=float)), [1])]
    for frame, columns in frames:
        clf = quick(sensitive_columns=columns).fit(frame, people.y)
        assert clf.coef_ == pytest.approx(expected.coef_)
        assert clf.n_features_in_ == 3
        assert (clf.predict(frame) == expected.predict(people.X)).all()


def test_columns_of_arrow_are_known_by_name(people):
    table = pa.Table.from_pandas(people.frame)
    with pytest.raises(InputError, match="column 'job' of X holds 'clerk', which is not a number"):
        quick(sensitive_columns="sex").fit(table.append_column("job", [["clerk"] * len(table)]), people.y)
    dated = table.append_column("day", [[date(2020, 1, 1)] * len(table)])
    with pytest.raises(InputError, match=r"column 'day' of X holds dates or times \(2020-01-01\)"):
        quick(sensitive_columns="sex").fit(dated, people.y)
    with pytest.raises(InputError, match="'gender', which is not a column of X; it has 'merit', 'sex'"):
        quick(sensitive_columns="gender").fit(table, people.y)


def test_sensitive_columns_serve_group_terms_at_prediction(people):
    clf = quick(sensitive_columns="sex", group_terms="interactions").fit(people.frame, people.y)
    expected = quick(group_terms="interactions").fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.decision_function(people.frame) == pytest.approx(
        expected.decision_function(people.X, sensitive_features=people.groups)
    )
    assert list(clf.feature_names_in_) == ["merit", "sex", "income"]


def test_weights_repeat_rows_and_zeros_remove_them(people):
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, len(people.y))
    rows = np.repeat(np.arange(len(people.y)), weights)
    solver = IDCA(max_iter=3, inner=Switching(40))
    one = quick(solver=solver, max_iter=None)
    one.fit(people.X, people.y, sensitive_features=people.groups, sample_weight=weights)
    other = quick(solver=solver, max_iter=None)
    other.fit(people.X[rows], people.y[rows], sensitive_features=people.groups[rows])
    assert one.coef_ == pytest.approx(other.coef_, rel=1e-6)
    assert one.result_.gap == pytest.approx(other.result_.gap, abs=1e-9)
    assert one.result_.surrogate.width == pytest.approx(other.result_.surrogate.width)


def test_rows_of_weight_zero_may_hold_groups_and_classes_of_their_own(people):
    groups, y, weights = people.groups.copy(), people.y.copy(), np.ones(len(people.y))
    groups[0], y[1], weights[:2] = "other", "third class", 0
    clf = quick(max_iter=2).fit(people.X, y, sensitive_features=groups, sample_weight=weights)
    assert clf.classes_.tolist() == ["hired", "passed over"]
    assert clf.groups_.tolist() == ["f", "m"]


def test_missing_groups_count_in_the_loss_only(people):
    groups = people.groups.astype(object)
    groups[:50] = None
    with pytest.raises(ValueError, match="50 missing values, the first in row 0"):
        quick().fit(people.X, people.y, sensitive_features=groups)
    clf = quick(missing_groups="ignore", max_iter=30).fit(people.X, people.y, sensitive_features=groups)
    scores = clf.decision_function(people.X)
    expected = partial_statistical_parity_difference(
        None, scores[50:], sensitive_features=people.groups[50:], interval=INTERVAL
    )
    assert clf.result_.gap == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"group_terms='interactions' needs the group of every row; row 0"):
        quick(missing_groups="ignore", group_terms="interactions").fit(
            people.X, people.y, sensitive_features=groups
        )


def test_crossed_groups(people):
    ages = np.where(np.arange(len(people.y)) % 2, "young", "old")
    crossed = pd.DataFrame({"sex": people.groups, "age": ages})
    clf = quick(group_terms="intercept").fit(people.X, people.y, sensitive_features=crossed)
    assert clf.groups_.tolist() == [("f", "old"), ("f", "young"), ("m", "old"), ("m", "young")]
    assert clf.intercept_.shape == (4,)
    assert clf.predict(people.X[:2], sensitive_features=crossed[:2]).shape == (2,)


def test_clone_and_pickle(people):
    clf = quick(constraint=StatisticalParity(INTERVAL, 0.1), interval=None, max_gap=0.05, options=None)
    clf.set_params(solver=DirectSwitching(max_iter=50), max_iter=None)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    copy = clone(clf)
    assert copy.get_params() == clf.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(people.X)
    back = pickle.loads(pickle.dumps(clf))
    assert (back.decision_function(people.X) == clf.decision_function(people.X)).all()
    assert back.result_.kkt.residual == clf.result_.kkt.residual


def test_warm_start_goes_on_where_it_stopped(people):
    clf = quick(warm_start=True, max_iter=10).fit(people.X, people.y, sensitive_features=people.groups)
    first = clf.result_
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.history[0].objective == pytest.approx(first.objective)
    clf.set_params(options__n_points=7).fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.thresholds.shape == (7,)  # another shape: a cold start


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallSampleGapWarning")
def test_warm_start_on_a_tightening_path_is_as_good_as_a_cold_one(people):
    """The last solution violates the new constraint, so it is no place to start from."""
    settings = {"solver": IDCA(max_iter=10, inner=Switching(100, longest=0)), "max_iter": None}
    warm = quick(warm_start=True, **settings)
    for max_gap in (0.5, 0.1, 0.03):
        warm.set_params(max_gap=max_gap).fit(people.X, people.y, sensitive_features=people.groups)
        cold = quick(max_gap=max_gap, **settings)
        cold.fit(people.X, people.y, sensitive_features=people.groups)
        assert warm.result_.max_violation <= 5e-3
        assert warm.result_.objective <= cold.result_.objective + 5e-3


def test_warm_start_never_misplaces_parameters(people):
    """Three features and four points have as many numbers as two features and five points."""
    X = np.column_stack([people.X, people.X[:, 0] ** 2])
    clf = quick(warm_start=True, options=FitOptions(n_points=4)).fit(
        X, people.y, sensitive_features=people.groups
    )
    clf.set_params(options__n_points=5).fit(people.X, people.y, sensitive_features=people.groups)
    expected = quick(options=FitOptions(n_points=5)).fit(people.X, people.y, sensitive_features=people.groups)
    assert (clf.coef_ == expected.coef_).all()


def test_units_of_features_do_not_matter(people):
    """Without a penalty the problem is the same in any units, and so is what is said of it."""
    settings = {"alpha": 0.0, "max_iter": 15, "options": FitOptions(surrogate_width=1.0)}
    one = quick(**settings).fit(people.X, people.y, sensitive_features=people.groups)
    for units in ([1, 1e-3], [1e-6, 1e4]):
        other = quick(**settings).fit(people.X * units, people.y, sensitive_features=people.groups)
        assert other.coef_ * units == pytest.approx(one.coef_, rel=1e-6)
        assert other.result_.kkt.residual == pytest.approx(one.result_.kkt.residual, rel=1e-3)
    free, tiny = (
        PartialFairClassifier(constraint=None, alpha=0.0).fit(people.X * unit, people.y) for unit in (1, 1e-8)
    )
    assert tiny.coef_ * 1e-8 == pytest.approx(free.coef_, rel=1e-6)


def test_scores_come_from_what_was_fitted(people):
    clf = quick(group_terms="interactions").fit(people.X, people.y, sensitive_features=people.groups)
    before = clf.decision_function(people.X, people.groups)
    clf.set_params(group_terms=None, fit_intercept=False)
    assert (clf.decision_function(people.X, people.groups) == before).all()
    clf.intercept_ = clf.intercept_ + 1
    assert clf.decision_function(people.X, people.groups) == pytest.approx(before + 1)
    with pytest.raises(ValueError, match="only one class"):
        clf.fit(people.X[:, :1], np.zeros(300), sensitive_features=people.groups)
    with pytest.raises(ValueError, match="X has 1 features, but there are 2 coefficients"):
        clf.decision_function(people.X[:, :1], people.groups)


def test_crossed_columns_are_matched_by_name(people):
    crossed = pd.DataFrame({"u": people.groups == "f", "v": np.arange(300) % 2 == 0})
    clf = quick(group_terms="intercept", max_iter=3).fit(people.X, people.y, sensitive_features=crossed)
    expected = clf.decision_function(people.X, crossed)
    assert (clf.decision_function(people.X, crossed[["v", "u"]]) == expected).all()
    with pytest.raises(ValueError, match="sensitive_features has columns 'v' and 'w', and fit 'u' and 'v'"):
        clf.decision_function(people.X, crossed.rename(columns={"u": "w"})[["v", "w"]])


def test_names_in_a_list_share_the_settings(people):
    clf = quick(constraint=["statistical_parity", "demographic_parity"], max_iter=3)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    kinds = [type(one) for one in clf.result_.constraints]
    assert kinds == [StatisticalParity, DemographicParity]
    assert all(one.interval == INTERVAL and one.max_gap == 0.1 for one in clf.result_.constraints)
    assert str(clf.result_).count("exact training gap") == 2


def test_constraints_that_nothing_can_violate_leave_an_ordinary_classifier(people):
    clf = PartialFairClassifier(interval=(0, 1), enforce="surrogate", max_gap=1.0)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    free = PartialFairClassifier(constraint=None).fit(people.X, people.y)
    assert clf.result_.status is Status.CONVERGED
    assert clf.coef_ == pytest.approx(free.coef_, rel=1e-6)


def test_intervals_of_different_widths_by_group(people):
    """Scoring everybody alike violates such a constraint, so training has to find its way in."""
    interval = {"f": (0.1, 0.5), "m": (0.1, 0.3)}
    clf = quick(interval=interval, max_gap=0.2, max_iter=60, group_terms="interactions")
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.max_violation <= 5e-3
    assert clf.score(people.X, people.y, sensitive_features=people.groups) > 0.6


def test_a_larger_tolerance_takes_fewer_steps(people):
    """The certificate is looked at on the way, not at the end only: on the whole, since ways differ."""
    rng, steps = np.random.default_rng(0), np.zeros(2, int)
    for _ in range(4):
        rows = rng.choice(people.y.size, 250, replace=False)
        for k, tol in enumerate((0.2, 1e-4)):
            clf = quick(tol=tol, max_iter=100)
            clf.fit(people.X[rows], people.y[rows], sensitive_features=people.groups[rows])
            steps[k] += clf.n_iter_
    assert steps[0] < steps[1]


def test_width_and_warnings_with_tied_scores(people):
    """Most rows are all zero: half of the weight on one score says nothing about the rest."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((300, 1)) < 0.7, 0.0, people.X[:, :1])
    clf = quick(max_iter=2).fit(X, people.y, sensitive_features=people.groups)
    scores = PartialFairClassifier(constraint=None).fit(X, people.y).decision_function(X)
    assert clf.result_.surrogate.width == pytest.approx(0.25 * scores.std(), rel=1e-3)


def test_callback_time_limit_and_progress(people, capsys):
    seen = []
    clf = quick(callback=lambda line: seen.append(line) or line.step == 2, verbose=2)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.STOPPED
    assert [line.step for line in seen] == [0, 1, 2]
    printed = capsys.readouterr()
    assert printed.err.count("violation") == 3
    assert not printed.out
    limited = quick(time_limit=1e-9, max_iter=10_000)
    limited.fit(people.X, people.y, sensitive_features=people.groups)
    assert limited.result_.status is Status.TIME_LIMIT


def test_interrupting_a_fit_keeps_the_best_so_far(people):
    def interrupt(line):
        if line.step == 3:
            raise KeyboardInterrupt

    clf = quick(callback=interrupt).fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.STOPPED
    assert clf.predict(people.X).shape == people.y.shape


def test_a_model_that_ranks_nobody_is_called_that(people):
    X = np.ones((len(people.y), 1))
    clf = PartialFairClassifier(
        interval=(0, 1), enforce="surrogate", max_gap=0.3, options=FitOptions(n_points=3), tol=0.05
    )
    with pytest.warns(SurrogateWarning, match="all training scores are equal"):
        clf.fit(X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.CONVERGED
    assert clf.result_.tied_share == 1


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallSampleGapWarning")
def test_scores_that_shrink_into_one_ramp_are_reported(people):
    """With the one feature that carries the group, only shrinking can meet the surrogate."""
    clf = quick(max_gap=0.02, max_iter=200)
    with pytest.warns(SurrogateWarning, match=r"a spread of .* the exact gap is"):
        clf.fit(people.X[:, [1]], people.y, sensitive_features=people.groups)
    assert clf.result_.spread < clf.result_.surrogate.width
    assert clf.result_.gap > 0.1


def test_auto_width_follows_the_scale_of_the_scores(people):
    """Scores in other units: the same relative width. The penalty would fix the units, so there is none."""
    widths = [
        quick(alpha=0.0, max_iter=1)
        .fit(people.X * factor, people.y, sensitive_features=people.groups)
        .result_.surrogate.width
        for factor in (1, 20)
    ]
    assert widths[0] == pytest.approx(widths[1], rel=1e-3)
    assert widths[0] > 0


def test_what_is_in_the_way_is_named(people):
    """Equal scores have equal ranks, and these intervals ask for different ones."""
    X = np.ones((len(people.y), 1))
    clf = PartialFairClassifier(
        interval={"f": (0.0, 0.1), "m": (0.5, 0.6)},
        max_gap=0.05,
        enforce="surrogate",
        options=FitOptions(n_points=2),
        max_iter=30,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.NO_FEASIBLE_POINT
    assert re.match(r"at (least|most) .*% of [fm] ahead of threshold [12]", clf.result_.infeasibility)
    assert f"infeasibility reason: {clf.result_.infeasibility}" in str(clf.result_)
    assert any(f"infeasibility reason: {clf.result_.infeasibility}" in str(one.message) for one in caught)


def test_named_solvers_agree_where_they_should(people):
    """Certified points of the same problem; IDCA only goes down from a worse start."""
    settings = {
        "enforce": "surrogate",
        "interval": INTERVAL,
        "options": FitOptions(n_points=3),
        "alpha": 1e-2,
    }
    auto = PartialFairClassifier(**settings).fit(people.X, people.y, sensitive_features=people.groups)
    idca = PartialFairClassifier(**settings, solver="idca", tol=1e-3)
    idca.fit(people.X, people.y, sensitive_features=people.groups)
    assert auto.result_.status is Status.CONVERGED
    assert idca.result_.status is Status.CONVERGED
    assert auto.result_.objective <= idca.result_.objective + 1e-3
    assert auto.result_.max_violation <= 1e-4


def test_models_too_wide_for_a_hessian_are_fitted_by_their_last_steps(people, monkeypatch):
    settings = {
        "options": FitOptions(surrogate="rounded_ramp"),
        "solver": MultiStartSQP(largest_block=1),
        "max_iter": None,
    }
    narrow = quick(options=FitOptions(surrogate="rounded_ramp"), max_iter=None).fit(
        people.X, people.y, sensitive_features=people.groups
    )
    monkeypatch.setattr("partialfair.optimization.problems.ProblemPoint.expand", None)  # must not be called
    wide = quick(**settings).fit(people.X, people.y, sensitive_features=people.groups)
    assert wide.result_.status is narrow.result_.status is Status.CONVERGED
    assert wide.result_.objective == pytest.approx(narrow.result_.objective, abs=1e-4)
