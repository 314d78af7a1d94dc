"""The page's numbers are those of `partialfair.metrics`, whatever interval and threshold are chosen."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from partialfair import metrics
from partialfair.metrics.inputs import scored_groups
from partialfair.metrics.map_radii import MapRadii
from partialfair.theory import dkw_bound
from tests.browser.pages import (
    EXACT,
    INTERVAL,
    assert_numbers,
    details,
    expected,
    limits,
    move_to,
    people,
    quiet_report,
    thresholds_of,
    value,
    wait_for_sentence,
)


def assert_other_bands(page, interval, radii):
    """Of two groups: the gap ± R / (β − α), or R on the absolute scale; ε + ε′ of chances."""
    if len(radii.noise) > 2:
        return
    slack, width = radii.interval(np.array([[0, 1]]))[0], interval[1] - interval[0]
    for metric, scale, reach, most in (
        ("demographic_parity", "interval", slack / width, 1.0),
        ("demographic_parity", "absolute", slack, 1.0),
        ("group_auc", "interval", radii.epsilon.sum() / width, 0.5),
    ):
        gap = value(page, metric, scale)
        if np.isnan(gap):  # the threshold lies outside the interval
            continue
        wanted = [max(gap - reach, 0), min(gap + reach, most)]
        assert limits(page, metric, scale=scale) == pytest.approx(wanted, abs=EXACT)


@pytest.mark.parametrize(
    ("n_groups", "ties", "weighted", "rank_within"),
    [(2, False, "tenths", "group"), (3, True, None, "group_and_label"), (12, False, None, "group")],
)
def test_dragging_gives_the_numbers_of_the_library(page_of, n_groups, ties, weighted, rank_within):
    scores, groups, y = people(n_groups, ties=ties)
    rng = np.random.default_rng(1)
    weights = rng.choice([0.1, 0.3, 0.7], len(y)) if weighted else None
    page = page_of(
        quiet_report(y, scores, groups, threshold=0.3, rank_within=rank_within, sample_weight=weights)
    )
    maps = {
        scale: metrics.unfairness_map(
            scores, sensitive_features=groups, n_grid=100, gap_scale=scale, sample_weight=weights
        )
        for scale in ("interval", "absolute")
    }
    radii = MapRadii.of(scored_groups(scores, groups, sample_weight=weights), 0.95)
    for _ in range(5):
        begin = int(rng.integers(0, 90))
        end = int(rng.integers(begin + 2, 101))
        interval = (begin / 100, end / 100)
        move_to(page, begin, end)
        assert_numbers(page, expected(y, scores, groups, interval, 0.3, rank_within, weights))
        for scale, unfairness in maps.items():
            found = unfairness.at(*interval)
            band = limits(page, "statistical_parity", scale=scale)
            assert band == pytest.approx([found.ci_low, found.ci_high], abs=EXACT)
        assert_other_bands(page, interval, radii)
        inside = metrics.interval_membership(
            scores, sensitive_features=groups, interval=interval, sample_weight=weights
        )
        names = page.locator("#groups tbody th").all_text_contents()
        assert {*names} == {*groups}
        for k, name in enumerate(names):
            shown = float(page.locator("td[data-inside]").nth(k).get_attribute("data-inside"))
            assert shown == pytest.approx(inside[groups == name].sum(), abs=1e-6)


def test_a_threshold_changes_the_metrics_that_need_one(page_of):
    scores, groups, y = people(3)
    page = page_of(quiet_report(y, scores, groups))  # none was audited: the page offers whole percents
    before = value(page, "statistical_parity")
    page.locator("#rate").fill("35")
    threshold = thresholds_of(page)[34]
    assert np.mean(scores > threshold) == pytest.approx(0.35, abs=1e-3)
    assert_numbers(page, expected(y, scores, groups, INTERVAL, threshold))
    assert value(page, "statistical_parity") == before
    assert "selects 35.0% of all" in page.locator("#rate-text").text_content()
    assert "no threshold was audited" in page.locator("#metrics-text").text_content()


def test_a_threshold_says_whom_it_selects_though_scores_are_tied(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, (scores > 1).astype(float), groups))
    page.locator("#rate").fill("30")
    threshold = thresholds_of(page)[29]
    share = np.mean((scores > 1) > threshold)
    assert f"selects {100 * share:.1f}% of all" in page.locator("#rate-text").text_content()


def test_two_groups_can_be_picked(page_of):
    scores, groups, y = people(4)
    page = page_of(quiet_report(y, scores, groups, threshold=0.0))
    page.get_by_label("Groups compared").select_option(label="group 1 and group 3")
    some = np.isin(groups, ["group 1", "group 3"])
    assert_numbers(page, expected(y[some], scores[some], groups[some], INTERVAL, 0.0))
    assert page.locator("td[data-pair='statistical_parity']").text_content() == "group 1 and group 3"


def test_groups_with_too_few_positives_are_left_out_of_metrics_that_need_them(page_of):
    scores, groups, y = people(3)
    y[(groups == "group 2") & (scores < 1.5)] = 0  # few positives, and all at the top
    report = quiet_report(y, scores, groups, threshold=0.9, small_groups="list")
    assert [group.group for group in report.too_few_labelled["equal_opportunity"]] == ["group 2"]
    page = page_of(report)
    others = groups != "group 2"
    wanted = expected(y[others], scores[others], groups[others], INTERVAL, 0.9)
    for metric in report.too_few_labelled:
        assert value(page, metric) == pytest.approx(wanted[metric, "interval"], abs=EXACT)
        assert value(page, metric) == pytest.approx(report[metric].gap, abs=EXACT)
    assert "Too small to evaluate by equal opportunity (pEOP), and left out of it: group 2." in (
        page.locator("#metrics-text").text_content()
    )
    page.get_by_label("Groups compared").select_option(label="group 0 and group 2")
    assert page.locator("td[data-pair='equal_opportunity']").text_content() == "too small to evaluate"
    assert page.locator("td[data-pair='statistical_parity']").text_content() == "group 0 and group 2"


@pytest.mark.parametrize("ties", [False, True])
def test_where_lower_is_better_the_page_counts_from_the_lowest(page_of, ties):
    scores, groups, y = people(3, ties=ties)
    risks = 5.0 - scores
    options = {"higher_is_better": False}
    page = page_of(quiet_report(1 - y, risks, groups, threshold=4.0, **options))
    for begin, end in ((5, 30), (40, 73)):
        move_to(page, begin, end)
        # The same people in the same order: the scores are those of the other tests, turned round.
        assert_numbers(page, expected(1 - y, -risks, groups, (begin / 100, end / 100), -4.0))
    sentence = wait_for_sentence(page, "Among ranks 40–73% from the best (lowest scores) of each group")
    assert ": below the same score lie " in sentence
    assert "as audited: score below 4" in page.locator("#rate-text").text_content()
    assert "selected: score below 4" in page.locator("#metrics-text").text_content()
    audited = details(page, "As audited").text_content()
    assert "from the best, the lowest scores (score percentiles 5–30)" in audited
    assert "selected: score below 4" in audited
    assert "from the top" not in page.locator("body").inner_text()
    assert "above" not in page.locator("main").inner_text()
    data = json.loads(page.locator("#data").text_content())["models"][0]
    assert min(risks) <= data["bins"][0] < data["bins"][-1] <= max(risks)
    assert data["thresholds"][:-1] == sorted(data["thresholds"][:-1])  # 1% of all are below the first
    assert np.mean(risks < data["thresholds"][29]) == pytest.approx(0.3, abs=0.03)
    bars = page.locator("#densities rect.reach").all()
    assert all(float(bar.get_attribute("width")) > 2 for bar in bars)  # from 40% on the left to 73%


def test_equal_scores_have_no_gap(page_of):
    y = np.tile([0, 1], 300)
    page = page_of(quiet_report(y, np.zeros(600), np.repeat(["a", "b"], 300), threshold=0.0))
    assert_numbers(page, expected(y, np.zeros(600), np.repeat(["a", "b"], 300), INTERVAL, 0.0))
    assert "do not differ" in page.locator("#sentence").text_content()
    move_to(page, 40, 73)
    assert value(page, "statistical_parity") == 0


def test_rows_in_clusters_have_the_band_of_dkw(page_of):
    """Clusters may lie in both groups, whose errors then may add up."""
    scores, groups, y = people(2, n=3000)
    page = page_of(quiet_report(y, scores, groups, threshold=0.5, clusters=np.arange(3000) // 2))
    assert "error of ranks in two samples, from the Dvoretzky" in page.locator("body").text_content()
    move_to(page, 20, 80)
    gap = value(page, "statistical_parity")
    clusters = [pd.Series(np.arange(3000) // 2)[groups == name].value_counts() for name in np.unique(groups)]
    sizes = [(counts.sum() ** 2) / (counts**2).sum() for counts in clusters]
    slack = sum(dkw_bound(size, 0.95, n_comparisons=2) for size in sizes)
    assert limits(page, "statistical_parity")[1] == pytest.approx(gap + slack / 0.6, abs=EXACT)


def test_fifty_groups(page_of, tmp_path):
    """There is no room for every pair, so that the band of the worst is that of the smallest groups."""
    scores, groups, y = people(50, n=8000)
    page = page_of(quiet_report(y, scores, groups, threshold=0.5, n_resamples=100))
    assert (tmp_path / "page.html").stat().st_size < 3e6
    assert page.locator("#pair option").first.text_content() == "worst of all 1,225 pairs"
    scored = scored_groups(scores, groups)
    radii, pairs = MapRadii.of(scored, 0.95), np.array(list(scored.pairs()))
    slack, steps = radii.absolute(pairs).max(), int(np.ceil(100 * radii.membership.max()))

    def gap(begin, end):
        interval = (max(begin, 0) / 100, min(end, 100) / 100)
        common = {"sensitive_features": groups, "interval": interval, "gap_scale": "absolute"}
        return metrics.partial_statistical_parity_difference(None, scores, **common)

    for begin, end in ((6, 30), (60, 62), (20, 75)):
        move_to(page, begin, end)
        assert_numbers(page, expected(y, scores, groups, (begin / 100, end / 100), 0.5))
        inside = gap(begin + steps, end - steps) if begin + steps < end - steps else 0
        own = value(page, "statistical_parity")
        reach = 100 * radii.interval(pairs).max() / (end - begin)
        for scale, low, high in (
            ("interval", own - reach, own + reach),
            ("absolute", inside - slack, gap(begin - steps, end + steps) + slack),
        ):
            wanted = [max(low, 0), min(high, 1)]
            assert limits(page, "statistical_parity", scale=scale) == pytest.approx(wanted, abs=EXACT)


def test_an_undefined_gap_is_called_undefined(page_of):
    scores, groups, y = people(2)
    y[groups == "group 1"] = 0
    page = page_of(quiet_report(y, scores, groups, threshold=1.0))
    cell = page.locator("td[data-metric='equal_opportunity'][data-scale='interval']")
    assert cell.text_content() == "undefined"
