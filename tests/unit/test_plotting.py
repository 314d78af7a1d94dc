from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid

from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError, MissingExtraError
from partialfair.metrics import interval_membership, rank_curve, unfairness_map
from partialfair.plotting import plot_score_densities
from partialfair.plotting.frontier import plot_path
from partialfair.plotting.ranks import plot_rank_curve, plot_unfairness_map
from partialfair.plotting.style import INTERVAL_COLOUR, MAX_SHOWN

matplotlib = pytest.importorskip("matplotlib")
pyplot = pytest.importorskip("matplotlib.pyplot")
RED = matplotlib.colors.to_rgb(INTERVAL_COLOUR)
UNION = [(0.05, 0.2), (0.5, 0.8)]


@pytest.fixture(autouse=True)
def agg(monkeypatch):
    """Draw in memory; showing fails, and no figure outlives its test."""
    before = matplotlib.get_backend()
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda *args, **options: pytest.fail("a picture was shown"))
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def people(n_groups=2, size=400, seed=0, equal=False):
    """Scores and groups; group k has size·(k + 1) members, and scores that rise with k."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"g{k:02d}" for k in range(n_groups)], [size * (k + 1) for k in range(n_groups)])
    rises = np.repeat(np.arange(n_groups), [size * (k + 1) for k in range(n_groups)])
    return (np.full(groups.size, 0.5) if equal else rng.normal(size=groups.size) + 0.3 * rises), groups


def draw_curve(scores, groups, interval=(0.1, 0.4), **options):
    return plot_rank_curve(rank_curve(scores, sensitive_features=groups), interval=interval, **options)


def all_densities(scores, groups, interval=(0.1, 0.4), **options):
    return plot_score_densities(scores, sensitive_features=groups, interval=interval, **options)


def draw_densities(*data, **options):
    return all_densities(*data, **options)[0]


def draw_map(scores, groups, interval=(0.1, 0.4), **options):
    return plot_unfairness_map(
        unfairness_map(scores, sensitive_features=groups, n_grid=20), interval=interval, **options
    )


DRAW = {"curve": draw_curve, "densities": draw_densities, "map": draw_map}
DATA = {
    "two groups": people(2),
    "three groups": people(3),
    "twenty groups": people(20, size=10),
    "tiny groups": people(3, size=1),
    "equal scores": people(2, equal=True),
    "equal zeros": (np.zeros(20), np.repeat(["a", "b"], 10)),
    "two values": (np.tile([0.0, 1.0], 20), np.repeat(["a", "b"], 20)),
    "grades": (np.clip(people(3)[0].round() + 3, 1, 5), people(3)[1]),
    "outlier": (np.append(people()[0][1:], 1e6), people()[1]),
    "half tied": (np.where(np.arange(1200) % 2, 0.0, people()[0]), people()[1]),
    "vast scores": (people()[0] * 1e300, people()[1]),
    "crossed": (people()[0], np.column_stack([people()[1], np.resize(["x", "y"], 1200)])),
    "odd names": (np.arange(40.0), np.repeat(["$x_1$", "_hidden", "{a} \\frac %", "two\nlines"], 10)),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("picture", DRAW)
def test_returns_axes_that_can_be_saved_of_one_new_figure(picture, data):
    ax = DRAW[picture](*DATA[data])
    assert isinstance(ax, matplotlib.axes.Axes)
    assert pyplot.get_fignums() == [ax.figure.number]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.1, 0.4), (0.95, 1.0), UNION])
@pytest.mark.parametrize("picture", DRAW)
def test_the_interval_is_red(picture, interval):
    scores, groups = people()
    red = matplotlib.colors.to_rgb(INTERVAL_COLOUR)
    ax = DRAW[picture](scores, groups, interval)
    found = [
        artist
        for artist in [*ax.patches, *ax.collections, *ax.lines]
        for get in ("get_facecolor", "get_markeredgecolor")
        if hasattr(artist, get)
        and np.allclose(np.ravel(matplotlib.colors.to_rgba_array(getattr(artist, get)()))[:3], red)
    ]
    n_parts = len(interval) if isinstance(interval, list) else 1
    assert len(found) == n_parts * (2 if picture == "curve" else 1)


@pytest.mark.parametrize("picture", ["curve", "map"])
def test_draws_on_the_axes_given(picture):
    figure, axes = pyplot.subplots(1, 2)
    assert DRAW[picture](*people(), ax=axes[1], title="mine") is axes[1]
    assert pyplot.get_fignums() == [figure.number]
    assert axes[1].get_title() == "mine"
    assert not axes[0].lines


class TestRankCurve:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_lines_are_the_ranks(self, weighted):
        scores, groups = people(3)
        weights = np.arange(scores.size) % 4 if weighted else None
        curve = rank_curve(scores, sensitive_features=groups, sample_weight=weights)
        ax = plot_rank_curve(curve, reference="g01")
        drawn = {line.get_label(): line.get_xydata() for line in ax.lines}
        assert drawn.pop("equal ranks").tolist() == [[0, 0], [1, 1]]
        assert set(drawn) == {"g00", "g02"}
        for k in (0, 2):
            np.testing.assert_array_equal(drawn[f"g0{k}"], curve.ranks[:, [1, k]])

    def test_the_first_group_is_the_reference_unless_named(self):
        ax = draw_curve(*people())
        assert ax.get_xlabel().startswith("share of g00 above")
        assert ax.get_ylabel() == "share of g01 above it"
        with pytest.raises(InputError, match="'g09' is not one of the groups"):
            draw_curve(*people(), reference="g09")

    @pytest.mark.parametrize(
        ("interval", "name"),
        [((0.05, 0.3), "interval 5–30%"), (UNION, "interval 5–20% and 50–80%"), (None, None)],
    )
    def test_the_legend_names_the_interval(self, interval, name):
        names = [text.get_text() for text in draw_curve(*people(), interval).get_legend().get_texts()]
        assert names[:2] == ["equal ranks", "g01"]
        assert names[2:] == ([] if name is None else [name])

    @pytest.mark.parametrize("reference", ["g00", "g01"])
    def test_the_legend_stands_where_no_line_is(self, reference):
        ax = draw_curve(*people(), reference=reference)
        ax.figure.canvas.draw()
        box = ax.get_legend().get_window_extent().transformed(ax.transAxes.inverted())
        for line in ax.lines[1:]:
            assert not any(box.contains(*point) for point in line.get_xydata())

    def test_of_many_groups_the_furthest_are_drawn_told_apart_and_the_title_says_so(self):
        ax = draw_curve(*people(20, size=10))
        assert len(ax.lines) == 1 + MAX_SHOWN
        assert "(7 groups nearer to the diagonal not drawn)" in ax.get_title()
        assert {line.get_label() for line in ax.lines} >= {"g18", "g19"}
        looks = {(line.get_color(), str(line._dash_pattern)) for line in ax.lines[1:]}
        assert len(looks) == MAX_SHOWN
        assert sum(line.is_dashed() for line in ax.lines[1:]) == MAX_SHOWN - 8

    @pytest.mark.parametrize("names", ["short", "a name of quite some length that goes on" * 2])
    @pytest.mark.parametrize("n_groups", [2, 8])
    def test_nothing_is_cut_off(self, names, n_groups):
        scores, groups = people(n_groups, size=30)
        ax = draw_curve(scores, np.char.add(groups, names), title=names)
        ax.figure.canvas.draw()
        inside = ax.figure.bbox
        for part in (ax.get_legend(), ax.yaxis.label, ax.xaxis.label, ax.title):
            box = part.get_window_extent()
            assert inside.x0 <= box.x0 < box.x1 <= inside.x1
            assert inside.y0 <= box.y0 < box.y1 <= inside.y1

    def test_intervals_that_differ_by_group_are_refused(self):
        with pytest.raises(InputError, match="interval must be"):
            draw_curve(*people(), interval={"g00": (0, 0.5), "g01": (0, 0.4)})


def area(fill):
    """Area of what fill_between drew, by the shoelace formula."""
    x, y = fill.get_paths()[0].vertices.T
    return abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2


class TestDensities:
    @pytest.mark.parametrize("data", ["two groups", "tiny groups", "outlier", "half tied"])
    @pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.3), (0.9, 1.0), UNION])
    def test_areas_are_shares(self, data, interval):
        scores, groups = DATA[data]
        for ax in all_densities(scores, groups, interval):
            whole, *parts = ax.collections
            curve = ax.lines[0].get_xydata()
            assert trapezoid(curve[:, 1], curve[:, 0]) == pytest.approx(1, abs=0.01)
            assert area(whole) == pytest.approx(1, abs=0.01)
            expected = interval if isinstance(interval, list) else [interval]
            assert [area(part) for part in parts] == pytest.approx([b - a for a, b in expected], abs=0.01)

    def test_the_red_part_lies_between_the_scores_at_its_ranks(self):
        scores, groups = people(2, size=20_000)
        for ax, group in zip(all_densities(scores, groups), np.unique(groups), strict=True):
            x = ax.collections[1].get_paths()[0].vertices[:, 0]
            expected = np.quantile(scores[groups == group], [0.6, 0.9])
            assert [x.min(), x.max()] == pytest.approx(expected, abs=0.05)

    def test_intervals_may_differ_by_group(self):
        scores, groups = people()
        intervals = {"g00": (0.0, 0.2), "g01": [(0.1, 0.2), (0.6, 0.9)]}
        axes = all_densities(scores, groups, intervals)
        assert [sum(map(area, ax.collections[1:])) for ax in axes] == pytest.approx([0.2, 0.4], abs=0.01)

    def test_weights_count_like_repeated_rows(self):
        scores, groups = people()
        weights = np.arange(scores.size) % 3
        weighted = all_densities(scores, groups, sample_weight=weights)
        repeated = all_densities(np.repeat(scores, weights), np.repeat(groups, weights))
        for one, other in zip(weighted, repeated, strict=True):
            left, right = one.lines[0].get_xydata(), other.lines[0].get_xydata()
            peak = right[:, 1].max()
            assert np.interp(left[:, 0], *right.T) == pytest.approx(left[:, 1], abs=0.1 * peak)

    def test_one_axes_for_each_group_largest_first_to_be_kept(self):
        axes = all_densities(*people(20, size=10))
        assert len(axes) == MAX_SHOWN
        titles = [ax.get_title(loc="left") for ax in axes]
        assert titles == [f"g{k:02d}  (n = {10 * (k + 1)})" for k in range(8, 20)]
        assert "(8 smaller groups not drawn)" in axes[0].figure.get_suptitle()

    def test_draws_on_the_axes_given(self):
        figure, axes = pyplot.subplots(3)
        assert all_densities(*people(3), axes=axes).tolist() == axes.tolist()
        with pytest.raises(InputError, match="one axes for each of the 2 groups, not 3"):
            all_densities(*people(2), axes=axes)
        assert pyplot.get_fignums() == [figure.number]

    @pytest.mark.parametrize("threshold", [None, 0.25])
    def test_the_threshold_is_a_dashed_line(self, threshold):
        ax = draw_densities(*people(), threshold=threshold)
        assert [line.get_xdata()[0] for line in ax.lines[1:]] == ([] if threshold is None else [threshold])

    def test_one_score_far_away_does_not_squeeze_the_others(self):
        scores, groups = DATA["outlier"]
        low, high = draw_densities(scores, groups).get_xlim()
        assert np.ptp(scores[:-1]) > 0.5 * (high - low)
        assert "(1 beyond the axis, drawn at its ends)" in all_densities(scores, groups)[-1].get_xlabel()

    def test_long_names_differ(self):
        scores, groups = people(5)
        axes = all_densities(scores, np.char.add("a name that begins as all the others " * 2, groups))
        assert len({ax.get_title(loc="left").split("(")[0] for ax in axes}) == 5


def heights(bars):
    return np.array([bar.get_height() for bar in bars])


class TestBars:
    @pytest.mark.parametrize(("weighted", "higher"), [(False, True), (True, True), (True, False)])
    @pytest.mark.parametrize("data", ["grades", "equal scores", "equal zeros", "two values"])
    @pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.3), (0.9, 1.0), UNION])
    def test_heights_are_shares_and_the_red_part_is_that_of_the_members_inside(
        self, data, interval, weighted, higher
    ):
        scores, groups = DATA[data]
        weights = 1.0 + np.arange(scores.size) % 3 if weighted else np.ones(scores.size)
        common = {
            "sensitive_features": groups,
            "interval": interval,
            "sample_weight": weights,
            "higher_is_better": higher,
        }
        inside = interval_membership(scores, **common)
        axes = plot_score_densities(scores, **common)
        for ax, name in zip(axes, np.unique(groups), strict=True):
            assert not ax.lines
            members = groups == name
            total = weights[members].sum()
            at = [members & (scores == value) for value in np.unique(scores)]
            whole, red = map(heights, ax.containers)
            assert whole == pytest.approx([weights[one].sum() / total for one in at])
            assert red == pytest.approx([(inside * weights)[one].sum() / total for one in at])
            assert whole.sum() == pytest.approx(1)
            assert red.sum() == pytest.approx(as_interval_set(interval).measure)

    def test_intervals_may_differ_by_group(self):
        scores, groups = DATA["grades"]
        intervals = {"g00": (0.0, 0.2), "g01": UNION, "g02": (0.5, 1.0)}
        axes = all_densities(scores, groups, intervals)
        assert [heights(ax.containers[1]).sum() for ax in axes] == pytest.approx([0.2, 0.45, 0.5])

    @pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [0, 0.001, 3, 1e6], [-2, 7]])
    @pytest.mark.parametrize("higher", [True, False])
    def test_the_threshold_parts_the_bars_that_it_selects_from_the_others(self, values, higher):
        scores, groups = np.tile(values, 20), np.repeat(["a", "b"], 10 * len(values))
        for threshold in (-5.0, 1.0, 2.0, 2.01, 2.99, 3.0, 7.0, 2e6):
            axes = all_densities(scores, groups, threshold=threshold, higher_is_better=higher)
            (line,) = axes[0].lines
            self.check_cut(axes[0].containers[0], sorted(values), line.get_xdata()[0], threshold, higher)
            pyplot.close(axes[0].figure)

    def check_cut(self, bars, values, cut, threshold, higher):
        for bar, value in zip(bars, values, strict=True):
            first, last = bar.get_x(), bar.get_x() + bar.get_width()
            is_right = value > threshold if higher else value >= threshold
            assert (first >= cut - 1e-9) if is_right else (last <= cut + 1e-9)

    @pytest.mark.parametrize(
        ("values", "each", "are_bars"),
        [
            (np.arange(5.0), 20, True),
            ([7.0], 50, True),
            (np.arange(40.0), 4, True),
            (np.arange(41.0), 4, False),  # too many bars
            (np.arange(30.0), 1, False),  # few values, but everyone has another
            (np.append(np.zeros(60), np.linspace(1, 2, 60)), 1, False),
        ],
    )
    def test_bars_stand_for_few_values_that_most_share(self, values, each, are_bars):
        scores = np.repeat(values, each)
        assert bool(draw_densities(scores, np.resize(["a", "b"], scores.size)).containers) is are_bars

    @pytest.mark.parametrize(
        "values",
        [
            np.arange(1, 6),
            np.arange(40),
            [0.5, 0.5 + 1e-9, 0.5 + 2e-9, 0.5 + 3e-9],
            [0, 0.03, 0.5, 1],
            [1, 2, 3, 4, 5, 1e12],
            -1e12 * np.arange(9),
            np.random.default_rng(0).random(33) ** 4,
        ],
    )
    def test_labels_stand_apart_and_inside_the_picture(self, values):
        scores = np.repeat(np.asarray(values, dtype=float), 6)
        axes = all_densities(scores, np.resize(["a", "b"], scores.size), threshold=1.0)
        figure = axes[0].figure
        figure.canvas.draw()
        labels = axes[-1].get_xticklabels()
        boxes = [label.get_window_extent() for label in labels]
        assert len({label.get_text() for label in labels}) == len(labels) >= 2
        for left, right in itertools.pairwise(boxes):
            assert left.x1 < right.x0
        assert figure.bbox.x0 <= boxes[0].x0
        assert boxes[-1].x1 <= figure.bbox.x1


class TestMap:
    def test_the_colours_are_the_gaps(self):
        scores, groups = people(3)
        found = unfairness_map(scores, sensitive_features=groups, n_grid=20)
        ax = plot_unfairness_map(found)
        drawn = ax.collections[0].get_array()
        np.testing.assert_array_equal(np.ma.filled(drawn, np.nan).reshape(20, 20), found.gaps.T)
        faded = ~np.ma.getmaskarray(ax.collections[1].get_array()).reshape(20, 20)
        np.testing.assert_array_equal(faded, (np.isfinite(found.gaps) & (found.ci_low <= 0)).T)

    @pytest.mark.parametrize("scale", ["interval", "absolute"])
    def test_the_ring_is_in_the_cell_of_the_interval_and_the_scale_is_named(self, scale):
        scores, groups = people()
        found = unfairness_map(scores, sensitive_features=groups, n_grid=20, gap_scale=scale)
        ax = found.plot(interval=(0.1, 0.4))
        assert ax.lines[0].get_xydata() == pytest.approx(np.array([[0.125, 0.375]]))
        assert f"({scale} scale)" in ax.figure.axes[1].get_ylabel()
        assert re.search(r"95% band, simultaneous\s+for all 210 intervals", ax.texts[0].get_text())

    @pytest.mark.parametrize("size", [(6.0, 5.0), (3.6, 3.0)])
    def test_names_of_axes_stand_apart_from_ticks(self, size):
        figure, ax = pyplot.subplots(figsize=size, layout="constrained")
        plot_unfairness_map(unfairness_map(*people()[:1], sensitive_features=people()[1]), ax=ax)
        figure.draw_without_rendering()
        for axis in (ax.xaxis, ax.yaxis):
            name = axis.label.get_window_extent()
            assert not any(name.overlaps(tick.get_window_extent()) for tick in axis.get_ticklabels())

    def test_a_ring_at_the_corner_is_whole(self):
        assert not draw_map(*people(), interval=(0, 1)).lines[0].get_clip_on()

    def test_no_gap_anywhere_has_a_plain_scale(self):
        mesh = draw_map(*people(equal=True)).collections[0]
        assert mesh.get_clim() == (0, 1)


@dataclass(frozen=True)
class Points:
    """A path as its picture sees it: every model's gap and score, and the gap that was allowed."""

    gaps: list[float]
    scores: list[float]
    alphas: tuple[float, ...] = (1e-4,)
    scoring, evaluated_on = "accuracy", "held out"

    def to_frame(self, confidence):
        gaps = np.array(self.gaps)
        return pd.DataFrame(
            {
                "gap": gaps,
                "ci_low": np.maximum(gaps - 0.05, 0),
                "ci_high": gaps + 0.05,
                "score": self.scores,
                "score_error": 0.01,
                "max_gap": [0.01 * (k + 1) for k in range(gaps.size)],
                "alpha": np.resize(self.alphas, gaps.size),
            }
        )


