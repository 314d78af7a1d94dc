"""What commands say: tables, sentences, JSON, pictures."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from partialfair._text import json_visible, message_text, visible
from partialfair._typing import GroupLabel, IntervalLike
from partialfair.groups import group_name, members_text
from partialfair.intervals import IntervalSet, interval_text
from partialfair.metrics import FairnessReport, ReportRow
from partialfair.metrics._text import fixed, percent
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.curve import RankCurve
from partialfair.metrics.small_groups import TOO_FEW, SmallGroup
from partialfair.plotting import plot_rank_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PlainTable",
    "command_name",
    "console",
    "echo",
    "echo_data",
    "gap_sentence",
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
]

_logger = logging.getLogger("partialfair")


class _Console(Console):
    """A console that leaves a closed pipe to `printing`, and on which names from the data are only names."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as usual, names made visible before lines are broken."""
        super().print(
            *(visible(one, lines=True) if isinstance(one, str) else one for one in objects), **options
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as visible text; what rich itself sends to the terminal is no text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


class PlainTable(Table):
    """A table without lines, whose cells are made visible before their widths are measured."""

    def __init__(self) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold")

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in cells), **options)


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


def command_name() -> str:
    """How this program is called: by name where the shell finds it, else by the path it was started with."""
    return "partialfair" if shutil.which("partialfair") else shlex.quote(os.path.relpath(sys.argv[0]))


def note(message: str) -> None:
    """Say on standard error what may surprise, for commands whose standard output is data."""
    _logger.warning("note: %s", message)


def metrics_table(report: FairnessReport) -> PlainTable:
    """Return one line per metric, with the confidence interval and where the worst pair differs."""
    table = PlainTable()
    for title in (
        "metric",
        "gap",
        f"{100 * report.confidence:g} % interval",
        "worst pair",
        "where (shares of whole groups)",
    ):
        table.add_column(title, justify="right" if title == "gap" else "left")
    for row in report.rows:
        table.add_row(METRICS[row.metric].title, *value_and_interval(row), _pair(row), _where(row, report))
    return table


def groups_table(report: FairnessReport) -> PlainTable:
    """Return one line per group."""
    table = PlainTable()
    table.add_column("group")
    for title in ("members", "in the interval", "tied scores"):
        table.add_column(title, justify="right")
    for group in report.groups:
        table.add_row(
            group_name(group.group),
            f"{group.n:,}",
            members_text(group.n_in_interval),
            percent(group.tied_share),
        )
    for group in report.small_groups:
        table.add_row(
            group_name(group.group),
            f"{group.n:,}",
            members_text(group.n_in_interval, too_few=True),
            TOO_FEW,
            style="dim",
        )
    return table


def note_line(note: str) -> Text:
    """Return a note as it is printed."""
    return Text.assemble(("note:", "yellow"), f" {message_text(note)}")


def parity_sentence(report: FairnessReport, *, sure: bool = True) -> str:
    """Say in words where the worst pair of the statistical-parity gap differs, and by how much.

    How sure that is holds of people whom the model has not seen, and is left out if ``sure`` is False.
    """
    row = report["statistical_parity"]
    first, second = row.groups
    intervals = {group.group: IntervalSet(group.interval) for group in report.groups}
    shares = [percent(rank) for rank in row.ranks]
    if report.gap_scale == "interval":
        shares = [
            percent(float(intervals[label].passed(np.array(rank))))
            for label, rank in zip(row.groups, row.ranks, strict=True)
        ]
    ranks = {label: interval_text(intervals[label], report.higher_is_better) for label in row.groups}
    if report.gap_scale == "absolute":
        among = f"With a threshold at {ranks[first]} of either group"
    elif ranks[first] == ranks[second]:
        among = f"Among {ranks[first]} of each group"
    else:
        among = "Among " + " and ".join(f"{ranks[label]} of {group_name(label)}" for label in row.groups)
    found = (
        f"{shares[0]} of {group_name(first)} but {shares[1]} of {group_name(second)} score "
        f"{_side(report)} {row.threshold:.4g}"
    )
    if row.value == 0:
        found = "no threshold tells the groups apart"
    return f"{among}, {found}: a gap of {fixed(row.value)}{_reach(row, report) if sure else ''}."


def gap_sentence(report: FairnessReport, metric: str, *, sure: bool) -> str:
    """Say one metric's gap; the statistical-parity gap in the words of `parity_sentence`."""
    if metric == "statistical_parity":
        return parity_sentence(report, sure=sure)
    row, described = report[metric], METRICS[metric]
    if np.isnan(row.value):
        return f"The {described.title} gap is undefined."
    reach = _reach(row, report) if sure else ""
    return f"The {described.title} gap is {described.text(row.value)}{reach}, between {_pair(row)}."


def _reach(row: ReportRow, report: FairnessReport) -> str:
    text = METRICS[row.metric].text
    return f" ({100 * report.confidence:g} % interval {text(row.low)} to {text(row.high)})"


def report_record(report: FairnessReport) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    return {
        "gap_scale": report.gap_scale,
        "higher_is_better": report.higher_is_better,
        "min_group_size": report.min_group_size,
        "rows_without_group": report.n_missing,
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
        "small_groups": [_small_record(group) for group in report.small_groups],
        "merged_groups": [_small_record(group) for group in report.merged_groups],
        "too_few_labelled": {
            metric: [_small_record(group) for group in small]
            for metric, small in report.too_few_labelled.items()
        },
    }


def _small_record(group: SmallGroup) -> dict[str, Any]:
    return {
        "group": group_name(group.group),
        "n": group.n,
        "counted": group.counted,
        "n_counted": group.n_counted,
        "reason": group.reason,
    }


def json_text(record: Mapping[str, Any]) -> str:
    """Return strict JSON: what is undefined or infinite is null."""
    return json_visible(json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False))


def rank_curves(
    curves: Mapping[str, RankCurve], *, reference: GroupLabel, interval: IntervalLike | None
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


def value_and_interval(row: ReportRow) -> tuple[str, str]:
    """Write a gap and its confidence interval."""
    if np.isnan(row.value):
        return "undefined", ""
    text = METRICS[row.metric].text
    return text(row.value), f"{text(row.low)} – {text(row.high)}"


def within(row: ReportRow, limit: float) -> bool:
    """Whether a gap is at most the limit of a gate; an undefined gap is not."""
    return bool(row.value <= limit)


def verdict(report: FairnessReport, metric: str, limit: float) -> Text:
    """Say whether a gate was passed."""
    row = report[metric]
    gap, _ = value_and_interval(row)
    p_value = row.p_value(limit)
    return Text.assemble(
        f"\ngate: {METRICS[metric].title} gap {gap}, limit {limit:g}: ",
        ("pass", "green") if within(row, limit) else ("FAIL", "red"),
        "" if np.isnan(p_value) else f" (p = {p_value:.2g} for a true gap of at most {limit:g})",
    )


def _pair(row: ReportRow) -> str:
    return " / ".join(group_name(label) for label in row.groups)


def _side(report: FairnessReport) -> str:
    """On which side of a threshold rows are selected."""
    return "above" if report.higher_is_better else "below"


def _where(row: ReportRow, report: FairnessReport) -> str:
    if not np.isfinite(row.threshold):  # pairwise metrics have none; of no difference it is −∞
        return ""
    ranks = " / ".join(percent(rank) for rank in row.ranks)
    return f"score {row.threshold:.4g}, {ranks} {_side(report)} it"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
