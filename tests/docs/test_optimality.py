"""The referee of optimality: independent derivations of the same optimum agree, and the benchmark runs."""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from _hunting import make_best_known
    from _judging import Case, Model
    from _references import References
    from _smooth import Penalty
    from _tiny import Search, tiny_optimum
    from _two_features import global_optimum, unconstrained
    from optimality import FAMILIES
finally:
    sys.path.remove(str(BENCHMARKS))


def small_case(seed, n=12, n_groups=2, scale="interval", max_gap=0.35, levels=0, d=2):
    """A problem on a few rows, of which the first feature tells the groups apart."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % n_groups
    X = rng.normal(size=(n, d))
    X[:, 0] += groups
    y = (X.sum(axis=1) + rng.logistic(scale=0.5, size=n) > X.sum(axis=1).mean()).astype(int)
    y[:2] = 0, 1
    if levels:
        X = np.round(X * levels)
    return Case("small", X, y, groups, "pSP", (0.2, 0.9), scale, max_gap, 0.01)


@pytest.mark.parametrize("kind", ["pSP", "pDP"])
@pytest.mark.parametrize("scale", ["interval", "absolute"])
def test_the_loop_and_the_metric_agree(kind, scale):
    rng = np.random.default_rng(0)
    for seed in range(40):
        case = replace(small_case(seed, n=30, n_groups=2 + seed % 4, scale=scale), kind=kind)
        for scores in (rng.normal(size=30), rng.integers(-3, 4, size=30) * 0.1):
            assert case.gap(scores) == pytest.approx(case.judged_gap(scores), abs=1e-12)


def test_the_objective_is_that_of_the_fit():
    for group_terms in (None, "intercept", "interactions"):
        case = replace(small_case(1, n=60), alpha=0.1, group_terms=group_terms)
        clf = case.fitted(constraint=None)
        assert case.objective(case.model_of(clf)) == pytest.approx(clf.result_.objective, abs=1e-10)


def test_ties_are_counted_by_definition():
    case = small_case(0, n=12)  # two groups of six, of which ranks 20–90% hold 4.2 members each
    assert case.ties(np.arange(12.0)).band == 0
    assert case.ties(np.zeros(12)).block == case.ties(np.zeros(12)).band == 1
    scores = np.arange(12.0)
    scores[5] = scores[6]  # a tie of the fourth of one group and the third of the other
    assert case.ties(scores).block == pytest.approx(2 / 12)
    assert case.ties(scores).band == pytest.approx(2 / 8.4)
    scores[11] = scores[10]  # both the first of their groups, above the interval
    assert case.ties(scores).band == pytest.approx(2 / 8.4)


def best_at_angles(case, angles):
    """The best model at any of some angles, by general minimisers and the package's metric."""
    best, free = np.inf, case.ties(unconstrained(case).scores)
    for angle in angles:
        along = np.cos(angle) * case.X[:, 0] + np.sin(angle) * case.X[:, 1]
        if case.judged_gap(along) > case.max_gap + 1e-12 or not case.ties(along).within(free):
            continue

        def loss(v, along=along):
            return case.objective(Model(np.array([v[0]]), None, v[0] * along + v[1]))

        best = min(best, minimize(loss, [0.1, 0.0], bounds=[(0, None), (None, None)], tol=1e-12).fun)
    return best


@pytest.mark.parametrize("seed", [1, 4, 7])
@pytest.mark.parametrize(
    ("n_groups", "scale", "levels", "max_gap"),
    [(2, "interval", 0, 0.35), (3, "absolute", 0, 0.5), (2, "absolute", 2, 0.35)],
)
def test_the_sweep_finds_what_brute_force_finds(seed, n_groups, scale, levels, max_gap):
    """Nothing at any of 500 angles is better, and next to the optimum there is as good."""
    case = small_case(seed, n_groups=n_groups, scale=scale, levels=levels, max_gap=max_gap)
    found = global_optimum(case)
    assert case.judged_gap(found.scores) <= case.max_gap + 1e-12
    assert case.gap(unconstrained(case).scores) > case.max_gap
    value = case.objective(found)
    assert best_at_angles(case, np.linspace(0, 6, 500)) >= value - 1e-9
    angle = np.arctan2(found.coef[0, 1], found.coef[0, 0])
    nearby = angle + np.linspace(-1e-4, 1e-4, 100)
    assert value - 1e-9 <= best_at_angles(case, nearby) <= value + 1e-4


def test_an_impossible_bound_has_no_optimum():
    assert global_optimum(small_case(0, max_gap=0.001)) is None


@pytest.mark.parametrize(
    ("seed", "n_groups", "scale", "max_gap"),
    [(1, 2, "interval", 0.35), (4, 2, "interval", 0.5), (4, 3, "absolute", 0.5), (7, 3, "interval", 0.6)],
)
def test_integer_programming_finds_what_the_sweep_finds(seed, n_groups, scale, max_gap):
    case = small_case(seed, n_groups=n_groups, scale=scale, max_gap=max_gap)
    found, proven = tiny_optimum(case)
    assert proven
    assert case.judged_gap(found.scores) <= case.max_gap + 1e-12
    assert case.objective(found) == pytest.approx(case.objective(global_optimum(case)), abs=2e-5)


