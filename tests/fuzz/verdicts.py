"""What may not happen, whatever the input: each broken rule is one line that begins with its name."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from partialfair import load_model
from partialfair.exceptions import InputError
from tests.fuzz.calls import REFUSED
from tests.fuzz.cases import BYSTANDER, Case
from tests.fuzz.runner import MEMORY_LIMIT, Outcome

__all__ = ["broken_by_call", "broken_rules", "flaw"]

_LONGEST = 1000
_BIDI = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def broken_rules(case: Case, outcome: Outcome, directory: Path) -> list[str]:
    """Return the rules that a run broke."""
    return [*_ending(outcome), *_streams(case, outcome), *_files(case, outcome, directory)]


def broken_by_call(outcome: Outcome) -> list[str]:
    """Return the rules that a call of the Python interface broke."""
    out = outcome.out.decode("utf-8", "replace").strip()
    rules = [rule for rule in _ending(outcome) if not rule.startswith("exit code")]
    if outcome.code == 1 or "Traceback (most recent call last)" in outcome.err.decode("utf-8", "replace"):
        lines = outcome.err.decode("utf-8", "replace").strip().splitlines()
        rules.append(f"raw exception: {out[:60]} {(lines or [''])[-1][:300]}")
    elif outcome.code not in (0, REFUSED) and not outcome.signal:
        rules.append(f"irregular: {out[:300]}")
    return rules


def _ending(outcome: Outcome) -> Iterator[str]:
    if outcome.too_slow:
        yield f"time: {outcome.cpu_seconds:.1f} s of computing, {outcome.wall_seconds:.1f} s in all"
    if outcome.peak_bytes > MEMORY_LIMIT:
        yield f"memory: {outcome.peak_bytes >> 20:,} MiB"
    if outcome.signal:
        yield f"signal: killed by {outcome.signal}"
    elif outcome.code not in (0, 1, 2):
        yield f"exit code: {outcome.code}"


def _streams(case: Case, outcome: Outcome) -> Iterator[str]:
    out, err = outcome.out.decode("utf-8", "replace"), outcome.err.decode("utf-8", "replace")
    if "Traceback (most recent call last)" in err + out:
        yield f"traceback: {err.strip().splitlines()[-1][:300]}"
    if "this is a bug" in err:
        yield f"bug: {err.strip().splitlines()[-1][:300]}"
    if "Warning:" in err:
        yield f"warning: {next(line for line in err.splitlines() if 'Warning:' in line)[:300]}"
    yield from _controls("stdout", "" if _is_data(case, outcome) else out)
    yield from _controls("stderr", err)
    if outcome.code == 2:
        yield from _refusal(out, err)
    elif case.arguments.as_json and "--help" not in case.arguments.words and not outcome.signal:
        yield from (f"partial: the JSON printed {fault}" for fault in _json_faults(outcome.out))


def _is_data(case: Case, outcome: Outcome) -> bool:
    """Whether standard output, which is no terminal here, is a table of data as it is."""
    return case.command == "predict" and case.arguments.out is None and outcome.code == 0


def _controls(stream: str, text: str) -> Iterator[str]:
    raw = {char for char in text if char != "\n" and (unicodedata.category(char) == "Cc" or char in _BIDI)}
    if raw:
        yield f"control: {''.join(sorted(raw))!a} raw on {stream}"


def _refusal(out: str, err: str) -> Iterator[str]:
    if "Usage: partialfair" in out and not err:  # the help of a command without arguments
        return
    lines = err.strip("\n").splitlines()
    if out:
        yield f"stdout: not empty beside exit code 2: {out[:100]!r}"
    if not (lines and lines[-1].startswith("partialfair: error: ")):
        yield f"message: the last line is no error: {lines[-1:]!r:.300}"
    message = (lines or [""])[-1]
    if len(message) >= _LONGEST:
        yield f"length: a message of {len(message):,} characters: {message[:100]!r}"


def _files(case: Case, outcome: Outcome, directory: Path) -> Iterator[str]:
    before, after = outcome.before, outcome.after
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    if outcome.signal:
        return
    if outcome.code == 2:
        yield from (f"wrote: {path!r} though it refused" for path in changed)
        return
    inputs = [_real(directory, name) for name in case.inputs]
    outputs = [_real(directory, name) for name in _outputs(case)]
    for path in changed:
        place = str(directory / path)
        if place in inputs:
            yield f"input: {path!r} was overwritten"
        elif path == f"work/{BYSTANDER}" or path not in after:
            yield f"bystander: {path!r} was {'changed' if path in after else 'removed'}"
        elif not any(_inside(place, name) or _inside(name, place) for name in outputs):
            yield f"elsewhere: {path!r} was written"
        elif os.path.basename(path).startswith("."):
            yield f"temporary: {path!r} was left"
        elif os.path.isfile(place):
            fault = flaw(Path(place))
            if fault:
                yield f"partial: {path!r} {fault}"


def _inside(place: str, directory: str) -> bool:
    return place == directory or place.startswith(f"{directory}/")


def _real(directory: Path, name: str) -> str:
    return os.path.realpath(directory / "work" / name)


def _outputs(case: Case) -> list[str]:
    out, report, memo = case.arguments.out, case.arguments.report, case.arguments.memo
    if out is not None and out.endswith(".skops"):
        out = os.path.dirname(out) or "."
    if out is None:
        out = case.command if case.command == "path" else "model" if case.command == "train" else None
    return [name for name in (out, report, memo) if name is not None]


def flaw(path: Path) -> str | None:
    """Say why an output file is not whole, or runs in a spreadsheet; None if nothing is wrong."""
    check = _CHECKS.get(path.suffix.lower())
    if check is None:
        return "has a name of no known kind"
    return next(check(path.read_bytes()), None)


def _json_faults(content: bytes) -> Iterator[str]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(content, parse_constant=refuse)
    except ValueError as error:
        yield f"is not strict JSON: {error}"


def _csv_faults(content: bytes) -> Iterator[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield "is not UTF-8"
        return
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if not rows or not text.endswith("\n"):
        yield "is cut off"
    if len({len(row) for row in rows}) > 1:
        yield "has rows of different lengths"
    for cell in (cell for row in rows for cell in row):
        if cell[:1] in tuple("=+-@\t\r") and not _is_number(cell):
            yield f"has the cell {cell[:40]!r}, which runs in a spreadsheet"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet_faults(content: bytes) -> Iterator[str]:
    try:
        pa.parquet.read_table(pa.BufferReader(content))
    except pa.ArrowException as error:
        yield f"is not Parquet: {error}"


def _png_faults(content: bytes) -> Iterator[str]:
    if not (content.startswith(b"\x89PNG") and content.endswith(b"IEND\xaeB`\x82")):
        yield "is cut off"


def _html_faults(content: bytes) -> Iterator[str]:
    if not content.rstrip().endswith(b"</html>"):
        yield "is cut off"


def _model_faults(content: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".skops") as file:
        file.write(content)
        file.flush()
        try:
            load_model(file.name)
        except InputError as error:
            yield f"does not load: {error}"


def _text_faults(content: bytes) -> Iterator[str]:
    text = content.decode("utf-8")
    if not text.endswith("\n") or any(not (letter.isprintable() or letter == "\n") for letter in text):
        yield "is not whole lines of visible text"


_CHECKS: dict[str, Callable[[bytes], Iterator[str]]] = {
    ".json": _json_faults,
    ".csv": _csv_faults,
    ".parquet": _parquet_faults,
    ".png": _png_faults,
    ".html": _html_faults,
    ".htm": _html_faults,
    ".md": _text_faults,
    ".txt": _text_faults,
    ".skops": _model_faults,
}
