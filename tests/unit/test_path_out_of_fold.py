"""Paths that are judged out of fold, and rows that belong together."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor, fairness_path
from partialfair.exceptions import InputError
from partialfair.metrics import compare_gaps, fairness_report, partial_statistical_parity_difference

mpl.use("agg")
pytestmark = pytest.mark.filterwarnings("ignore")
INTERVAL = (0.1, 0.6)
CLF = PartialFairClassifier(interval=INTERVAL, enforce="surrogate")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 600)
    X = rng.normal(size=(600, 3)) + np.outer(groups == "a", [1, 0, 0])
    y = np.where(X.sum(axis=1) + rng.normal(size=600) > 0.5, "yes", "no")
    return X, y, groups


@pytest.fixture(scope="module")
def path(people):
    X, y, groups = people
    return fairness_path(CLF, X, y, sensitive_features=groups, max_gaps=[0.3], cv=5, random_state=0)


def test_models_are_fitted_on_all_rows(path, people):
    X, y, groups = people
    on_all = fairness_path(
        CLF, X, y, sensitive_features=groups, max_gaps=[0.3], validation=(X, y, groups), random_state=0
    )
    for point, other in zip(path.points, on_all.points, strict=True):
        np.testing.assert_allclose(point.model.coef_, other.model.coef_)
        assert point.training_gap == pytest.approx(other.training_gap)
        assert point.constraint.interval == INTERVAL


def test_every_row_is_scored_by_a_model_that_has_not_seen_it(path, people):
    X, y, _ = people
    assert path.validation.n == path.folds.size == 600
    assert np.unique(path.folds).tolist() == [0, 1, 2, 3, 4]
    for point in path.points:
        assert len(point.fold_models) == 5
        for fold, model in enumerate(point.fold_models):
            own = path.folds == fold
            raw = model.decision_function(X[own])
            # The scale is another, the order and the decisions are not.
            np.testing.assert_array_equal(np.argsort(raw), np.argsort(point.scores[own]))
            np.testing.assert_array_equal(model.predict(X[own]), point.predictions[own])
            np.testing.assert_array_equal(raw > 0, point.scores[own] > 0)
        assert point.score == (point.predictions == y).mean()
    without, fold = path.points[0].fold_models[2], path.folds == 2
    alone = PartialFairClassifier(None).fit(X[~fold], y[~fold])
    np.testing.assert_allclose(without.coef_, alone.coef_, atol=1e-4)


def test_folds_are_even_in_groups_and_labels(path, people):
    _, y, groups = people
    for group in "ab":
        for label in ("no", "yes"):
            assert np.ptp(np.bincount(path.folds[(groups == group) & (y == label)])) <= 1


def test_gaps_are_those_of_the_scores_and_come_nearer_than_held_out_ones(path, people):
    X, y, groups = people
    for point in path.points:
        gap = partial_statistical_parity_difference(
            None, point.scores, sensitive_features=groups, interval=INTERVAL
        )
        assert path.gap(point).gap == gap
    held_out = fairness_path(CLF, X, y, sensitive_features=groups, max_gaps=[0.3], random_state=0)
    widths = [
        [one.gap(point).ci_high - one.gap(point).ci_low for point in one.points] for one in (path, held_out)
    ]
    assert np.mean(widths[0]) < 0.7 * np.mean(widths[1])  # five times the people


def test_promises_about_one_model_are_refused(path):
    for ask in (path.best, path.validated):
        with pytest.raises(InputError, match="about 5 models, one for each fold; leave cv out"):
            ask(0.9)


def test_a_choice_without_a_promise(path, people):
    gaps = [path.gap(point).gap for point in path.points]
    assert gaps[1] < gaps[0]
    assert path.select_by_estimate(1.0) is max(path.points, key=lambda point: point.score).model
    assert path.select_by_estimate((gaps[0] + gaps[1]) / 2) is path.points[1].model
    with pytest.raises(
        InputError, match=r"no model .* estimated gap of at most 0.001 out of fold; the smallest"
    ):
        path.select_by_estimate(0.001)


def test_what_is_shown_says_what_it_is(path):
    frame = path.to_frame()
    assert frame["folds_satisfied"].isna().all()  # nothing was promised
    axes = path.plot()
    assert "out-of-fold rows" in axes.get_xlabel()
    assert "out-of-fold rows" in axes.get_ylabel()
    plt.close("all")
    for shown in (str(path), path.to_html()):
        assert "600 rows out of fold" in shown
        assert "every row was scored by one of 5 models" in shown
    difference = path.compare(path.points[0], path.points[1])["statistical_parity"]
    gaps = [path.gap(point).gap for point in path.points]
    assert difference.difference == pytest.approx(gaps[1] - gaps[0])


def test_promises_kept_in_folds_are_counted(people):
    X, y, groups = people
    clf = PartialFairClassifier(interval=INTERVAL, options=FitOptions(search_steps=0))
    path = fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.4], cv=2, random_state=0)
    kept = [model.result_.satisfied for model in path.points[1].fold_models]
    assert path.to_frame()["folds_satisfied"].tolist()[1] == sum(kept)


def test_the_same_seed_and_jobs_give_the_same_path(people, path):
    X, y, groups = people
    again = fairness_path(
        CLF, X, y, sensitive_features=groups, max_gaps=[0.3], cv=5, random_state=0, n_jobs=2
    )
    np.testing.assert_array_equal(again.folds, path.folds)
    np.testing.assert_array_equal(again.points[1].scores, path.points[1].scores)


def test_splitters_alphas_and_callbacks(people):
    X, y, groups = people
    seen = []
    path = fairness_path(
        CLF,
        X,
        y,
        sensitive_features=groups,
        max_gaps=[0.3],
        alphas=[1e-3, 1e-1],
        cv=KFold(3),
        callback=seen.append,
    )
    np.testing.assert_array_equal(path.folds, np.repeat([0, 1, 2], 200))
    assert [point.alpha for point in path.points] == [1e-3, 1e-3, 1e-1, 1e-1]
    assert [model.alpha for point in path.points for model in point.fold_models] == np.repeat(
        [1e-3, 1e-1], 6
    ).tolist()
    assert seen == list(path.points)


def test_an_interval_is_chosen_once_for_all_folds(people):
    X, y, groups = people
    clf = PartialFairClassifier(interval="auto", enforce="surrogate")
    path = fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.3], cv=3, random_state=0)
    (interval,) = {point.constraint.interval for point in path.points}
    assert (
        interval
        == PartialFairClassifier(**clf.get_params(deep=False))
        .fit(X, y, sensitive_features=groups)
        .result_.constraints[0]
        .interval
    )
    assert {model.interval for model in path.points[1].fold_models} == {interval}


def test_regressors_are_scored_by_what_they_predict(people):
    X, _, groups = people
    y = X.sum(axis=1) + np.random.default_rng(1).normal(size=600)
    path = fairness_path(
        PartialFairRegressor(interval=INTERVAL, enforce="surrogate"),
        X,
        y,
        sensitive_features=groups,
        max_gaps=[0.3],
        cv=3,
        scoring="r2",
        random_state=0,
    )
    for point in path.points:
        predicted = np.empty(600)
        for fold, model in enumerate(point.fold_models):
            predicted[path.folds == fold] = model.predict(X[path.folds == fold])
        assert point.score == pytest.approx(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cv": 1}, "cv must be at least 2"),
        ({"cv": 601}, "601 folds need at least as many rows"),
        ({"cv": "five"}, "cv must be a number of folds or a splitter of scikit-learn, not 'five'"),
        ({"cv": 2.5}, "cv must be a number of folds"),
        ({"cv": 5, "validation": 0.3}, "cv evaluates models out of fold on all rows, so validation"),
        ({"cv": ShuffleSplit(2)}, "must hold out every row just once"),
        ({"cv": KFold(2), "clusters": np.arange(600) % 300}, "parts rows of one cluster"),
        ({"clusters": np.arange(599)}, "clusters must name the cluster of each of the 600 rows"),
        (
            {"clusters": np.r_[np.arange(599.0), np.nan]},
            "clusters has 1 missing values, the first in row 599",
        ),
    ],
)
def test_bad_input_is_refused_before_any_fit(people, monkeypatch, changes, message):
    X, y, groups = people
    monkeypatch.setattr(PartialFairClassifier, "fit", lambda *_, **__: pytest.fail("a model was fitted"))
    with pytest.raises(InputError, match=message):
        fairness_path(CLF, X, y, **{"sensitive_features": groups, "max_gaps": [0.3]} | changes)


def test_folds_that_cannot_be_trained_without(people, monkeypatch):
    X, y, groups = people
    monkeypatch.setattr(PartialFairClassifier, "fit", lambda *_, **__: pytest.fail("a model was fitted"))
    by_label, by_group = np.argsort(y, kind="stable"), np.argsort(groups, kind="stable")

    def ask(order, clf=CLF, of=groups, **more):
        fairness_path(clf, X[order], y[order], sensitive_features=of[order], max_gaps=[0.3], **more)

    with pytest.raises(InputError, match="without fold 2 of cv one class is left in y"):
        ask(by_label, cv=KFold(2), min_group_size=1)
    with pytest.raises(InputError, match="without fold 1 of cv fewer than two groups are left"):
        ask(by_group, cv=KFold(2), min_group_size=1)
    few = groups.astype(object)
    few[:3] = "few"
    by_name = PartialFairClassifier(interval=INTERVAL, group_terms="intercept")
    with pytest.raises(
        InputError, match="all of group 'few' is in fold 1 of cv, and group_terms='intercept'"
    ):
        ask(np.arange(600), by_name, few, cv=KFold(6))
    with pytest.raises(InputError, match="fold 2 of cv has no row with weight"):
        ask(np.arange(600), cv=KFold(3), sample_weight=(np.arange(600) // 200 != 1).astype(float))


class TestClusters:
    @pytest.fixture(scope="class")
    def twins(self, people):
        """Every person twice, in random order."""
        X, y, groups = (np.concatenate([part, part]) for part in people)
        order = np.random.default_rng(2).permutation(1200)
        return X[order], y[order], groups[order], np.tile(np.arange(600), 2)[order]

    @pytest.mark.parametrize("more", [{"cv": 3}, {"cv": GroupKFold(3)}, {"validation": 0.4}])
    def test_rows_that_belong_together_are_on_one_side(self, twins, more):
        X, y, groups, person = twins
        path = fairness_path(
            CLF,
            X,
            y,
            sensitive_features=groups,
            max_gaps=[0.3],
            clusters=person,
            random_state=0,
            **more,
        )
        held_out = path.validation
        _, times = np.unique(held_out.clusters, return_counts=True)
        assert set(times) == {2}
        if "cv" in more:
            assert all(np.unique(path.folds[person == one]).size == 1 for one in range(600))
        point = path.points[1]
        settings = {"sensitive_features": held_out.groups, "interval": INTERVAL, "pos_label": "yes"}
        report = fairness_report(
            held_out.y, point.scores, clusters=held_out.clusters, random_state=path._seed, **settings
        )
        assert path.gap(point).ci_high == report["statistical_parity"].ci_high
        of_rows = fairness_report(held_out.y, point.scores, random_state=0, **settings)
        assert report["statistical_parity"].ci_high > of_rows["statistical_parity"].ci_high
        found = path.compare(*path.points)["statistical_parity"]
        paired = compare_gaps(
            held_out.y,
            path.points[0].scores,
            point.scores,
            clusters=held_out.clusters,
            random_state=path._seed,
            **settings,
        )["statistical_parity"]
        assert found == paired
        # Two rows that say the same are one: errors are those of half as many.
        share = point.score * (1 - point.score) / len(held_out.y)
        assert point.error == pytest.approx(np.sqrt(2 * share), rel=0.2)

    def test_given_rows_have_clusters_of_their_own(self, twins):
        X, y, groups, person = twins
        out = person < 200

        def ask(train, held_out):
            rows = (X[held_out], y[held_out], groups[held_out], None, person[held_out])
            return fairness_path(
                CLF,
                X[train],
                y[train],
                sensitive_features=groups[train],
                clusters=person[train],
                validation=rows,
                max_gaps=[0.3],
            )

        path = ask(~out, out)
        pairs = {*zip(path.validation.clusters.tolist(), person[out].tolist(), strict=True)}
        assert len(pairs) == len({code for code, _ in pairs}) == len({name for _, name in pairs})
        with pytest.raises(InputError, match="is among the training rows and among the validation rows"):
            ask(~out, out | (person == 300))
        with pytest.raises(InputError, match="so three to five arrays, not 6"):
            fairness_path(
                CLF,
                X,
                y,
                sensitive_features=groups,
                max_gaps=[0.3],
                validation=(X, y, groups, None, person, 1),
            )
