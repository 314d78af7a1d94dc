"""A path of models, and the choice among them."""

import itertools
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array
from sklearn.linear_model import LogisticRegression

from partialfair import PartialFairClassifier, PartialFairRegressor, fairness_path
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.estimators.fitted_path import order_by_training_gap
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair_paper.quadratic import QuadraticGroupAUC

mpl.use("agg")
pytestmark = pytest.mark.filterwarnings("ignore")
GAPS = [0.3, 0.1, 0.05]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 1500)
    X = rng.normal(size=(1500, 3)) + np.outer(groups == "a", [1, 0, 0])
    y = X.sum(axis=1) + rng.normal(size=1500) > 0.5
    return X, y, groups


@pytest.fixture(scope="module")
def path(people):
    X, y, groups = people
    clf = PartialFairClassifier(interval=(0.1, 0.6))
    return fairness_path(clf, X, y, sensitive_features=groups, max_gaps=GAPS, random_state=0)


def test_models_are_those_that_were_asked_for(path, people):
    frame = path.to_frame()
    assert frame["max_gap"].tolist() == [np.inf, 0.3, 0.1, 0.05]
    assert [point.model.max_gap for point in path.points[1:]] == [0.3, 0.1, 0.05]
    kept = frame["status"] == "converged"
    assert kept.sum() >= 2
    assert (frame["training_gap"] <= frame["max_gap"] + 1e-9)[kept].all()
    assert (frame["ci_low"] <= frame["gap"]).all()
    assert (frame["gap"] <= frame["ci_high"]).all()


def test_a_path_is_as_good_as_models_fitted_one_by_one(people):
    X, y, groups = people
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate")
    path = fairness_path(
        clf, X, y, sensitive_features=groups, max_gaps=GAPS, validation=(X, y, groups), random_state=0
    )
    for point in path.points[1:]:
        alone = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate", max_gap=point.max_gap)
        alone.fit(X, y, sensitive_features=groups)
        assert point.model.result_.objective <= alone.result_.objective + 1e-3
        scores = point.model.decision_function(X)
        assert point.score == pytest.approx((point.model.predict(X) == y).mean())
        expected = partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=(0.1, 0.6)
        )
        assert path.gap(point).gap == pytest.approx(expected)
        assert point.error == pytest.approx(np.sqrt(point.score * (1 - point.score) / len(y)), rel=0.25)


def test_rows_held_out_are_a_share_of_every_group_and_class(people):
    X, y, groups = people
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate", alpha=1e-2)
    path = fairness_path(
        clf, X, y, sensitive_features=groups, max_gaps=[0.5], validation=0.25, random_state=1
    )
    held_out = path.validation
    for group in "ab":
        for label in (False, True):
            code = held_out.groups.labels.index(group)
            share = ((held_out.groups.codes == code) & (held_out.y == label)).sum()
            assert share == pytest.approx(0.25 * ((groups == group) & (y == label)).sum(), abs=1)


def test_best_is_the_best_of_those_that_are_certified(path):
    for max_gap in (0.3, 0.4, 0.6, 0.8):
        for confidence in (0.5, 0.9):
            certified = path.validated(max_gap, confidence)
            if certified:
                best = path.best(max_gap, confidence)
                assert best is max(certified, key=lambda point: (point.score, -point.training_gap)).model
            # Each passes by itself, at the error of all together: its own test had no more.
            assert all(path.gap(point, confidence).upper_bound <= max_gap for point in certified)
    assert set(path.validated(1.0)) == set(path.points)
    with pytest.raises(InputError) as refusal:
        path.best(max_gap=0.0)
    said = str(refusal.value)
    assert said.startswith("no model of the path has a gap of at most 0 with confidence 0.95 on the 299 val")
    lowest = min(path.gap(point).bound_above(0.05 / 4) for point in path.points)
    assert f"the lowest upper bound is {lowest:.3g} (simultaneous for all 4 models)" in said


def test_certified_sets_are_nested(path):
    sets = [set(path.validated(max_gap)) for max_gap in (0.2, 0.3, 0.5, 0.9, 1.0)]
    assert all(small <= large for small, large in itertools.pairwise(sets))
    assert set(path.validated(0.5, 0.99)) <= set(path.validated(0.5, 0.9)) <= set(path.validated(0.5, 0.6))


