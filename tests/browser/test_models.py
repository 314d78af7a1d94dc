"""Pages of several models: side by side, and along a path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from partialfair import PartialFairClassifier, fairness_path, metrics
from tests.browser.conftest import violations
from tests.browser.pages import (
    EXACT,
    INTERVAL,
    assert_changes,
    move_to,
    people,
    quiet_report,
    value,
    wait_for_sentence,
)


def test_models_side_by_side(page_of):
    scores, groups, _ = people(2)
    fair = pd.Series(scores).groupby(groups).rank(pct=True).to_numpy()
    page = page_of({"before": quiet_report(None, scores, groups), "after": quiet_report(None, fair, groups)})
    assert value(page, "statistical_parity") > 0.2
    page.get_by_label("Model", exact=True).select_option(label="after")
    assert value(page, "statistical_parity") < 0.05
    wait_for_sentence(page, "after: among ranks 5–30%")
    assert page.locator("#curve polyline.other").count() == 0
    page.get_by_label("Compare with").select_option(label="before")
    assert page.locator("#curve polyline.other").count() == 1
    assert "Dashed: before." in page.locator("#curve-text").text_content()


def test_the_pair_stays_when_the_model_changes(page_of):
    """Twelve groups under two models: more pairs than a page holds."""
    scores, groups, _ = people(12, n=6000)
    noise = np.random.default_rng(5).normal(size=6000)
    page = page_of({"before": quiet_report(None, scores, groups), "after": quiet_report(None, noise, groups)})
    options = page.locator("#pair option").all_text_contents()
    assert options[0] == "worst of all 66 pairs"
    page.get_by_label("Groups compared").select_option(label=options[-1])
    for model, own in (("after", noise), ("before", scores)):
        page.get_by_label("Model", exact=True).select_option(label=model)
        assert page.locator("td[data-pair='statistical_parity']").text_content() == options[-1]
        some = np.isin(groups, options[-1].split(" and "))
        wanted = metrics.partial_statistical_parity_difference(
            None, own[some], sensitive_features=groups[some], interval=INTERVAL
        )
        assert value(page, "statistical_parity") == pytest.approx(wanted, abs=EXACT)


@pytest.fixture(scope="module")
def path():
    scores, groups, _ = people(2, n=3000)
    X = np.column_stack([scores, np.random.default_rng(3).normal(size=3000)])
    y = scores + X[:, 1] > 0
    clf = PartialFairClassifier(interval=(0.1, 0.6), group_terms="interactions")
    return fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.03, 0.3, 1.0], random_state=0)


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
        wanted = path.gap(point).gap
        assert value(page, "statistical_parity") == pytest.approx(wanted, abs=EXACT)
    text = page.locator("main").text_content()
    for words in ("Who enters and leaves the interval", "stationarity", "max_gap", "converged"):
        assert words in text
    assert violations(page) == []


def test_models_of_a_path_can_be_compared_with_each_other(path, tmp_path, open_page):
    path.to_html(tmp_path / "path.html")
    page = open_page(tmp_path / "path.html")
    names = page.locator("#model option").all_text_contents()
    move_to(page, 20, 45)
    moved = 0.0
    for old, new in ((0, 3), (3, 0), (1, 3)):
        page.get_by_label("Compare with").select_option(label=names[old])
        page.get_by_label("Model", exact=True).select_option(label=names[new])
        before, after = path.points[old].scores, path.points[new].scores
        moved += assert_changes(page, before, after, path.validation.groups, 20, 45)
    assert moved > 0


def test_labels_of_the_frontier_stand_by_their_points_and_apart(path, tmp_path, open_page):
    path.to_html(tmp_path / "path.html")
    page = open_page(tmp_path / "path.html")
    rng = np.random.default_rng(0)
    for n, spread in ((4, 30), (8, 60), (12, 120)):
        points = [
            {"x": float(x), "y": float(y), "text": f"0.{k:02}"}
            for k, (x, y) in enumerate(200 + spread * rng.random((n, 2)))
        ]
        boxes = page.evaluate("points => placeLabels(points, [430, 380])", points)
        for k, box in enumerate(boxes):
            for other in boxes[k + 1 :]:
                assert (
                    box["right"] <= other["left"]
                    or other["right"] <= box["left"]
                    or box["bottom"] <= other["top"]
                    or other["bottom"] <= box["top"]
                )
            for point in points:
                assert not (
                    box["left"] < point["x"] < box["right"] and box["top"] < point["y"] < box["bottom"]
                )
            away = max(abs(box["left"] - points[k]["x"]), abs(box["right"] - points[k]["x"]))
            assert away < 130
    # Each is joined to its point by a line.
    for dot in page.locator("#frontier .dot").all():
        circle, line = dot.locator("circle"), dot.locator(".leader")
        assert circle.get_attribute("cx") == line.get_attribute("x1")
        assert circle.get_attribute("cy") == line.get_attribute("y1")
