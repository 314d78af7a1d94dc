"""What commands print and write: tables, sentences, JSON, pictures."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from partialfair._extras import require
from partialfair._text import json_visible, message_text, visible
from partialfair._typing import GroupLabel
from partialfair.exceptions import InputError
from partialfair.groups import group_name
from partialfair.intervals import IntervalSet
from partialfair.metrics import FairnessReport, ReportRow
from partialfair.metrics.curve import RankCurve
from partialfair.metrics.report import METRICS
from partialfair.plotting import plot_rank_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "METRIC_TITLES",
    "check_out",
    "check_report",
    "console",
    "echo",
    "echo_data",
    "groups_table",
    "json_text",
    "metrics_table",
    "note",
    "note_line",
    "parity_sentence",
    "printing",
    "rank_curves",
    "report_record",
    "step",
    "value_and_interval",
    "verdict",
    "within",
    "write_all",
]

METRIC_TITLES = {name: metric.title for name, metric in METRICS.items()}

_logger = logging.getLogger("partialfair")


class _Console(Console):
    """A console that leaves a closed pipe to `printing`, and on which names from the data are only names."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as visible text; what rich itself sends to the terminal is no text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


def console() -> Console:
    """Return a console for standard output, wide enough for its tables when it is not a terminal.

    It takes no markup: names from the data are printed as they are.
    """
    width = None if sys.stdout.isatty() else 120
    return _Console(markup=False, emoji=False, highlight=False, width=width)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines of text, visible; JSON is so already."""
    typer.echo(visible(text, lines=True), err=err)


def echo_data(text: str) -> None:
    """Print data, to the last byte where it goes to a file or to another program."""
    typer.echo(visible(text, lines=True) if sys.stdout.isatty() else text, nl=False)


@contextmanager
def printing() -> Iterator[None]:
    """Print to a reader that may go away, as ``| head`` does; the exit code still tells the verdict."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def step(message: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done: a spinner on a terminal, a log line elsewhere; always on standard error.

    Yields a function that says how far it is; elsewhere it is heard every ten seconds.
    """
    terminal = _Console(stderr=True)
    message = message_text(message)
    if terminal.is_terminal:
        with terminal.status(Text(message)) as status:
            yield lambda progress: status.update(Text(f"{message}: {progress}"))
    else:
        _logger.info("%s", message)
        yield _Seldom(message)


class _Seldom:
    """Logs progress at most every ten seconds."""

    def __init__(self, message: str) -> None:
        self.message, self.last = message, time.monotonic()

    def __call__(self, progress: str) -> None:
        if time.monotonic() - self.last >= 10:
            self.last = time.monotonic()
            _logger.info("%s: %s", self.message, progress)


def note(message: str) -> None:
    """Say on standard error what may surprise, for commands whose standard output is data."""
    _logger.warning("note: %s", message)


def metrics_table(report: FairnessReport) -> Table:
    """Return one line per metric, with the confidence interval and where the worst pair differs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (
        "metric",
        "gap",
        f"{100 * report.confidence:g} % interval",
        "worst pair",
        "where (shares of whole groups)",
    ):
        table.add_column(title, justify="right" if title == "gap" else "left")
    for row in report.rows:
        table.add_row(METRIC_TITLES[row.metric], *value_and_interval(row), _pair(row), _where(row))
    return table