def test_the_order_of_tests_is_fixed_in_training(path):
    """Rows held out may say anything: the order is by training gap, the model without constraint included."""
    order = order_by_training_gap(path.points)
    gaps = [point.training_gap for point in order]
    assert gaps == sorted(gaps)
    other = {replace(point, scores=-point.scores, score=-point.score): point for point in path.points}
    assert [other[point] for point in order_by_training_gap([*other])] == order
    alike = [replace(path.points[0], max_gap=gap, alpha=alpha) for gap, alpha in [(2, 1), (1, 2), (1, 1)]]
    assert order_by_training_gap(alike) == alike[::-1]


def test_tests_are_made_with_the_shares_of_the_error(path):
    """Brute force: a path certifies what the fallback procedure does with these bounds."""
    order = order_by_training_gap(path.points)
    for max_gap in np.linspace(0.1, 0.9, 30):
        level, expected = 0.0, []
        for at, point in enumerate(order):
            level += 0.05 / 3 if at in (0, 1, 2) else 0.0  # starts of four models
            if level and path.gap(point).bound_above(level) <= max_gap:
                expected.append(point)
            else:
                level = 0.0
        assert list(path.validated(max_gap)) == expected


def test_alphas_weights_jobs_and_a_constraint_object(people):
    X, y, groups = people
    clf = PartialFairClassifier(DemographicParity((0.0, 1.0)), enforce="surrogate")
    path = fairness_path(
        clf,
        X,
        y,
        sensitive_features=groups,
        max_gaps=[0.1, 0.2],
        alphas=[1e-3, 1e-1],
        sample_weight=np.ones(len(y)),
        scoring="roc_auc",
        n_jobs=2,
        random_state=0,
    )
    frame = path.to_frame()
    assert frame["alpha"].tolist() == [1e-3] * 3 + [1e-1] * 3
    assert frame["max_gap"].tolist() == [np.inf, 0.2, 0.1] * 2
    assert path.points[1].model.constraint.max_gap == 0.2
    assert (frame[path.scoring] > 0.7).all()
    ax = path.plot(title="frontier")
    assert len(ax.get_legend().get_texts()) == 2
    assert ax.get_title() == "frontier"
    plt.close(ax.figure)