def test_integer_programming_says_that_nothing_is_possible():
    assert tiny_optimum(small_case(0, n=8, max_gap=0.001)) == (None, True)


@pytest.mark.parametrize(("seed", "scale"), [(0, "interval"), (1, "absolute")])
def test_integer_programming_finds_the_best_selection(seed, scale):
    """Every selection of eight rows that a linear scorer can make and that is allowed, one by one."""
    case = replace(small_case(seed, n=8, scale=scale, d=3, max_gap=0.1), kind="pDP")
    search, best = Search(case), np.inf
    for chosen in range(2**8):
        signs = np.where(chosen >> np.arange(8) & 1, 1.0, -1.0)
        if case.judged_gap(signs) <= case.max_gap + 1e-12:
            v = search.refined(signs[:, None] * search.Z, 1e-7, np.zeros(4))
            if (signs * (search.Z @ v) > 0).all():
                best = min(best, search.value(v))
    found, proven = tiny_optimum(case)
    assert proven
    assert case.objective(found) == pytest.approx(best, abs=2e-5)


def test_bounds_on_a_sublevel_set_hold():
    """Nothing that is drawn from the set lies beyond, and something comes near."""
    rng = np.random.default_rng(0)
    search = Search(small_case(2, n=20, d=3))
    centre = unconstrained(search.case)
    centre = np.append(centre.coef[0], centre.intercept)
    below = search.value(centre) + 0.1
    directions = [search.Z[0], -search.Z[1], search.Z[2] - search.Z[3]]
    bounds = [search.largest(direction, below) for direction in directions]
    most = np.full(3, -np.inf)
    for ray in rng.normal(size=(3000, 4)):
        low, high = 0.0, 100.0
        while high - low > 1e-9:
            half = (low + high) / 2
            low, high = (half, high) if search.value(centre + half * ray) <= below else (low, half)
        most = np.maximum(most, np.array(directions) @ (centre + low * ray))
    assert (most <= bounds).all()
    assert (most >= np.array(bounds) - 0.2 * np.abs(bounds) - 0.2).all()


@pytest.mark.parametrize("family", ["two-feature", "tiny", "ties"])
def test_references_are_what_they_say(family):
    """Every model that is kept has the objective and the gap of its entry, and no more ties than it may."""
    references = References(BENCHMARKS / "results" / "references.json")
    everything = argparse.Namespace(problems="", data=None)
    for setting in FAMILIES[family].settings(everything):
        for case in setting:
            known, model = references.of(case), references.model_of(case)
            if known is None and np.lib.NumpyVersion(np.__version__) < "2.0.0":
                pytest.skip("problems are drawn otherwise by versions of NumPy before 2")
            assert known is not None, case.key
            if known.objective is None:
                assert known.proof == "global"
                continue
            assert case.objective(model) == pytest.approx(known.objective, abs=1e-12)
            assert case.judged_gap(model.scores) == pytest.approx(known.gap, abs=1e-12)
            assert known.gap <= case.max_gap + 1e-12
            assert case.ties(model.scores).within(known.free_ties)


def test_the_smoothed_penalty_has_its_gradient():
    rng = np.random.default_rng(0)
    for kind, scale in (("pSP", "interval"), ("pSP", "absolute"), ("pDP", "interval")):
        case = replace(small_case(0, n=40, n_groups=3, scale=scale), kind=kind)
        scores = rng.normal(size=40) + 0.7 * case.codes
        penalty = Penalty(case, np.sort(rng.normal(size=9)), 0.8, 0.05, scores)
        value, slope = penalty.at(scores)
        moves = 1e-6 * np.eye(40)
        numeric = [(penalty.at(scores + move)[0] - penalty.at(scores - move)[0]) / 2e-6 for move in moves]
        assert value > 0
        np.testing.assert_allclose(slope, numeric, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of fits that are cut short
@pytest.mark.slow
@pytest.mark.alone
def test_a_hunt_ends_below_a_default_fit(tmp_path):
    """What is kept keeps the promise, no default fit is better, and the file says the same."""
    case = replace(small_case(3, n=300, n_groups=3, max_gap=0.3, d=3), key="hunted")
    references = References(tmp_path / "references.json")
    make_best_known([case], references, seconds=6.0)
    known, fit = references.of(case), case.fitted()
    assert case.judged_gap(references.model_of(case).scores) <= case.max_gap + 1e-12
    assert fit.result_.gap > case.max_gap or known.objective <= fit.result_.objective + 1e-9
    references.save()
    assert References(tmp_path / "references.json").of(case) == known


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path):
    references = tmp_path / "references.json"

    def run(*options):
        command = [
            sys.executable,
            BENCHMARKS / "optimality.py",
            "--out",
            tmp_path,
            "--references",
            references,
        ]
        wanted = ["--only", "two-feature", "--problems", "feature/0[0-3]"]
        return subprocess.run(
            [*command, *wanted, *options], capture_output=True, text=True, check=True
        ).stdout

    assert "sweep (global)" in run("--make")
    assert "of 4 problems within 0.01, 0.02, 0.05, 0.1 of the price" in run()
    rows = json.loads((tmp_path / "optimality.json").read_text())["rows"]
    assert len(rows) == 4
    assert not any(row["broken promise"] or row["stated objective differs"] for row in rows)
    kept = json.loads(references.read_text())
    assert all(entry["proof"] == "global" for entry in kept.values())
