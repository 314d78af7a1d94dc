"""What stands on top of a report, what is folded, and how details are found, sorted and printed."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair import metrics
from partialfair.metrics.elsewhere import ElsewhereComparison
from partialfair.report.pages import audit_page
from partialfair.report.verdict import Outcome
from tests.browser.conftest import violations
from tests.browser.pages import EXACT, details, move_to, people, press, quiet_report


def card(page, title):
    """The figures of a card that is shown: name, value and note of each."""
    shown = page.locator(".card:visible").filter(has=page.get_by_role("heading", name=title))
    return [tuple(one.locator("dt, dd").all_text_contents()) for one in shown.locator("dl > div").all()]


@pytest.fixture
def two_models(page_of):
    """Scores without and with a constraint, as a page; the constraint is said not to be satisfied."""
    scores, groups, y = people(3, n=3000)
    after = pd.Series(scores).groupby(groups).rank(pct=True).to_numpy() * 2 - 1
    reports = {
        name: quiet_report(y, one, groups, threshold=0.6) for name, one in (("A", scores), ("B", after))
    }
    outcomes = {"B": Outcome([("accuracy", "0.700")], False, 0.1, 0.25, "Nothing else is known.")}
    audit = {"shown": 1, "outcomes": {"A": Outcome([("accuracy", "0.800")]), **outcomes}}
    return page_of(reports, audit=audit), reports, groups


def test_the_verdict_and_the_cards_have_the_figures_of_both_models(two_models):
    page, reports, _ = two_models
    verdict = page.locator(".verdict:visible").text_content()
    assert verdict.startswith("Constraint not satisfied: training gap 0.250, limit 0.1.")
    assert verdict.endswith(reports["B"].verdict.headline)
    rows = {name: report["statistical_parity"] for name, report in reports.items()}
    claims = page.locator(".summary:visible .claims li").all_text_contents()
    moved = ElsewhereComparison(*(report.elsewhere() for report in reports.values()))
    assert claims == [reports["B"].verdict.claim, "Nothing else is known.", moved.statement]
    assert [(name, gap) for name, gap, _ in card(page, "Largest gap elsewhere")] == [
        ("A", f"{moved.before.gap:.3f}"),
        ("B", f"{moved.after.gap:.3f}"),
    ]
    assert card(page, "Gap: statistical parity (pSP)") == [
        (name, f"{row.gap:.3f}", f"{row.ci_low:.3f} – {row.ci_high:.3f}") for name, row in rows.items()
    ]
    assert card(page, "Accuracy") == [("A", "0.800", ""), ("B", "0.700", "")]
    assert card(page, "Constraint") == [
        ("statistical parity (pSP)", "not satisfied", "training gap 0.250, limit 0.1")
    ]
    # They state what was audited, whatever interval is looked at, and follow the model.
    before = page.locator(".summary:visible").text_content()
    move_to(page, 20, 40)
    assert page.locator(".summary:visible").text_content() == before
    page.get_by_label("Model", exact=True).select_option(label="A")
    assert page.locator(".summary:visible").count() == 1
    assert card(page, "Gap: statistical parity (pSP)")[0][1] == f"{rows['A'].gap:.3f}"


def test_quality_is_that_of_the_reports_rows(page_of):
    scores, groups, y = people(2)
    weights = np.random.default_rng(0).uniform(0.5, 2, y.size)
    page = page_of(quiet_report(y, scores, groups, threshold=0.5, sample_weight=weights))
    ((_, accuracy, auc),) = card(page, "Accuracy and AUC")
    assert accuracy == f"{accuracy_score(y, scores > 0.5, sample_weight=weights):.3f}"
    assert auc == f"AUC {roc_auc_score(y, scores, sample_weight=weights):.3f}"
    assert card(page_of(quiet_report(None, scores, groups)), "Accuracy") == []


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_the_card_and_the_figure_have_one_gap_elsewhere(page_of, gap_scale):
    scores, groups, _ = people(3)
    report = quiet_report(None, scores, groups, gap_scale=gap_scale, interval=(0.1, 0.35))
    page, found = page_of(report), report.elsewhere()
    low, high = (f"{100 * end:.4g}" for end in found.interval)
    where = f"ranks {low}–{high}%"
    assert card(page, "Largest gap elsewhere") == [
        ("these scores", f"{found.gap:.3f}", f"{where}: {found.ci_low:.3f} – {found.ci_high:.3f}")
    ]
    assert (
        f"The largest gap elsewhere is {found.gap:.3f} at {where}"
        in page.locator("#along-text").text_content()
    )


def largest_by_search(scores, groups, begin, end, gap_scale):
    """The largest gap of intervals at thousandths that do not overlap, or of a piece too short for them."""
    best = 0.0
    for low, high in ((0, 10 * begin), (10 * end, 1000)):
        width = min(10 * (end - begin), high - low)
        for start in range(low, high - width + 1, 1 if high > low else 1000):
            if width:
                gap = metrics.partial_statistical_parity_difference(
                    None,
                    scores,
                    sensitive_features=groups,
                    interval=(start / 1000, (start + width) / 1000),
                    gap_scale=gap_scale,
                )
                best = max(best, gap)
    return best


@pytest.mark.parametrize(("begin", "end"), [(5, 30), (40, 80), (0, 60)])
def test_the_largest_gap_elsewhere_is_that_of_a_search(page_of, begin, end):
    scores, groups, _ = people(3, n=900)
    page = page_of(quiet_report(None, scores, groups))
    for scale in ("interval", "absolute"):
        found = page.evaluate(
            "([scale, i, j]) => models[0].elsewhere(scale, null, i, j, 0)", [scale, begin, end]
        )
        wanted = largest_by_search(scores, groups, begin, end, scale)
        # Positions between thousandths add at most two thousandths of the ranks, of the interval's width.
        slack = 0.002 / ((end - begin) / 100 if scale == "interval" else 1)
        assert wanted - EXACT <= found["value"] <= wanted + slack
        interval = (found["i"] / 100, min(found["j"] / 100, 1.0))
        assert interval[1] <= begin / 100 + EXACT or interval[0] >= end / 100 - EXACT
        there = metrics.partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=interval, gap_scale=scale
        )
        assert there == pytest.approx(found["value"], abs=1e-6)


def test_groups_too_small_for_a_short_piece_are_not_compared_there(page_of):
    scores, groups, _ = people(2, n=400)
    page = page_of(quiet_report(None, scores, groups))
    assert page.evaluate("models[0].elsewhere('interval', null, 2, 98, 10)") is None
    assert page.evaluate("models[0].elsewhere('interval', null, 0, 100, 0)") is None


def test_the_reports_interval_stands_beside_a_gap_only_where_it_was_audited(page_of):
    """One pair of limits: the interval of the audited gap, the simultaneous band of every other one."""
    scores, groups, y = people(2)
    report = quiet_report(y, scores, groups, threshold=0.9)
    page = page_of(report)

    def kinds():
        cells = page.locator("#metrics td small").all_text_contents()
        return dict(zip([row.metric for row in report.metrics], cells, strict=False))

    assert set(kinds().values()) == {"interval"}
    row = report["statistical_parity"]
    assert f"({row.ci_low:.3f}" not in page.locator("#sentence").text_content()
    assert f"95% interval: {row.ci_low:.3f} – {row.ci_high:.3f}" in page.locator("#sentence").text_content()
    press(page, "move", "ArrowRight")
    page.wait_for_function("() => document.getElementById('sentence').textContent.includes('95% band')")
    assert page.locator("td[data-interval]").count() == 2  # the pairwise metrics, which are of all ranks
    page.get_by_role("button", name="Reset").click()
    assert set(kinds().values()) == {"interval"}


@pytest.mark.parametrize("lower", [False, True])
def test_no_sentence_says_that_zero_is_possible_where_a_bound_excludes_it(page_of, lower):
    """What the rows show is read off the two-sided interval next to it, on top and below."""
    scores, groups, _ = people(2, n=3000, seed=1)
    page = page_of(
        quiet_report(None, scores if lower else np.random.default_rng(0).normal(size=3000), groups)
    )
    for place in (".verdict", "#sentence"):
        text = page.locator(place).text_content()
        low = float(re.search(r"interval:? ([\d.]+)", text)[1])
        assert (low > 0) is ("No gap detected" not in text)


def test_contents_lead_to_details_and_unfold_them(two_models):
    page, _, _ = two_models
    audited = details(page, "As audited")
    assert audited.get_attribute("open") is None
    link = page.get_by_role("link", name="As audited")
    link.focus()
    page.keyboard.press("Enter")
    assert audited.get_attribute("open") is not None
    assert audited.locator("table").is_visible()
    summary = audited.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert audited.get_attribute("open") is None
    assert violations(page) == []


def test_print_unfolds_everything_and_folds_it_again(two_models):
    page, _, _ = two_models
    n_folded = page.locator("details:not([open])").count()
    assert n_folded > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == n_folded


def test_tables_are_sorted_by_their_titles_and_stay_so(page_of):
    scores, groups, y = people(5)
    page = page_of(quiet_report(y, scores, groups))
    members = page.locator("#groups tbody td:nth-child(2)")
    title = page.locator("#groups th").filter(has_text="members")
    by_size = sorted(np.unique(groups, return_counts=True)[1].tolist())
    for key, order in (("Enter", "descending"), ("Space", "ascending")):
        title.get_by_role("button").focus()
        page.keyboard.press(key)
        assert title.get_attribute("aria-sort") == order
        shown = [int(text.replace(",", "")) for text in members.all_text_contents()]
        assert shown == (by_size[::-1] if order == "descending" else by_size)
    press(page, "move", "ArrowRight")
    assert [int(text.replace(",", "")) for text in members.all_text_contents()] == by_size


def test_groups_have_lines_of_different_styles_and_colors(page_of):
    scores, groups, y = people(20, n=4000)
    page = page_of(quiet_report(y, scores, groups))
    styles = page.evaluate("[...Array(20).keys()].map(k => `${colorOf(k)} ${dashOf(k)}`)")
    assert len(set(styles)) == 20
    assert len({style.split(" ", 1)[1] for style in styles[:5]}) == 5
    few = page_of(quiet_report(None, scores[:600], np.repeat(["a", "b", "c"], 200)))
    lines = few.locator("#legend line").evaluate_all(
        "all => all.map(x => x.getAttribute('stroke-dasharray'))"
    )
    assert len(set(lines)) == 3
    drawn = few.locator("#densities polyline").evaluate_all(
        "all => all.map(x => x.getAttribute('stroke-dasharray'))"
    )
    assert {*drawn} == {*lines}
    # Also those that are not compared can be seen, and look as in the legend.
    opacities = [
        few.locator(f"{place} .density").evaluate_all("all => all.map(x => +getComputedStyle(x).opacity)")
        for place in ("#densities", "#legend")
    ]
    assert sorted(opacities[0]) == sorted(opacities[1])
    assert min(opacities[0]) >= 0.6


def test_calibration_curves_are_shares_of_positives_in_tenths(page_of):
    scores, _, y = people(2, n=2000)
    groups = np.repeat(["a", "b"], [1200, 800])  # tenths that cut no row are means of slices
    page = page_of(quiet_report(y, scores, groups))
    for k, name in enumerate(np.unique(groups)):
        own = np.argsort(-scores[groups == name])
        mean = scores[groups == name][own].reshape(10, -1).mean(axis=1)
        rate = y[groups == name][own].reshape(10, -1).mean(axis=1)
        shown = np.array(page.evaluate("k => models[0].groups[k].calibration()", k))
        assert shown[:, 0] == pytest.approx(mean, abs=EXACT)
        assert shown[:, 1] == pytest.approx(rate, abs=EXACT)
    assert page.locator("#calibration polyline").count() == 2
    assert not page_of(quiet_report(None, scores, groups)).locator("#calibration-figure").is_visible()


def test_densities_of_both_models_are_drawn(two_models):
    page, _, _ = two_models
    assert page.locator("#densities svg").count() == 2
    assert page.locator("#densities h4").all_text_contents() == ["A", "B"]
    page.get_by_label("Compare with").select_option(label="none")
    assert page.locator("#densities svg").count() == 1


def test_without_scripts_the_verdict_is_there(tmp_path, open_page):
    scores, groups, y = people(2)
    report = quiet_report(y, scores, groups)
    (tmp_path / "page.html").write_text(audit_page({"A": report, "B": report}, shown=1), encoding="utf-8")
    page = open_page(tmp_path / "page.html", java_script_enabled=False)
    assert page.locator(".summary:visible").count() == 1
    assert f"{report['statistical_parity'].gap:.3f}" in page.locator(".summary:visible").text_content()
    details(page, "As audited").locator("summary").click()
    assert details(page, "As audited").locator("table").is_visible()
