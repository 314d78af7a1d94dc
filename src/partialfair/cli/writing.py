"""What commands write: a directory of files with their record, and a page, all of it or nothing."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from partialfair.cli.output import echo, json_text, step
from partialfair.exceptions import InputError
from partialfair.utils.extras import require
from partialfair.utils.files import check_targets, digests, write_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Content", "Outputs", "announce", "check_directory", "png"]

Content: TypeAlias = "str | bytes | Callable[[], Figure]"
"""Of a file; figures are drawn when they are called."""


@dataclass(frozen=True)
class Outputs:
    """Where a command writes, known before it begins.

    Attributes
    ----------
    directory
        Of ``--out``, if any.
    names
        All that may be written there; the last is the record, which tells what belongs together.
    report
        The page of ``--report``, if any.
    """

    directory: Path | None
    names: tuple[str, ...]
    report: Path | None = None

    def check(self, *inputs: Path) -> None:
        """Refuse, before any work, what cannot be written, what cannot be drawn, and what is an input."""
        targets: list[Path] = []
        if self.directory is not None:
            require("matplotlib", extra="cli", purpose="drawing")
            check_directory(self.directory)
            targets += [self.directory / name for name in self.names]
        if self.report is not None:
            self._check_report(self.report)
            targets.append(self.report)
        check_targets(targets, inputs)

    def write(
        self, files: Callable[[], Mapping[str, Content]], record: Mapping[str, Any], page: Callable[[], str]
    ) -> Mapping[str, Any]:
        """Draw everything, then write everything, the record last.

        Returns
        -------
        record
            As it was written: with ``files``, the digests of the others in the directory.
        """
        if self.directory is None and self.report is None:
            return record
        with step(f"writing to {self.directory or self.report}"):
            pages = {} if self.report is None else {self.report: _bytes(page())}
            if self.directory is None:
                write_files(pages)
                return record
            contents = {name: _bytes(content) for name, content in files().items()}
            if not contents.keys() <= {*self.names}:
                raise ValueError(f"{[*contents]} are not all among the names that were checked, {self.names}")
            inside = {path.name: content for path, content in pages.items() if self._holds(path)}
            record = {**record, "files": digests({**contents, **inside})}
            members = {self.directory / name: content for name, content in contents.items()}
            last = self.directory / self.names[-1]
            write_files({**members, **pages, last: _bytes(json_text(record) + "\n")})
        return record

    def _check_report(self, report: Path) -> None:
        if report.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--report must name an .html file, not {report}")
        if report.is_dir():
            raise InputError(f"--report {report} is a directory")
        if not report.parent.is_dir() and not self._holds(report):
            raise InputError(f"--report {report} cannot be written: there is no directory {report.parent}")
        if self.directory is not None and _real(self.directory).is_relative_to(_real(report)):
            raise InputError(f"--report {report} is a part of --out {self.directory}")

    def _holds(self, path: Path) -> bool:
        return self.directory is not None and _real(path).parent == _real(self.directory)


def announce(outputs: Outputs, record: Mapping[str, Any]) -> None:
    """Say what was written, and what another run of the command left there."""
    if outputs.directory is not None:
        written = [*record["files"], outputs.names[-1]]
        echo(f"\nwritten to {outputs.directory}: {', '.join(written)}")
        older = [
            name for name in outputs.names if name not in written and (outputs.directory / name).exists()
        ]
        if older:
            echo(f"of an earlier run, and left as it was: {', '.join(older)}")
    if outputs.report is not None:
        echo(f"\nopen in a browser: {outputs.report}")


def check_directory(out: Path) -> None:
    """Refuse, before any work, an output directory that cannot be one."""
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
    """Draw a figure, close it, and return the picture."""
    from matplotlib import pyplot

    drawn = io.BytesIO()
    with warnings.catch_warnings():
        # A name in letters that the font lacks is drawn as boxes; the tables have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format="png", dpi=140)
    pyplot.close(figure)
    return drawn.getvalue()
