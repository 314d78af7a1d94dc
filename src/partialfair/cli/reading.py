"""Read a table from a file or a pipe: CSV (also compressed by gzip, zip or zstd), Parquet or Arrow.

Pipes (``audit <(zcat scores.csv.gz)``, ``-``) are read into memory once; files are not copied. Any problem
with a file raises an `InputError` that names the file.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from partialfair.cli.output import escape_formula, restore_texts
from partialfair.exceptions import InputError
from partialfair.tables import missing_columns
from partialfair.utils.checks import shown
from partialfair.utils.extras import require
from partialfair.utils.text import listed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SEPARATORS = (",", ";", "\t", "|")
_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    ".parquet": "parquet",
}
_READABLE = ("gzip", "zip", "zstd")
_PACKINGS = {".gz": "gzip", ".zip": "zip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz", ".tar": "tar"}
_FIRST_BYTES = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}

_LARGEST_PIPE = 1 << 31
"""The largest pipe in bytes: a pipe may have no end."""

_LONGEST_HEADER = 1 << 24
"""The longest header in bytes."""

_SMALL_TABLE, _HIGHEST_RATIO = 1 << 28, 100
"""A file may unpack to 256 MiB or a hundred times its size; more is treated as a decompression bomb."""

_CELL = 8
"""Bytes of a cell in memory, at least: a small file may encode a hundred million equal cells."""

_LONGEST_NAME = 40
"""The longest name of a column in messages, in characters."""

_DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, ValueError)
"""Exceptions for damaged files; members of a zip that need a password raise RuntimeError."""

# Before 3.1 pandas reads floats exactly only with this option; since then the option causes a warning.
_EXACT = {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}


def read_frame(path: Path, needed: list[str], as_written: list[str] | None) -> tuple[pd.DataFrame, bool]:
    """Read a table from a file, a pipe or, for ``-``, standard input.

    Parameters
    ----------
    path
        The file, or ``-``.
    needed
        Columns that must exist. Only these are read from Arrow and Parquet files, unless ``as_written`` is
        None.
    as_written
        Columns of a text file that stay text, such as groups ("NA" may be one) and ids ("01" is not 1); the
        types of others are inferred. None means all columns.

    Returns
    -------
    frame, is_text
        The table, and whether it is from a text file, whose cells have no types.
    """
    # A pipe is read to its end here.
    source = _find(path)
    if not source.size:
        raise InputError(f"{path} is empty")
    # The kind follows from the name or else from the first bytes.
    kind = source.kind()
    try:
        if kind == "text":
            frame = _read_text(source, needed, as_written)
        else:
            frame = _read_arrow(source, needed, everything=as_written is None, parquet=kind == "parquet")
    except MemoryError:
        raise InputError(f"{path} does not fit into memory, or is damaged") from None
    if frame.empty:
        raise InputError(f"{path} has column names but no rows")
    return frame, kind == "text"


@dataclass(frozen=True)
class _Source:
    """The source of a table: a file, or the bytes of a pipe."""

    path: Path
    content: bytes | None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)

    @property
    def most_unpacked(self) -> int:
        """The largest number of bytes of its unpacked table."""
        return max(_SMALL_TABLE, _HIGHEST_RATIO * self.size)

    def open(self) -> IO[bytes]:
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def first_bytes(self) -> bytes:
        with self.open() as file:
            return file.read(16)

    def kind(self) -> str:
        """Return "text", "parquet" or "arrow", from the name, or for pipes from the first bytes."""
        for suffix in reversed(self.path.suffixes):
            if suffix.lower() in _KINDS:
                return _KINDS[suffix.lower()]
        # Names of pipes, such as /dev/fd/63, have no suffix.
        if self.content is None and self.path.absolute().parts[1:2] not in (("dev",), ("proc",)):
            known = ", ".join(sorted(_KINDS))
            raise InputError(f"{self.path} has an unknown kind of file name; it should end in one of {known}")
        start = self.first_bytes()
        return "parquet" if start.startswith(b"PAR1") else "arrow" if start.startswith(b"ARROW1") else "text"

    def packing(self) -> str | None:
        """Return the compression of a text, from the name or else from the first bytes."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        named = [_PACKINGS[suffix] for suffix in suffixes if suffix in _PACKINGS]
        start = self.first_bytes()
        found = named or [packing for magic, packing in _FIRST_BYTES.items() if start.startswith(magic)]
        for packing in found:
            if packing not in _READABLE:
                raise InputError(
                    f"{self.path} is compressed by {packing}; unpack it, or use {listed(_READABLE)}"
                )
        return found[-1] if found else None

    def refuse_more(self, n_bytes: int) -> None:
        """Raise an error if the table unpacks to more bytes than allowed."""
        if n_bytes > self.most_unpacked:
            raise InputError(
                f"{self.path} unpacks to more than {self.most_unpacked >> 20:,} MiB, too much for its size; "
                "unpack it first, and write it as CSV"
            )


