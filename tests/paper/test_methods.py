"""What methods promise: quantile matching by its definition, grids by the paper, engine beside trainer."""

import warnings

import numpy as np
import pytest

from partialfair_paper import by_the_paper, published
from partialfair_paper.method import Question
from partialfair_paper.methods import METHODS
from partialfair_paper.others import QuantileMap
from partialfair_paper.parts import LOADERS, Part, parts_of
from partialfair_paper.runs import Run
from partialfair_paper.target import Scope
from partialfair_paper.targets import TARGETS
from tests.sizes import quick_first

LAW = Question("law_school", "pSP", (0.7, 1.0), seeds=(0,), rows=600)


def test_matched_quantiles_are_one_distribution():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], [3000, 1000])
    scores = np.where(groups == "a", rng.normal(size=4000), 2 + 3 * rng.normal(size=4000))
    part = Part(None, np.zeros(4000, dtype=np.int8), groups)
    moved = QuantileMap.of(part, scores, 1.0)(part, scores)
    levels = np.linspace(0.05, 0.95, 19)
    first, second = (np.quantile(moved[groups == label], levels) for label in "ab")
    assert first == pytest.approx(second, abs=0.02)
    # The barycentre: a quarter of the way from the many to the few.
    truth = 0.75 * np.quantile(scores[groups == "a"], levels) + 0.25 * np.quantile(
        scores[groups == "b"], levels
    )
    assert first == pytest.approx(truth, abs=0.02)
    assert QuantileMap.of(part, scores, 0.0)(part, scores) == pytest.approx(scores)
    for label in "ab":  # ranks within a group stay
        members = groups == label
        assert (np.argsort(moved[members]) == np.argsort(scores[members])).all()


def test_own_grids_and_intervals_are_those_of_the_data(data_dir):
    names = {"pSP": "statistical_parity", "pDP": "demographic_parity"}
    for dataset in published.DATASETS:
        data = LOADERS[dataset](data_dir)
        assert data.interval == published.OWN_INTERVALS[dataset]
        assert data.interval in published.INTERVALS[dataset]
        for fairness, name in names.items():
            assert sorted(published.MAX_GAPS[fairness][dataset]) == sorted(data.max_gaps[name])


def test_printed_tables_agree_with_each_other():
    for dataset in published.DATASETS:
        gaps = [row.max_gap for row in published.TABLE_4[dataset][10]]
        assert gaps == [row.max_gap for row in published.TABLE_4[dataset][20]]
        assert gaps[1:] == list(published.MAX_GAPS["pSP"][dataset])
        assert published.TABLE_3[dataset][0].accuracy == published.TABLE_4[dataset][10][0].accuracy
    assert len({rows[0] for rows in published.TABLE_2.values()}) == 1


def test_methods_that_see_no_interval_are_trained_once():
    by_interval = [Question("a9a", "pSP", interval, seeds=(0,)) for interval in published.INTERVALS["a9a"]]
    once = {run.key for question in by_interval for run in METHODS["group-auc"].runs(question)}
    each = {run.key for question in by_interval for run in METHODS["ours"].runs(question)}
    assert len(once) == len(METHODS["group-auc"].runs(by_interval[0]))
    assert len(each) == len(by_interval) * len(METHODS["ours"].runs(by_interval[0]))


def test_every_target_says_what_it_needs():
    for target in TARGETS.values():
        runs = target.runs(Scope(tuple(target.datasets), seeds=1))
        assert (len(runs) > 0) == (target.name != "table1")
        assert {run.method for run in runs} <= set(METHODS)


def test_the_papers_protocol_has_the_papers_trainers():
    """Everything but the start of frontiers and the engine's line in Figures 10 and 11."""
    for name in ("fig1", "fig2", "fig9", "table3", "table4"):
        runs = TARGETS[name].runs(Scope(("law_school",), seeds=1, protocol="paper"))
        assert {run.protocol for run in runs if run.method != "unconstrained"} == {"paper"}
        assert len({METHODS[run.method].solves for run in runs} - {None}) == {"fig1": 5, "fig9": 5}.get(
            name, 2 if name == "table3" else 1
        )


def fitted(method, tolerance, data_dir, **changes):
    run = Run("law_school", 0, method, tolerance, rows=600, **changes)
    parts = parts_of(run, data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return METHODS[method].fit(run, parts).fit


def test_a_price_buys_the_best_trade_of_loss_and_gap(data_dir):
    """No gap on the grid is a better bargain, and a higher price buys a smaller gap."""
    stated = {"fairness": "pSP", "interval": (0.7, 1.0), "n_points": 10, "alpha": 1e-3}
    bought = [fitted("penalty", price, data_dir, **stated) for price in (0.001, 0.1, 1.5)]
    gaps = [fit["gap"] for fit in bought]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > gaps[-1]
    for fit in bought:
        worth = fit["objective"] + fit["price"] * fit["gap"]
        assert all(worth <= other["objective"] + fit["price"] * other["gap"] + 1e-12 for other in bought)


@pytest.mark.parametrize("kind", ["group-auc", "inter-group", "intra-group"])
def test_the_engine_is_no_worse_than_the_papers_trainer(data_dir, kind):
    """Convex problems: projected gradients come down to the optimum of the engine, and not below."""
    engine = fitted(kind, 1.0, data_dir, alpha=0.0)
    trainer = fitted(f"{kind}-projected", 1.0, data_dir, alpha=0.0, protocol="paper")
    assert engine["objective"] <= trainer["objective"] + 1e-6
    assert trainer["objective"] == pytest.approx(engine["objective"], abs=0.01)
    assert trainer["violation"] <= 1e-6


@pytest.mark.parametrize("fairness", quick_first(["pDP", "pSP"]))
def test_the_engine_is_no_worse_than_idca(data_dir, monkeypatch, fairness):
    """The problems are not convex: IDCA, cut short, comes near to the engine and within its tolerance."""
    monkeypatch.setattr(by_the_paper, "_TRIED", 2)
    monkeypatch.setattr(by_the_paper, "_TOLERANCES", (5e-4,))
    stated = {"fairness": fairness, "interval": (0.7, 1.0), "n_points": 10, "alpha": 0.0}
    engine = fitted("ours", 0.1, data_dir, **stated)
    trainer = fitted("idca", 0.1, data_dir, protocol="paper", **stated)
    assert engine["violation"] <= 1e-4
    assert trainer["violation"] <= trainer["epsilon"]
    assert engine["objective"] <= trainer["objective"] + 1e-3
    assert trainer["objective"] == pytest.approx(engine["objective"], abs=0.01)


@pytest.mark.parametrize("fairness", quick_first(["pDP", "pSP"]))
def test_the_engine_sets_a_price_no_worse_than_subgradients(data_dir, monkeypatch, fairness):
    """``f_0 + price · largest gap``, which both of them minimise."""
    monkeypatch.setattr(by_the_paper, "_STEPS", (5e-3,))
    monkeypatch.setattr(by_the_paper, "_STEPS_TO_CHOOSE", 1)
    monkeypatch.setattr(by_the_paper, "_CHECKPOINTS", 2)
    stated = {"fairness": fairness, "interval": (0.7, 1.0), "n_points": 10, "alpha": 0.0}
    engine = fitted("penalty", 0.05, data_dir, **stated)
    trainer = fitted("penalty-descent", 0.05, data_dir, protocol="paper", **stated)
    worth = engine["objective"] + engine["price"] * engine["gap"]
    assert worth <= trainer["objective"] + engine["price"] * max(trainer["violation"], 0.0) + 1e-3
