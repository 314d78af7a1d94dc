"""Whose scores the pages of these tests show, what the library says of them, and hands to move a page."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from partialfair import metrics
from partialfair.exceptions import SmallGroupWarning, ThresholdOutsideIntervalWarning, UndefinedGapWarning
from partialfair.metrics import fairness_report, interval_changes

EXACT = 1e-9
INTERVAL = (0.05, 0.3)
THOUSANDTH = 0.5e-3 + 1e-9
"""Of a member: what the page rounds to."""


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
        for kind in (ThresholdOutsideIntervalWarning, SmallGroupWarning, UndefinedGapWarning):
            warnings.simplefilter("ignore", kind)
        settings = {
            "interval": INTERVAL,
            "random_state": 0,
            "n_resamples": 200,
            "small_groups": "keep",
            **options,
        }
        return fairness_report(y, scores, sensitive_features=groups, **settings)


def details(page, title):
    """The section with that title, which may be folded."""
    return page.locator("details").filter(has=page.get_by_role("heading", name=title))


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


def wait_for_sentence(page, start):
    """Wait until the sentence above the pictures begins so, which it does once the interval rests."""
    page.wait_for_function(
        "start => document.getElementById('sentence').textContent.startsWith(start)", arg=start
    )
    return page.locator("#sentence").text_content()


def cell(page, metric, scale="interval"):
    """The gap of a metric in the table, on a scale that is chosen for it."""
    page.locator(f"input[name=scale][value={scale}]").check()
    return page.locator(f"td[data-metric='{metric}'][data-scale='{scale}']")


def value(page, metric, scale="interval"):
    return float(cell(page, metric, scale).get_attribute("data-value"))


def limits(page, metric, kind="band", scale="interval"):
    """The limits next to a gap: those of the report's interval, or of the simultaneous band."""
    cell(page, metric, scale)
    shown = page.locator(f"td[data-metric='{metric}'][data-{kind}='{scale}']")
    return [float(shown.get_attribute(f"data-{end}")) for end in ("low", "high")]


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
                warnings.simplefilter("ignore", ThresholdOutsideIntervalWarning)
                numbers[name, scale] = metric(y, scores, gap_scale=scale, **options)
    ranked = {"demographic_parity": [scores == scores]}
    labels = {"equal_opportunity": [y == 1], "equalized_odds": [y == 1, y == 0]}
    ranked |= labels if rank_within == "group_and_label" else {name: [scores == scores] for name in labels}
    for name, parts in ranked.items():
        if all(is_outside(scores[of], groups[of], interval, threshold, _at(weights, of)) for of in parts):
            for scale in ("interval", "absolute"):
                numbers[name, scale] = None if numbers[name, scale] < EXACT else numbers[name, scale]
    return numbers


def _at(weights, rows):
    return None if weights is None else weights[rows]


def is_outside(scores, groups, interval, threshold, weights=None):
    """Whether the threshold's rank lies outside the interval in every group, by definition."""
    weights = np.ones(scores.size) if weights is None else weights
    ranks = [
        weights[(groups == name) & (scores > threshold)].sum() / weights[groups == name].sum()
        for name in np.unique(groups)
    ]
    return all(rank < interval[0] - EXACT or rank > interval[1] + EXACT for rank in ranks)


def assert_numbers(page, wanted):
    for (metric, scale), number in sorted(wanted.items(), key=lambda item: item[0][1]):
        if number is None:
            assert cell(page, metric, scale).text_content() == "n/a (threshold outside the interval)"
        else:
            shown = value(page, metric, scale)
            assert shown == pytest.approx(number, abs=EXACT, nan_ok=True), (metric, scale)


def shown_changes(page):
    """``{group: {kind: weight}}`` as the table has them."""
    return {
        row.locator("th").text_content(): {
            kind: float(row.locator(f"td[data-{kind}]").get_attribute(f"data-{kind}"))
            for kind in ("inside", "stays", "enters", "leaves")
        }
        for row in page.locator("#changes tbody tr").all()
    }


def assert_changes(page, before, after, groups, begin, end, weights=None):
    """The table is that of `interval_changes`; return how many enter."""
    wanted = interval_changes(
        before, after, sensitive_features=groups, interval=(begin / 100, end / 100), sample_weight=weights
    )
    shown, unit = shown_changes(page), THOUSANDTH * (1 if weights is None else weights.max())
    assert list(shown) == list(wanted.index)
    for group, line in wanted.iterrows():
        for kind, column in (("inside", "in_interval"), *((kind, kind) for kind in ("stays", "enters"))):
            assert shown[group][kind] == pytest.approx(line[column], abs=unit), (group, kind)
        assert shown[group]["enters"] == shown[group]["leaves"]
    return wanted["enters"].sum()