def test_regressors_have_paths(people):
    X, _, groups = people
    y = X.sum(axis=1)
    reg = PartialFairRegressor(interval=(0.1, 0.6), enforce="surrogate")
    path = fairness_path(
        reg, X, y, sensitive_features=groups, max_gaps=[0.2, 0.4], scoring="r2", random_state=0
    )
    frame = path.to_frame()
    assert frame[path.scoring][0] >= frame[path.scoring][1] > frame[path.scoring][2] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_gaps": []}, "max_gaps must be a list of numbers"),
        ({"max_gaps": 0.1}, "max_gaps must be a list of numbers, not 0.1"),
        ({"max_gaps": [0.1, -1]}, "a number in max_gaps must .* not -1"),
        ({"alphas": ["much"]}, "a number in alphas must .* not 'much'"),
        ({"max_gaps": [0.1, 2]}, r"max_gap must lie in \[0, 1\], not 2"),
        ({"validation": 1.5}, r"validation must lie in \(0, 0.9\], not 1.5"),
        ({"validation": 1e-5}, "the 0 validation rows have no group; a gap needs at least two"),
        (
            {"validation": (1, 2)},
            r"validation must be a fraction of the rows, or \(X, y, sensitive_features\)",
        ),
        ({"y": np.zeros(9)}, "y has 9 rows, but there are 1500 rows of X"),
        ({"y": None}, "the target y is None"),
        ({"sensitive_features": ["a", "b"]}, "sensitive_features has 2 rows, but there are 1500 rows of X"),
        ({"sensitive_features": None}, "a constraint needs the group of every row"),
        ({"sensitive_features": [None, *"ab" * 749, "a"]}, "1 missing values, .*missing_groups='ignore'"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 rows, but there are 1500"),
        ({"sample_weight": np.full(1500, -1.0)}, "sample_weight has 1500 negative values"),
        ({"callback": 3}, "callback must be a function of one PathPoint, not 3"),
        ({"estimator": PartialFairClassifier(QuadraticGroupAUC(1.0))}, "QuadraticGroupAUC has none"),
        ({"scoring": "beauty"}, "scoring must be one of"),
        ({"scoring": "r2"}, "scoring='r2' does not apply to PartialFairClassifier"),
        ({"estimator": LogisticRegression()}, "not LogisticRegression"),
        ({"estimator": PartialFairClassifier(None)}, "needs an estimator with one constraint"),
        (
            {"estimator": PartialFairClassifier([StatisticalParity((0, 1)), DemographicParity((0, 1))])},
            "needs an estimator with one constraint",
        ),
    ],
)
def test_bad_input_is_refused_before_any_fit(people, changes, message):
    X, y, groups = people
    options = {
        "estimator": PartialFairClassifier(interval=(0, 1), solver=None),
        "X": X,
        "y": y,
        "sensitive_features": groups,
        "max_gaps": [0.1],
    }
    with pytest.raises(InputError, match=message):
        fairness_path(**(options | changes))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"X": np.zeros((60, 2))}, {}, "validation: X has 2 features, .* expecting 3"),
        ({"y": np.zeros(9)}, {}, "validation: y has 9 rows, but there are 60"),
        ({"y": ["yes", "no"] * 30}, {}, "y of validation holds '(yes|no)', which is not among the classes"),
        ({"y": np.ones(60, dtype=bool)}, {"scoring": "roc_auc"}, "'roc_auc' needs both classes in the 60"),
        ({"groups": ["a", "b"]}, {}, "validation: sensitive_features has 2 rows, but there are 60"),
        ({"groups": ["a"] * 60}, {}, "the 60 validation rows have only group 'a'"),
        ({"groups": [None, *"ab" * 29, "a"]}, {}, "validation: sensitive_features has 1 missing values"),
        (
            {"groups": ["a", "z"] * 30},
            {"group_terms": "intercept"},
            "group 'z' is in the validation rows, but not in the training rows, and group_terms='intercept'",
        ),
        (
            {"groups": ["a", *"b" * 59]},
            {},
            r"60 validation rows: only 1 of 2 groups has at least 10 .*'a' \(0 effective members\)",
        ),
        ({"weights": -np.ones(60)}, {}, "validation: sample_weight has 60 negative values"),
    ],
    ids=str,
)
def test_rows_that_no_model_could_be_judged_on_are_refused_before_any_fit(people, changes, settings, message):
    X, y, groups = people
    given = {"X": X[:60], "y": y[:60], "groups": groups[:60], "weights": np.ones(60)} | changes
    settings = {"scoring": "accuracy"} | settings
    scoring = settings.pop("scoring")
    with pytest.raises(InputError, match=message):
        fairness_path(
            PartialFairClassifier(interval=(0.1, 0.6), solver=None, **settings),
            X,
            y,
            sensitive_features=groups,
            max_gaps=[0.1],
            validation=tuple(given.values()),
            scoring=scoring,
        )


def test_rows_without_a_group_count_in_the_score_only(people):
    X, y, groups = people
    unknown = np.arange(1500) % 10 == 0
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate", missing_groups="ignore")
    path = fairness_path(
        clf,
        X,
        y,
        sensitive_features={"sex": np.where(unknown, None, groups)},
        max_gaps=[0.3],
        validation=[X, y, np.where(unknown, None, groups)],
    )
    point = path.points[1]
    scores = point.model.decision_function(X)
    expected = partial_statistical_parity_difference(
        None, scores[~unknown], sensitive_features=groups[~unknown], interval=(0.1, 0.6)
    )
    assert path.gap(point).gap == pytest.approx(expected)
    assert point.score == pytest.approx(((scores > 0) == y).mean())


def test_a_gap_that_could_not_be_judged_is_refused_before_any_fit(people):
    X, y, groups = people
    fair = PartialFairClassifier("equal_opportunity", interval=(0.1, 0.6), enforce="surrogate")
    some = groups[:200], y[:200] & (groups[:200] == "a")
    with pytest.raises(
        InputError, match="of the 200 validation rows: equal_opportunity compares groups with"
    ):
        fairness_path(
            fair, X, y, sensitive_features=groups, max_gaps=[0.3], validation=(X[:200], some[1], some[0])
        )


