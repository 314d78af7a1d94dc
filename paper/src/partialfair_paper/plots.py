"""Draws the paper's figures from stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.extension import GROUP_COLOURS, plot_rank_curve, require
from partialfair.metrics import rank_curve
from partialfair.plotting import plot_score_densities
from partialfair_paper.figures import (
    Convergence,
    Densities,
    Frontiers,
    Networks,
    RankCurves,
    Robustness,
)
from partialfair_paper.frontiers import Point, frontier
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.published import FIRST_GROUPS, OWN_INTERVALS
from partialfair_paper.store import Store
from partialfair_paper.target import Scope, Target, list_methods

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vP*X<>hdp"
_OTHER_COLOURS = (*GROUP_COLOURS[1:-1], "#A9E5BB", "#FFA07A", "#00CED1", "#800000", "#E040FB")
"""Colors of the methods in the fast protocol's frontiers, except the paper's method, which has the first
group color, and the unconstrained model, which is gray; no other color is gray."""
_LEAST, _ROOM = 0.1, 0.12
"""Proportion of the baselines' points that may lie below the axes, and relative margin around the others."""
_IN_A_ROW = 3
"""Rank curves per row: more of them are too small to read."""
_LEGEND_INCHES = 3.2
_NAMES = {"a9a": "a9a", "bank": "bank", "law_school": "law school", "acs_income": "ACS"}


def figures_of(target: Target, scope: Scope, store: Store) -> dict[str, Figure]:
    """Return the figures of a target by name; none for tables, or if no run is finished."""
    for kind, draw in _DRAWN.items():
        if isinstance(target, kind):
            return draw(target, scope, store)
    return {}


def _styles(methods: Sequence[Method]) -> dict[str, dict[str, Any]]:
    """Return a color and a marker for each method; no other method has the color of the paper's method.

    Methods of the fast protocol's frontiers have the same style in every figure.
    """
    colours, markers = cycle(_OTHER_COLOURS), cycle(_MARKERS)
    styles: dict[str, dict[str, Any]] = {}
    known = [method for method in METHODS.values() if method.in_frontiers and method.protocol == "fast"]
    for method in (*(known if any(one in known for one in methods) else ()), *methods):
        if method.name in styles:
            continue
        ours = method.name in ("ours", "ours-as-stated")
        plain = method.name == "unconstrained"
        styles[method.name] = {
            "color": GROUP_COLOURS[0] if ours else "0.2" if plain else next(colours),
            "marker": next(markers),
            "linestyle": "-" if method.of_the_paper or method.name == "ours-exact" else ":",
            "linewidth": 2.4 if ours else 1.1,
            "zorder": 4 if ours else 2,
        }
    return styles


def _panels(
    n_rows: int, n_columns: int, width: float = 4.2, height: float = 3.4, **options: Any
) -> tuple[Figure, Any]:
    pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
    size = (width * n_columns, height * n_rows)
    figure, grid = pyplot.subplots(
        n_rows, n_columns, figsize=size, squeeze=False, layout="constrained", **options
    )
    return figure, grid


