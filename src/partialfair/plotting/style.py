"""Colours, names and axes shared by all pictures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from partialfair.data.groups import group_name
from partialfair.utils.extras import require
from partialfair.utils.typing import GroupLabel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#5D3A9B", "#8C6D31", "#4D4D4D")
"""Okabe–Ito and neighbours: told apart by colour-blind readers. Red is kept for the interval."""

INTERVAL_COLOUR = "#D62728"

MAX_SHOWN = 12
"""More groups than this do not fit a picture; its title says how many are not drawn."""

_INSIDE, _LEGEND_WIDTH = 5, 3.2
"""A legend of more groups than this stands beside the axes, in so many inches."""

_TITLE_LETTERS = 50
"""Of one line of a title, over axes five inches wide."""


def group_style(position: int) -> dict[str, Any]:
    """Colour of the group at that position, and dashes when the colours have been used up."""
    turn, colour = divmod(position, len(GROUP_COLOURS))
    return {"color": GROUP_COLOURS[colour], "linestyle": "-" if turn == 0 else (0, (1.5 * turn, 1))}


def safe_name(label: GroupLabel, most: int = 30) -> str:
    """Group name as text on one line: matplotlib would read $ as maths and hide what begins with _.

    Of a long one the middle is left out: long names mostly differ at their ends.
    """
    name = " ".join(group_name(label).split()) or "(blank)"
    n_last = most // 3
    name = name if len(name) <= most else f"{name[: most - 1 - n_last]}…{name[-n_last:]}"
    name = name.replace("$", r"\$")
    return "\u200b" + name if name.startswith("_") else name


def legend_place(n_groups: int, corner: str) -> dict[str, Any]:
    """Return where a legend stands: in a corner of the axes, or beside them if it is long."""
    return {"loc": corner} if n_groups <= _INSIDE else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}


def new_axes(ax: Axes | None, *, size: tuple[float, float], n_groups: int = 0) -> Axes:
    """Return the axes given, or new ones on a figure of that size, and of the legend of so many groups."""
    size = (size[0] + _LEGEND_WIDTH * (n_groups > _INSIDE), size[1])
    pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
    return pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def set_title(ax: Axes, title: str, note: str = "") -> None:
    """Write a title above the axes, in lines that are not cut off, and a note below it."""
    ax.set_title("\n".join([*textwrap.wrap(title, _TITLE_LETTERS), *filter(None, [note])]), fontsize=11)


def percent_axis(ax: Axes, which: str) -> None:
    """Write fractions as percents on the ``"x"`` or ``"y"`` axis."""
    ticker = require("matplotlib.ticker", extra="cli", purpose="drawing")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_formatter(ticker.PercentFormatter(xmax=1, decimals=0, symbol="%"))
