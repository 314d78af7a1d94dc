"""The adjuster as users meet it: around models, in files, with bad input, and at one threshold."""

import itertools
import json
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB

from partialfair import PartialFairClassifier, load_model, save_model
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics import (
    calibration_by_group,
    partial_demographic_parity_difference,
    partial_statistical_parity_difference,
)
from partialfair.postprocessing import PartialParityAdjuster

INTERVAL = (0.1, 0.4)


@pytest.fixture(scope="module")
def people():
    """Features, labels of text, groups: group b scores lower."""
    rng = np.random.default_rng(5)
    groups = rng.choice(["a", "b"], 600)
    X = rng.normal(size=(600, 3)) - np.outer(groups == "b", [0.8, 0.0, 0.0])
    y = np.where(X.sum(axis=1) + rng.normal(size=600) > 0, "yes", "no")
    return X, y, groups


def gap(scores, groups, **options):
    return partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=INTERVAL, **options
    )


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), GaussianNB(), GradientBoostingClassifier(n_estimators=5), Perceptron()],
    ids=lambda model: type(model).__name__,
)
def test_it_wraps_any_classifier(people, model):
    X, y, groups = people
    model = clone(model).fit(X, y)
    adjuster = PartialParityAdjuster(INTERVAL, 0.3, estimator=model).fit(X, y, sensitive_features=groups)
    scores = adjuster.decision_function(X, groups)
    assert gap(scores, groups) <= 0.3 + 1e-12
    cut = 0.0 if hasattr(model, "decision_function") else 0.5
    assert (adjuster.predict(X, groups) == np.where(scores > cut, "yes", "no")).all()
    assert adjuster.classes_.tolist() == ["no", "yes"]
    assert adjuster.result_.calibration.groups[0].group == "a"


def test_probabilities_stay_probabilities_for_whomever_they_are(people):
    X, y, groups = people
    model = GaussianNB().fit(X, y)
    adjuster = PartialParityAdjuster(INTERVAL, 0.1, estimator=model).fit(X, sensitive_features=groups)
    far = np.concatenate([X, 10 * X])
    probabilities = adjuster.predict_proba(far, np.tile(groups, 2))
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert not hasattr(
        PartialParityAdjuster(interval=(0, 1), estimator=LogisticRegression()), "predict_proba"
    )


def test_it_wraps_regressors_functions_and_models_that_take_the_group(people):
    X, y, groups = people
    line = LinearRegression().fit(X, y == "yes")
    for scorer in (line, line.predict, lambda table: table[:, 0]):
        adjuster = PartialParityAdjuster(INTERVAL, 0.1, estimator=scorer).fit(X, sensitive_features=groups)
        assert gap(adjuster.predict(X, groups), groups) <= 0.1 + 1e-12
    own = PartialFairClassifier(constraint=None, group_terms="intercept")
    own.fit(X, y, sensitive_features=groups)
    adjuster = PartialParityAdjuster(INTERVAL, 0.1, estimator=own).fit(X, sensitive_features=groups)
    assert gap(adjuster.transform(X, groups), groups) <= 0.1 + 1e-12


def test_clones_keep_what_they_are_given_and_frozen_models_stay_fitted(people):
    X, y, groups = people
    model = FrozenEstimator(LogisticRegression().fit(X, y))
    adjuster = PartialParityAdjuster({"a": (0.1, 0.4), "b": [(0.1, 0.2), (0.3, 0.5)]}, 0.1, estimator=model)
    twin = clone(adjuster)
    one = adjuster.fit(X, sensitive_features=groups).transform(X, groups)
    assert (twin.fit(X, sensitive_features=groups).transform(X, groups) == one).all()
    unfitted = clone(PartialParityAdjuster(interval=(0, 1), estimator=LogisticRegression().fit(X, y)))
    with pytest.raises(InputError, match=r"LogisticRegression is not fitted; .*FrozenEstimator"):
        unfitted.fit(X, sensitive_features=groups)


