"""What results say first: whether the constraint is satisfied, the gap, its limit, and between whom."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from partialfair import PartialFairClassifier, PartialFairRegressor, fairness_path
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.metrics.partial import WorstGap
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.utils.text import gap_text

INTERVAL = (0.1, 0.5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    groups = rng.choice(["North", "South"], 1500)
    X = rng.normal(size=(1500, 2)) + np.outer(groups == "North", [1, 0])
    return X, X.sum(axis=1) + rng.normal(size=1500) > 0.5, groups


@pytest.fixture(scope="module")
def result(rows):
    X, y, groups = rows
    return PartialFairClassifier(interval=INTERVAL, max_gap=0.1).fit(X, y, sensitive_features=groups).result_


def with_gap(result, *gaps, limit=0.1, **changes):
    kinds = (StatisticalParity, DemographicParity)
    constraints = tuple(kind(INTERVAL, limit) for kind in kinds[: len(gaps)])
    worst = tuple(WorstGap(gap, ("North", "South"), 0.3, (0.2, 0.4)) for gap in gaps)
    return replace(result, constraints=constraints, gaps=worst, **changes)


def test_the_answer_comes_first_and_the_solver_last(result):
    lines = str(result).splitlines()
    assert lines[0] == result.verdict
    assert lines[0].startswith("Constraint satisfied: training gap ")
    assert lines[0].endswith(", limit 0.1 (North vs South)") or lines[0].endswith("(South vs North)")
    assert [line.partition(" ")[0] for line in lines[-3:]] == ["solver:", "objective", "KKT"]


@pytest.mark.parametrize(
    ("gaps", "changes", "sentence"),
    [
        ((0.0991,), {}, "Constraint satisfied: training gap 0.0991, limit 0.1 (North vs South)"),
        ((0.1 + 1e-13,), {}, "Constraint satisfied: training gap 0.1, limit 0.1 (North vs South)"),
        ((0.10004,), {}, "Constraint NOT satisfied: training gap 0.10004, limit 0.1 (North vs South)"),
        ((0.25,), {}, "Constraint NOT satisfied: training gap 0.25, limit 0.1 (North vs South)"),
        (
            (0.25,),
            {"enforce": "surrogate"},
            "Constraint NOT satisfied (imposed on the surrogate): training gap 0.25, limit 0.1 "
            "(North vs South)",
        ),
        (
            (0.02, 0.3),
            {},
            "Constraints NOT satisfied: training gap nearest to its limit 0.3, limit 0.1 (North vs South)",
        ),
        ((), {}, "No constraint"),
    ],
)
def test_verdicts(result, gaps, changes, sentence):
    stated = with_gap(result, *gaps, **changes)
    assert stated.verdict == sentence
    assert str(stated).splitlines()[0] == sentence
    if gaps and not changes:
        assert sentence.split()[1] == ("satisfied:" if stated.satisfied else "NOT")


def test_a_gap_next_to_the_interval_that_exceeds_its_limit(result):
    outside = {"outside": (StatisticalParity((0.5, 0.9), 0.2),)}
    outside["outside_gaps"] = (WorstGap(0.3, ("North", "South"), 0.1, (0.6, 0.7)),)
    stated = with_gap(result, 0.05, **outside)
    assert stated.satisfied is False
    assert stated.verdict.startswith("Constraint NOT satisfied outside the interval: training gap 0.3 at the")
    assert stated.verdict.endswith(", limit 0.2 (North vs South)")


def test_a_larger_tolerance_is_named(result):
    assert "KKT certificate, to be at most 0.0001: " in str(result)
    of_trees = str(replace(result, tol=1e-3))
    assert "to be at most 0.001 (10 times that of linear models by default): " in of_trees


def test_without_an_exact_metric(result):
    stated = with_gap(result, float("nan"), max_violation=0.03)
    assert stated.verdict.startswith(
        "No exact metric is known for the constraint: surrogate exceeded by 0.03"
    )


def test_reprs_are_short(rows, result):
    X, y, groups = rows
    long = np.where(groups == "North", "a" * 400, "b" * 400)
    clf = PartialFairClassifier(interval=INTERVAL, max_gap=0.3)
    path = fairness_path(clf, X, y, sensitive_features=long, max_gaps=[0.3], random_state=0)
    adjuster = PartialParityAdjuster(interval=INTERVAL, max_gap=0.1).fit(X[:, 0], sensitive_features=long)
    regressor = PartialFairRegressor(interval=INTERVAL, max_gap=0.3).fit(
        X, X[:, 0] + 0.0 * X[:, 1], sensitive_features=groups
    )
    shown = [result, path, path.points[-1], path.points[-1].model.result_, adjuster, adjuster.result_]
    shown += [*adjuster.maps_, regressor.result_]
    for one in shown:
        assert len(repr(one)) < 300
        assert "\n" not in repr(one) or one is adjuster
    assert len(str(path).splitlines()) > 2


def test_notebooks_escape_names(rows):
    X, y, groups = rows
    names = np.where(groups == "North", "<script>", "&")
    clf = PartialFairClassifier(interval=INTERVAL, max_gap=0.3)
    path = fairness_path(clf, X, y, sensitive_features=names, max_gaps=[0.3], random_state=0)
    adjuster = PartialParityAdjuster(interval=INTERVAL, max_gap=0.1).fit(X[:, 0], sensitive_features=names)
    for one in (path, path.points[-1].model.result_, adjuster.result_):
        html = one._repr_html_()
        assert "<script>" not in html
        assert html.count("<table>") == html.count("<img ") == 1
        assert len(html) < 100_000
    assert "&lt;script&gt;" in adjuster.result_._repr_html_()
    shown = re.sub("<[^>]*>", " ", path._repr_html_())
    for gap in path.to_frame()["gap"]:
        assert f" {gap:.3g} " in shown
    first, *_, last = sorted(path.to_frame()["gap"], reverse=True)
    assert shown.split()[:4] == ["Gap", f"{first:.3f}", "at", "accuracy"]
    assert f"down to {last:.3f} at accuracy" in shown


def test_notebooks_show_the_gaps_of_all_constraints_and_their_limits(result):
    outside = {"outside": (StatisticalParity((0.5, 0.9), 0.2),)}
    outside["outside_gaps"] = (WorstGap(0.15, ("North", "South"), 0.1, (0.6, 0.7)),)
    shown = with_gap(result, 0.05, **outside)._repr_html_()
    cells = [re.findall("<td[^>]*>([^<]*)", row) for row in shown.split("<tr>")[2:]]
    assert [(training_gap, limit) for _, training_gap, limit, _ in cells] == [
        ("0.05", "0.1"),
        ("0.15", "0.2"),
    ]
    assert "<img" not in shown  # models of the search have one gap, which could be of either constraint
    assert "<table>" not in with_gap(result)._repr_html_()


@pytest.mark.parametrize(
    ("gap", "limit", "text"),
    [(0.0991, 0.1, "0.0991"), (0.1, 0.1, "0.1"), (0.100001, 0.1, "0.100001"), (0.09996, 0.09999, "0.09996")],
)
def test_gaps_show_on_which_side_of_the_limit_they_are(gap, limit, text):
    assert gap_text(gap, limit) == text