def _find(path: Path) -> _Source:
    """Find a file, or read a pipe to its end."""
    with ExitStack() as stack:
        if str(path) == "-":
            pipe: IO[bytes] = sys.stdin.buffer
        else:
            if not path.exists():
                raise InputError(f"there is no file {path}")
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise InputError(f"{path} is a directory, not a file with a table")
            if stat.S_ISREG(mode):
                return _Source(path)
            if not stat.S_ISFIFO(mode):  # for example /dev/zero or a terminal
                raise InputError(f"{path} is a device or a socket, not a file with a table")
            pipe = stack.enter_context(path.open("rb"))
        content = pipe.read(_LARGEST_PIPE + 1)
    if len(content) > _LARGEST_PIPE:
        raise InputError(f"{path} has more than {_LARGEST_PIPE >> 30} GiB; write the table to a file first")
    return _Source(path, content)


def _read_text(source: _Source, needed: list[str], as_written: list[str] | None) -> pd.DataFrame:
    """Read CSV with the first separator that gives the needed columns.

    The apostrophe that `csv_text` adds to text that looks like a formula is removed.
    """
    with _opened_text(source) as text:
        separator = _choose_separator(text, needed)
        # pandas would silently rename a repeated column to "name.1".
        header = _parse(text, separator, nrows=1, header=None, dtype=str).iloc[0]
        written = _names(header)
        _refuse_repeated_columns(source.path, written, written if as_written is None else needed)
        # Only an empty cell is missing. All columns are read, because with usecols pandas accepts rows with
        # more cells than the header.
        as_text = [] if as_written is None else [*as_written, *map(escape_formula, as_written)]
        frame = _parse(
            text,
            separator,
            dtype=str if as_written is None else dict.fromkeys(as_text, str),
            keep_default_na=False,
            na_values=[""],
            **_EXACT,
        )
        has_apostrophes = text.has_apostrophes
    names = _names(frame.columns)
    frame.columns = pd.Index(names)
    for position in range(frame.shape[1] if has_apostrophes else 0):
        column = frame.iloc[:, position]
        if not pd.api.types.is_numeric_dtype(column.dtype) and column.str.startswith("'", na=False).any():
            before = restore_texts(column.dropna().unique().tolist())
            frame.isetitem(position, column.map(before).astype(column.dtype).array)
    return frame


def _choose_separator(text: _Text, needed: list[str]) -> str:
    """Return the separator that gives the needed columns."""
    names: list[list[str]] = []
    refusals = []
    for separator in _SEPARATORS:
        try:
            names.append(_names(_parse(text, separator, nrows=0).columns))
        except InputError as refusal:  # quotes may be invalid with other separators
            refusals.append(refusal)
            continue
        if set(needed) <= set(names[-1]):
            return separator
    raise refusals[0] if refusals else InputError(_lacking(text.source.path, max(names, key=len), needed))