FALLING = [0.4 * 0.8**k for k in range(10)]
PATHS = {
    "one": Points([0.2], [0.8]),
    "two": Points([0.2, 0.25], [0.8, 0.81]),
    "ten": Points(FALLING, [0.7 + 0.1 * np.sqrt(gap) for gap in FALLING]),
    "ten on two lines": Points(FALLING, [0.7 + 0.1 * np.sqrt(gap) for gap in FALLING], (1e-4, 1e-2)),
    "the same": Points([0.2] * 5, [0.8] * 5),
    "nearly the same": Points([0.4, *(0.2 + 0.002 * k for k in range(5))], [0.85] + [0.8] * 5),
    "no gap": Points([0.0, 0.0, 0.1], [0.7, 0.7, 0.8]),
    "undefined": Points([0.2, float("nan")], [0.8, 0.8]),
}


@pytest.mark.parametrize("points", PATHS)
def test_labels_of_a_frontier_stand_apart_and_name_every_model(points):
    path = PATHS[points]
    ax = plot_path(path, title="statistical parity (pSP) at ranks 5–30% from the top (percentiles 70–95)")
    figure = ax.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in [*boxes, ax.title.get_window_extent(), ax.xaxis.label.get_window_extent()]:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    named = [name for text in ax.texts for name in text.get_text().split(", ")]
    frame = path.to_frame(0.95).dropna()
    assert sorted(named) == sorted(f"{gap:g}" for gap in frame["max_gap"])


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    with monkeypatch.context() as without:
        for name in ("matplotlib", "matplotlib.pyplot"):
            without.setitem(sys.modules, name, None)
        for draw in DRAW.values():
            with pytest.raises(MissingExtraError, match=r"drawing needs matplotlib.*partialfair\[cli\]"):
                draw(*people())


def test_where_lower_is_better_pictures_say_so_and_keep_the_users_units():
    scores, groups = people()
    risks = 10.0 - scores
    lower = {"sensitive_features": groups, "higher_is_better": False}
    curve = plot_rank_curve(rank_curve(risks, **lower), interval=(0.1, 0.4))
    assert curve.get_xlabel() == "share of g00 below the threshold\n(rank from the best, the lowest score)"
    assert curve.get_ylabel() == "share of g01 below it"
    unfairness = plot_unfairness_map(unfairness_map(risks, n_grid=20, **lower))
    assert "(from the best, the lowest score)" in unfairness.get_xlabel()
    axes = plot_score_densities(risks, interval=(0.1, 0.4), threshold=9.0, **lower)
    assert axes[-1].get_xlabel() == "score (lower is better; dashed: threshold)"
    for ax, name in zip(axes, ("g00", "g01"), strict=True):
        low, high = np.quantile(risks[groups == name], [0.1, 0.4])
        red = next(
            area for area in ax.collections if area.get_facecolor()[0][:3] == pytest.approx(RED, abs=0.01)
        )
        across = red.get_paths()[0].vertices[:, 0]
        assert (across.min(), across.max()) == pytest.approx((low, high), abs=0.1)