def groups_table(report: FairnessReport) -> Table:
    """Return one line per group."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("group")
    for title in ("members", "in the interval", "tied scores"):
        table.add_column(title, justify="right")
    for group in report.groups:
        table.add_row(
            group_name(group.group),
            f"{group.n:,}",
            f"{group.n_in_interval:,.0f}",
            f"{100 * group.tied_share:.0f} %",
        )
    return table


def note_line(note: str) -> Text:
    """Return a note as it is printed."""
    return Text.assemble(("note:", "yellow"), f" {message_text(note)}")


def parity_sentence(report: FairnessReport) -> str:
    """Say in words where the worst pair of the statistical-parity gap differs, and by how much."""
    row = report["statistical_parity"]
    first, second = row.groups
    intervals = {group.group: IntervalSet(group.interval) for group in report.groups}
    shares = [_percent(rank) for rank in row.ranks]
    if report.gap_scale == "interval":
        shares = [
            _percent(float(intervals[label].passed(np.array(rank))))
            for label, rank in zip(row.groups, row.ranks, strict=True)
        ]
    among = f"Among {intervals[first]} of each group"
    if report.gap_scale == "absolute":
        among = f"With a threshold at {intervals[first]} of either group"
    found = (
        f"{shares[0]} of {group_name(first)} but {shares[1]} of {group_name(second)} score above "
        f"{row.threshold:.4g}"
    )
    if row.value == 0:
        found = "no threshold tells the groups apart"
    return (
        f"{among}, {found}: a gap of {row.value:.3f} ({100 * report.confidence:g} % interval "
        f"{row.low:.3f} to {row.high:.3f})."
    )


def report_record(report: FairnessReport) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    return {
        "gap_scale": report.gap_scale,
        "rank_within": report.rank_within,
        "threshold": report.threshold,
        "confidence": report.confidence,
        "metrics": {
            row.metric: {
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "worst_pair": [group_name(label) for label in row.groups],
                "score": row.threshold,
                "ranks_from_top": list(row.ranks),
                "n": list(row.sizes),
            }
            for row in report.rows
        },
        "omitted": report.omitted,
        "groups": [
            {
                "group": group_name(group.group),
                "n": group.n,
                "n_effective": group.n_effective,
                "n_in_interval": group.n_in_interval,
                "tied_share": group.tied_share,
                "interval": [list(part) for part in group.interval],
            }
            for group in report.groups
        ],
    }


def json_text(record: Mapping[str, Any]) -> str:
    """Return strict JSON: what is undefined or infinite is null."""
    return json_visible(json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False))


def check_out(out: Path | None, *, pictures: bool = True) -> None:
    """Refuse, before any work, an output directory that cannot be one, or pictures that cannot be drawn."""
    if out is None:
        return
    if pictures:
        require("matplotlib", extra="cli", purpose="drawing")
    existing = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"--out {out} cannot be made a directory, because {existing} is a file")


def check_report(report: Path | None, out: Path | None = None) -> None:
    """Refuse, before any work, a page that could not be written; the directory of ``--out`` will be made."""
    if report is None:
        return
    if report.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--report must name an .html file, not {report}")
    if report.is_dir():
        raise InputError(f"--report {report} is a directory")
    if not report.parent.is_dir() and report.parent != out:
        raise InputError(f"--report {report} cannot be written: there is no directory {report.parent}")


def write_all(
    out: Path, files: Mapping[str, str | bytes | Callable[[], Figure]], option: str = "--out"
) -> list[Path]:
    """Write texts, bytes and figures into a directory; nothing is until everything has been drawn."""
    contents = {name: _bytes(content) for name, content in files.items()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (out / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"cannot write to {option} {out}: {error.strerror}") from error
    return [out / name for name in files]


def _bytes(content: str | bytes | Callable[[], Figure]) -> bytes:
    if isinstance(content, str):
        return content.encode(errors="backslashreplace")  # names of files need not be UTF-8
    return content if isinstance(content, bytes) else _png(content())


def rank_curves(
    curves: Mapping[str, RankCurve], *, reference: GroupLabel, interval: tuple[float, float]
) -> Figure:
    """Draw rank curves of several models side by side."""
    from matplotlib import pyplot

    n = len(curves)
    many = max(len(curve.labels) for curve in curves.values()) > 6  # then the legend stands beside
    size = (n * (7.8 if many else 4.6), 4.8)
    figure, axes = pyplot.subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    for ax, (name, curve) in zip(axes[0], curves.items(), strict=True):
        title = visible(name).replace("$", r"\$")
        plot_rank_curve(curve, reference=reference, interval=interval, title=title, ax=ax)
    return figure


def _png(figure: Figure) -> bytes:
    from matplotlib import pyplot

    drawn = io.BytesIO()
    with warnings.catch_warnings():
        # A name in letters that the font lacks is drawn as boxes; the tables have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format="png", dpi=140)
    pyplot.close(figure)
    return drawn.getvalue()


def value_and_interval(row: ReportRow) -> tuple[str, str]:
    """Write a gap and its confidence interval."""
    if np.isnan(row.value):
        return "undefined", ""
    return f"{row.value:.3f}", f"{row.low:.3f} – {row.high:.3f}"


def within(row: ReportRow, limit: float) -> bool:
    """Whether a gap is at most the limit of a gate; an undefined gap is not."""
    return bool(row.value <= limit)


def verdict(report: FairnessReport, metric: str, limit: float) -> Text:
    """Say whether a gate was passed."""
    row = report[metric]
    gap, _ = value_and_interval(row)
    p_value = row.p_value(limit)
    return Text.assemble(
        f"\ngate: {METRIC_TITLES[metric]} gap {gap}, limit {limit:g}: ",
        ("pass", "green") if within(row, limit) else ("FAIL", "red"),
        "" if np.isnan(p_value) else f" (p = {p_value:.2g} for a true gap of at most {limit:g})",
    )


def _pair(row: ReportRow) -> str:
    return " / ".join(group_name(label) for label in row.groups)


def _where(row: ReportRow) -> str:
    if not np.isfinite(row.threshold):  # pairwise metrics have none; of no difference it is −∞
        return ""
    ranks = " / ".join(_percent(rank) for rank in row.ranks)
    return f"score {row.threshold:.4g}, {ranks} above it"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
