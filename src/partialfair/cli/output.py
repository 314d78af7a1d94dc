"""How commands speak: consoles, progress, tables, JSON, pictures."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from partialfair.cli._streams import discard
from partialfair.utils.text import json_visible, message_text, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from partialfair.metrics.map import RankCurve
    from partialfair.utils.typing import GroupLabel, IntervalLike

__all__ = [
    "PlainTable",
    "command_name",
    "console",
    "echo",
    "echo_data",
    "json_text",
    "note",
    "note_line",
    "printing",
    "rank_curves",
    "step",
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
    with suppress(BrokenPipeError) if err else nullcontext():  # of standard output `printing` hears
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
        discard(sys.stdout)


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


def note_line(note: str) -> Text:
    """Return a note as it is printed."""
    return Text.assemble(("note:", "yellow"), f" {message_text(note)}")


def json_text(record: Mapping[str, Any]) -> str:
    """Return strict JSON: what is undefined or infinite is null."""
    return json_visible(json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False))


def rank_curves(
    curves: Mapping[str, RankCurve], *, reference: GroupLabel, interval: IntervalLike | None
) -> Figure:
    """Draw rank curves of several models side by side."""
    from matplotlib import pyplot

    from partialfair.plotting import plot_rank_curve

    n = len(curves)
    many = max(len(curve.labels) for curve in curves.values()) > 6  # then the legend stands beside
    size = (n * (7.8 if many else 4.6), 4.8)
    figure, axes = pyplot.subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    for ax, (name, curve) in zip(axes[0], curves.items(), strict=True):
        title = visible(name).replace("$", r"\$")
        plot_rank_curve(curve, reference=reference, interval=interval, title=title, ax=ax)
    return figure


def _finite(value: Any) -> Any:
    import numpy as np

    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