def test_tables_and_files_give_the_same_scores_back(people, tmp_path):
    X, y, groups = people
    crossed = pd.DataFrame({"sex": groups, "old": X[:, 1] > 0})
    adjuster = PartialParityAdjuster(INTERVAL, 0.2, estimator=LogisticRegression().fit(X, y))
    adjusted = adjuster.fit(X, y, sensitive_features=crossed).transform(X, crossed)
    save_model(adjuster, tmp_path / "adjuster.skops")
    again = load_model(tmp_path / "adjuster.skops")
    assert (again.transform(X, crossed[["old", "sex"]]) == adjusted).all()
    assert again.result_.gap == adjuster.result_.gap
    assert str(again.result_) == str(adjuster.result_)
    adjuster.to_json(tmp_path / "maps.json")
    scores = adjuster.estimator.decision_function(X)
    from_file = PartialParityAdjuster.from_json(tmp_path / "maps.json")
    assert (from_file.transform(scores, crossed) == adjusted).all()
    table = adjuster.table()
    for name, rows in table.groupby("group"):
        mine = np.array([f"{sex} × {old}" for sex, old in crossed.to_numpy()]) == name
        inner = mine & (scores >= rows["score_from"].min()) & (scores <= rows["score_from"].max())
        np.testing.assert_allclose(
            np.interp(scores[inner], rows["score_from"], rows["score_to"]), adjusted[inner], atol=1e-12
        )


