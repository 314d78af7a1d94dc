"""``enforce="population"``: a promise about new people, certified on rows that no model was trained on."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partialfair import (
    FitOptions,
    PartialFairClassifier,
    PartialFairRegressor,
    fairness_path,
    load_model,
    save_model,
)
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.data.groups import encode_groups
from partialfair.data.samples import Samples
from partialfair.estimators import population
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics import fairness_report, partial_statistical_parity_difference
from partialfair.optimization.solvers import Status
from partialfair_paper.quadratic import QuadraticGroupAUC

INTERVAL = (0.1, 0.8)
QUICK = {
    "interval": INTERVAL,
    "max_gap": 0.5,
    "enforce": "population",
    "options": FitOptions(search_steps=0),
    "tol": 1e-2,
}


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 2)) + np.outer(groups == "a", [1, 0])
    return X, X.sum(axis=1) + rng.normal(size=n) > 0.5, groups


@pytest.fixture(scope="module")
def people():
    return drawn(1200)


@pytest.fixture(scope="module")
def fitted(people):
    X, y, groups = people
    return PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups)


@pytest.fixture
def few_models(monkeypatch):
    """Two gaps to train for are enough where another matter is tested."""
    monkeypatch.setattr(population, "_TIGHTER", np.array([1.0, 0.3]))


def held_out_of(people, share=0.2, seed=0):
    X, y, groups = people
    return Samples(X, y, encode_groups(groups), np.ones(len(y))).hold_out(share, seed)


def test_a_certified_model_and_its_record(fitted, people):
    result, told = fitted.result_, fitted.result_.population
    assert told.validated
    assert result.satisfied is True
    assert result.status in (Status.CONVERGED, Status.FEASIBLE)
    assert told.upper_bound <= told.max_gap == 0.5
    assert (told.n_models, told.confidence, told.scoring) == (9, 0.95, "accuracy")
    assert 1 <= told.n_validated <= 9
    assert str(result).startswith("With 95% confidence the gap on new data is at most 0.5\n")
    assert fitted.get_params()["enforce"] == result.enforce == "population"
    _, held_out = held_out_of(people)
    assert told.n_rows == held_out.n
    assert told.score == fitted.score(held_out.X, held_out.y)
    gap = partial_statistical_parity_difference(
        None, fitted.decision_function(held_out.X), sensitive_features=held_out.groups, interval=INTERVAL
    )
    assert told.gap == pytest.approx(gap)
    assert told.gap < told.upper_bound
    assert result.constraints[0].max_gap == 0.5
    assert result.gap <= told.trained_max_gap + 1e-12


def test_the_gap_of_very_many_new_people_is_as_promised(fitted):
    X, _, groups = drawn(100_000, seed=1)
    gap = partial_statistical_parity_difference(
        None, fitted.decision_function(X), sensitive_features=groups, interval=INTERVAL
    )
    assert gap <= fitted.max_gap


def test_rows_held_out_are_kept_out_of_training(people, few_models, monkeypatch):
    """Their labels may be anything: the candidates are the same."""
    X, y, groups = people
    train, held_out = held_out_of(people)
    seen = []

    def spied(inner, rows, *rest, **more):
        points = fit_chain(inner, rows, *rest, **more)
        seen.append((rows, [point.model.coef_ for point in points]))
        return points

    fit_chain = population.fit_chain
    monkeypatch.setattr(population, "fit_chain", spied)
    clf = PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups)
    assert seen[0][0].n + clf.result_.population.n_rows == len(y)
    np.testing.assert_array_equal(seen[0][0].X, train.X)
    scrambled = np.random.default_rng(0).permutation(held_out.y)
    clf = PartialFairClassifier(**QUICK, validation=(held_out.X, scrambled, held_out.groups))
    clf.fit(train.X, train.y, sensitive_features=train.groups)
    np.testing.assert_array_equal(seen[0][1], seen[1][1])


def test_given_rows_are_as_good_as_a_share(people, few_models):
    X, y, groups = people
    train, held_out = held_out_of(people)
    rows = (held_out.X, held_out.y, held_out.groups)
    for validation in (rows, (*rows, np.ones(held_out.n))):
        given = PartialFairClassifier(**QUICK, validation=validation)
        given.fit(train.X, train.y, sensitive_features=train.groups)
        share = PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups)
        np.testing.assert_array_equal(given.coef_, share.coef_)
        assert given.result_.population == share.result_.population
        assert clone(given).validation[0].shape == held_out.X.shape


def test_the_split_is_that_of_random_state(people, few_models):
    X, y, groups = people

    def fit(**settings):
        clf = PartialFairClassifier(**QUICK, **settings).fit(X, y, sensitive_features=groups)
        return clf.result_.population

    assert fit() == fit()
    assert fit(random_state=1) == fit(random_state=1) != fit()
    assert fit(validation=0.5).n_rows == pytest.approx(600, abs=2)


def test_an_honest_no(people, few_models):
    X, y, groups = people
    clf = PartialFairClassifier(**{**QUICK, "max_gap": 0.2})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, sensitive_features=groups)
    assert (caught[0].filename, caught[0].category) == (__file__, ConvergenceWarning)
    said = str(caught[0].message)
    assert said.startswith(
        "no model was validated: none has, with 95% confidence, a gap of at most 0.2 on new"
    )
    assert "the lowest upper bound is" in said
    assert "held-out rows would be enough if the estimated gaps stay" in said
    result, told = clf.result_, clf.result_.population
    assert (told.validated, told.n_validated, result.satisfied) == (False, 0, False)
    assert result.status is Status.NOT_VALIDATED
    assert told.upper_bound > told.max_gap
    assert "lowest upper bound" in result.infeasibility
    # The kept one is the fairest of all, by a bound that holds for all of them at once.
    _, held_out = held_out_of(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = fairness_report(
            held_out.y,
            clf.decision_function(held_out.X),
            sensitive_features=held_out.groups,
            interval=INTERVAL,
            random_state=0,
            min_group_size=2,
        )
    assert told.upper_bound == pytest.approx(report["statistical_parity"].bound_above(0.05 / 3))


def test_what_is_kept_is_never_looser_than_its_bound(people, few_models):
    X, y, groups = people
    for max_gap in (0.2, 0.3, 0.6, 1.0):
        clf = PartialFairClassifier(**{**QUICK, "max_gap": max_gap})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, y, sensitive_features=groups)
        told = clf.result_.population
        assert (told.upper_bound <= max_gap) == told.validated


def test_the_model_without_constraint_takes_part(people, few_models):
    X, y, groups = people
    clf = PartialFairClassifier(**{**QUICK, "max_gap": 1.0}).fit(X, y, sensitive_features=groups)
    told = clf.result_.population
    train, held_out = held_out_of(people)
    plain = PartialFairClassifier(None, tol=1e-2).fit(train.X, train.y)
    assert told.n_validated == told.n_models == 3
    assert told.score >= told.score_without
    assert told.score_without == pytest.approx(plain.score(held_out.X, held_out.y), abs=0.01)
    assert clf.result_.gap == pytest.approx(
        partial_statistical_parity_difference(
            None, clf.decision_function(train.X), sensitive_features=train.groups, interval=INTERVAL
        )
    )


def test_frames_sensitive_columns_weights_and_pipelines(people, few_models):
    X, y, groups = people
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(g=groups)
    inside = PartialFairClassifier(**QUICK, sensitive_columns="g").fit(frame, y)
    beside = PartialFairClassifier(**QUICK).fit(frame[["u", "v"]], y, sensitive_features=groups)
    np.testing.assert_allclose(inside.coef_, beside.coef_)
    assert inside.feature_names_in_.tolist() == ["u", "v", "g"]
    assert inside.predict(frame).shape == y.shape
    # Rows without weight are absent.
    weights = np.r_[np.ones(len(y)), np.zeros(10)]
    longer = PartialFairClassifier(**QUICK).fit(
        np.r_[X, X[:10]],
        np.r_[y, ~y[:10]],
        sensitive_features=np.r_[groups, groups[:10]],
        sample_weight=weights,
    )
    np.testing.assert_allclose(longer.coef_, beside.coef_)
    pipe = make_pipeline(StandardScaler(), PartialFairClassifier(**QUICK))
    pipe.fit(X, y, partialfairclassifier__sensitive_features=groups)
    assert pipe[-1].result_.population is not None


def test_regressors(people, few_models):
    X, _, groups = people
    y = 100 * X.sum(axis=1)
    reg = PartialFairRegressor(**QUICK).fit(X, y, sensitive_features=groups)
    told = reg.result_.population
    assert told.validated
    assert told.scoring == "r2"
    assert told.n_rows == pytest.approx(240, abs=2)


@pytest.mark.parametrize(
    ("settings", "scoring"),
    [({"class_weight": "balanced"}, "balanced_accuracy"), ({"loss": "auc"}, "roc_auc")],
)
def test_models_are_compared_by_what_they_were_trained_for(people, few_models, settings, scoring):
    X, y, groups = people
    clf = PartialFairClassifier(**QUICK, **settings).fit(X, y, sensitive_features=groups)
    assert clf.result_.population.scoring == scoring


def test_lower_is_better_and_group_terms(people, few_models):
    X, y, groups = people
    clf = PartialFairClassifier(**QUICK, higher_is_better=False, group_terms="intercept")
    clf.fit(X, y, sensitive_features=groups)
    train, _ = held_out_of(people)
    scores = clf.decision_function(train.X, train.groups)
    assert clf.result_.gap == pytest.approx(
        partial_statistical_parity_difference(
            None, -scores, sensitive_features=train.groups, interval=INTERVAL
        )
    )


def test_groups_that_nothing_is_said_of_are_named(people, few_models):
    X, y, groups = people
    groups = groups.astype(object)
    groups[:4] = "few"
    clf = PartialFairClassifier(**{**QUICK, "max_gap": 0.5}, min_group_size=3)
    with pytest.warns(SmallGroupWarning):
        clf.fit(X, y, sensitive_features=groups)
    assert clf.result_.population.not_evaluated == ("few",)
    assert "not evaluated, too few of their rows held out: few" in str(clf.result_)


def test_time_and_callbacks_end_all_fits(people):
    X, y, groups = people
    for settings, status, message in [
        ({"time_limit": 1e-9}, Status.TIME_LIMIT, "raise time_limit"),
        ({"callback": lambda line: True}, Status.STOPPED, "it was stopped"),
    ]:
        clf = PartialFairClassifier(**QUICK, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf.fit(X, y, sensitive_features=groups)
        assert clf.result_.status is status
        assert any(message in str(line.message) for line in caught)
        assert clf.result_.population.n_models < 9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, not 1"),
        ({"confidence": 0}, r"confidence must lie in \(0, 1\], not 0"),
        ({"confidence": "high"}, "confidence must lie in"),
        ({"validation": 0}, r"validation must lie in \(0, 0.9\], not 0"),
        ({"validation": 1.5}, r"validation must lie in \(0, 0.9\], not 1.5"),
        ({"validation": "some"}, "validation must lie in"),
        (
            {"validation": (1, 2)},
            r"validation must be a fraction of the rows, or \(X, y, sensitive_features\)",
        ),
        (
            {"constraint": None},
            "enforce='population' limits the gap in the population, so it needs a constraint",
        ),
        (
            {"constraint": ["statistical_parity", "demographic_parity"]},
            "enforce='population' needs exactly one constraint, not 2",
        ),
        ({"constraint": QuadraticGroupAUC(1.0), "interval": None, "max_gap": 0.05}, "has no exact metric"),
    ],
)
def test_bad_settings(people, settings, message):
    X, y, groups = people
    clf = PartialFairClassifier(**{**QUICK, **settings})
    with pytest.raises(InputError, match=message):
        clf.fit(X, y, sensitive_features=groups)


def test_bad_rows(people):
    X, y, groups = people
    with pytest.raises(InputError, match="a constraint needs the group of every row"):
        PartialFairClassifier(**QUICK).fit(X, y)
    for rows, message in [
        ((X[:, :1], y, groups), "validation: X has 1 features"),
        ((X[:5], y[:4], groups[:5]), "validation: y has 4 rows"),
        ((X[:9], np.full(9, 7), groups[:9]), "y of validation holds 7"),
        ((X[groups == "a"], y[groups == "a"], groups[groups == "a"]), "have only group 'a'"),
        ((X[:9], y[:9], None), "validation: a constraint needs the group"),
    ]:
        with pytest.raises((InputError, ValueError), match=message):
            PartialFairClassifier(**QUICK, validation=rows).fit(X, y, sensitive_features=groups)


def test_tiny_data():
    X, y, groups = drawn(6)
    with pytest.raises(InputError, match=r"validation rows|rows leaves none"):
        PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups)


def test_paths_hold_rows_out_themselves(people):
    X, y, groups = people
    with pytest.raises(InputError, match="fairness_path holds rows out itself"):
        fairness_path(PartialFairClassifier(**QUICK), X, y, sensitive_features=groups, max_gaps=[0.1])


def test_constraint_objects(people, few_models):
    X, y, groups = people
    for stated in (StatisticalParity(INTERVAL, 0.5), DemographicParity((0.0, 1.0), 0.3)):
        clf = PartialFairClassifier(
            stated, enforce="population", options=FitOptions(search_steps=0), tol=1e-2
        )
        clf.fit(X, y, sensitive_features=groups)
        assert clf.result_.population.max_gap == stated.max_gap
        assert clf.result_.constraints == (stated,)


def test_files_hold_the_answer_and_nobody_held_out(fitted, people, tmp_path, few_models):
    X, y, groups = people
    save_model(fitted, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.result_.population == fitted.result_.population
    assert again.result_.satisfied is True
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    given = PartialFairClassifier(**QUICK, validation=(X, y, groups))
    with pytest.raises(InputError, match=r"validation holds data rows"):
        save_model(given, tmp_path / "other.skops")
    pipe = make_pipeline(StandardScaler(), given)
    with pytest.raises(InputError, match=r"partialfairclassifier__validation holds data rows"):
        save_model(pipe, tmp_path / "other.skops")


def test_clusters_are_certified_on_as_a_whole(people, few_models):
    """Every row twice: confidence is that of so many people, and nobody is on both sides."""
    twice = [np.repeat(part, 2, axis=0) for part in people]
    X, y, groups = twice
    person = np.repeat(np.arange(len(people[1])), 2)
    clf = PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups, clusters=person)
    told = clf.result_.population
    rows = Samples(X, y, encode_groups(groups), np.ones(len(y)), person)
    train, held_out = rows.hold_out(0.2, 0)
    assert told.n_rows == held_out.n
    assert not set(train.clusters) & set(held_out.clusters)
    given = (held_out.X, held_out.y, held_out.groups, held_out.weights)
    bounds = {}
    for name, rows in (("rows", given), ("people", (*given, held_out.clusters))):
        again = PartialFairClassifier(**QUICK | {"max_gap": 1.0}, validation=rows)
        again.fit(train.X, train.y, sensitive_features=train.groups, clusters=train.clusters)
        bounds[name] = again.result_.population
    assert bounds["rows"].gap == bounds["people"].gap
    assert bounds["rows"].upper_bound < bounds["people"].upper_bound
    assert told.gap < told.upper_bound


def test_clusters_are_refused_where_nobody_is_held_out(people):
    X, y, groups = people
    for kind in (PartialFairClassifier, PartialFairRegressor):
        with pytest.raises(InputError, match=r"clusters affect held-out rows .* omit clusters"):
            kind(interval=INTERVAL).fit(X, y, sensitive_features=groups, clusters=np.arange(len(y)))
    held_out = (X[:200], y[:200], groups[:200], None, np.arange(200))
    clf = PartialFairClassifier(**QUICK, validation=held_out)
    with pytest.raises(InputError, match="cluster 0 is among the training rows and among the validation"):
        clf.fit(X, y, sensitive_features=groups, clusters=np.arange(len(y)))
    with pytest.raises(InputError, match="clusters must name the cluster of each of the 1200 rows"):
        PartialFairClassifier(**QUICK).fit(X, y, sensitive_features=groups, clusters=np.arange(3))


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallGroupWarning")
def test_an_interval_chosen_in_training_is_said_to_be(people, few_models):
    X, y, groups = people
    settings = {**QUICK, "interval": "auto", "max_gap": 1.0}
    clf = PartialFairClassifier(**settings).fit(X, y, sensitive_features=groups)
    assert clf.result_.interval_chosen
    assert "held-out rows had no influence on the choice" in str(clf.result_)
    # They had none: with other labels and scores they give the same interval.
    train, held_out = held_out_of(people)
    scrambled = (held_out.X[::-1], held_out.y, held_out.groups)
    again = PartialFairClassifier(**settings, validation=scrambled)
    again.fit(train.X, train.y, sensitive_features=train.groups)
    assert again.result_.constraints[0].interval == clf.result_.constraints[0].interval
    given = PartialFairClassifier(**QUICK | {"max_gap": 1.0}).fit(X, y, sensitive_features=groups)
    assert not given.result_.interval_chosen
    assert "no say" not in str(given.result_)