def _names(header: Iterable[Any]) -> list[str]:
    """Return names of columns without the apostrophes of `csv_text`."""
    names = [str(name) for name in header]
    before = restore_texts(names)
    return [before[name] for name in names]


def _parse(text: _Text, separator: str, **options: Any) -> pd.DataFrame:
    """Parse a text from its beginning; errors of pandas become an `InputError`."""
    path = text.source.path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # low_memory would infer different types for pieces of a column; index_col would shift the
            # columns of a file whose rows end in a separator.
            return pd.DataFrame(
                pd.read_csv(text.rewound(), sep=separator, low_memory=False, index_col=False, **options)
            )
    except InputError:
        raise
    except pd.errors.ParserWarning as warning:
        raise InputError(f"{path} has rows with more cells than its header has names") from warning
    except UnicodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from error
    except (*_DAMAGED, ImportError, OverflowError) as error:  # ParserError is a ValueError
        raise InputError(f"{path} cannot be read as CSV: {_reason(error)}") from error


class _Text(io.BufferedIOBase):
    """An unpacked text for pandas; zero bytes, which end strings in C, and too long texts are errors."""

    def __init__(self, source: _Source, stream: IO[bytes]) -> None:
        self.source, self.stream = source, stream
        self.n_bytes, self.has_apostrophes = 0, False

    def rewound(self) -> IO[bytes]:
        """Return the text from its beginning."""
        self.stream.seek(0)
        self.n_bytes = 0
        return self  # type: ignore[return-value]

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Stay open: pandas would close what it has read."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = self.stream.read(-1 if size is None else size)
        self.n_bytes += len(content)
        self.has_apostrophes |= b"'" in content
        if b"\x00" in content:
            raise InputError(
                f"{self.source.path} is not UTF-8 text: it holds zero bytes; save it as CSV in UTF-8"
            )
        self.source.refuse_more(self.n_bytes)
        return content

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(1 << 16 if size < 0 else size)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)


@contextmanager
def _opened_text(source: _Source) -> Iterator[_Text]:
    """Open a text, unpacked."""
    path, packing = source.path, source.packing()
    try:
        with ExitStack() as stack:
            stream: Any = stack.enter_context(source.open())
            if packing == "gzip":
                stream = stack.enter_context(gzip.open(stream))
            elif packing == "zip":
                archive = stack.enter_context(zipfile.ZipFile(stream))
                stream = stack.enter_context(archive.open(_only_member(archive, path)))
            elif packing == "zstd":
                pyarrow = require("pyarrow", extra="cli", purpose="reading files packed by zstd")
                unpacked = stack.enter_context(pyarrow.CompressedInputStream(stream, "zstd"))
                stream = io.BytesIO(unpacked.read(source.most_unpacked + 1))
            start = stream.read(_LONGEST_HEADER)
            if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in start[:4]:
                raise InputError(f"{path} is not UTF-8 text, but perhaps UTF-16; save it as CSV in UTF-8")
            if len(start) == _LONGEST_HEADER and b"\n" not in start and b"\r" not in start:
                raise InputError(
                    f"{path} has no line break in its first {_LONGEST_HEADER >> 20} MiB; a table has one "
                    "after the names of its columns"
                )
            del start
            yield _Text(source, stream)
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{path} cannot be read as CSV: {_reason(error)}") from error


def _only_member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """Return the only file of an archive, apart from the metadata that macOS adds."""
    members = [
        member
        for member in archive.infolist()
        if not member.filename.endswith("/") and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) != 1:
        names = listed([shown(member.filename) for member in members]) if members else "none"
        raise InputError(f"{path} should hold one table, but it has {len(members)} files ({names})")
    if members[0].flag_bits & 1:
        raise InputError(f"{path} is encrypted; unpack it with its password first")
    if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{path} cannot be read as CSV: its compression is not zip's usual one; unpack it first"
        )
    return members[0]