def test_damaged_files_are_refused(people, tmp_path):
    path = tmp_path / "maps.json"
    adjuster = PartialParityAdjuster(INTERVAL, 0.2).fit(people[0][:, 0], sensitive_features=people[2])
    adjuster.to_json(path)
    record = json.loads(path.read_text())
    record["groups"][0]["score_to"][1] = record["groups"][0]["score_to"][0]
    for content, message in [
        ("{", "is not JSON"),
        ('{"schema": "other"}', "is not a file of an adjuster"),
        (json.dumps(record), "is damaged"),
        (json.dumps({**record, "groups": []}), "names no group"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            PartialParityAdjuster.from_json(path)


def test_new_scores_move_between_their_neighbours_and_beyond_the_ends_as_the_ends_do(people):
    X, _, groups = people
    scores = X[:, 0]
    adjuster = PartialParityAdjuster((0.0, 1.0), 0.05).fit(scores, sensitive_features=groups)
    one = adjuster.maps_[0]
    between = (one.knots[:-1] + one.knots[1:]) / 2
    moved = adjuster.transform(between, np.full(between.size, "a"))
    assert ((one.values[:-1] < moved) & (moved < one.values[1:])).all()
    ends = adjuster.transform([one.knots[0] - 1, one.knots[-1] + 2], ["a", "a"])
    assert ends == pytest.approx([one.values[0] - 1, one.values[-1] + 2])


def cheapest_crossing(scores, groups, threshold, interval, max_gap):
    """The least squared change by trying every number of selected people in every group."""
    choices = []
    for name in np.unique(groups):
        mine = np.sort(scores[groups == name])[::-1]
        options = []
        for number in range(mine.size + 1):
            if 0 < number < mine.size and mine[number - 1] == mine[number]:
                continue  # these two are tied, and stay so
            now = mine > threshold
            wanted = np.arange(mine.size) < number
            cost = ((mine - threshold) ** 2)[now != wanted].sum()
            depth = np.clip(number / mine.size - interval[0], 0, interval[1] - interval[0])
            options.append((cost, depth / (interval[1] - interval[0])))
        choices.append(options)
    return min(
        sum(cost for cost, _ in chosen)
        for chosen in itertools.product(*choices)
        if np.ptp([share for _, share in chosen]) <= max_gap + 1e-12
    )


# The cheapest may be that all of the interval are selected, of which the metric warns.
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
@pytest.mark.parametrize("seed", range(20))
def test_at_one_threshold_the_cheapest_people_cross(seed):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"], 24)
    scores = rng.normal(size=24) + (groups == "a")
    scores = np.round(scores, 1) if seed % 2 else scores
    interval, threshold, max_gap = (0.2, 0.8), 0.3, [0.0, 0.1, 0.3][seed % 3]
    adjuster = PartialParityAdjuster(
        interval, max_gap, constraint="demographic_parity", constraint_threshold=threshold, min_group_size=0
    )
    adjusted = adjuster.fit_transform(scores, sensitive_features=groups)
    found = partial_demographic_parity_difference(
        None, adjusted, sensitive_features=groups, interval=interval, threshold=threshold
    )
    assert found <= max_gap + 1e-12
    assert found == adjuster.result_.gap
    least = cheapest_crossing(scores, groups, threshold, interval, max_gap) / 24
    assert adjuster.result_.mean_squared_change == pytest.approx(least, abs=1e-5)
    for name in "abc":
        mine = groups == name
        order = np.argsort(scores[mine], kind="stable")
        before, after = np.diff(scores[mine][order]), np.diff(adjusted[mine][order])
        assert ((before > 0) == (after > 0)).all()


def test_lower_may_be_better_at_a_threshold_and_shares_may_be_of_whole_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 200)
    scores = rng.normal(size=400) + (groups == "a")
    options = {"constraint": "demographic_parity", "min_group_size": 0}
    one = PartialParityAdjuster((0.1, 0.5), 0.1, constraint_threshold=0.5, **options)
    other = PartialParityAdjuster(
        (0.1, 0.5), 0.04, constraint_threshold=-0.5, gap_scale="absolute", higher_is_better=False, **options
    )
    up = one.fit_transform(scores, sensitive_features=groups)
    down = other.fit_transform(-scores, sensitive_features=groups)
    assert (up == -down).all()
    assert not (up == scores).all()
    assert other.result_.gap <= 0.04 + 1e-12


def test_small_groups_keep_their_scores_and_are_named(people):
    X, _, groups = people
    scores = X[:, 0]
    groups = groups.astype(object)
    groups[:4] = "few"
    with pytest.warns(SmallGroupWarning, match="'few' has 1 effective rows"):
        adjuster = PartialParityAdjuster(INTERVAL, 0.1).fit(scores, sensitive_features=groups)
    assert adjuster.result_.small_groups == ("few",)
    adjusted = adjuster.transform(scores, groups)
    assert (adjusted[:4] == scores[:4]).all()
    assert gap(adjusted[4:], groups[4:]) <= 0.1 + 1e-12
    assert "few" in str(adjuster.result_)


def test_rows_without_a_group_keep_their_scores(people):
    X, _, groups = people
    groups = groups.astype(object)
    groups[7] = None
    adjuster = PartialParityAdjuster(INTERVAL, 0.1, missing_groups="ignore")
    adjusted = adjuster.fit_transform(X[:, 0], sensitive_features=groups)
    assert adjusted[7] == X[7, 0]
    with pytest.raises(InputError, match=r"missing values, the first in row 7"):
        PartialParityAdjuster(INTERVAL, 0.1).fit(X[:, 0], sensitive_features=groups)


def test_held_out_rows_tell_of_new_people(people):
    X, y, groups = people
    model = LogisticRegression().fit(X[:300], y[:300])
    adjuster = PartialParityAdjuster(INTERVAL, 0.1, estimator=model).fit(
        X[:300], sensitive_features=groups[:300]
    )
    report = adjuster.report(
        X[300:], y[300:], sensitive_features=groups[300:], pos_label="yes", random_state=0
    )
    row = report["statistical_parity"]
    assert row.gap == gap(adjuster.transform(X[300:], groups[300:]), groups[300:])
    assert row.upper_bound >= row.gap


def test_calibration_is_told_when_it_suffers():
    rng = np.random.default_rng(1)
    groups = np.repeat(["a", "b"], 4000)
    p = rng.beta(2, 2, 8000) * np.where(groups == "b", 0.6, 1.0)
    y = (rng.random(8000) < p).astype(int)
    adjuster = PartialParityAdjuster((0.0, 1.0), 0.05, score_range=(0, 1))
    adjusted = adjuster.fit_transform(p, y, sensitive_features=groups)
    result = adjuster.result_
    assert result.calibration.worst_error == (
        calibration_by_group(y, adjusted, sensitive_features=groups).worst_error
    )
    assert result.calibration.worst_error > result.calibration_before.worst_error + 0.05
    assert result.calibration_sentence.startswith("calibration deteriorates: the calibration error of group")
    assert result.calibration_sentence in str(result)
    loose = PartialParityAdjuster((0.0, 1.0), 1.0).fit(p, y, sensitive_features=groups)
    assert loose.result_.calibration_sentence.startswith("calibration is preserved")
    assert (
        PartialParityAdjuster(interval=(0, 1)).fit(p, sensitive_features=groups).result_.calibration is None
    )


def test_a_margin_keeps_jumps_off_the_ends_of_the_interval():
    """On the absolute scale, on new people of the same two groups: without a margin a jump lies inside."""
    rng = np.random.default_rng(0)
    groups = np.tile(["a", "b"], 4000)
    old, new = (rng.normal(size=8000) + 2 * (groups == "a") for _ in range(2))
    gaps = {}
    for margin in (0.0, "auto"):
        adjuster = PartialParityAdjuster((0.3, 0.6), 0.05, gap_scale="absolute", margin=margin)
        adjuster.fit(old, sensitive_features=groups)
        assert adjuster.result_.gap <= 0.05 + 1e-12
        gaps[margin] = partial_statistical_parity_difference(
            None,
            adjuster.transform(new, groups),
            sensitive_features=groups,
            interval=(0.3, 0.6),
            gap_scale="absolute",
        )
    assert gaps[0.0] > 0.2  # the groups' ranks part by so much outside of the interval
    assert gaps["auto"] < 0.09  # .05, and what ranks of 4,000 people are off by


def test_the_picture_shows_every_map(people):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    X, _, groups = people
    adjuster = PartialParityAdjuster(INTERVAL, 0.1).fit(X[:, 0], sensitive_features=groups)
    ax = adjuster.plot(title="Maps")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["stays", "a", "b"]
    assert len(ax.lines) == 5  # the diagonal, and for each group its map and the part inside
    pyplot.close("all")


def test_the_picture_shows_where_scores_move_and_names_only_groups_that_do(people):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    X, _, groups = people
    scores, groups = np.append(X[:, 0], [-50.0, 50.0, 60.0]), np.append(groups, ["a", "few", "few"])
    with pytest.warns(SmallGroupWarning):
        adjuster = PartialParityAdjuster(INTERVAL, 0.1).fit(scores, sensitive_features=groups)
    ax = adjuster.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["stays", "a", "b"]
    assert "1 groups that move least not drawn" in ax.get_title()
    moved = scores[adjuster.transform(scores, groups) != scores]
    low, high = ax.get_xlim()
    assert low < moved.min() < moved.max() < high
    assert high - low < 10
    still = PartialParityAdjuster(INTERVAL, 1.0, min_group_size=0).fit(scores, sensitive_features=groups)
    assert len(still.plot().lines) == 1
    assert "<img" not in still.result_._repr_html_()
    pyplot.close("all")


@pytest.mark.parametrize("n_groups", [2, 9])
def test_the_legend_of_maps_hides_no_line_and_is_not_cut_off(n_groups):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    rng = np.random.default_rng(0)
    groups = np.repeat([f"group {k} with a name of some length" for k in range(n_groups)], 100)
    scores = rng.normal(size=groups.size) + np.repeat(np.linspace(0, 1, n_groups), 100)
    ax = PartialParityAdjuster(INTERVAL, 0.1).fit(scores, sensitive_features=groups).plot()
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert ax.figure.bbox.x0 <= box.x0 < box.x1 <= ax.figure.bbox.x1
    inside = box.transformed(ax.transAxes.inverted())
    assert (inside.x0 >= 1) == (n_groups > 5)
    pyplot.close("all")


def test_columns_come_back_as_columns(people):
    X, _, groups = people
    column = PartialParityAdjuster(INTERVAL, 0.1).fit_transform(X[:, :1], sensitive_features=groups)
    vector = PartialParityAdjuster(INTERVAL, 0.1).fit_transform(X[:, 0], sensitive_features=groups)
    assert column.shape == (600, 1)
    assert (column[:, 0] == vector).all()


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """A classifier without scores."""

    def predict(self, X):
        return np.zeros(len(X))


class OnlyLabelsWithoutTags:
    """A classifier without scores that scikit-learn does not know."""

    classes_ = ("no", "yes")

    def predict(self, X):
        return np.full(len(X), "no")


class OnlyNumbersWithoutTags:
    """A model of numbers that scikit-learn does not know."""

    def predict(self, X):
        return X[:, 0]


BAD = [
    ({"max_gap": 1.5}, {}, r"max_gap must lie in \[0, 1\], not 1.5"),
    (
        {"max_gap": 0.1},
        {"X": np.r_[np.zeros(300), np.linspace(1, 2, 300)], "sensitive_features": np.repeat(["a", "b"], 300)},
        r"can reach, 0\.5\d*, because .*1 distinct score, 100% of it on one score",
    ),
    ({"max_gap": 0.001}, {}, "max_gap 0.001 is smaller than scores without new ties can reach, 0.0"),
    ({"constraint": "group_auc"}, {}, "constraint must be one of"),
    ({"constraint": "demographic_parity"}, {}, "constraint_threshold must be a finite number, not None"),
    ({"interval": (0.4, 0.1)}, {}, "is empty or reversed"),
    ({"interval": {"a": (0, 1)}}, {}, "interval names no interval for group 'b'"),
    (
        {"interval": {"a": (0, 1), "b": (0, 0.5)}, "gap_scale": "absolute"},
        {},
        "has no meaning when intervals",
    ),
    ({"interval": (0.0, 0.001)}, {}, "fewer than two groups are large enough"),
    ({"score_range": (0, 1)}, {}, "scores lie outside score_range"),
    ({"score_range": 3}, {}, "score_range must be"),
    ({"margin": -1}, {}, r"margin must lie in \[0, 1\], not -1"),
    ({"max_knots": 3}, {}, "max_knots must be at least 10"),
    ({}, {"sensitive_features": None}, "scores are adjusted by group: pass sensitive_features"),
    ({}, {"sensitive_features": ["a"] * 600}, "only group 'a'"),
    ({}, {"X": np.full(600, np.nan)}, "scores has 600 values that are NaN or infinite"),
    ({}, {"X": np.full(600, 1e200)}, "scores must lie within"),
    ({}, {"X": np.zeros((600, 2))}, "scores must have one dimension, not 2"),
    ({}, {"y": [0, 1]}, "y must have one label for each of the 600 rows"),
    ({"estimator": LogisticRegression}, {}, "not the class LogisticRegression"),
    ({"estimator": OnlyLabels()}, {}, "OnlyLabels has no scores"),
    ({"estimator": OnlyLabelsWithoutTags()}, {}, "OnlyLabelsWithoutTags has no scores"),
    ({"estimator": LogisticRegression(), "response_method": "predict_log"}, {}, "response_method must be"),
    ({"estimator": lambda X: X}, {}, "multi-class models have no single score"),
]


@pytest.mark.parametrize(("settings", "data", "message"), BAD, ids=[case[2][:40] for case in BAD])
def test_bad_input_gets_one_clear_sentence(people, settings, data, message):
    X, _, groups = people
    given = {"X": X if "estimator" in settings else X[:, 0], "sensitive_features": groups, **data}
    with pytest.raises(InputError, match=message) as caught:
        PartialParityAdjuster(**{"interval": INTERVAL, **settings}).fit(**given)
    assert "\n" not in str(caught.value)


def test_models_that_scikit_learn_does_not_know_score_by_what_they_predict(people):
    X, _, groups = people
    settings = {"interval": INTERVAL, "max_gap": 0.1}
    adjuster = PartialParityAdjuster(**settings, estimator=OnlyNumbersWithoutTags())
    adjusted = adjuster.fit(X, sensitive_features=groups).predict(X, sensitive_features=groups)
    alone = PartialParityAdjuster(**settings).fit_transform(X[:, 0], sensitive_features=groups)
    np.testing.assert_array_equal(adjusted, alone)


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-600, 2.0**-30, 2.0**300])
def test_the_least_change_does_not_hang_on_units(people, unit):
    X, _, groups = people
    settings = {"interval": INTERVAL, "max_gap": 0.1}
    expected = PartialParityAdjuster(**settings).fit_transform(X[:, 0], sensitive_features=groups)
    adjusted = PartialParityAdjuster(**settings).fit_transform(X[:, 0] * unit, sensitive_features=groups)
    np.testing.assert_allclose(adjusted / unit, expected, rtol=0, atol=1e-9)


