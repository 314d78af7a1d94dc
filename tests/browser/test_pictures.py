"""The page's pictures: bars of discrete scores, labels that can be read, and nothing cut off."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partialfair import metrics
from tests.browser.conftest import violations
from tests.browser.pages import move_to, people, quiet_report


def grades(n_groups, n=1500):
    scores, groups, _ = people(n_groups, n=n)
    return np.clip(scores.round() + 3, 1, 5), groups


def bar_heights(page, classes):
    """Heights of bars by where they stand, in pixels."""
    bars = page.locator(f"#densities rect{classes}").evaluate_all(
        "bars => bars.map(bar => ['x', 'height'].map(name => Number(bar.getAttribute(name))))"
    )
    return dict(bars)


@pytest.mark.parametrize("higher", [True, False])
def test_discrete_scores_are_bars_solid_inside_the_interval(page_of, higher):
    scores, groups = grades(2)
    page = page_of(quiet_report(None, scores, groups, higher_is_better=higher))
    for begin, end in ((5, 30), (13, 78)):
        move_to(page, begin, end)
        assert page.locator("#densities polyline").count() == 0
        inside = metrics.interval_membership(
            scores, sensitive_features=groups, interval=(begin / 100, end / 100), higher_is_better=higher
        )
        wholes, solids = bar_heights(page, ":not(.inside)"), bar_heights(page, ".inside")
        blocks = [(groups == name) & (scores == value) for name in np.unique(groups) for value in range(1, 6)]
        assert len(wholes) == len(blocks)
        # Side by side, so that sorted by place they alternate between the groups.
        by_place = [blocks[k + 5 * side] for k in range(5) for side in range(2)]
        unit = sum(wholes.values()) / 2
        for x, block in zip(sorted(wholes), by_place, strict=True):
            members = sum(groups == groups[block][0])
            assert wholes[x] / unit == pytest.approx(block.sum() / members, abs=1e-9)
            assert solids.get(x, 0) / unit == pytest.approx(inside[block].sum() / members, abs=1e-9)
    assert "solid: the part at the group's ranks 13–78%" in page.locator("#densities-text").text_content()


def test_the_threshold_parts_the_bars_above_it_from_the_others(page_of):
    scores, groups = grades(2)
    page = page_of(quiet_report(None, scores, groups, threshold=3.0))
    cut = float(page.locator("#densities .threshold").get_attribute("x1"))
    places = sorted(bar_heights(page, ":not(.inside)"))
    width = places[1] - places[0]
    assert places[5] + width <= cut + 1e-6
    assert cut <= places[6] + 1e-6


AWKWARD = {
    "grades": lambda k, rng: np.clip(rng.normal(size=k.size).round() - k, -2, 2),
    "equal": lambda k, rng: np.full(k.size, 7.0),
    "close": lambda k, rng: 0.5 + 1e-9 * (rng.normal(size=k.size) - k),
    "close grades": lambda k, rng: 0.5 + 1e-9 * rng.integers(0, 4, k.size),
    "vast": lambda k, rng: 1e12 * (1 + 0.3 * rng.normal(size=k.size) - 0.4 * k),
    "negative": lambda k, rng: -500.0 - 40 * (rng.normal(size=k.size) - k),
    "outlier": lambda k, rng: np.append(rng.normal(size=k.size - 1), 1e6),
    "leaves": lambda k, rng: (rng.random(33) ** 4)[np.clip(rng.integers(0, 33, k.size) - k, 0, 32)],
}


def stand_apart(one, other):
    """Whether two boxes of text do not overlap; lines have some air above and below."""
    return (
        one["x"] + one["width"] <= other["x"]
        or other["x"] + other["width"] <= one["x"]
        or one["y"] + one["height"] <= other["y"] + 3
        or other["y"] + other["height"] <= one["y"] + 3
    )


@pytest.mark.parametrize("width", [360, 900, 1400])
def test_names_of_the_maps_axes_stand_apart_from_its_ticks(page_of, width):
    page = page_of(quiet_report(None, *people(2)[:2]), width=width)
    edge = page.locator("figure", has=page.locator("#map")).bounding_box()["x"]
    ticks = [text.bounding_box() for text in page.locator("#map .tick").all()]
    for name in page.locator("#map .name").all():
        box = name.bounding_box()
        assert edge - 1 <= box["x"]
        assert all(stand_apart(box, tick) for tick in ticks)


@pytest.mark.parametrize(
    ("kind", "width", "dark"),
    [(kind, 360, False) for kind in AWKWARD] + [("grades", 360, True), ("close", 1280, True)],
)
def test_labels_stand_apart_and_nothing_is_cut_off(page_of, kind, width, dark):
    rng = np.random.default_rng(0)
    k = rng.integers(0, 2, 1000)
    names = np.array(
        ["$a_1$ <b> 👩🏽‍🔬", "a name of a group that goes on until it has some eighty letters or more " * 2]
    )
    page = page_of(quiet_report(None, AWKWARD[kind](k, rng), names[k], threshold=0.0), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for picture in ("#curve", "#densities"):
        drawing = page.locator(f"{picture} svg").bounding_box()
        boxes = [text.bounding_box() for text in page.locator(f"{picture} svg text").all()]
        for box in boxes:
            assert drawing["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= drawing["x"] + drawing["width"] + 1
            assert drawing["y"] - 1 <= box["y"]
            assert box["y"] + box["height"] <= drawing["y"] + drawing["height"] + 1
        assert all(itertools.starmap(stand_apart, itertools.combinations(boxes, 2)))
    if dark:
        assert violations(page) == []


def test_a_mark_has_one_meaning_in_all_figures(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups, interval=(0.2, 0.5)))
    ring = page.locator("#ring").evaluate("x => getComputedStyle(x).borderColor")
    marks = {
        place: page.locator(f"{place} .worst").evaluate_all(
            "all => all.map(x => [x.tagName, x.getAttribute('d')])"
        )
        for place in ("#along", "#curve")
    }
    (shown, _), (_, diamond) = marks["#along"]
    assert shown == "circle"  # a ring, as on the map
    assert page.locator("#along circle").evaluate("x => getComputedStyle(x).stroke") == ring
    ((kind, cross),) = marks["#curve"]
    assert kind == "path"
    assert cross != diamond
    for place, words in (
        ("#map-text", ["Ring: the interval shown"]),
        ("#along-text", ["Ring: the interval shown", "diamond: the largest gap elsewhere"]),
        ("#curve-text", ["cross: its largest gap"]),
    ):
        text = page.locator(place).text_content()
        assert all(word in text for word in words)


@pytest.mark.parametrize("width", [390, 820, 1024, 1200, 1440])
def test_nothing_is_clipped_or_empty_at_usual_widths(page_of, width):
    scores, groups, y = people(3)
    page = page_of(quiet_report(y, scores, groups, threshold=0.0), width=width)
    for table in ("#groups", "#metrics"):
        room, needed = page.locator(table).evaluate(
            "x => [x.parentElement.clientWidth, x.parentElement.scrollWidth]"
        )
        assert needed <= room + 1, table
    # Cards fill their rows.
    edges = page.locator(".card:visible").evaluate_all("all => all.map(x => x.getBoundingClientRect().right)")
    row = page.locator(".cards:visible").bounding_box()
    assert edges[-1] == pytest.approx(row["x"] + row["width"], abs=1)
