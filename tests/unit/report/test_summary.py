"""What a page holds is enough for every interval, and no more than summaries."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError, ThresholdOutsideIntervalWarning
from partialfair.metrics import fairness_report, grid, unfairness_map
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.inputs import scored_groups
from partialfair.metrics.sweep import band_auc
from partialfair.report.page_data import N_GRID, Worst, leading_pairs, pack, summarise
from partialfair.report.pages import audit_page
from partialfair.report.sections import Section


def scores_of(kind, seed=0, n=400):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    scores = rng.normal(size=n) + 0.4 * (groups == "a")
    scores = {"distinct": scores, "tied": scores.round(1), "coarse": scores.round(), "equal": 0 * scores}[
        kind
    ]
    return scores, groups, rng


@pytest.mark.parametrize("kind", ["distinct", "tied", "coarse", "equal"])
@pytest.mark.parametrize("weighted", ["not", "unevenly", "in tenths"])
def test_visits_give_the_group_auc_of_every_interval(kind, weighted):
    scores, groups, rng = scores_of(kind)
    tenths = rng.choice([0.1, 0.3], scores.size)  # sums of them lie on grid lines, up to rounding
    weights = {"not": None, "unevenly": rng.uniform(0.1, 3, scores.size), "in tenths": tenths}[weighted]
    a, b = scored_groups(scores, groups, sample_weight=weights)
    cells, visits = grid.grid_visits(*a.ranked, *b.ranked, N_GRID)
    aucs = grid.grid_aucs(cells, visits, N_GRID)
    for _ in range(40):
        i = int(rng.integers(0, N_GRID))
        j = int(rng.integers(i + 1, N_GRID + 1))
        part = as_interval_set((i / N_GRID, j / N_GRID))
        arguments = (part.starts, part.lengths, part.measure)
        direct = band_auc(*a.ranked, *b.ranked, arguments, arguments, 0.5)
        assert aucs[i, j - 1] == pytest.approx(direct, abs=1e-10)


def unpacked(text, dtype="<f8"):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def test_numbers_are_packed_without_rounding():
    values = np.random.default_rng(0).normal(size=7)
    assert (unpacked(pack(values)) == values).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["distinct", "tied"])
def test_what_lies_above_whole_percents_and_thresholds(kind, weighted):
    """By definition: members from the top, blocks of ties in proportion."""
    scores, groups, rng = scores_of(kind)
    weights = rng.uniform(0.1, 3, scores.size) if weighted else np.ones(scores.size)
    positive = rng.random(scores.size) < 0.4
    scored = scored_groups(scores, groups, sample_weight=weights, positive=positive)
    found = summarise(scored, threshold=0.25, confidence=0.95)
    assert found["thresholds"][-1] == 0.25
    for percent, threshold in zip(range(1, 100), found["thresholds"][:-1], strict=True):
        above = weights[scores > threshold].sum() / weights.sum()
        with_it = weights[scores >= threshold].sum() / weights.sum()
        assert above - 1e-9 <= percent / 100 <= with_it + 1e-9
    truly = [weights[scores > theta].sum() / weights.sum() for theta in found["thresholds"]]
    assert unpacked(found["selected"]) == pytest.approx(np.array(truly), abs=1e-12)
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
        assert unpacked(group["density"]).sum() == pytest.approx(1, abs=1e-12)


def test_the_worst_of_many_pairs_is_that_of_the_map():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 6, 900)
    scores = rng.normal(size=900) + 0.2 * groups
    scored = scored_groups(scores, groups)
    worst = Worst.of(scored)
    kept = leading_pairs(scored, [worst], 4)
    found = summarise(scored, threshold=None, confidence=0.95, pairs=kept, worst=worst)
    assert [tuple(pair["groups"]) for pair in found["pairs"]] == kept
    assert (0, 5) in kept  # the groups that differ most
    assert len(kept) == 4
    assert found["nPairs"] == 15
    upper = np.triu_indices(N_GRID)
    for scale in ("interval", "absolute"):
        direct = unfairness_map(scores, sensitive_features=groups, n_grid=N_GRID, gap_scale=scale)
        stored = found["worst"]["kinds"][scale]
        assert unpacked(stored["values"]) == pytest.approx(direct.gaps[upper], abs=1e-15)
        assert (unpacked(stored["pair"], "<u4") == direct.pair[upper]).all()


def report(n=400, **options):
    scores, groups, _ = scores_of("distinct", n=n)
    settings = {"interval": (0.1, 0.4), "random_state": 0, "n_resamples": 100, **options}
    return fairness_report(None, scores, sensitive_features=groups, **settings), scores


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))


def lengths(data):
    """How many numbers each list or packed text of the page holds."""
    if isinstance(data, dict):
        for name, inner in data.items():
            yield from ((f"{name}.{path}", length) for path, length in lengths(inner))
    elif isinstance(data, list):
        yield "list", len(data)
        for inner in data:
            yield from lengths(inner)
    elif isinstance(data, str):
        yield "text", len(data)


def test_what_the_page_holds_does_not_grow_with_the_rows():
    small, _ = report()
    large, _ = report(n=40_000)
    most = dict(lengths(data_of(large.to_html())))
    assert max(length for path, length in most.items() if "visits" not in path) < 1200
    assert most["models.pairs.visits.text"] <= 4 * 201 * 9 * 8 / 3 + 4
    assert len(large.to_html()) < 1.3 * len(small.to_html())


def test_small_groups_are_said_to_be_disclosed():
    assert "can be inferred from this file" in report(n=390)[0].to_html()
    assert "can be inferred from this file" not in report(n=4000)[0].to_html()


def test_bands_are_said_to_be_approximate_with_weights_and_are_missing_on_training_rows():
    plain, scores = report()
    assert "Bands hold with 95% confidence" in plain.to_html()
    weights = np.random.default_rng(0).uniform(1, 2, scores.size)
    weighted, _ = report(sample_weight=weights)
    assert "Bands hold with about 95% confidence" in weighted.to_html()
    trained = audit_page(plain, seen_in_training=True)
    assert "Bands hold" not in trained
    assert data_of(trained)["settings"]["bands"] is False


@pytest.mark.parametrize(
    ("interval", "shown"),
    [((0.1, 0.4), [10, 40]), ((0.105, 0.4), [10, 40]), ((0.5, 0.51), [50, 52]), ((0.99, 1.0), [98, 100])],
)
def test_the_page_begins_with_whole_percents_near_the_audited_interval(interval, shown):
    page = report(n=8000, interval=interval)[0].to_html()
    assert data_of(page)["settings"]["interval"] == shown
    off_grid = any(abs(100 * end - percent) > 1e-9 for end, percent in zip(interval, shown, strict=True))
    assert (f"begins with ranks {shown[0]}–{shown[1]}%" in page) is off_grid


@pytest.mark.parametrize("interval", [[(0.1, 0.2), (0.4, 0.5)], {"a": (0.1, 0.3), "b": (0.2, 0.4)}])
def test_what_a_page_cannot_show_is_refused(interval):
    with pytest.raises(InputError, match="an HTML report shows one interval that is the same for all groups"):
        report(interval=interval)[0].to_html()


def test_what_was_audited_is_there_without_scripts(tmp_path):
    found, _ = report(threshold=0.7)
    assert found.to_html(tmp_path / "a.html", title="A & <b>") is None
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<h1>A &amp; &lt;b&gt;</h1>" in page
    assert f"<td>{found['statistical_parity'].gap:.3f}</td>" in page
    assert "which needs labels" in page


def test_what_each_number_claims_is_said():
    found, _ = report(threshold=0.7)
    page = found.to_html()
    for row in found.metrics:
        text = METRICS[row.metric].text
        low, high, lower_bound, upper_bound = map(
            text, (row.ci_low, row.ci_high, row.lower_bound, row.upper_bound)
        )
        assert (
            f"<td class=numbers>{low} – {high}</td><td>{lower_bound}</td><td>{upper_bound}</td>"
            "<td>a and b</td>" in page
        )
    assert (
        f"Each interval by itself holds with 95% confidence; all {len(found.metrics)} hold simultaneously"
        in page
    )
    assert "Pairs of groups" not in page  # there is one
    trained = audit_page(found, seen_in_training=True)
    assert "intervals and bounds are not valid for new data" in trained
    assert "holds by itself" not in trained


def test_the_widest_pairs_are_listed_with_intervals_of_their_own():
    rng = np.random.default_rng(1)
    groups = rng.choice([f"g{k:02}" for k in range(12)], 6000)
    scores = rng.normal(size=6000) + 0.05 * np.char.strip(groups, "g").astype(float)
    labels = rng.random(6000) < 0.5
    found = fairness_report(
        labels,
        scores,
        sensitive_features=groups,
        threshold=0.2,
        pos_label=True,
        random_state=0,
        n_resamples=100,
    )
    for metric in ("statistical_parity", "equalized_odds"):
        page = audit_page({"old": found, "new": found}, metric=metric)
        assert page.count("<summary><h2>Pairs of groups") == 1
        section = page.split("<h2>Pairs of groups: old</h2>")[1].split("</details>")[0]
        assert f"The 50 largest of 66 pairs by {METRICS[metric].title}" in section
        lines = re.findall(
            r'<th scope="row">(.*?)</th><td>(.*?)</td><td class=numbers>(.*?)</td>(.*?)</tr>', section
        )
        wanted = [
            (
                " and ".join(gap.groups),
                f"{gap.gap:.3f}",
                f"{gap.ci_low:.3f} – {gap.ci_high:.3f}",
                "" if gap.label is None else f"<td>{'positives' if gap.label else 'negatives'}</td>",
            )
            for gap in found.pairs(metric)
        ]
        assert lines == wanted[:50]
    assert "Pairs of groups" not in audit_page(found, seen_in_training=True)


def test_bands_are_said_to_be_approximate_with_clusters():
    clustered, _ = report(clusters=np.arange(400) // 2)
    assert "Bands hold with about 95% confidence" in clustered.to_html()
    assert "Clusters of rows enter by their effective number" in clustered.to_html()


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
    gap = first["statistical_parity"].gap
    for name in ("old", "new"):
        assert f'<th scope="row">{name}</th><td>statistical parity (pSP)</td><td>{gap:.3f}</td>' in page
    assert page.count("by itself holds with") == 1  # what numbers claim is said once


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"threshold": 0.7}, "differ in their threshold"),
        ({"confidence": 0.9}, "differ in their confidence"),
        ({"interval": (0.1, 0.5)}, "differ in their interval"),
        ({"n": 500}, "have different rows"),
    ],
)
def test_reports_that_do_not_go_together_are_refused(others, words):
    with pytest.raises(InputError, match=words):
        audit_page({"one": report()[0], "other": report(**others)[0]})


def test_what_is_no_report_is_refused(tmp_path):
    with pytest.raises(InputError, match="an HTML report needs a fairness report"):
        audit_page({})
    with pytest.raises(InputError, match="position of one of 1 reports"):
        audit_page(report()[0], shown=1)
    with pytest.warns(ThresholdOutsideIntervalWarning):
        nobody = report(threshold=float("inf"))[0]
    with pytest.raises(InputError, match="finite threshold"):
        nobody.to_html()
    with pytest.raises(InputError, match="no directory"):
        report()[0].to_html(tmp_path / "absent" / "page.html")
