"""What the page says in words, and that everyone can read it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from partialfair import metrics
from partialfair.metrics.catalogue import report_metrics
from partialfair.report.pages import audit_page, write_page
from tests.browser.conftest import violations
from tests.browser.pages import (
    EXACT,
    INTERVAL,
    assert_numbers,
    details,
    move_to,
    people,
    press,
    quiet_report,
    value,
    wait_for_sentence,
)
from tests.new_constraint import NAME, TITLE, registered


def test_the_sentence_says_what_the_numbers_say(page_of):
    scores, groups, _ = people(2, n=6000)
    page = page_of(quiet_report(None, scores, groups))
    move_to(page, 10, 60)
    sentence = wait_for_sentence(
        page, "Among ranks 10–60% from the top of each group, group 0 and group 1 differ by "
    )
    wanted = metrics.unfairness_map(scores, sensitive_features=groups, n_grid=100).at(0.1, 0.6)
    assert f"{wanted.gap:.3f}" in sentence
    assert f"{wanted.ci_low:.3f}" in sentence
    shares = [float(share) / 100 for share in re.findall(r"([\d.]+)% of", sentence)]
    assert abs(shares[0] - shares[1]) == pytest.approx(wanted.gap, abs=2e-3)
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
    assert "8 (few)" in row.text_content()
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
    assert "2 of 4 groups too small to evaluate" in page.locator("header").text_content()
    assert page.locator("#groups tbody th").all_text_contents() == ["group 0", "group 1"]
    listed = details(page, "Too small to evaluate")
    lines = [line.split("\t") for line in listed.locator("tbody").inner_text().splitlines()]
    assert lines == [["group 2", "30", "7"], ["group 3", "5", "1"]]  # 7.5: too few goes down
    judged = np.isin(groups, ["group 0", "group 1"])
    wanted = metrics.partial_group_auc_difference(
        None, scores[judged], sensitive_features=groups[judged], interval=INTERVAL
    )
    assert value(page, "group_auc") == pytest.approx(wanted, abs=EXACT)
    assert violations(page) == []


def test_on_training_rows_there_are_no_bands(tmp_path, open_page):
    scores, groups, _ = people(2)
    text = audit_page(quiet_report(None, scores, groups), seen_in_training=True, warning="<b>late</b>")
    write_page(text, tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.locator("td[data-band]").count() == 0
    assert "confidence" not in page.locator("#sentence").text_content()
    assert page.locator("#curve .unsure").count() == 0
    assert page.locator("header .warn").text_content() == "<b>late</b>"


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
    assert f"{report['statistical_parity'].gap:.3f}" in text


@pytest.mark.slow
def test_the_screenshot_of_the_readme_can_be_made(browser, tmp_path):
    script = Path(__file__).parents[2] / "docs" / "make_screenshot.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    assert (tmp_path / "demo_page.png").stat().st_size > 50_000


def test_a_metric_without_a_formula_here_is_shown_as_audited_and_says_so(page_of):
    scores, groups, y = people(3)
    with registered():
        report = quiet_report(y, scores, groups, threshold=0.5, metrics=report_metrics(NAME))
        page = page_of(report)
    line, shown = report[NAME], page.locator(f"td[data-audited='{NAME}']")
    text = f"{line.gap:.4g} ({line.ci_low:.4g} – {line.ci_high:.4g}), as audited: "
    assert shown.inner_text().startswith(text)
    before = value(page, "demographic_parity")
    press(page, "begin", "ArrowRight", 10)
    assert value(page, "demographic_parity") != before  # others follow
    assert shown.inner_text().startswith(text)
    assert "do not change it" in shown.inner_text()
    assert page.locator("#metrics th", has_text=TITLE).count() == 1
    assert violations(page) == []
