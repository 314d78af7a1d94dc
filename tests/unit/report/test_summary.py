"""What a page holds is enough for every interval, and no more than summaries."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.intervals import as_interval_set
from partialfair.metrics import _kernels, fairness_report, unfairness_map
from partialfair.metrics._inputs import scored_groups
from partialfair.report import audit_page
from partialfair.report.page import Section
from partialfair.report.summary import N_GRID, packed, summarise


def scores_of(kind, seed=0, n=400):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    scores = rng.normal(size=n) + 0.4 * (groups == "a")
    scores = {"distinct": scores, "tied": scores.round(1), "coarse": scores.round(), "equal": 0 * scores}[
        kind
    ]
    return scores, groups, rng


@pytest.mark.parametrize("kind", ["distinct", "tied", "coarse", "equal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_visits_give_the_group_auc_of_every_interval(kind, weighted):
    scores, groups, rng = scores_of(kind)
    weights = rng.uniform(0.1, 3, scores.size) if weighted else None
    a, b = scored_groups(scores, groups, sample_weight=weights)
    _, visits = _kernels.grid_visits(*a.ranked, *b.ranked, N_GRID)
    aucs = _kernels.grid_aucs(visits, N_GRID)
    for _ in range(40):
        i = int(rng.integers(0, N_GRID))
        j = int(rng.integers(i + 1, N_GRID + 1))
        part = as_interval_set((i / N_GRID, j / N_GRID))
        arguments = (part.starts, part.lengths, part.measure)
        direct = _kernels.band_auc(*a.ranked, *b.ranked, arguments, arguments, 0.5)
        assert aucs[i, j - 1] == pytest.approx(direct, abs=1e-10)


def unpacked(text, dtype="<f8"):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def test_numbers_are_packed_without_rounding():
    values = np.random.default_rng(0).normal(size=7)
    assert (unpacked(packed(values)) == values).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["distinct", "tied"])
def test_what_lies_above_whole_percents_and_thresholds(kind, weighted):
    """By definition: members from the top, blocks of ties in proportion."""
    scores, groups, rng = scores_of(kind)
    weights = rng.uniform(0.1, 3, scores.size) if weighted else np.ones(scores.size)
    positive = rng.random(scores.size) < 0.4
    scored = scored_groups(scores, groups, sample_weight=weights, positive=positive)
    found = summarise(scored, threshold=0.25, confidence=0.95, max_pairs=10)
    assert found["thresholds"][-1] == 0.25
    for percent, threshold in zip(range(1, 100), found["thresholds"][:-1], strict=True):
        above = weights[scores > threshold].sum() / weights.sum()
        with_it = weights[scores >= threshold].sum() / weights.sum()
        assert above - 1e-9 <= percent / 100 <= with_it + 1e-9
    for group in found["groups"]:
        own = groups == group["name"]
        s, w, p = scores[own], weights[own], positive[own]
        ranks = np.array([w[s > theta].sum() / w.sum() for theta in found["thresholds"]])
        selected = np.array([w[(s > theta) & p].sum() / w.sum() for theta in found["thresholds"]])
        assert unpacked(group["ranks"]) == pytest.approx(ranks, abs=1e-12)
        assert unpacked(group["positivesAbove"]) == pytest.approx(selected, abs=1e-12)
        for percent in (0, 1, 37, 99, 100):
            # Share of each member that is above the rank: 1, 0, or that of its block of ties.
            low = np.array([w[s > one].sum() / w.sum() for one in s])
            high = np.array([w[s >= one].sum() / w.sum() for one in s])
            inside = np.clip((percent / 100 - low) / (high - low), 0, 1)
            assert unpacked(group["rows"])[percent] == pytest.approx(inside.sum(), abs=1e-8)
            wanted = (inside * w * p).sum() / w.sum()
            assert unpacked(group["positives"])[percent] == pytest.approx(wanted, abs=1e-10)
        assert unpacked(group["density"], "<f4").sum() == pytest.approx(1, abs=1e-5)


def test_the_worst_of_many_pairs_is_that_of_the_map():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 6, 900)
    scores = rng.normal(size=900) + 0.2 * groups
    found = summarise(scored_groups(scores, groups), threshold=None, confidence=0.95, max_pairs=4)
    assert len(found["pairs"]) == 4
    assert found["nPairs"] == 15
    upper = np.triu_indices(N_GRID)
    for scale in ("interval", "absolute"):
        direct = unfairness_map(scores, sensitive_features=groups, n_grid=N_GRID, gap_scale=scale)
        stored = found["worst"]["kinds"][scale]
        assert unpacked(stored["values"]) == pytest.approx(direct.values[upper], abs=1e-15)
        assert (unpacked(stored["pair"], "<u2") == direct.pair[upper]).all()


def report(n=400, **options):
    scores, groups, _ = scores_of("distinct", n=n)
    settings = {"interval": (0.1, 0.4), "random_state": 0, "n_resamples": 100, **options}
    return fairness_report(None, scores, sensitive_features=groups, **settings), scores


def test_the_page_holds_no_rows_and_does_not_grow_with_them():
    small, scores = report()
    large, _ = report(n=40_000)
    page = small.to_html()
    assert sum(f"{score!r}" in page for score in scores.tolist()) < 120  # thresholds at whole percents
    assert len(large.to_html()) < 1.3 * len(page)


@pytest.mark.parametrize(
    ("interval", "shown"),
    [((0.1, 0.4), [10, 40]), ((0.105, 0.4), [10, 40]), ((0.5, 0.51), [50, 52]), ((0.99, 1.0), [98, 100])],
)
def test_the_page_begins_with_whole_percents_near_the_audited_interval(interval, shown):
    page = report(n=8000, interval=interval)[0].to_html()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert data["settings"]["interval"] == shown


@pytest.mark.parametrize("interval", [[(0.1, 0.2), (0.4, 0.5)], {"a": (0.1, 0.3), "b": (0.2, 0.4)}])
def test_what_a_page_cannot_show_is_refused(interval):
    with pytest.raises(InputError, match="a page shows one interval that is the same for all groups"):
        report(interval=interval)[0].to_html()


def test_what_was_audited_is_there_without_scripts(tmp_path):
    found, _ = report(threshold=0.2)
    page = found.to_html(tmp_path / "a.html", title="A & <b>")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page
    assert "<h1>A &amp; &lt;b&gt;</h1>" in page
    assert f"<td>{found['statistical_parity'].value:.3f}</td>" in page
    assert "which needs labels" in page


def test_sections_escape_everything():
    text = (
        Section("<t>", [["<a>", "<b>"]], ("<c>", "<d>"), "<e>").html() + Section("x", [["<f>", "<g>"]]).html()
    )
    for letter in "tabcdefg":
        assert f"<{letter}>" not in text
        assert f"&lt;{letter}&gt;" in text


def test_several_reports_by_name():
    first, _ = report()
    page = audit_page({"old": first, "new": first})
    assert "As audited: old" in page
    assert "As audited: new" in page