def _read_arrow(source: _Source, needed: list[str], *, everything: bool, parquet: bool) -> pd.DataFrame:
    """Read Parquet or Arrow; every value is validated before it is used.

    In tests with thousands of corrupted files, Arrow raised errors of many types, and crashed the process
    without validation.
    """
    pyarrow = require("pyarrow", extra="cli", purpose="reading Parquet and Arrow files")
    open_table = _open_parquet if parquet else _open_arrow
    try:
        with source.open() as file:
            names, n_bytes, read = open_table(file)
            if not set(needed) <= set(names):
                raise InputError(_lacking(source.path, names, needed))
            wanted = [name for name in names if not _INDEX.fullmatch(name)] if everything else needed
            _refuse_repeated_columns(source.path, names, wanted)
            source.refuse_more(n_bytes(wanted))
            table = read(wanted)
        table.validate(full=True)
        # Metadata of pandas about its index are ignored.
        frame = pd.DataFrame(table.to_pandas(ignore_metadata=True))
        for name in wanted if everything else ():
            values = table.column(name)
            if values.null_count and pyarrow.types.is_integer(
                values.type
            ):  # which pandas would convert to floats
                dtype = pd.api.types.pandas_dtype(str(values.type).replace("int", "Int").replace("uI", "UI"))
                frame[name] = values.to_pandas(types_mapper={values.type: dtype}.get)
        return frame
    except (InputError, MemoryError):
        raise
    except Exception as error:  # damaged files raise errors of any type
        kind = "Parquet" if parquet else "Arrow"
        raise InputError(f"{source.path} cannot be read as {kind}: {_reason(error)}") from error


_INDEX = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to a column of unnamed row names."""


_Opened: TypeAlias = tuple[list[str], Callable[[list[str]], int], Callable[[list[str]], Any]]
"""Names of columns, a function for the unpacked size of some of them, and a function that reads them."""


def _open_parquet(file: IO[bytes]) -> _Opened:
    module = require("pyarrow.parquet", extra="cli", purpose="reading Parquet files")
    table = module.ParquetFile(file)
    groups = [table.metadata.row_group(k) for k in range(table.metadata.num_row_groups)]
    n_rows = sum(int(group.num_rows) for group in groups)

    def n_bytes(wanted: list[str]) -> int:
        chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
        n_packed = sum(
            int(chunk.total_uncompressed_size)
            for chunk in chunks
            if not {chunk.path_in_schema, chunk.path_in_schema.split(".")[0]}.isdisjoint(wanted)
        )
        return max(n_rows * len(wanted) * _CELL, n_packed)

    return table.schema_arrow.names, n_bytes, lambda wanted: table.read(columns=wanted).select(wanted)


def _open_arrow(file: IO[bytes]) -> _Opened:
    module = require("pyarrow.ipc", extra="cli", purpose="reading Arrow files")
    table = module.open_file(file)
    names = table.schema.names

    def n_bytes(wanted: list[str]) -> int:
        if hasattr(table, "count_rows"):
            return int(table.count_rows()) * len(wanted) * _CELL
        # Older versions must read the rows to count them, one batch at a time.
        n_rows = sum(int(table.get_batch(k).num_rows) for k in range(table.num_record_batches))
        return n_rows * len(wanted) * _CELL

    def read(wanted: list[str]) -> Any:
        positions = sorted(names.index(name) for name in wanted)
        options = module.IpcReadOptions(included_fields=positions)
        return module.open_file(file, options=options).read_all().select(wanted)

    return names, n_bytes, read


def _lacking(path: Path, present: Sequence[str], needed: Sequence[str]) -> str:
    missing = [name for name in needed if name not in present]
    named = listed([shown(str(name), _LONGEST_NAME) for name in present], most=12)
    return f"{path} has no {missing_columns(missing, present)}; it has {named}"


def _refuse_repeated_columns(path: Path, present: Sequence[str], wanted: Sequence[str]) -> None:
    for name in dict.fromkeys(wanted):
        if (times := list(present).count(name)) > 1:
            raise InputError(f"{path} has {times} columns called {name!r}; rename all but one")


def _reason(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
