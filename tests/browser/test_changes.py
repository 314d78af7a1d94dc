"""Who enters and leaves the interval that is chosen: the page's numbers are those of `interval_changes`."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair.report.page_data import collect_changes
from tests.browser.conftest import violations
from tests.browser.pages import (
    INTERVAL,
    assert_changes,
    details,
    move_to,
    people,
    quiet_report,
    shown_changes,
)


def three_models(n_groups, ties, n=1537):
    scores, groups, _ = people(n_groups, n=n)
    rng = np.random.default_rng(4)
    other, noise = scores + 0.5 * rng.normal(size=n), rng.normal(size=n)
    models = {"first": scores, "second": other, "third": noise}
    return {name: one.round(1) if ties else one for name, one in models.items()}, groups


@pytest.fixture
def changes_of(page_of):
    """Open the page of several models, the last one shown beside the first."""

    def opened(scores, groups, *, weights=None, **options):
        reports = {
            name: quiet_report(None, one, groups, sample_weight=weights) for name, one in scores.items()
        }
        changes = collect_changes(scores, sensitive_features=groups, interval=INTERVAL, sample_weight=weights)
        return page_of(reports, audit={"changes": changes, "shown": len(scores) - 1}, **options)

    return opened


@pytest.mark.parametrize(("ties", "weighted"), [(False, False), (True, False), (True, True)])
def test_it_follows_the_interval_and_the_models(changes_of, ties, weighted):
    scores, groups = three_models(3, ties)
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.5, 2.0], groups.size) if weighted else None
    page = changes_of(scores, groups, weights=weights)
    assert_changes(page, scores["first"], scores["third"], groups, 5, 30, weights)
    for begin, end in ((0, 100), (47, 49), (13, 78)):
        move_to(page, begin, end)
        assert_changes(page, scores["first"], scores["third"], groups, begin, end, weights)
    assert "From first to third, at ranks 13–78%" in page.locator("#changes-text").text_content()
    page.get_by_label("Model", exact=True).select_option(label="second")
    assert_changes(page, scores["first"], scores["second"], groups, 13, 78, weights)
    page.get_by_label("Compare with").select_option(label="third")
    assert_changes(page, scores["third"], scores["second"], groups, 13, 78, weights)
    page.get_by_label("Model", exact=True).select_option(label="first")
    page.get_by_label("Compare with").select_option(label="none")
    assert_changes(page, scores["second"], scores["first"], groups, 13, 78, weights)
    assert "From second to first" in page.locator("#changes-text").text_content()


def test_it_follows_the_groups_that_are_picked(changes_of):
    scores, groups = three_models(4, ties=False)
    page = changes_of(scores, groups)
    assert len(shown_changes(page)) == 4
    page.get_by_label("Groups compared").select_option(label="group 1 and group 3")
    some = np.isin(groups, ["group 1", "group 3"])
    assert_changes(page, scores["first"][some], scores["third"][some], groups[some], 5, 30)


def test_what_is_on_the_table_as_audited_is_on_the_live_one(changes_of):
    scores, groups = three_models(2, ties=True)
    page = changes_of(scores, groups)
    audited = details(page, "Rows that enter and leave: as audited")
    lines = [row.locator("th, td").all_text_contents() for row in audited.locator("tbody tr").all()]
    live = [
        row.locator("th, td").all_text_contents() for row in page.locator("#changes tbody tr:visible").all()
    ]
    assert [cells[1:] for cells in lines if cells[0] == "third"] == [cells[:-1] for cells in live]


def test_members_of_small_groups_are_not_told(changes_of):
    scores, groups = three_models(3, ties=False)
    names = np.unique(groups)
    keep = np.flatnonzero((groups != names[1]) | (np.cumsum(groups == names[1]) <= 200))
    scores, groups = {name: one[keep] for name, one in scores.items()}, groups[keep]
    page = changes_of(scores, groups)
    assert list(shown_changes(page)) == [names[0], names[2]]
    text = page.locator("#changes-text").text_content()
    assert "Left out: 1 of the groups, with at most 200 members" in text
    assert names[1] in details(page, "Rows that enter and leave: as audited").text_content()
    few = np.isin(groups, names[1:2]) | (np.cumsum(np.isin(groups, names[::2])) <= 150)
    page = changes_of({name: one[few] for name, one in scores.items()}, groups[few])
    assert not page.locator("#changes").is_visible()
    assert "Left out: 3 of the groups" in page.locator("#changes-text").text_content()


def test_everyone_can_read_it(changes_of):
    scores, groups = three_models(3, ties=False)
    for width, dark in ((360, False), (1280, True)):
        page = changes_of(scores, groups, width=width, dark=dark)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(media="print")
    assert page.locator("#changes").is_visible()
