"""Frontiers and verdicts from made runs, whose answers are known."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from partialfair_paper.claims import Answer, compare_ends, compare_gain, verdicts
from partialfair_paper.frontiers import Mean, choose_runs, curves, frontier, read_at
from partialfair_paper.method import Question
from partialfair_paper.methods import METHODS
from partialfair_paper.parts import gap_name
from partialfair_paper.plots import figures_of
from partialfair_paper.published import INTERVALS, NETWORKS
from partialfair_paper.runs import Outcome
from partialfair_paper.store import Store
from partialfair_paper.target import Scope, comparable, list_methods
from partialfair_paper.targets import TARGETS

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
    best = choose_runs(store, LAW, METHODS["ours"])
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


def judged(store, dataset="law_school"):
    """Findings by claim."""
    return {one.claim.name: one.findings for one in verdicts(Scope((dataset,), len(SEEDS)), store)}


BASELINES = ("group-auc", "inter-group", "intra-group", "penalty")


@pytest.mark.parametrize(
    ("gain", "missing", "answer"),
    [
        (0.01, None, Answer.HOLDS),
        (0.01, "penalty", Answer.NOT_WORSE),  # nothing is higher than what has not been run
        (0.0, None, Answer.NOT_WORSE),  # a tie is no loss, and no gain
        (-0.01, None, Answer.FAILS),
    ],
)
def test_a_frontier_is_higher_not_worse_or_lower(tmp_path, gain, missing, answer):
    """Ours reaches as far as any baseline, and is above all their models by the gain."""
    store = made(tmp_path, {name: 0.0 for name in BASELINES if name != missing})
    for run in METHODS["ours"].runs(LAW):
        gap = {0.2: 0.5, 0.15: 0.3, 0.1: 0.2, 0.08: 0.1, 0.005: 0.0}[run.tolerance]
        store.save(run, outcome(gap, 0.8 + 0.2 * gap + gain + 1e-4 * run.seed))
    said = {one.claim.name: one.findings for one in verdicts(Scope(("law_school",), 3), store)}
    (finding,) = said["frontier-psp"]
    assert finding.answer is answer
    assert finding.why.startswith("more accurate than") == (answer is Answer.HOLDS)
    assert [finding.answer for finding in said["rank-curves"]] == [Answer.HOLDS]
    assert [finding.answer for finding in said["partial-full"]] == [Answer.OPEN]
    assert not said["acs"]


def test_a_gain_that_varies_with_the_split_is_not_higher_accuracy(tmp_path):
    """+0.01, +0.01, -0.004: above one standard error, and no 95% interval above 0."""
    store = made(tmp_path, dict.fromkeys(BASELINES, 0.0))
    for run in METHODS["ours"].runs(LAW):
        gap = {0.2: 0.5, 0.15: 0.3, 0.1: 0.2, 0.08: 0.1, 0.005: 0.0}[run.tolerance]
        gain = (0.01, 0.01, -0.004)[run.seed]
        store.save(run, outcome(gap, 0.8 + 0.2 * gap + gain + 1e-4 * run.seed))
    (finding,) = judged(store)["frontier-psp"]
    assert finding.answer is Answer.NOT_WORSE


def test_no_claim_is_about_methods_that_the_paper_does_not_have(tmp_path):
    names = ("ours", "group-auc", "inter-group", "intra-group", "penalty")
    without = judged(made(tmp_path / "without", dict.fromkeys(names, 0.0)))
    gains = {**dict.fromkeys(names, 0.0), "trees": 0.05, "adjuster": 0.05}
    assert judged(made(tmp_path / "with", gains)) == without


def test_figure_1_shows_all_of_ours_and_tells_methods_apart(tmp_path):
    """Ours are not cut off, whatever the baselines are like; no two share a colour or a marker."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib.colors import to_hex

    methods = comparable("fast")
    gains = {method.name: 0.01 * position for position, method in enumerate(methods)}
    store = made(tmp_path, {**gains, "trees": 0.05, "adjuster": -0.25, "group-auc": -0.25})
    scope = Scope(("law_school",), len(SEEDS))
    figure = figures_of(TARGETS["fig1"], scope, store)["fig1"]
    ax = figure.axes[0]
    drawn = {bars.get_label(): bars.lines[0] for bars in ax.containers}
    assert list(drawn) == [method.label for method in list_methods(scope)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(drawn)
    for told in (lambda line: to_hex(line.get_color()), lambda line: line.get_marker()):
        assert len({told(line) for line in drawn.values()}) == len(drawn)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()

    def cut_off(name):
        x, y = drawn[METHODS[name].label].get_data()
        return not ((left < x) & (x < right) & (low < y) & (y < high)).all()

    assert not any(map(cut_off, ("unconstrained", "ours", "ours-exact", "trees", "adjuster")))
    for name in ("trees", "adjuster", "quantile-matching"):
        assert drawn[METHODS[name].label].get_linestyle() == ":"
    assert figure.legends[0].get_title().get_text() == "dotted: not in the paper"


def test_no_method_is_credited_with_models_that_it_did_not_find(tmp_path):
    """Ours bends below the line between the ends of a baseline that has one model alone, and beats that."""
    store = Store(tmp_path / "r", "1")
    corners = {
        0.2: (0.3, 0.85),
        0.15: (0.25, 0.84),
        0.1: (0.2, 0.835),
        0.08: (0.15, 0.832),
        0.005: (0.1, 0.83),
    }
    for run in METHODS["ours"].runs(LAW):
        store.save(run, outcome(*corners[run.tolerance]))
    for run in METHODS["unconstrained"].runs(LAW):
        store.save(run, outcome(0.5, 0.9))
    for run in METHODS["penalty"].runs(LAW):
        store.save(run, outcome(0.11, 0.829))
    (finding,) = judged(store)["frontier-psp"]
    assert finding.answer is Answer.NOT_WORSE


@pytest.mark.parametrize(
    ("splits", "accuracy", "holds", "said"),
    [
        (SEEDS, 0.84, False, "partialfair's models and is more accurate at fairness 0.95, by at most 0.0100"),
        (SEEDS, 0.82, True, "all models of regularization have smaller gaps than partialfair's, and none is"),
        ((0,), 0.84, True, "regularization"),
    ],
)
def test_models_fairer_than_ours_are_held_against_our_fairest(tmp_path, splits, accuracy, holds, said):
    """Ours ends at fairness .9 with .83; what one split of three says is chance."""
    store = made(tmp_path, {"group-auc": -0.05})
    for run in METHODS["ours"].runs(LAW):
        store.save(run, outcome(*((0.1, 0.83) if run.tolerance == 0.005 else (0.5, 0.95))))
    for run in METHODS["penalty"].runs(LAW):
        store.save(run, outcome(0.05, accuracy) if run.seed in splits else outcome(0.3, 0.8))
    (finding,) = judged(store)["frontier-psp"]
    assert finding.answer is (Answer.NOT_WORSE if holds else Answer.FAILS)
    assert said in finding.why
    if holds:
        assert finding.why.startswith("nowhere less accurate than group AUC")
        assert "intra-group pairwise has not been run" in finding.why


@pytest.mark.parametrize(
    ("gain", "answer"), [(0.01, Answer.HOLDS), (0.0, Answer.COMPARABLE), (-0.01, Answer.FAILS)]
)
def test_partial_parity_is_to_be_better_than_full_parity(tmp_path, gain, answer):
    store = made(tmp_path, {"ours": gain, "full-parity": 0.0})
    (finding,) = judged(store)["partial-full"]
    assert finding.answer is answer
    assert f"{gain:+.4f} ± 0.0000" in finding.why


@pytest.mark.parametrize(
    ("gains", "superior", "answer"),
    [
        # The mean is above one standard error, 0.0002, and its 95% interval contains 0.
        ((0.0003, 0.0009, -0.0001, 0.0001, 0.0003), True, Answer.COMPARABLE),
        ((0.0029, 0.0031, 0.0030, 0.0030, 0.0030), True, Answer.HOLDS),
        ((-0.0029, -0.0031, -0.0030, -0.0030, -0.0030), True, Answer.FAILS),
        ((0.0003,), True, Answer.COMPARABLE),
        ((-0.0001, 0.0001), False, Answer.HOLDS),
    ],
)
def test_a_gain_within_its_interval_is_comparable_and_not_superior(gains, superior, answer):
    assert compare_gain(Mean.of(gains), superior=superior, loses=False) is answer
    assert compare_gain(Mean.of(gains), superior=superior, loses=True) is Answer.FAILS


@pytest.mark.parametrize(
    ("dataset", "gain", "holds"), [("law_school", 0.01, True), ("law_school", 0.0, False)]
)
def test_twenty_points_are_to_be_better_on_law_school_alone(tmp_path, dataset, gain, holds):
    store = made(tmp_path, {"ours": 0.0})
    ten = {(run.seed, run.tolerance, run.alpha): store.of(run) for run in METHODS["ours"].runs(LAW)}
    for run in METHODS["ours"].runs(replace(LAW, n_points=20)):
        before = ten[run.seed, run.tolerance, run.alpha]
        test = {**before.test, "accuracy": before.test["accuracy"] + gain + 1e-4 * run.seed}
        store.save(run, replace(before, test=test))
    (finding,) = judged(store, dataset)["points"]
    assert finding.answer is Answer.of(holds)


@pytest.mark.parametrize("holds", [True, False])
def test_robust_is_highest_and_steadiest(tmp_path, holds):
    store = Store(tmp_path / "r", "1")
    for question, method, tolerance in TARGETS["fig9"].settings(Scope(("law_school",), len(SEEDS))):
        wide = question.interval[1] - question.interval[0]
        gap = 0.02 + 0.001 * wide if (method.name == "ours") == holds else 0.1 + 0.1 * wide
        for run in method.runs(question, (tolerance,)):
            known = store.of(run) or outcome(0.0, 0.9)
            measures = {**known.test, gap_name("pSP", question.interval): gap}
            store.save(run, replace(known, validation=measures, test=measures))
    (finding,) = judged(store)["robust"]
    assert finding.answer is Answer.of(holds)


def test_a_tie_on_the_worst_interval_is_neither_lost_nor_won(tmp_path):
    store = Store(tmp_path / "r", "1")
    for question, method, tolerance in TARGETS["fig9"].settings(Scope(("law_school",), len(SEEDS))):
        for run in method.runs(question, (tolerance,)):
            gap = 0.050 + 0.004 * run.seed if method.name == "ours" else 0.053
            store.save(run, outcome(gap, 0.89 if method.name == "penalty" else 0.9))
    (finding,) = judged(store)["robust"]
    assert finding.answer is Answer.TIED
    assert finding.why.startswith("tied with group AUC, inter-group pairwise, intra-group pairwise: ")
    assert "regularization 0.947 or more at a mean accuracy of 0.8900, which is too low" in finding.why


@pytest.mark.parametrize(
    ("idca", "ssg", "psp", "pdp"),
    [(0.40, 0.50, True, False), (0.50, 0.501, False, True), (0.50, 0.40, False, False)],
)
def test_ends_of_idca_and_ssg(tmp_path, idca, ssg, psp, pdp):
    """On law school IDCA is to be better for pSP, and alike for pDP."""
    store = Store(tmp_path / "r", "1")
    ends = {"idca": idca, "ssg": ssg, "ours-as-stated": 0.3}
    for name in ("fig10", "fig11"):
        for run in TARGETS[name].runs(Scope(("law_school",), len(SEEDS))):
            fit = {"objective": ends[run.method], "violation": 1e-4}
            store.save(run, replace(outcome(0.1, 0.9), fit=fit))
    said = judged(store)
    answers = [[finding.answer for finding in said[name]] for name in ("idca-psp", "idca-pdp")]
    assert answers == [[Answer.of(psp)], [Answer.of(pdp)]]


@pytest.mark.parametrize(
    ("violations", "better", "answer"),
    [
        ((4.7e-3, 1.2e-4), None, Answer.OPEN),  # of a9a: equal objectives, one of an easier problem
        ((1.2e-4, 4.7e-3), None, Answer.OPEN),
        ((4.7e-3, 1.2e-4), "SSG", Answer.OPEN),
        ((4.9e-3, 9.2e-4), None, Answer.HOLDS),
        ((1e-9, 9e-5), None, Answer.HOLDS),  # both are feasible
        ((4.7e-3, 1.2e-4), "IDCA", Answer.FAILS),  # the claim is of a smaller infeasibility
    ],
)
def test_objectives_at_different_infeasibilities_are_not_compared(violations, better, answer):
    (idca, ssg) = violations
    found, why = compare_ends((0.3481, idca), (0.3480, ssg), better=better)
    assert found is answer
    assert ("objectives are not compared" in why) == (answer is Answer.OPEN)


BAND = (0.2, 0.4)


def networks(tmp_path, by_curve, *, n_seeds=3):
    """A store of Figure 12, with test fairness and accuracy by where networks are constrained and κ."""
    store, scope = Store(tmp_path / "networks", "1"), Scope(("celeba",), seeds=n_seeds)
    for label, question, method in TARGETS["fig12"].curves(scope):
        for run in method.runs(question):
            fairness, accuracy = by_curve[label](run.tolerance)
            measures = {"accuracy": accuracy + 1e-3 * run.seed, gap_name("pSP", BAND): 1 - fairness}
            measures[gap_name("pSP", (0.0, 1.0))] = 0.9  # is not what networks are compared by
            fit = {"training images": 300}
            store.save(run, Outcome(fit=fit, validation=measures, test=measures))
    return store, scope


def line(above):
    """Networks on the line from (.5, .8) to (1, .7), or above it by so much."""
    return lambda gap: (1 - gap, 0.7 + 0.2 * gap + above)


@pytest.mark.parametrize(
    ("above", "answer"), [(0.01, Answer.HOLDS), (0.0, Answer.NOT_WORSE), (-0.01, Answer.FAILS)]
)
def test_networks_on_the_interval_are_compared_with_those_on_all_ranks(tmp_path, above, answer):
    on_band, on_all, more_points = NETWORKS
    store, scope = networks(
        tmp_path,
        {
            "unconstrained": lambda _: (0.5, 0.8),
            on_band: line(above),
            on_all: line(0.0),
            more_points: line(2 * above),
        },
    )
    found = {verdict.claim.name: verdict.findings for verdict in verdicts(scope, store)}
    partial, points = found["networks-partial"], found["networks-points"]
    assert [finding.dataset for finding in partial] == [on_band, more_points]
    assert {finding.answer for finding in partial} == {answer}
    assert f"{above:+.4f}" in partial[0].why
    # Fifty points compared with ten: 0.01 more, or less, is no little impact.
    assert points[0].answer is (Answer.FAILS if above else Answer.COMPARABLE)
    assert all(not findings for name, findings in found.items() if not name.startswith("networks"))
    rows = TARGETS["fig12"].rows(scope, store)
    assert rows[0]["fairness on the interval"] == "0.5000 ± 0.0000"
    assert {row["networks"] for row in rows} == {3}
    assert {row["training images"] for row in rows} == {"300"}


def test_networks_that_were_not_trained_are_not_evaluated(tmp_path):
    store, scope = Store(tmp_path / "none", "1"), Scope(("celeba",))
    found = {verdict.claim.name: verdict.findings for verdict in verdicts(scope, store)}
    assert {finding.answer for finding in found["networks-partial"]} == {Answer.OPEN}
    assert TARGETS["fig12"].rows(scope, store) == []
