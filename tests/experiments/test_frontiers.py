"""Frontiers and verdicts from made runs, whose answers are known."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from partialfair.experiments.claims import verdicts
from partialfair.experiments.frontiers import Mean, chosen, curves, frontier, read_at
from partialfair.experiments.method import Question
from partialfair.experiments.methods import METHODS
from partialfair.experiments.paper import INTERVALS
from partialfair.experiments.parts import gap_name
from partialfair.experiments.runs import Outcome
from partialfair.experiments.store import Store
from partialfair.experiments.targets import Scope

INTERVAL, SEEDS = (0.7, 1.0), (0, 1, 2)
LAW = Question("law_school", "pSP", INTERVAL, SEEDS)


def outcome(gap, accuracy, validated=None):
    pairs = product(("pSP", "pDP"), INTERVALS["law_school"])
    measures = {"accuracy": accuracy, **{gap_name(fairness, interval): gap for fairness, interval in pairs}}
    fit = {"objective": 0.5, "violation": 0.0}
    return Outcome(fit=fit, validation={**measures, "accuracy": validated or accuracy}, test=measures)


def made(tmp_path, gains):
    """A store in which a method is more accurate than a line from (.5, .9) to (1, .85), by its gain."""
    store = Store(tmp_path / "r", "1")
    for name, gain in gains.items():
        runs = METHODS[name].runs(LAW)
        tolerances = list(dict.fromkeys(run.tolerance for run in runs))
        for run in runs:
            gap = 0.5 * (1 - tolerances.index(run.tolerance) / len(tolerances))
            accuracy = 0.8 + 0.2 * gap + gain + 1e-4 * run.seed
            # Only one alpha is any good, on the validation rows and on the test rows.
            store.save(run, outcome(gap, accuracy - (0.0 if run.alpha == 1e-3 else 0.01)))
    return store


def test_means_have_students_intervals():
    values = [0.1, 0.2, 0.4, 0.1, 0.3]
    mean = Mean.of(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (mean.value - mean.half_width, mean.value + mean.half_width) == pytest.approx((low, high))
    assert np.isnan(Mean.of([0.1]).error)


def test_validation_chooses_alpha(tmp_path):
    store = made(tmp_path, {"ours": 0.0})
    best = chosen(store, LAW, METHODS["ours"])
    assert {run.alpha for run, _ in best.values()} == {1e-3}
    assert len(best) == len(SEEDS) * len(METHODS["ours"].tolerances("law_school", "pSP"))
    points = frontier(store, LAW, METHODS["ours"])
    assert [point.n for point in points] == [3] * len(points)
    assert points[0].accuracy.value == pytest.approx(0.9 + 1e-4)


def test_curves_leave_out_what_validation_beats_and_failures(tmp_path):
    store = Store(tmp_path / "r", "1")
    runs = [run for run in METHODS["ours"].runs(LAW) if run.seed == 0]
    made_up = [outcome(0.4, 0.89, 0.9), outcome(0.3, 0.95, 0.80), outcome(0.2, 0.87, 0.88), Outcome("no")]
    for run, one in zip(runs, made_up, strict=False):
        store.save(run, one)
    (curve,) = curves(store, LAW, METHODS["ours"]).values()
    assert curve.tolist() == [[0.6, 0.89], [0.8, 0.87]]
    assert read_at(curve, 0.7) == pytest.approx(0.88)
    assert curves(store, LAW, METHODS["penalty"]) == {}


@pytest.mark.parametrize(("gain", "holds"), [(0.01, True), (-0.01, False)])
def test_a_frontier_is_judged_by_who_is_above(tmp_path, gain, holds):
    names = ("group-auc", "inter-group", "intra-group", "penalty")
    store = made(tmp_path, {"ours": gain, **dict.fromkeys(names, 0.0)})
    judged = {verdict.claim.name: verdict for verdict in verdicts(Scope(("law_school",), 3), store)}
    (finding,) = judged["frontier-psp"].findings
    assert finding.holds is holds
    assert judged["frontier-psp"].sentence() == f"{'holds' if holds else 'does not hold'} on law_school"
    (finding,) = judged["rank-curves"].findings
    assert finding.holds is True
    (finding,) = judged["partial-full"].findings
    assert finding.holds is None
    assert judged["acs"].sentence() == "not judged"
