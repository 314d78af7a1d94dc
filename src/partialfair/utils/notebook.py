"""HTML of results in notebooks (``_repr_html_``): a sentence, a small table and a small figure."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Inches and dots per inch: a figure of 30 kB that fits next to a table.
_SIZE, _DPI = (4.6, 3.8), 80
_CELL = "padding:2px 10px;text-align:left;vertical-align:top"


def result_html(
    verdict: str,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    *,
    notes: Sequence[str] = (),
    draw: Callable[..., object] | None = None,
) -> str:
    """Return the verdict, the table and a figure as HTML.

    Parameters
    ----------
    verdict
        The result in one to three sentences; text before the first ". " or ": " is bold.
    columns, rows
        Texts of a small table; none without rows.
    notes
        Sentences on the table, collapsed below it.
    draw
        Function that draws on ``ax``. The figure is left out where matplotlib is not installed.
    """
    ends = [position for mark in (": ", ". ") if (position := verdict.find(mark)) > 0]
    split = min(ends, default=len(verdict) - 1) + 1
    parts = [f"<p><b>{html.escape(verdict[:split])}</b>{html.escape(verdict[split:])}</p>"]
    if rows:
        head = "".join(f'<th scope="col" style="{_CELL}">{html.escape(name)}</th>' for name in columns)
        lines = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
            for row in rows
        )
        top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
        parts.append(f"<table>{top}<tbody>{lines}</tbody></table>")
    if notes:
        folded = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        parts.append(f"<details><summary>Details</summary>{folded}</details>")
    if draw is not None:
        parts.append(_figure(draw, verdict))
    return f"<div>{''.join(parts)}</div>"


def frame_cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of a frame for `result_html`, numbers with three digits."""
    lines = frame.itertuples(index=False)
    cells = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in line] for line in lines]
    return [*map(str, frame)], cells


def _figure(draw: Callable[..., object], text: str) -> str:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return ""
    # Not from pyplot: a notebook would show that figure twice.
    figure, drawn = Figure(figsize=_SIZE, dpi=_DPI), io.BytesIO()
    draw(ax=figure.subplots())
    figure.savefig(drawn, format="png", bbox_inches="tight")
    image = base64.b64encode(drawn.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{image}">'