def _frontiers(target: Frontiers, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw accuracy against fairness: one row per kind of fairness, one column per data set."""
    datasets = target.of(scope)
    if not datasets:
        return {}
    figure, grid = _panels(len(target.fairness), len(datasets))
    methods = list_methods(scope)
    styles = _styles(methods)
    for question in target.questions(scope):
        ax = grid[target.fairness.index(question.fairness), datasets.index(question.dataset)]
        for method in methods:
            _draw_frontier(ax, store, question, method, styles[method.name])
        _zoom(ax, {method: frontier(store, question, method) for method in methods})
        low, high = question.interval
        ax.set_title(f"{_NAMES[question.dataset]}, ranks {low:.0%} to {high:.0%}", fontsize=10, loc="left")
        ax.set_xlabel(f"{question.fairness} fairness (1 − absolute gap) on test rows")
        ax.set_ylabel("accuracy on test rows")
    _add_legend(figure, grid, title="dotted: not in the paper")
    return {target.name: figure, **_protocols(target, scope, store)}


def _protocols(target: Frontiers, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw the frontiers of both protocols where both have been run: fast solid, paper dashed."""
    pairs = list(target.trainers(scope, store))
    questions = list(dict.fromkeys((one.dataset, one.fairness) for one, _, _ in pairs))
    if not questions:
        return {}
    figure, grid = _panels(1, len(questions), 6.4, 4.6)
    styles = _styles(list(dict.fromkeys(engine for _, engine, _ in pairs)))
    for question, engine, trainer in pairs:
        ax = grid[0, questions.index((question.dataset, question.fairness))]
        style = styles[engine.name]
        _draw_frontier(ax, store, question, engine, style)
        _draw_frontier(ax, store, question, trainer, {**style, "linestyle": "--", "markerfacecolor": "white"})
        low, high = question.interval
        ax.set_title(f"{_NAMES[question.dataset]}, ranks {low:.0%} to {high:.0%}", fontsize=10, loc="left")
        ax.set_xlabel(f"{question.fairness} fairness (1 − absolute gap) on test rows")
        ax.set_ylabel("accuracy on test rows")
    _add_legend(figure, grid)
    return {f"{target.name}_protocols": figure}


def _draw_frontier(ax: Axes, store: Store, question: Question, method: Method, style: Any) -> None:
    """Draw the points of a method."""
    if points := frontier(store, question, method):
        _draw_points(ax, points, method.label, style)


def _draw_points(ax: Axes, frontier: Sequence[Point], label: str, style: Any) -> None:
    """Draw points with 95% intervals, joined in order of fairness."""
    points = sorted(frontier, key=lambda point: point.fairness.value)
    columns = [
        [getattr(getattr(point, axis), part) for point in points]
        for axis in ("fairness", "accuracy")
        for part in ("value", "half_width")
    ]
    x, dx, y, dy = columns
    ax.errorbar(x, y, xerr=dx, yerr=dy, label=label, markersize=5, elinewidth=0.6, **style)


def _zoom(ax: Axes, frontiers: Mapping[Method, Sequence[Point]]) -> None:
    """Set the axes to show all points of partialfair and the unconstrained model, and most baselines."""
    points = [point for method, some in frontiers.items() if method.of_the_paper for point in some]
    whole = [
        point
        for method, some in frontiers.items()
        if method.is_ours or method.name == "unconstrained"
        for point in some
    ]
    if len(points) < 2:
        return
    for axis, limits in (("fairness", ax.set_xlim), ("accuracy", ax.set_ylim)):
        values = [getattr(point, axis).value for point in points]
        means = [getattr(point, axis) for point in whole]
        ends = [mean.value + side * np.nan_to_num(mean.half_width) for mean in means for side in (-1, 1)]
        low = min([float(np.quantile(values, _LEAST)), *ends])
        high = max([*values, *ends])
        room = _ROOM * max(high - low, 1e-3)
        limits(low - room, high + room)


def _add_legend(figure: Figure, grid: Any, *, title: str | None = None) -> None:
    """Add one legend below all axes, with each label once."""
    named: dict[str, Any] = {}
    for ax in grid.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    n_columns = max(1, int(figure.get_figwidth() / _LEGEND_INCHES))
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=n_columns,
        frameon=False,
        fontsize=9,
        title=title,
        title_fontsize=9,
    )


