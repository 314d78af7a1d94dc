"""What results say: a verdict first, its direction, one pair of limits, and short representations."""

import builtins
import re

import numpy as np
import pytest

from partialfair.exceptions import ThresholdOutsideIntervalWarning
from partialfair.metrics import (
    calibration_by_group,
    compare_gaps,
    fairness_report,
    rank_curve,
    unfairness_map,
)
from partialfair.metrics.choice import choose_interval
from partialfair.metrics.elsewhere import compare_elsewhere, gap_elsewhere
from partialfair.utils.notebook import result_html

INTERVAL = (0.2, 0.6)


def scores_of(shift, n=400, n_groups=2, seed=0):
    """Normal scores; those of the last group are lower by ``shift``."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"g{k}" for k in range(n_groups)], n)
    scores = rng.normal(size=n * n_groups) - shift * (groups == f"g{n_groups - 1}")
    return rng.random(scores.size) < 0.5, scores, groups


def report_of(shift, **options):
    y, scores, groups = scores_of(shift, **{k: options.pop(k) for k in ("n", "n_groups") if k in options})
    settings = {"interval": INTERVAL, "threshold": -0.2, "random_state": 0, "n_resamples": 200, **options}
    if not settings.get("higher_is_better", True):
        scores, settings["threshold"] = -scores, 0.2
    return fairness_report(y, scores, sensitive_features=groups, **settings)


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("scale", ["interval", "absolute"])
def test_a_gap_that_is_shown_has_a_direction(higher, scale):
    report = report_of(0.8, higher_is_better=higher, gap_scale=scale)
    row, verdict = report["statistical_parity"], report.verdict
    assert verdict.finding == "gap detected"
    assert row.ci_low > 0
    assert row.worse_off == "g1"
    assert str(verdict).startswith("Gap detected: g1 is worse off than g0 on ranks 20–60% from the ")
    assert f"{row.gap:.3f} (95% interval {row.ci_low:.3f} to {row.ci_high:.3f})" in verdict.headline
    assert f"differ by {row.ci_low:.3f} to {row.ci_high:.3f}" in verdict.claim
    assert ("score above" if higher else "score below") in verdict.headline
    # The two proportions in words differ by the gap.
    first, second = (float(found) / 100 for found in re.findall(r"([\d.]+)% of g", verdict.headline))
    assert second - first == pytest.approx(row.gap, abs=0.0011)
    for name in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        assert report[name].worse_off == "g1"
    assert report["group_auc"].worse_off is None


def test_direction_follows_the_intervals_of_the_groups():
    """g0 has the higher ranks at every score, but by what its own interval holds it is worse off."""
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=2000), np.repeat(["g0", "g1"], 1000)
    report = fairness_report(
        None, scores, sensitive_features=groups, interval={"g0": (0.4, 0.8), "g1": (0.1, 0.5)}, random_state=0
    )
    assert report["statistical_parity"].worse_off == "g0"
    assert (
        "ranks 10–50% of g1 and" in report.verdict.headline or "and 10–50% of g1" in report.verdict.headline
    )


def test_a_gap_that_is_not_shown_is_bounded_and_not_denied():
    report = report_of(0.0)
    row, verdict = report["statistical_parity"], report.verdict
    assert row.ci_low == 0
    assert verdict.finding == "no gap detected"
    assert str(verdict).startswith("No gap detected on ranks 20–60%")
    assert f"more than {row.ci_high:.3f}" in verdict.claim
    assert "that there is no gap may not be claimed" in verdict.claim


def test_what_is_not_evaluated_is_no_finding():
    with pytest.warns(ThresholdOutsideIntervalWarning):
        report = report_of(0.8, threshold=3.0, metrics=["demographic_parity"])
    assert report.verdict.finding == "not evaluated"
    assert "n/a (threshold outside the interval)" in str(report)
    missing = fairness_report(
        None, np.arange(80.0), sensitive_features=["a", "b"] * 40, metrics=["equal_opportunity"]
    )
    assert missing.verdict.finding == "not evaluated"
    assert "needs labels" in str(missing)


def test_printed_reports_begin_with_the_verdict_and_show_one_pair_of_limits():
    report = report_of(0.8, n_groups=3)
    printed = str(report)
    assert printed.startswith(str(report.verdict))
    table = printed.split("\n\n")[1].splitlines()
    assert len(table) == 1 + len(report.metrics)
    assert re.split(r"\s{2,}", table[0]) == ["metric", "gap", "95% interval", "worse off", "compared with"]
    for line, row in zip(table[1:], report.metrics, strict=True):
        assert f"{row.gap:.3f}  {row.ci_low:.3f} to {row.ci_high:.3f}" in line
        assert f"{row.upper_bound:.3f}" not in line or f"{row.upper_bound:.3f}" in (
            f"{row.ci_high:.3f}",
            f"{row.gap:.3f}",
        )
    assert "lower_bound and upper_bound" in printed
    assert "some pair of groups differs" in report.verdict.claim
    assert "another pair may have the largest gap" in report.verdict.claim


def test_the_summary_is_one_paragraph_with_all_that_was_measured():
    report = report_of(0.8)
    summary = report.summary()
    assert "\n" not in summary
    assert str(report.verdict) in summary
    assert "800 rows in 2 groups (g0 400, g1 400)" in summary
    for row in report.metrics:
        assert f"{row.gap:.3f}" in summary
    assert "on the interval scale" in summary
    few = np.r_[np.repeat(["a", "b"], 100), ["c"] * 5]
    with pytest.warns(match="too small to evaluate"):
        left_out = fairness_report(None, np.arange(205.0), sensitive_features=few, random_state=0)
    assert "Not included: 1 of 3 groups" in left_out.summary()
    assert "Not included: 1 of 3 groups" in str(left_out)
    assert "1 of 3 groups" in repr(left_out)


@pytest.fixture(scope="module")
def results():
    y, scores, groups = scores_of(1.0, n_groups=4)
    names = np.char.add(groups, " with a very long name, as columns of answers to a survey often have" * 2)
    given = {"sensitive_features": names}
    return {
        "report": fairness_report(y, scores, interval=INTERVAL, random_state=0, n_resamples=100, **given),
        "comparison": compare_gaps(
            y, scores, -scores, interval=INTERVAL, n_resamples=100, random_state=0, **given
        ),
        "map": unfairness_map(scores, **given, n_grid=40),
        "curve": rank_curve(scores, **given),
        "choice": choose_interval(scores, positive_rate=0.3, **given),
        "calibration": calibration_by_group(y, scores, **given),
        "elsewhere": gap_elsewhere(scores, interval=INTERVAL, **given),
        "change": compare_elsewhere(scores, -scores, interval=INTERVAL, **given),
    }


def test_representations_stay_short(results):
    for name, result in results.items():
        assert len(repr(result)) < 300, (name, repr(result))
        assert "array(" not in repr(result)


@pytest.mark.parametrize("name", ["report", "map", "curve", "choice"])
def test_notebooks_show_the_verdict_a_table_and_a_figure(results, name, monkeypatch):
    result = results[name]
    shown = result._repr_html_()
    assert shown.count("<table>") == 1
    assert shown.count('src="data:image/png;base64,') == 1
    assert len(shown) < 100_000
    text = re.sub("<[^>]*>", "", shown)
    assert (
        f"{result.verdict.headline if name == 'report' else getattr(result, 'verdict', 'ranks')}"[:30].lower()
        in text.lower()
    )
    if name == "choice":
        low, high = result.interval
        first_cells = re.findall("<td[^>]*>([^<]*)", shown)[:3]
        assert [float(cell) for cell in first_cells] == pytest.approx([low, high, result.gap], abs=5e-3)
    original = builtins.__import__

    def without_matplotlib(module, *args, **options):
        if module.startswith("matplotlib"):
            raise ModuleNotFoundError(name="matplotlib")
        return original(module, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    assert "<img" not in result._repr_html_()


def test_names_cannot_write_html():
    scores, groups = np.r_[np.arange(50.0), np.arange(50.0)], np.repeat(["<script>", "b & c"], 50)
    shown = fairness_report(None, scores, sensitive_features=groups, random_state=0)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<b>No: </b>" not in result_html("No", [], [])
    assert result_html("Gap detected: <x>", ["a<"], [["b>"]], notes=["c&"]).count("&") == 5