def test_groups_that_fit_did_not_see_are_refused(people):
    X, _, groups = people
    adjuster = PartialParityAdjuster(INTERVAL, 0.1).fit(X[:, 0], sensitive_features=groups)
    with pytest.raises(InputError, match=r"group 'c' was not seen in fit, which saw 'a' and 'b'"):
        adjuster.transform([0.0], ["c"])
    with pytest.raises(InputError, match="pass sensitive_features, in scoring as in fit"):
        adjuster.transform([0.0])


def test_three_classes_are_refused(people):
    X, _, groups = people
    model = GaussianNB().fit(X, np.arange(600) % 3)
    with pytest.raises(InputError, match="GaussianNB has 3 classes, and scores need two"):
        PartialParityAdjuster(interval=(0, 1), estimator=model).fit(X, sensitive_features=groups)


def test_scores_that_floats_can_hardly_tell_apart_are_kept_apart():
    """Neighbouring floats in one group: blocks have no room to be spread in, and yet nobody is tied."""
    tiny = 1 + np.arange(40) * np.finfo(float).eps
    scores = np.concatenate([tiny, tiny - 1e-13])
    groups = np.repeat(["a", "b"], 40)
    adjusted = PartialParityAdjuster((0.0, 1.0), 0.05).fit_transform(scores, sensitive_features=groups)
    assert partial_statistical_parity_difference(None, adjusted, sensitive_features=groups) <= 0.05 + 1e-12
    for name in "ab":
        assert (np.diff(adjusted[groups == name]) > 0).all()