def _rank_curves(target: RankCurves, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw one figure per data set: the unconstrained model, then κ from loose to strict."""
    figures = {}
    for dataset in target.of(scope):
        pictured = list(target.find_pictured(scope, store, dataset))
        if not pictured:
            continue
        figure, grid = _panels(-(-len(pictured) // _IN_A_ROW), min(len(pictured), _IN_A_ROW), 3.4, 3.7)
        for ax in grid.flat[len(pictured) :]:
            ax.set_axis_off()
        for ax, (tolerance, run) in zip(grid.flat, pictured, strict=False):
            scored = store.scores(run)
            curve = rank_curve(scored["scores"], sensitive_features=scored["groups"])
            plot_rank_curve(
                curve,
                reference=FIRST_GROUPS[dataset],
                interval=OWN_INTERVALS[dataset],
                title=_said(tolerance),
                ax=ax,
            )
        figures[f"{target.name}_{dataset}"] = figure
    return figures


def _densities(target: Densities, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw one column per κ and one row per group."""
    figures = {}
    for dataset in target.of(scope):
        pictured = list(target.find_pictured(scope, store, dataset))
        if not pictured:
            continue
        scored = [store.scores(run) for _, run in pictured]
        n_groups = len(np.unique(scored[0]["groups"]))
        figure, grid = _panels(n_groups, len(pictured), 2.3, 1.9, sharex="col")
        for column, ((tolerance, _), arrays) in enumerate(zip(pictured, scored, strict=True)):
            plot_score_densities(
                arrays["scores"],
                sensitive_features=arrays["groups"],
                interval=OWN_INTERVALS[dataset],
                threshold=0.0 if target.fairness == "pDP" else None,
                axes=grid[:, column],
            )
            first = grid[0, column]
            first.set_title(f"{_said(tolerance)}\n{first.get_title('left')}", fontsize=9, loc="left", pad=2)
        figures[target.name] = figure
    return figures


def _said(tolerance: float | None) -> str:
    return "unconstrained" if tolerance is None else f"κ = {tolerance:g}"


def _robustness(target: Robustness, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw mirrored bars by interval: accuracy on the left, fairness on the right."""
    datasets = target.of(scope)
    if not datasets:
        return {}
    figure, grid = _panels(1, len(datasets), 5.0, 4.6)
    for ax, dataset in zip(grid.flat, datasets, strict=True):
        bars = [bar for bar in target.bars(scope, store) if bar[0].dataset == dataset]
        intervals = list(dict.fromkeys(question.interval for question, _, _ in bars))
        methods = list(dict.fromkeys(method.name for _, method, _ in bars))
        height = 0.8 / max(len(methods), 1)
        styles = _styles([METHODS[name] for name in methods])
        for question, method, point in bars:
            y = intervals.index(question.interval) + height * (methods.index(method.name) + 0.5) - 0.4
            colour = styles[method.name]["color"]
            label = method.label if question.interval == intervals[0] else None
            ax.barh(y, point.fairness.value, height, color=colour, label=label)
            ax.barh(y, -point.accuracy.value, height, color=colour, alpha=0.5)
        ax.axvline(0, color="0.2", linewidth=0.8)
        ax.set_yticks(range(len(intervals)), [f"{low:.0%} to {high:.0%}" for low, high in intervals])
        ax.set_xticks([-1, -0.5, 0, 0.5, 1], ["1", "0.5", "0", "0.5", "1"])
        ax.set_xlabel("accuracy  ←   → pSP fairness")
        ax.set_title(_NAMES[dataset], fontsize=10, loc="left")
    _add_legend(figure, grid)
    return {target.name: figure}


def _convergence(target: Convergence, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw objective and infeasibility against passes over the data and against seconds."""
    figures = {}
    for dataset in target.of(scope):
        histories = {}
        for run in target.runs(scope):
            outcome = store.of(run) if run.dataset == dataset else None
            if outcome is not None and not outcome.failed:
                histories[run.method] = outcome.history
        if not histories:
            continue
        figure, grid = _panels(2, 2, 4.6, 3.0)
        styles = _styles([METHODS[name] for name in histories])
        for name, history in histories.items():
            style = {**styles[name], "marker": ""}
            for column, along in enumerate(("passes", "seconds")):
                x = np.maximum(history[along], 1e-3)
                grid[0, column].plot(x, history["objective"], label=METHODS[name].label, **style)
                grid[1, column].plot(x, history["violation"], **style)
        for column, along in enumerate(("passes over the data", "seconds")):
            grid[1, column].set_xlabel(along)
            for ax in grid[:, column]:
                ax.set_xscale("log")
            grid[1, column].set_yscale("symlog", linthresh=1e-4)
            grid[1, column].set_ylim(bottom=0)
        grid[0, 0].set_ylabel("objective")
        grid[1, 0].set_ylabel("infeasibility")
        grid[0, 0].set_title(f"{_NAMES[dataset]}, κ = {target.tolerance(dataset):g}", fontsize=10, loc="left")
        _add_legend(figure, grid)
        figures[f"{target.name}_{dataset}"] = figure
    return figures


def _networks(target: Networks, scope: Scope, store: Store) -> dict[str, Figure]:
    """Draw accuracy against fairness on the interval, one curve per constraint."""
    drawn = {
        label: points
        for label, question, method in target.curves(scope)
        if (points := target.points(store, question, method))
    }
    if not drawn:
        return {}
    figure, grid = _panels(1, 1, 6.4, 4.4)
    ax = grid[0, 0]
    for (label, points), colour, marker in zip(
        drawn.items(), ("0.2", *GROUP_COLOURS), _MARKERS, strict=False
    ):
        _draw_points(ax, points, label, {"color": colour, "marker": marker, "linewidth": 1.6})
    ax.set_xlabel("pSP fairness (1 − absolute gap) on ranks 20-40%, test images")
    ax.set_ylabel("accuracy on test images")
    ax.set_title("ResNet-18 on CelebA, by constrained ranks", fontsize=10, loc="left")
    _add_legend(figure, grid)
    return {target.name: figure}


_DRAWN: Mapping[type[Target], Callable[[Any, Scope, Store], dict[str, Figure]]] = {
    Frontiers: _frontiers,
    RankCurves: _rank_curves,
    Densities: _densities,
    Robustness: _robustness,
    Convergence: _convergence,
    Networks: _networks,
}
"""Drawing functions by kind of target."""
