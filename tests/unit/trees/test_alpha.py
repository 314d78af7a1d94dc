"""``alpha="auto"``: what is chosen, by whom, and that all else is as with a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss, mean_squared_error

from partialfair import FitOptions, fairness_path, load_model, save_model
from partialfair.data.groups import encode_groups
from partialfair.data.samples import Samples
from partialfair.estimators import population
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.optimization.solvers import Status
from partialfair.trees import PartialFairTrees
from partialfair.trees import alpha as alpha_module
from partialfair.trees.alpha import ALPHA_SEARCH, AlphaTrial, best_of
from partialfair.trees.refitting import LeafSamples

ALPHAS = ALPHA_SEARCH.alphas
INTERVAL = (0.1, 0.6)
SHARE = 0.25
QUICK: dict[str, Any] = {
    "interval": INTERVAL,
    "max_gap": 0.2,
    "options": FitOptions(n_starts=1, search_steps=10),
    "tol": 1e-2,
    "validation_fraction": SHARE,
}


def people(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features that tell the group, labels that hang on them, and groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + np.outer(groups == "a", [1.0, 0.0, 0.0])
    return X, (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(int), groups


def grower(**settings: Any) -> HistGradientBoostingClassifier:
    chosen = {"max_iter": 8, "max_leaf_nodes": 6, "early_stopping": False, "random_state": 0} | settings
    return HistGradientBoostingClassifier(**chosen)


def parts(*columns: np.ndarray) -> tuple[Samples, Samples]:
    """The rows that leaves are grown on, and those that choose."""
    return Samples(columns[0], columns[1], encode_groups(columns[2]), *columns[3:]).hold_out(SHARE, 0)


def gap_of(scores: np.ndarray, groups: np.ndarray) -> float:
    return partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=INTERVAL)


@pytest.fixture(scope="module")
def auto() -> PartialFairTrees:
    X, y, groups = people(500)
    return PartialFairTrees(grower(), alpha="auto", **QUICK).fit(X, y, sensitive_features=groups)


def test_loss_and_gap_count_at_the_price_of_the_gap():
    own = AlphaTrial(loss=0.30, gap=0.50, satisfied=False)
    low, fair = AlphaTrial(0.34, 0.20, satisfied=True), AlphaTrial(0.36, 0.10, satisfied=True)
    # Chords rise by .10 while the gap falls by .70, so a unit of the gap costs 2/7: .0286 for the .1 between.
    assert best_of([low, fair], own) is fair
    dear = AlphaTrial(0.38, 0.10, satisfied=True)  # .12 for .70, 12/35 a unit, .0343 for .1; and .04 was paid
    assert best_of([low, dear], own) is low


def test_where_closing_the_gap_costs_nothing_the_loss_alone_counts():
    own = AlphaTrial(loss=0.40, gap=0.50, satisfied=False)
    better, wider = AlphaTrial(0.37, 0.1, satisfied=True), AlphaTrial(0.375, 0.4, satisfied=True)
    assert best_of([better, wider], own) is better
    none_closed = [AlphaTrial(0.38, 0.6, satisfied=True), AlphaTrial(0.37, 0.9, satisfied=True)]
    assert best_of(none_closed, own) is none_closed[1]


def test_candidates_that_break_the_promise_are_left_out_unless_all_do():
    own = AlphaTrial(loss=0.3, gap=0.5, satisfied=False)
    broken, kept = AlphaTrial(0.31, 0.1, satisfied=False), AlphaTrial(0.4, 0.1, satisfied=True)
    assert best_of([broken, kept], own) is kept
    assert best_of([broken, AlphaTrial(0.4, 0.1, satisfied=False)], own) is broken


def test_the_choice_is_best_on_rows_that_no_leaf_was_grown_on(auto):
    rest, judges = parts(*people(500))
    np.testing.assert_array_equal(
        auto.initial_estimator_.decision_function(judges.X),
        grower().fit(rest.X, rest.y).decision_function(judges.X),
    )
    found = []
    for alpha in ALPHAS:
        trees = PartialFairTrees(FrozenEstimator(auto.initial_estimator_), alpha=alpha, **QUICK)
        trees.fit(rest.X, rest.y, sensitive_features=rest.groups)
        assert trees.result_.satisfied
        scores = trees.decision_function(judges.X)
        found.append((log_loss(judges.y, trees.predict_proba(judges.X)), gap_of(scores, judges.groups)))
    loss, gap = np.array(found).T
    own_loss = log_loss(judges.y, auto.initial_estimator_.predict_proba(judges.X))
    own_gap = gap_of(auto.initial_estimator_.decision_function(judges.X), judges.groups)
    price = 2 * (loss - own_loss).sum() / (own_gap - gap).sum()
    worth = dict(zip(ALPHAS, loss + price * gap, strict=True))
    assert worth[auto.alpha_] <= min(worth.values()) + 3e-3  # refits of a chain are other local optima
    assert max(worth.values()) > min(worth.values()) + 3e-2  # so that others would have been wrong


@pytest.fixture
def refits(monkeypatch) -> list[int]:
    """The rows of every refit."""
    noted, refit = [], LeafSamples.refit

    def noting(leaves: LeafSamples, linear: Any, *others: Any) -> Any:
        noted.append(leaves.samples.n)
        return refit(leaves, linear, *others)

    monkeypatch.setattr(LeafSamples, "refit", noting)
    return noted


def test_rows_that_choose_take_part_in_the_last_refit_alone(auto, refits):
    X, y, groups = people(500)
    again = (
        clone(auto)
        .set_params(estimator=FrozenEstimator(auto.initial_estimator_))
        .fit(X, y, sensitive_features=groups)
    )
    assert refits == [*[parts(X, y, groups)[0].n] * len(ALPHAS), 500]
    assert again.alpha_ == auto.alpha_


def test_the_promise_is_about_all_rows(auto):
    X, _, groups = people(500)
    assert auto.result_.satisfied
    assert auto.result_.gap == pytest.approx(gap_of(auto.estimator_.decision_function(X), groups), abs=1e-12)
    assert auto.result_.gap <= 0.2


@pytest.mark.parametrize("learning_rate", [0.001, 0.5])
def test_without_constraint_the_held_out_loss_decides(learning_rate):
    X, y, _ = people(400, seed=1)
    settings = {"constraint": None, "validation_fraction": SHARE, "tol": 1e-5}
    model = grower(learning_rate=learning_rate)
    auto = PartialFairTrees(model, alpha="auto", **settings).fit(X, y)
    rest, judges = parts(X, y, np.zeros(len(y), dtype=int))
    losses = {}
    for alpha in ALPHAS:
        trees = PartialFairTrees(FrozenEstimator(auto.initial_estimator_), alpha=alpha, **settings).fit(
            rest.X, rest.y
        )
        losses[alpha] = log_loss(judges.y, trees.predict_proba(judges.X))
    assert auto.alpha_ == min(losses, key=losses.__getitem__)
    # Leaves of a model that has hardly learned are to be left behind, those of one that overfits even less.
    assert (auto.alpha_ < 0.1) == (learning_rate == 0.001)


def test_regressors_choose_by_squared_error():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = 100 * (X[:, 0] + 0.5 * rng.normal(size=400))
    model = HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, early_stopping=False, random_state=0)
    settings = {"constraint": None, "validation_fraction": SHARE, "tol": 1e-5}
    auto = PartialFairTrees(model, alpha="auto", **settings).fit(X, y)
    rest, judges = parts(X, y, np.zeros(len(y), dtype=int))
    losses = {}
    for alpha in ALPHAS:
        trees = PartialFairTrees(FrozenEstimator(auto.initial_estimator_), alpha=alpha, **settings).fit(
            rest.X, rest.y
        )
        losses[alpha] = mean_squared_error(judges.y, trees.predict(judges.X))
    assert auto.alpha_ == min(losses, key=losses.__getitem__)


def test_models_that_stop_early_have_the_same_trees_as_with_a_number():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, groups = people(400)
    model = lightgbm.LGBMClassifier(n_estimators=40, num_leaves=5, verbose=-1, n_jobs=1)
    scores = [
        PartialFairTrees(model, alpha=alpha, **QUICK)
        .fit(X, y, sensitive_features=groups)
        .initial_estimator_.predict(X, raw_score=True)
        for alpha in ("auto", 0.01)
    ]
    np.testing.assert_array_equal(*scores)


def test_a_number_is_told_as_it_is(auto):
    X, y, groups = people(300)
    trees = PartialFairTrees(FrozenEstimator(auto.initial_estimator_), alpha=1, **QUICK | {"max_gap": 0.5})
    assert trees.fit(X, y, sensitive_features=groups).alpha_ == 1.0
    assert clone(auto).alpha == auto.alpha == "auto"


def test_files_hold_what_was_chosen(auto, tmp_path):
    save_model(auto, tmp_path / "trees.skops")
    loaded = load_model(tmp_path / "trees.skops")
    assert (loaded.alpha, loaded.alpha_) == ("auto", auto.alpha_)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, float]]:
    """What refits that alpha is chosen for are asked for."""
    noted: list[tuple[str, float]] = []

    def noting(trials: list[AlphaTrial], own: AlphaTrial) -> AlphaTrial:
        noted.append((trials[0].refit.enforce, trials[0].refit.max_gap))
        return best_of(trials, own)

    monkeypatch.setattr(alpha_module, "best_of", noting)
    return noted


def test_a_path_has_one_alpha_chosen_for_its_middle_gap(asked):
    X, y, groups = people(500)
    trees = PartialFairTrees(grower(), alpha="auto", **QUICK)
    new = people(200, seed=5)
    told: dict[str, Any] = {"sensitive_features": groups, "max_gaps": [0.3, 0.5, 0.4], "validation": new}
    path = fairness_path(trees, X, y, **told)
    assert asked == [("exact", 0.4)]
    once = clone(trees).set_params(max_gap=0.4).fit(X, y, sensitive_features=groups)
    assert {point.alpha for point in path.points} == {once.alpha_}
    with pytest.raises(InputError, match="alpha='auto' chooses a penalty and alphas lists penalties"):
        fairness_path(trees, X, y, alphas=[0.1], **told)


@pytest.mark.filterwarnings("ignore")  # whether it is shown does not matter
def test_a_promise_about_new_people_tells_the_alpha(asked, monkeypatch):
    monkeypatch.setattr(population, "_TIGHTER", np.array([1.0, 0.8]))
    X, y, groups = people(500)
    trees = PartialFairTrees(grower(), alpha="auto", enforce="population", **QUICK | {"max_gap": 0.4})
    trees.fit(X, y, sensitive_features=groups, clusters=np.arange(500) // 2)
    assert asked == [("exact", 0.4)]
    assert trees.alpha_ in ALPHAS
    assert trees.alpha == "auto"


def test_a_callback_that_stops_ends_the_choice_and_the_fit():
    X, y, groups = people(300)
    heard = []
    trees = PartialFairTrees(
        grower(), alpha="auto", callback=lambda line: heard.append(line) or True, **QUICK
    )
    with pytest.warns(match="status stopped"):
        trees.fit(X, y, sensitive_features=groups)
    assert trees.result_.status is Status.STOPPED
    assert (trees.alpha_, len(heard)) == (ALPHAS[0], 2)  # one refit to choose, and the one on all rows


def test_an_interrupt_while_alpha_is_chosen_leaves_nothing_fitted():
    def interrupt(line: Any) -> None:
        raise KeyboardInterrupt

    X, y, groups = people(300)
    trees = PartialFairTrees(grower(), alpha="auto", callback=interrupt, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        trees.fit(X, y, sensitive_features=groups)
    assert not hasattr(trees, "estimator_")


@pytest.mark.filterwarnings("ignore")
def test_a_time_limit_is_for_choosing_and_for_the_refit(refits):
    X, y, groups = people(300)
    trees = PartialFairTrees(grower(), alpha="auto", time_limit=1e-3, **QUICK)
    assert trees.fit(X, y, sensitive_features=groups).alpha_ == ALPHAS[0]
    assert len(refits) == 2


def test_what_cannot_be_is_refused_before_anything_grows(monkeypatch):
    monkeypatch.setattr("partialfair.trees.base_estimators.fit_trees", lambda *_: pytest.fail("it grew"))
    X, y, groups = people(300)
    with pytest.raises(InputError, match="alpha must be a number or 'auto', not 'automatic'"):
        PartialFairTrees(grower(), interval=(0, 1), alpha="automatic").fit(X, y, sensitive_features=groups)
    with pytest.raises(InputError, match="alpha must be"):
        PartialFairTrees(grower(), interval=(0, 1), alpha=-1).fit(X, y, sensitive_features=groups)
    few = np.where(np.arange(300) < 3, "few", "many")
    with pytest.raises(InputError, match=r"compares alphas on \d+ held-out rows: only group 'many' is"):
        PartialFairTrees(grower(), interval=(0, 1), alpha="auto").fit(X, y, sensitive_features=few)
    rare = np.where(np.arange(300) < 2, 1, 0)
    with pytest.raises(
        InputError, match=r"held-out rows: y has only one class, 0; .*; or set alpha to a number"
    ):
        PartialFairTrees(grower(), constraint=None, alpha="auto").fit(X, rare)
