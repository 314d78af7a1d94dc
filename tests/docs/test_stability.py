"""The benchmark of stability: a fit should not see what it changes, and its bars are those it states."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from partialfair.metrics import partial_statistical_parity_difference
from tests.docs.scripts import run_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from _unstable import draw_integers, draw_one_hot
    from stability import is_monotone, summarize
finally:
    sys.path.remove(str(BENCHMARKS))


def gap_of_least_squares(problem):
    """The gap of scores that depend on no order but for rounding, which does not decide here."""
    weights = np.linalg.pinv(problem.X.T @ problem.X) @ (problem.X.T @ problem.y)
    scores = np.round(problem.X @ weights, 6)
    return partial_statistical_parity_difference(
        problem.y, scores, sensitive_features=problem.groups, interval=problem.interval
    )


@pytest.mark.parametrize("problem", [draw_integers(1, n=400), draw_one_hot(1, n=400)])
def test_permutations_change_nothing_that_counts(problem):
    permuted = problem.permute(3)
    assert not np.array_equal(permuted.X, problem.X)
    assert set(permuted.groups).isdisjoint(problem.groups)
    assert gap_of_least_squares(permuted) == pytest.approx(gap_of_least_squares(problem), abs=1e-12)
    sizes, permuted_sizes = (
        sorted(np.unique(one.groups, return_counts=True)[1]) for one in (problem, permuted)
    )
    assert sizes == permuted_sizes


def test_perturbations_are_relative():
    problem = draw_integers(1, n=100)
    perturbed = problem.perturb(0)
    np.testing.assert_allclose(perturbed.X, problem.X, rtol=1e-9, atol=0)
    assert (perturbed.X != problem.X).any()
    np.testing.assert_array_equal(perturbed.groups, problem.groups)


def a_fit(objective, gap=0.1, limit=0.1, status="converged"):
    fields = {"max_gap": limit, "gap": gap, "objective": objective, "feasible": gap <= limit}
    return {**fields, "status": status, "CPU seconds": 2.0}


def a_record(*fits, path=()):
    return {"max_gap": 0.1, "unconstrained": 0.5, "fits": list(fits), "path": list(path)}


@pytest.mark.parametrize(
    ("objectives", "gaps", "monotone"),
    [
        ((0.5, 0.6), (0.2, 0.1), True),
        ((0.6, 0.5), (0.2, 0.1), False),
        ((0.6, 0.5), (0.2, 0.11), True),  # the stricter one is infeasible, and serves nothing
        ((0.5, 0.6), (0.21, 0.1), False),  # the stricter one serves the looser limit, which was missed
    ],
)
def test_a_path_is_monotone(objectives, gaps, monotone):
    path = [a_fit(*one) for one in zip(objectives, gaps, (0.2, 0.1), strict=True)]
    assert is_monotone(path) is monotone


@pytest.mark.parametrize(
    ("record", "missed"),
    [
        (a_record(a_fit(0.6), a_fit(0.6019)), "none"),
        (a_record(a_fit(0.6), a_fit(0.6021)), "objective"),
        (a_record(a_fit(0.6), a_fit(0.6, status="feasible")), "status"),
        (a_record(a_fit(0.6), a_fit(0.6, gap=0.12)), "none"),  # a gap of 0.1 is not clearly below the limit
        (a_record(a_fit(0.6, gap=0.09), a_fit(0.6, gap=0.12)), "none found"),
        (a_record(a_fit(0.6), path=[a_fit(0.7, limit=0.2), a_fit(0.6)]), "path"),
        (a_record(a_fit(0.6, gap=0.12), path=[a_fit(0.6, gap=0.05)]), "none found"),
    ],
)
def test_bars_are_those_stated(record, missed):
    (row,) = summarize({"now": record})
    assert row["bars missed"] == missed


def test_earlier_fits_are_compared_with():
    earlier, now = a_record(a_fit(0.62)), a_record(a_fit(0.6))
    before, after = summarize({"before": earlier, "now": now})
    assert (before["excess"], after["excess"]) == ("20.0%", "0.0%")
    assert after["ratio"] == "1.00"


@pytest.mark.slow
def test_stability_benchmark_runs_and_goes_on(tmp_path):
    """Rows of other data sets stay in the record."""
    other = dict.fromkeys(["data", "commit", *summarize({"now": a_record(a_fit(0.6))})[0]], "other")
    (tmp_path / "stability.json").write_text(json.dumps({"rows": [other]}))
    small = ("--problems", "integers 1", "--permutations", 0, "--perturbations", 0, "--out", tmp_path)
    printed = run_script("benchmarks/stability.py", *small)
    kept, measured = json.loads((tmp_path / "stability.json").read_text())["rows"]
    assert kept == other
    assert (measured["data"], measured["code"], measured["none"]) == ("integers 1", "now", "0 of 1")
    assert f"| {measured['lowest']} |" in printed