@pytest.mark.parametrize("kind", ["statistical_parity", "demographic_parity", "auto"])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_first_model_has_no_constraint_and_is_judged_by_it(people, kind, higher_is_better):
    X, y, groups = people
    clf = PartialFairClassifier(
        "statistical_parity" if kind == "auto" else kind,
        interval="auto" if kind == "auto" else (0.1, 0.6),
        enforce="surrogate",
        constraint_threshold=0.3,
        higher_is_better=higher_is_better,
    )
    path = fairness_path(
        clf, X, y, sensitive_features=groups, max_gaps=[0.3], validation=(X, y, groups), random_state=0
    )
    first, second = path.points
    alone = PartialFairClassifier(None).fit(X, y)
    assert first.model.coef_ == pytest.approx(alone.coef_, abs=1e-5)
    assert (first.model.constraint, first.model.result_.status) == (None, "converged")
    assert (first.unconstrained, first.allowed, second.allowed) == (True, "no constraint", "max gap 0.3")
    assert first.constraint.interval == second.constraint.interval
    # The validation rows are those trained on: the gaps are the same.
    assert path.gap(first).gap == pytest.approx(first.training_gap)
    assert path.gap(second).gap == pytest.approx(second.training_gap)
    assert second.model.result_.gap == second.training_gap
    labels = [text.get_text() for text in path.plot().texts]
    assert any("no constraint" in label for label in labels)
    plt.close("all")


def test_small_groups_are_named_and_not_judged(people):
    X, y, groups = people
    few = groups.astype(object)
    few[:40] = "few"
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate")
    options = {"sensitive_features": few, "max_gaps": [0.3], "random_state": 0}
    path = fairness_path(clf, X, y, **options)
    assert [small.group for small in path.report(path.points[0]).small_groups] == ["few"]
    page = path.to_html()
    entering = page[page.index("Rows that enter and leave: as audited") :]
    assert "few" not in entering[: entering.index("</table>")]
    assert path.points[1].model.result_.small_groups == ()  # in training there are enough
    assert "few" not in path.gap(path.points[0]).groups
    judged = fairness_path(clf, X, y, min_group_size=2, **options)
    assert not judged.report(judged.points[0]).small_groups


def test_an_interrupt_ends_the_path_and_a_callback_only_a_fit(people):
    X, y, groups = people

    def interrupt(line):
        raise KeyboardInterrupt

    seen = []
    options = {"sensitive_features": groups, "max_gaps": [0.3], "callback": seen.append, "random_state": 0}
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate", callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fairness_path(clf, X, y, **options)
    assert not seen
    path = fairness_path(clf.set_params(callback=lambda line: line.step == 1), X, y, **options)
    assert [point.model.result_.status for point in path.points] == ["stopped"] * 2
    assert path.points == tuple(seen)
    assert path.points[0].model.callback is clf.callback


def test_two_models_are_compared_on_the_validation_rows(path):
    loose, strict = path.points[0], path.points[-1]
    found = path.compare(loose, strict, confidence=0.9)
    row = found[path.record.metric]
    assert (row.gap_a, row.gap_b) == (path.gap(loose, 0.9).gap, path.gap(strict, 0.9).gap)
    assert row.ci_low <= row.difference <= row.ci_high
    assert found.confidence == 0.9


@pytest.mark.parametrize(
    "shape",
    [lambda X, y: (X, y[:, None]), lambda X, y: (X, pd.DataFrame({"y": y})), lambda X, y: (coo_array(X), y)],
    ids=["column", "frame", "sparse"],
)
def test_a_path_reads_targets_and_features_as_fits_do(people, shape):
    X, y, groups = (part[:400] for part in people)
    clf = PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate")

    def fitted(X, y):
        path = fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.3], random_state=0)
        return path.to_frame()["training_gap"].to_numpy()

    np.testing.assert_allclose(fitted(*shape(X, y)), fitted(X, y), atol=1e-3)


def test_targets_without_an_order_are_refused(people):
    X, y, groups = (part[:400] for part in people)
    mixed = np.where(y, "yes", None)
    with pytest.raises(InputError, match=r"y has \d+ values that are NaN or infinite"):
        fairness_path(
            PartialFairClassifier(interval=(0, 1)), X, mixed, sensitive_features=groups, max_gaps=[0.3]
        )
