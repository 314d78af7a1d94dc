"""Keys, the mouse and buttons move the interval and the threshold."""

from __future__ import annotations

import pytest

from partialfair import metrics
from tests.browser.pages import EXACT, ends, people, press, quiet_report, value


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
    page.get_by_role("button", name="Reset").click()
    assert ends(page) == [5, 30]


def test_an_audited_threshold_is_found_again(page_of):
    scores, groups, y = people(2)
    page = page_of(quiet_report(y, scores, groups, threshold=0.123))
    before = value(page, "demographic_parity")
    page.locator("#rate").fill("70")
    assert value(page, "demographic_parity") != before
    page.get_by_role("button", name="Audited threshold").click()
    assert value(page, "demographic_parity") == before
    assert "as audited: score above 0.123" in page.locator("#rate-text").text_content()


def test_the_map_is_dragged_too(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups))
    page.locator("#heat").scroll_into_view_if_needed()
    box = page.locator("#heat").bounding_box()
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.205 * box["width"], box["y"] + 0.405 * box["height"], steps=3)
    page.mouse.up()
    assert ends(page) == [20, 60]
    assert "ranks 20–60%" in page.locator("#metrics-text").text_content()


def test_a_click_beside_the_interval_brings_its_nearer_end(page_of):
    scores, groups, _ = people(2)
    page = page_of(quiet_report(None, scores, groups))
    box = page.locator("#bar").bounding_box()
    page.mouse.click(box["x"] + 1 + 0.8 * (box["width"] - 2), box["y"] + 10)
    assert ends(page) == [5, 80]