def test_warnings_are_none_for_ordinary_data(people):
    X, y, groups = people
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PartialParityAdjuster(INTERVAL, 0.1).fit(X[:, 0], y, sensitive_features=groups)


def test_scores_in_rows_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="must have one dimension, not rows of different lengths"):
        PartialParityAdjuster(interval=(0, 1)).fit([[0.1, [0.2]]] * 6, sensitive_features=list("aabbab"))


class TestPandas:
    """What comes in as pandas goes out as pandas, with the index."""

    index = pd.Index([f"row {k}" for k in range(200)], name="id")
    groups = np.repeat(["a", "b"], 100)
    scores = np.random.default_rng(0).normal(size=200) + (groups == "a")
    settings: ClassVar = {"interval": (0.1, 0.5), "max_gap": 0.3}

    def test_scores(self):
        adjuster = PartialParityAdjuster(**self.settings)
        expected = adjuster.fit_transform(self.scores, sensitive_features=self.groups)
        assert isinstance(expected, np.ndarray)
        series = pd.Series(self.scores, index=self.index, name="risk")
        moved = adjuster.fit_transform(series, sensitive_features=self.groups)
        pd.testing.assert_series_equal(moved, pd.Series(expected, index=self.index, name="risk"))
        frame = adjuster.transform(series.to_frame(), self.groups)
        pd.testing.assert_frame_equal(frame, moved.to_frame())

    def test_a_scorers_rows(self):
        X = pd.DataFrame({"x": self.scores, "y": 1.0}, index=self.index)
        model = LogisticRegression().fit(X, self.scores > 0.5)
        adjuster = PartialParityAdjuster(estimator=model, **self.settings)
        moved = adjuster.fit_transform(X, sensitive_features=self.groups)
        assert moved.index.equals(self.index)
        assert moved.name == "score"
        # As of scikit-learn's classifiers, these are arrays.
        np.testing.assert_array_equal(adjuster.decision_function(X, self.groups), moved.to_numpy())
        assert isinstance(adjuster.predict(X, self.groups), np.ndarray)
        report = adjuster.report(X, sensitive_features=self.groups)
        assert report["statistical_parity"].gap <= 0.3 + 1e-12
