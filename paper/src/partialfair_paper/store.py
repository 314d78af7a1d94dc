"""Stores runs on disk: each has a directory that is named by its key and written atomically.

    results/
      store.json                      format and version
      runs/1f0a…/run.json             settings
                 outcome.json         outcome, also of a failed run
                 scores.npz           scores of the test rows, if a figure needs them

One rename creates a directory with all its files, so a killed process leaves only finished runs. Failed runs
are kept and shown; the next sweep repeats them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.extension import write_files
from partialfair_paper.runs import FORMAT, Outcome, Run, read_outcome, read_run

if TYPE_CHECKING:
    import pandas as pd

_MARK, _RUN, _OUTCOME, _SCORES = "store.json", "run.json", "outcome.json", "scores.npz"


class Store:
    """A directory of runs.

    Parameters
    ----------
    directory : pathlib.Path
        Created when the first run is saved.
    version : str
        Version of the package. A directory with runs of another version raises `InputError`.
    """

    def __init__(self, directory: Path, version: str) -> None:
        self.directory, self.version = directory, version
        self._known: dict[str, Outcome] = {}
        self._check_mark()

    def _check_mark(self) -> None:
        """Raise InputError for a directory that is not a store, or one of another version."""
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise InputError(f"{self.directory} is a file, but --out must be a directory")
        mark = self.directory / _MARK
        if not mark.exists():
            if any(self.directory.iterdir()):
                raise InputError(
                    f"{self.directory} holds other files and no results: give --out another directory"
                )
            return
        try:
            content = _read(mark)
        except InputError:
            raise InputError(
                f"{mark} is damaged: give --out another directory, nothing was changed"
            ) from None
        written = content.get("format"), content.get("version")
        if written != (FORMAT, self.version):
            number, version = (str(part)[:40] for part in written)
            raise InputError(
                f"{self.directory} holds results of partialfair {version} (format {number}), and this "
                f"is {self.version} (format {FORMAT}): give --out another directory, nothing was changed"
            )

    def of(self, run: Run) -> Outcome | None:
        """Return the outcome of a run, or None if it has not been run; outcomes are cached."""
        if (known := self._known.get(run.key)) is not None:
            return known
        path = self._home(run)
        outcome = _outcome(path) if path.is_dir() else None
        if outcome is not None and not outcome.failed:
            self._known[run.key] = outcome
        return outcome

    def scores(self, run: Run) -> dict[str, npt.NDArray[Any]]:
        """Return the stored arrays of a run."""
        path = self._home(run) / _SCORES
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
        except FileNotFoundError:
            raise _refuse_damaged(path.parent / _SCORES, "the file is missing") from None
        except (OSError, ValueError, EOFError, BadZipFile):
            raise _refuse_damaged(path, "it holds no arrays") from None

    def prepare(self) -> None:
        """Create the directory if needed, before several processes save runs in it."""
        if not (self.directory / _MARK).exists():
            mark = {"format": FORMAT, "version": self.version}
            write_files({self.directory / _MARK: _text(mark)})
        (self.directory / "runs").mkdir(exist_ok=True)

    def save(self, run: Run, outcome: Outcome, scores: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Write a run atomically; it replaces an earlier failure."""
        self.prepare()
        home = self._home(run)
        files = {home / _RUN: _text({"format": FORMAT, **asdict(run)})}
        if scores:
            packed = io.BytesIO()
            np.savez_compressed(packed, **scores)  # type: ignore[arg-type]
            files[home / _SCORES] = packed.getvalue()
        files[home / _OUTCOME] = _text(asdict(outcome))
        self._known.pop(run.key, None)
        write_files(files)

    def all(self) -> Iterator[tuple[Run, Outcome]]:
        """Yield all runs, ordered by key."""
        runs = self.directory / "runs"
        for home in sorted(runs.iterdir()) if runs.is_dir() else []:
            if home.name.startswith("."):
                continue  # left by a process that was killed
            try:
                run = read_run(_read(home / _RUN))
            except (LookupError, TypeError, ValueError) as error:
                raise _refuse_damaged(home / _RUN, error) from None
            if run.key != home.name:
                raise InputError(
                    f"{home / _RUN} is not the run of its directory: it was changed or moved; remove {home}"
                )
            yield run, _outcome(home)

    def left(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that are missing or failed, each once."""
        unfinished = []
        for run in dict.fromkeys(runs):
            outcome = self.of(run)
            if outcome is None or outcome.failed:
                unfinished.append(run)
        return unfinished

    def to_frame(self) -> pd.DataFrame:
        """Return all runs as a table: settings, then metrics with the part of the data in their names."""
        import pandas as pd

        lines = []
        for run, outcome in self.all():
            line = {"key": run.key, **asdict(run), "error": outcome.error, "seconds": outcome.seconds}
            low, high = run.interval or (np.nan, np.nan)
            line |= {"interval_low": low, "interval_high": high}
            del line["interval"]
            line |= {f"fit {name}": value for name, value in outcome.fit.items()}
            line |= {f"validation {name}": value for name, value in outcome.validation.items()}
            line |= {f"test {name}": value for name, value in outcome.test.items()}
            lines.append(line)
        return pd.DataFrame(lines)

    def _home(self, run: Run) -> Path:
        return self.directory / "runs" / run.key


def _outcome(home: Path) -> Outcome:
    try:
        return read_outcome(_read(home / _OUTCOME))
    except (TypeError, ValueError) as error:
        raise _refuse_damaged(home / _OUTCOME, error) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()  # fails on escapes of lone surrogates
    except (OSError, ValueError, RecursionError) as error:
        raise _refuse_damaged(path, error) from None
    if not isinstance(content, dict):
        raise _refuse_damaged(path, "it does not hold an object")
    return content


def _refuse_damaged(path: Path, why: object) -> InputError:
    reason = (str(why).splitlines() or [type(why).__name__])[0][:200]
    return InputError(f"{path} is damaged ({reason}): remove {path.parent} to run it again")


def _text(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
