"""The audit page in a browser: its numbers are those of `partialfair.metrics`, and everyone can use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from partialfair import PartialFairClassifier, fairness_path, metrics
from partialfair.exceptions import IdleThresholdWarning, SmallGroupWarning, UndefinedGapWarning
from partialfair.metrics import fairness_report
from partialfair.metrics._inputs import scored_groups
from partialfair.metrics._map_radii import MapRadii
from partialfair.report import audit_page, write_page
from partialfair.theory import dkw_bound
from tests.browser.conftest import violations
from tests.new_constraint import NAME, TITLE, registered

EXACT = 1e-9
INTERVAL = (0.05, 0.3)


def people(n_groups, seed=0, n=1500, ties=False):
    """Scores of groups of unequal size that differ, with labels."""
    rng = np.random.default_rng(seed)
    names = [f"group {k}" for k in range(n_groups)]
    groups = np.concatenate([names, names, rng.choice(names, n - 2 * n_groups)])
    shift = pd.Series(rng.normal(size=n_groups), index=names)
    scores = rng.normal(size=n) + 0.5 * shift[groups].to_numpy()
    y = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)
    y[: 2 * n_groups] = np.repeat([0, 1], n_groups)  # every group has both labels
    return np.round(scores, 1) if ties else scores, groups, y


def quiet_report(y, scores, groups, **options):
    with warnings.catch_warnings():
        for kind in (IdleThresholdWarning, SmallGroupWarning, UndefinedGapWarning):
            warnings.simplefilter("ignore", kind)
        settings = {
            "interval": INTERVAL,
            "random_state": 0,
            "n_resamples": 200,
            "small_groups": "keep",
            **options,
        }
        return fairness_report(y, scores, sensitive_features=groups, **settings)


@pytest.fixture
def page_of(tmp_path, open_page):
    """From a report, or several by name, to its opened page."""

    def opened(report, **options):
        file = tmp_path / "page.html"
        write_page(audit_page(report), file)
        return open_page(file, **options)

    return opened


def ends(page):
    return [int(page.locator(f"#{end}").get_attribute("aria-valuenow")) for end in ("begin", "end")]


def drag(page, handle, percent):
    """Take an end of the interval with the mouse and put it somewhere."""
    box, bar = page.locator(f"#{handle}").bounding_box(), page.locator("#bar").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    # The bar has a border of one pixel at each end.
    page.mouse.move(bar["x"] + 1 + (bar["width"] - 2) * percent / 100, box["y"] + 5, steps=4)
    page.mouse.up()


def press(page, handle, key, times=1):
    page.locator(f"#{handle}").focus()
    for _ in range(times):
        page.keyboard.press(key)


def move_to(page, begin, end):
    """Drag both ends, in the order that leaves room."""
    order = ("end", "begin") if end > ends(page)[0] + 2 else ("begin", "end")
    for handle in order:
        drag(page, handle, {"begin": begin, "end": end}[handle])
    assert ends(page) == [begin, end]


def value(page, metric, scale="interval"):
    return float(
        page.locator(f"td[data-metric='{metric}'][data-scale='{scale}']").get_attribute("data-value")
    )


def thresholds_of(page):
    return json.loads(page.locator("#data").text_content())["models"][0]["thresholds"]


def expected(y, scores, groups, interval, threshold, rank_within="group", weights=None):
    """Every number of the table by the library, keyed by metric and scale."""
    common = {"sensitive_features": groups, "interval": interval, "sample_weight": weights}
    at_threshold = {**common, "threshold": threshold}
    labelled = {**at_threshold, "rank_within": rank_within}
    numbers = {("group_auc", "interval"): metrics.partial_group_auc_difference(None, scores, **common)}
    for name in ("inter_group_pairwise", "intra_group_pairwise"):
        metric = getattr(metrics, f"{name}_difference")
        numbers[name, "interval"] = metric(y, scores, sensitive_features=groups, sample_weight=weights)
    for scale in ("interval", "absolute"):
        for name, metric, options in (
            ("statistical_parity", metrics.partial_statistical_parity_difference, common),
            ("demographic_parity", metrics.partial_demographic_parity_difference, at_threshold),
            ("equal_opportunity", metrics.partial_equal_opportunity_difference, labelled),
            ("equalized_odds", metrics.partial_equalized_odds_difference, labelled),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UndefinedGapWarning)
                numbers[name, scale] = metric(y, scores, gap_scale=scale, **options)
    return numbers


def assert_numbers(page, wanted):
    for (metric, scale), number in wanted.items():
        assert value(page, metric, scale) == pytest.approx(number, abs=EXACT, nan_ok=True), (metric, scale)


def assert_other_bands(page, interval, radii):
    """Of two groups: the gap give or take R / (β − α), or R on the absolute scale; ε + ε′ of chances."""
    if len(radii.noise) > 2:
        return
    slack, width = radii.interval(np.array([[0, 1]]))[0], interval[1] - interval[0]
    for metric, scale, reach, most in (
        ("demographic_parity", "interval", slack / width, 1.0),
        ("demographic_parity", "absolute", slack, 1.0),
        ("group_auc", "interval", radii.epsilon.sum() / width, 0.5),
    ):
        band, gap = (
            page.locator(f"td[data-metric='{metric}'][data-band='{scale}']"),
            value(page, metric, scale),
        )
        assert float(band.get_attribute("data-low")) == pytest.approx(max(gap - reach, 0), abs=EXACT)
        assert float(band.get_attribute("data-high")) == pytest.approx(min(gap + reach, most), abs=EXACT)


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
            band = page.locator(f"td[data-metric='statistical_parity'][data-band='{scale}']")
            found = unfairness.at(*interval)
            assert float(band.get_attribute("data-low")) == pytest.approx(found.low, abs=EXACT)
            assert float(band.get_attribute("data-high")) == pytest.approx(found.high, abs=EXACT)
        assert_other_bands(page, interval, radii)
        inside = metrics.band_membership(
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
    assert "selects 35.0 % of all" in page.locator("#rate-text").text_content()
    assert "no threshold was audited" in page.locator("#metrics-text").text_content()


def test_a_threshold_says_whom_it_selects_though_scores_are_tied(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, (scores > 1).astype(float), groups))
    page.locator("#rate").fill("30")
    threshold = thresholds_of(page)[29]
    share = np.mean((scores > 1) > threshold)
    assert f"selects {100 * share:.1f} % of all" in page.locator("#rate-text").text_content()


def test_two_groups_can_be_picked(page_of):
    scores, groups, y = people(4)
    page = page_of(quiet_report(y, scores, groups, threshold=0.0))
    page.get_by_label("groups compared").select_option(label="group 1 and group 3")
    some = np.isin(groups, ["group 1", "group 3"])
    assert_numbers(page, expected(y[some], scores[some], groups[some], INTERVAL, 0.0))
    assert page.locator("td[data-pair='statistical_parity']").text_content() == "group 1 and group 3"


def test_keys_move_the_interval_and_keep_two_percents(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups))
    assert ends(page) == [5, 30]
    press(page, "move", "ArrowRight", 3)
    assert ends(page) == [8, 33]
    press(page, "begin", "ArrowLeft")
    press(page, "end", "PageUp")
    assert ends(page) == [7, 38]
    press(page, "begin", "End")
    assert ends(page) == [36, 38]
    press(page, "end", "ArrowLeft")
    assert ends(page) == [36, 38]
    press(page, "move", "End")
    assert ends(page) == [98, 100]
    press(page, "map", "ArrowLeft")
    assert ends(page) == [97, 99]
    press(page, "map", "ArrowUp")
    assert ends(page) == [97, 100]
    wanted = metrics.partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=(0.97, 1.0)
    )
    assert value(page, "statistical_parity") == pytest.approx(wanted, abs=EXACT)
    page.get_by_role("button", name="back to the beginning").click()
    assert ends(page) == [5, 30]


def test_an_audited_threshold_is_found_again(page_of):
    scores, groups, y = people(2)
    page = page_of(quiet_report(y, scores, groups, threshold=0.123))
    before = value(page, "demographic_parity")
    page.locator("#rate").fill("70")
    assert value(page, "demographic_parity") != before
    page.get_by_role("button", name="audited threshold").click()
    assert value(page, "demographic_parity") == before
    assert "as audited: score above 0.123" in page.locator("#rate-text").text_content()


def test_the_map_is_dragged_too(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups))
    box = page.locator("#heat").bounding_box()
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.205 * box["width"], box["y"] + 0.405 * box["height"], steps=3)
    page.mouse.up()
    assert ends(page) == [20, 60]
    assert "ranks 20–60 %" in page.locator("#metrics-text").text_content()


def test_a_click_beside_the_interval_brings_its_nearer_end(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups))
    box = page.locator("#bar").bounding_box()
    page.mouse.click(box["x"] + 1 + 0.8 * (box["width"] - 2), box["y"] + 10)
    assert ends(page) == [5, 80]


def test_the_sentence_says_what_the_numbers_say(page_of):
    scores, groups, _ = people(2, n=6000)
    page = page_of(quiet_report(None, scores, groups))
    move_to(page, 10, 60)
    page.wait_for_timeout(300)
    sentence = page.locator("#sentence").text_content()
    wanted = metrics.unfairness_map(scores, sensitive_features=groups, n_grid=100).at(0.1, 0.6)
    assert sentence.startswith(
        "Among ranks 10–60 % from the top of each group, group 0 and group 1 differ by "
    )
    assert f"{wanted.value:.3f}" in sentence
    assert f"{wanted.low:.3f}" in sentence
    shares = [float(share) / 100 for share in re.findall(r"([\d.]+) % of", sentence)]
    assert abs(shares[0] - shares[1]) == pytest.approx(wanted.value, abs=2e-3)
    same = page_of(quiet_report(None, np.tile(np.arange(300.0), 2), np.repeat(["a", "b"], 300)))
    assert "do not differ in these data" in same.locator("#sentence").text_content()


HOSTILE = [
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script>",
    "<img src=x onerror='window.pwned = 3'>",
    '"><b>&amp;</b>@data@ ${x} `y`',
    "\u2028\u202e\\u003c",
    "n" * 300,
    "   ",
]


def test_names_are_text_whatever_they_say(page_of):
    rng = np.random.default_rng(0)
    groups = rng.choice(HOSTILE, 2000)
    report = quiet_report(None, rng.normal(size=2000), groups)
    page = page_of({HOSTILE[0]: report, HOSTILE[1]: report})
    assert page.evaluate("window.pwned") is None
    assert {*page.locator("#groups tbody th").all_text_contents()} == {*HOSTILE}
    assert page.locator("img, b").count() == 0
    assert page.locator("#model option").all_text_contents() == [
        HOSTILE[0],
        "</script><script>window.pw…= 2</script>",
    ]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "(blank)" in page.locator("#legend").text_content()


def test_a_small_group_is_said_to_be_one(page_of):
    scores, groups, y = people(3)
    few = np.flatnonzero(groups == "group 2")[30:]
    keep = np.setdiff1d(np.arange(len(y)), few)
    page = page_of(quiet_report(y[keep], scores[keep], groups[keep]))
    row = page.locator("#groups tbody tr").filter(has_text="group 2")
    assert "7.5 (few)" in row.text_content()
    assert "fewer than 30 members of group group 2" in page.locator("#sentence").text_content()
    assert_numbers(
        page,
        {
            ("statistical_parity", "interval"): metrics.partial_statistical_parity_difference(
                None, scores[keep], sensitive_features=groups[keep], interval=INTERVAL
            )
        },
    )


def test_groups_that_are_too_few_are_listed_and_not_judged(page_of):
    scores, groups, y = people(4)
    few = np.concatenate([np.flatnonzero(groups == f"group {k}")[n:] for k, n in ((2, 30), (3, 5))])
    keep = np.setdiff1d(np.arange(len(y)), few)
    page = page_of(quiet_report(y[keep], scores[keep], groups[keep], small_groups="list"))
    assert "2 of 4 groups too few to judge" in page.locator("header").text_content()
    assert page.locator("#groups tbody th").all_text_contents() == ["group 0", "group 1"]
    listed = page.locator("section.live section").filter(has_text="Too few to judge")
    lines = [line.split("\t") for line in listed.locator("tbody").inner_text().splitlines()]
    assert lines == [["group 2", "30", "7.5"], ["group 3", "5", "1.2"]]  # 1.25: too few goes down
    judged = np.isin(groups, ["group 0", "group 1"])
    wanted = metrics.partial_group_auc_difference(
        None, scores[judged], sensitive_features=groups[judged], interval=INTERVAL
    )
    assert value(page, "group_auc") == pytest.approx(wanted, abs=EXACT)
    assert violations(page) == []


def test_groups_with_too_few_positives_are_left_out_of_metrics_that_need_them(page_of):
    scores, groups, y = people(3)
    y[(groups == "group 2") & (scores < 1.5)] = 0  # few positives, and all at the top
    report = quiet_report(y, scores, groups, threshold=0.0, small_groups="list")
    assert [group.group for group in report.too_few_labelled["equal_opportunity"]] == ["group 2"]
    page = page_of(report)
    others = groups != "group 2"
    wanted = expected(y[others], scores[others], groups[others], INTERVAL, 0.0)
    for metric in report.too_few_labelled:
        assert value(page, metric) == pytest.approx(wanted[metric, "interval"], abs=EXACT)
        assert value(page, metric) == pytest.approx(report[metric].value, abs=EXACT)
    assert "Too few to judge by equal opportunity (pEOP), and left out of it: group 2." in (
        page.locator("#metrics-text").text_content()
    )
    page.get_by_label("groups compared").select_option(label="group 0 and group 2")
    assert page.locator("td[data-pair='equal_opportunity']").text_content() == "too few to judge"
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
    page.wait_for_timeout(300)
    sentence = page.locator("#sentence").text_content()
    assert sentence.startswith("Among ranks 40–73 % from the best (lowest scores) of each group")
    assert ": below one and the same score lie " in sentence
    assert "as audited: score below 4" in page.locator("#rate-text").text_content()
    assert "selected: score below 4" in page.locator("#metrics-text").text_content()
    audited = page.get_by_role("heading", name="As audited").locator("..").text_content()
    assert "from the best, the lowest scores (score percentiles 5–30)" in audited
    assert "selected: score below 4" in audited
    assert "from the top" not in page.locator("body").inner_text()
    assert "above" not in page.locator("main").inner_text()
    data = json.loads(page.locator("#data").text_content())["models"][0]
    assert min(risks) <= data["bins"][0] < data["bins"][-1] <= max(risks)
    assert data["thresholds"][:-1] == sorted(data["thresholds"][:-1])  # 1 % of all are below the first
    assert np.mean(risks < data["thresholds"][29]) == pytest.approx(0.3, abs=0.03)
    bars = page.locator("#densities rect.reach").all()
    assert all(float(bar.get_attribute("width")) > 2 for bar in bars)  # from 40 % on the left to 73 %


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
    assert (
        "ranks in two samples are off everywhere, from the Dvoretzky" in page.locator("body").text_content()
    )
    move_to(page, 20, 80)
    gap, band = (
        value(page, "statistical_parity"),
        page.locator("td[data-metric='statistical_parity'][data-band='interval']"),
    )
    clusters = [pd.Series(np.arange(3000) // 2)[groups == name].value_counts() for name in np.unique(groups)]
    sizes = [(counts.sum() ** 2) / (counts**2).sum() for counts in clusters]
    slack = sum(dkw_bound(size, 0.95, n_comparisons=2) for size in sizes)
    assert float(band.get_attribute("data-high")) == pytest.approx(gap + slack / 0.6, abs=EXACT)


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

    for begin, end in ((5, 30), (60, 62), (20, 75)):
        move_to(page, begin, end)
        assert_numbers(page, expected(y, scores, groups, (begin / 100, end / 100), 0.5))
        inside = gap(begin + steps, end - steps) if begin + steps < end - steps else 0
        own = value(page, "statistical_parity")
        reach = 100 * radii.interval(pairs).max() / (end - begin)
        for scale, low, high in (
            ("interval", own - reach, own + reach),
            ("absolute", inside - slack, gap(begin - steps, end + steps) + slack),
        ):
            band = page.locator(f"td[data-metric='statistical_parity'][data-band='{scale}']")
            assert float(band.get_attribute("data-low")) == pytest.approx(max(low, 0), abs=EXACT)
            assert float(band.get_attribute("data-high")) == pytest.approx(min(high, 1), abs=EXACT)


def test_an_undefined_gap_is_called_undefined(page_of):
    scores, groups, y = people(2)
    y[groups == "group 1"] = 0
    page = page_of(quiet_report(y, scores, groups, threshold=0.0))
    cell = page.locator("td[data-metric='equal_opportunity'][data-scale='interval']")
    assert cell.text_content() == "undefined"


def test_models_side_by_side(page_of):
    scores, groups, _ = people(2)
    fair = pd.Series(scores).groupby(groups).rank(pct=True).to_numpy()
    page = page_of({"before": quiet_report(None, scores, groups), "after": quiet_report(None, fair, groups)})
    assert value(page, "statistical_parity") > 0.2
    page.get_by_label("model", exact=True).select_option(label="after")
    assert value(page, "statistical_parity") < 0.05
    page.wait_for_timeout(300)
    assert page.locator("#sentence").text_content().startswith("after: among ranks 5–30 %")
    assert page.locator("#curve polyline.other").count() == 0
    page.get_by_label("beside it").select_option(label="before")
    assert page.locator("#curve polyline.other").count() == 1
    assert "Dashed: before." in page.locator("#curve-text").text_content()


def test_the_pair_stays_when_the_model_changes(page_of):
    """Twelve groups under two models: more pairs than a page holds."""
    scores, groups, _ = people(12, n=6000)
    noise = np.random.default_rng(5).normal(size=6000)
    page = page_of({"before": quiet_report(None, scores, groups), "after": quiet_report(None, noise, groups)})
    options = page.locator("#pair option").all_text_contents()
    assert options[0] == "worst of all 66 pairs"
    page.get_by_label("groups compared").select_option(label=options[-1])
    for model, own in (("after", noise), ("before", scores)):
        page.get_by_label("model", exact=True).select_option(label=model)
        assert page.locator("td[data-pair='statistical_parity']").text_content() == options[-1]
        some = np.isin(groups, options[-1].split(" and "))
        wanted = metrics.partial_statistical_parity_difference(
            None, own[some], sensitive_features=groups[some], interval=INTERVAL
        )
        assert value(page, "statistical_parity") == pytest.approx(wanted, abs=EXACT)


def test_on_training_rows_there_are_no_bands(tmp_path, open_page):
    scores, groups, _ = people(2)
    text = audit_page(quiet_report(None, scores, groups), seen_in_training=True, warning="<b>late</b>")
    write_page(text, tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.locator("td[data-band]").count() == 0
    assert "confidence" not in page.locator("#sentence").text_content()
    assert page.locator("#curve .unsure").count() == 0
    assert page.locator("header .warn").text_content() == "<b>late</b>"


@pytest.fixture(scope="module")
def path():
    scores, groups, _ = people(2, n=3000)
    X = np.column_stack([scores, np.random.default_rng(3).normal(size=3000)])
    y = scores + X[:, 1] > 0
    clf = PartialFairClassifier(interval=(0.1, 0.6), group_terms="interactions")
    return fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.1, 0.3, 1.0], random_state=0)


def test_the_frontier_chooses_the_model(path, tmp_path, open_page):
    path.to_html(tmp_path / "path.html")
    page = open_page(tmp_path / "path.html")
    dots = page.locator("#frontier .dot")
    assert dots.count() == len(path.points) == 4  # three gaps, and the model without a constraint
    for k, point in enumerate(path.points):
        dots.nth(k).focus()
        page.keyboard.press("Enter")
        assert f"{point.score:.3f}" in page.locator("#frontier-text").text_content()
        assert dots.nth(k).get_attribute("aria-pressed") == "true"
        wanted = path.gap(point).value
        assert value(page, "statistical_parity") == pytest.approx(wanted, abs=EXACT)
    text = page.locator("main").text_content()
    for words in ("Who enters and leaves the interval", "stationarity", "max_gap", "converged"):
        assert words in text
    assert violations(page) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_everyone_can_read_it(page_of, width, dark):
    scores, groups, y = people(3)
    page = page_of(quiet_report(y, scores, groups, threshold=0.0), width=width, dark=dark)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark
    for picture in ("#curve svg", "#densities svg", "#heat"):
        assert page.locator(picture).bounding_box()["width"] <= width


def test_it_prints(page_of):
    scores, groups, y = people(3)
    page = page_of(quiet_report(y, scores, groups), dark=True)
    page.emulate_media(media="print")
    assert not page.locator("#bar").is_visible()
    assert not page.locator("#pair").is_visible()
    assert page.locator("#sentence").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")


def test_without_scripts_it_says_what_was_audited(page_of):
    scores, groups, y = people(2)
    report = quiet_report(y, scores, groups)
    page = page_of(report, java_script_enabled=False)
    text = page.locator("body").inner_text()
    assert "Without JavaScript" in text
    assert not page.locator("#bar").is_visible()
    assert f"{report['statistical_parity'].value:.3f}" in text


def test_the_screenshot_of_the_readme_can_be_made(browser, tmp_path):
    script = Path(__file__).parents[2] / "docs" / "make_screenshot.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    assert (tmp_path / "demo_page.png").stat().st_size > 50_000


def test_a_metric_without_a_formula_here_is_shown_as_audited_and_says_so(page_of):
    scores, groups, y = people(3)
    with registered():
        report = quiet_report(y, scores, groups, threshold=0.5)
        page = page_of(report)
    line, shown = report[NAME], page.locator(f"td[data-audited='{NAME}']")
    text = f"{line.value:.4g} ({line.low:.4g} – {line.high:.4g}), as audited: "
    assert shown.inner_text().startswith(text)
    before = value(page, "demographic_parity")
    press(page, "begin", "ArrowRight", 10)
    assert value(page, "demographic_parity") != before  # others follow
    assert shown.inner_text().startswith(text)
    assert "do not change it" in shown.inner_text()
    assert page.locator("#metrics th", has_text=TITLE).count() == 1
    assert violations(page) == []
