"""Output of commands: consoles, progress, JSON, and files that are written atomically.

Text in CSV files is escaped so that spreadsheets do not run it. A spreadsheet reads a cell that begins with
``=``, ``+``, ``-`` or ``@`` as a formula, and formulas can open files and addresses. Such text gets an
apostrophe in front, which marks text in spreadsheets. Text that has apostrophes before such a character also
gets one, so that removing one apostrophe restores the text.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from partialfair.cli.process import discard
from partialfair.exceptions import InputError
from partialfair.utils.extras import require
from partialfair.utils.files import check_targets, digests, write_files
from partialfair.utils.text import json_visible, message_text, visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_logger = logging.getLogger("partialfair")


class _Console(Console):
    """A console that leaves closed pipes to `printing`, and makes control characters in the data visible."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print with visible control characters, which are replaced before lines are broken."""
        super().print(
            *(visible(one, lines=True) if isinstance(one, str) else one for one in objects), **options
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as visible text, except for the control codes of rich itself."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


_WIDEST = 1000
"""A line length in characters that is enough for every table."""


class PlainTable(Table):
    """A table without lines; control characters are made visible before widths are measured.

    If the table is wider than the terminal, columns with optional titles are left out, the last title first.
    """

    def __init__(self, optional: Sequence[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold")
        self.optional = optional

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the columns that fit."""
        self.fit(console, options)
        yield from super().__rich_console__(console, options)

    def fit(self, console: Console, options: ConsoleOptions | None = None) -> list[str]:
        """Leave out optional columns until the others fit; return the titles of the remaining columns."""
        options = options or console.options
        for title in reversed(self.optional):
            if self.__rich_measure__(console, options.update(width=_WIDEST)).maximum <= options.max_width:
                break
            self.columns = [column for column in self.columns if column.header != title]
        # Rich finds cells by the index of their column.
        for place, column in enumerate(self.columns):
            column._index = place
        return [str(column.header) for column in self.columns]

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in cells), **options)


def console() -> Console:
    """Return a console for standard output; without a terminal it is wide enough for all tables.

    Markup is disabled: names from the data are printed unchanged.
    """
    width = None if sys.stdout.isatty() else 120
    return _Console(markup=False, emoji=False, highlight=False, width=width)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines of text with visible control characters."""
    with suppress(BrokenPipeError) if err else nullcontext():  # `printing` handles standard output
        typer.echo(visible(text, lines=True), err=err)


def echo_data(text: str) -> None:
    """Print data, unchanged unless standard output is a terminal."""
    typer.echo(visible(text, lines=True) if sys.stdout.isatty() else text, nl=False)


@contextmanager
def printing() -> Iterator[None]:
    """Print to a reader that may close the pipe, as ``| head`` does; the exit code remains correct."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


@contextmanager
def step(message: str) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error: a spinner on a terminal, log lines elsewhere.

    Yields a function that reports progress; without a terminal it logs at most every ten seconds.
    """
    terminal = _Console(stderr=True)
    message = message_text(message)
    if terminal.is_terminal:
        with terminal.status(Text(message)) as status, _logging_above(terminal):
            yield lambda progress: status.update(Text(f"{message}: {progress}"))
    else:
        _logger.info("%s", message)
        yield _Seldom(message)


class _AboveSpinner(logging.Handler):
    """Prints log lines above a spinner, which they would otherwise overwrite."""

    def __init__(self, terminal: Console) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        self.terminal.print(Text(message_text(f"partialfair: {record.getMessage()}")))


@contextmanager
def _logging_above(terminal: Console) -> Iterator[None]:
    handler, propagates = _AboveSpinner(terminal), _logger.propagate
    _logger.addHandler(handler)
    _logger.propagate = False
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.propagate = propagates


class _Seldom:
    """Logs progress at most every ten seconds."""

    def __init__(self, message: str) -> None:
        self.message, self.last = message, time.monotonic()

    def __call__(self, progress: str) -> None:
        # This keeps logs of long fits short.
        if time.monotonic() - self.last >= 10:
            self.last = time.monotonic()
            _logger.info("%s: %s", self.message, progress)


def command_name() -> str:
    """Return the command that runs this program: as a module, by name if the shell finds it, or by path."""
    if Path(sys.argv[0]).name == "__main__.py":  # ``python -m partialfair``
        python = Path(sys.executable).name
        if (known := shutil.which(python)) is None or not os.path.samefile(known, sys.executable):
            python = sys.executable
        return f"{shlex.quote(python)} -m partialfair"
    return "partialfair" if shutil.which("partialfair") else shlex.quote(os.path.relpath(sys.argv[0]))


def note(message: str) -> None:
    """Print a note on standard error, for commands whose standard output is data."""
    _logger.warning("note: %s", message)


def note_line(note: str) -> Text:
    """Return a note with its style."""
    return Text.assemble(("note:", "yellow"), f" {message_text(note)}")


def json_text(record: Mapping[str, Any]) -> str:
    """Return strict JSON, with null for undefined and infinite numbers."""
    return json_visible(json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    import numpy as np

    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


_OPTIONS = (
    (r"\bmin_group_size=(\d+)", r"--min-group-size \1"),
    (r"\bmin_group_size\b", "--min-group-size"),
    (r"\bsmall_groups='(\w+)'", r"--small-groups \1"),
    (r"\bmissing_groups='(\w+)'", r"--missing-groups \1"),
    (r"\bgroup_terms='(\w+)'", r"--group-terms \1"),
    (r"\bgap_scale='(\w+)'", r"--gap-scale \1"),
    (r"\boutside='(\w+)'", r"--outside \1"),
    (r"\bmax_gap=([\d.e-]+)", r"a gap of \1"),
    (r"\bmax_gap (must lie in|\d)", r"--max-gap \1"),
    (r"\bmax_knots\b", "--max-knots"),
    (r"\bscore_range\b", "--score-range"),
    (r"\bconstraint_threshold\b", "--threshold"),
    (r"\braise max_gap, widen\b", "raise the limit, widen"),
    (r"\braise time_limit\b", "raise --time-limit"),
    (r"\badd smaller max_gaps\b", "add smaller --max-gaps"),
)
"""Parameters in the library's messages, and the options that set them."""


def as_options(message: str) -> str:
    """Replace names of parameters in a message of the library by options."""
    for parameter, option in _OPTIONS:
        message = re.sub(parameter, option, message)
    return message


Content: TypeAlias = "str | bytes | Callable[[], Figure]"
"""The content of a file; figures are drawn when they are called."""


@dataclass(frozen=True)
class Outputs:
    """The files that a command writes, known before it begins.

    Attributes
    ----------
    directory
        The directory of ``--out``, if any.
    names
        All files that may be written there; the last is the record, which lists the files of the run.
    report, memo
        The HTML report of ``--report``, and the paragraph of ``--memo``, if any.
    """

    directory: Path | None
    names: tuple[str, ...]
    report: Path | None = None
    memo: Path | None = None

    def check(self, *inputs: Path) -> None:
        """Raise an error, before any work, if a file cannot be written or drawn, or is an input."""
        targets: list[Path] = []
        if self.directory is not None:
            require("matplotlib", extra="cli", purpose="drawing")
            check_directory(self.directory)
            targets += [self.directory / name for name in self.names]
        for path, flag, suffixes in (
            (self.report, "--report", (".html", ".htm")),
            (self.memo, "--memo", (".md", ".txt")),
        ):
            if path is not None:
                self._check_page(path, flag, suffixes)
                targets.append(path)
        check_targets(targets, inputs)

    def write(
        self,
        files: Callable[[], Mapping[str, Content]],
        record: Mapping[str, Any],
        page: Callable[[], str],
        memo: Callable[[], str] | None = None,
    ) -> Mapping[str, Any]:
        """Draw all figures, then write all files, the record last.

        Returns
        -------
        record
            The record as written, with the digests of the other files in ``files``.
        """
        made = {path: text for path, text in ((self.report, page), (self.memo, memo)) if path and text}
        if self.directory is None and not made:
            return record
        with step(f"writing to {self.directory or ', '.join(map(str, made))}"):
            # All contents are computed before the first file is written.
            pages = {path: _bytes(text()) for path, text in made.items()}
            if self.directory is None:
                write_files(pages)
                return record
            contents = {name: _bytes(content) for name, content in files().items()}
            if not contents.keys() <= {*self.names}:
                raise ValueError(f"{[*contents]} are not all among the names that were checked, {self.names}")
            inside = {path.name: content for path, content in pages.items() if self._holds(path)}
            # Digests identify the files of one run (see `utils.files.check_set`).
            record = {**record, "files": digests({**contents, **inside})}
            members = {self.directory / name: content for name, content in contents.items()}
            last = self.directory / self.names[-1]
            write_files({**members, **pages, last: _bytes(json_text(record) + "\n")})
        return record

    def _check_page(self, page: Path, flag: str, suffixes: Sequence[str]) -> None:
        if page.suffix.lower() not in suffixes:
            raise InputError(f"{flag} must name an {suffixes[0]} file, not {page}")
        if page.is_dir():
            raise InputError(f"{flag} {page} is a directory")
        if not page.parent.is_dir() and not self._holds(page):
            raise InputError(f"{flag} {page} cannot be written: there is no directory {page.parent}")
        if self.directory is not None and _real(self.directory).is_relative_to(_real(page)):
            raise InputError(f"{flag} {page} is a part of --out {self.directory}")

    def _holds(self, path: Path) -> bool:
        return self.directory is not None and _real(path).parent == _real(self.directory)


def announce(outputs: Outputs, record: Mapping[str, Any]) -> None:
    """Print which files were written, and which files of an earlier run remain."""
    if outputs.directory is not None:
        written = [*record["files"], outputs.names[-1]]
        echo(f"\nwritten to {outputs.directory}: {', '.join(written)}")
        older = [
            name for name in outputs.names if name not in written and (outputs.directory / name).exists()
        ]
        if older:
            echo(f"left unchanged from an earlier run: {', '.join(older)}")
    if outputs.report is not None:
        echo(f"\nopen in a browser: {outputs.report}")
    if outputs.memo is not None:
        echo(f"\nparagraph for a memo: {outputs.memo}")


def check_directory(out: Path) -> None:
    """Raise an error, before any work, if the output directory cannot be created."""
    existing = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"--out {out} cannot be made a directory, because {existing} is not one")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _bytes(content: Content) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", errors="backslashreplace")
    return content if isinstance(content, bytes) else png(content())


def png(figure: Figure) -> bytes:
    """Draw a figure as PNG, and close it."""
    from matplotlib import pyplot

    drawn = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; the tables have the full names.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format="png", dpi=140, bbox_inches="tight")
    pyplot.close(figure)
    return drawn.getvalue()


# Some languages treat full-width signs as formulas, and some programs text after a tab or a line break.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_text(frame: pd.DataFrame, *, index: bool = False) -> str:
    """Return a table as CSV in which no text cell, column name or row name is a formula.

    Negative numbers stay numbers, and the commands restore the original text.
    """
    import pandas as pd

    # Columns are replaced, never changed in place.
    safe = frame.copy(deep=False)
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if not (pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)):
            safe.isetitem(position, column.astype(object).map(_safe).to_numpy(dtype=object))
    safe.columns = pd.Index([_safe(name) for name in safe.columns])
    if index:
        safe.index = pd.Index([_safe(name) for name in safe.index], name=_safe(safe.index.name))
    text = str(safe.to_csv(index=index))
    if "\r" not in text:
        return text
    # Before 3.13 Python quotes line feeds but not carriage returns, at which readers also end a row.
    return str(safe.to_csv(index=index, quoting=csv.QUOTE_NONNUMERIC))


def escape_formula(text: str) -> str:
    """Return text with an apostrophe if it looks like a formula and is not a number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restore_texts(texts: Sequence[str]) -> dict[str, str]:
    """Return the original texts of the distinct texts of one column.

    If `escape_formula` would not give all of these texts, another program wrote them, and they are unchanged:
    distinct texts stay distinct.
    """
    before = {
        text: text[1:] if text.startswith("'") and escape_formula(text[1:]) == text else text
        for text in texts
    }
    ours = all(escape_formula(original) == text for text, original in before.items())
    return before if ours else {text: text for text in texts}


def _safe(cell: Any) -> Any:
    return escape_formula(cell) if isinstance(cell, str) else cell
