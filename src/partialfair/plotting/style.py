"""Colors, names and axes shared by all figures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from partialfair.data.groups import group_name
from partialfair.utils.extras import require
from partialfair.utils.typing import GroupLabel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#5D3A9B", "#8C6D31", "#4D4D4D")
"""Okabe–Ito and similar colors, which color-blind readers can distinguish. Red is reserved for the
interval."""

INTERVAL_COLOUR = "#D62728"

MAX_SHOWN = 12
"""Largest number of groups in a figure; its title gives the number of others."""

_INSIDE, _LEGEND_WIDTH = 5, 3.2
"""A legend of more groups than this is drawn next to the axes, with this width in inches."""

_TITLE_LETTERS = 50
"""Characters of one line of a title, over axes five inches wide."""


def group_style(position: int) -> dict[str, Any]:
    """Return the color of the group at that position, with dashes after the last color."""
    turn, colour = divmod(position, len(GROUP_COLOURS))
    return {"color": GROUP_COLOURS[colour], "linestyle": "-" if turn == 0 else (0, (1.5 * turn, 1))}


def safe_name(label: GroupLabel, most: int = 30) -> str:
    """Return a group name on one line, escaped: Matplotlib parses $ as math and hides names with _ first.

    Long names are shortened in the middle, because they mostly differ at their ends.
    """
    name = " ".join(group_name(label).split()) or "(blank)"
    n_last = most // 3
    name = name if len(name) <= most else f"{name[: most - 1 - n_last]}…{name[-n_last:]}"
    name = name.replace("$", r"\$")
    return "\u200b" + name if name.startswith("_") else name


def legend_place(n_groups: int, corner: str) -> dict[str, Any]:
    """Return the place of a legend: in a corner of the axes, or next to them if it is long."""
    return {"loc": corner} if n_groups <= _INSIDE else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}


def new_axes(ax: Axes | None, *, size: tuple[float, float], n_groups: int = 0) -> Axes:
    """Return the given axes, or new ones on a figure of that size, with space for the legend."""
    size = (size[0] + _LEGEND_WIDTH * (n_groups > _INSIDE), size[1])
    pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
    return pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def set_title(ax: Axes, title: str, note: str = "") -> None:
    """Write a title above the axes, wrapped to their width, and a note below it."""
    ax.set_title("\n".join([*textwrap.wrap(title, _TITLE_LETTERS), *filter(None, [note])]), fontsize=11)


def percent_axis(ax: Axes, which: str) -> None:
    """Format fractions as percent on the ``"x"`` or ``"y"`` axis."""
    ticker = require("matplotlib.ticker", extra="cli", purpose="drawing")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_formatter(ticker.PercentFormatter(xmax=1, decimals=0, symbol="%"))
