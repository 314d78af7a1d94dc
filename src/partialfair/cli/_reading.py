"""From a file or a pipe to a table: CSV (also compressed), Parquet or Arrow, whole or damaged.

What cannot be read twice (``audit <(zcat scores.csv.gz)``, ``-``) is read into memory once; files stay where
they are. Whatever is wrong with a file ends in one sentence that names it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import stat
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from partialfair._checks import shown
from partialfair._extras import require
from partialfair._text import listed
from partialfair.cli._csv import escaped, unescaped
from partialfair.exceptions import InputError
from partialfair.tables import missing_columns

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["read_frame"]

_PANDAS = tuple(map(int, pd.__version__.split(".")[:2]))
_SEPARATORS = (",", ";", "\t", "|")
_TEXT_SUFFIXES = {".csv", ".tsv", ".txt"}
_ARROW_SUFFIXES = {".arrow", ".feather", ".ipc"}
_KINDS = _TEXT_SUFFIXES | _ARROW_SUFFIXES | {".parquet"}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip", ".tar": "tar"}
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}

_LARGEST_PIPE = 1 << 31
"""Bytes: a pipe may have no end, and memory has."""

_LONGEST_HEADER = 1 << 24
"""Bytes without a line break that may still be the names of many columns."""

_SMALL_TABLE, _HIGHEST_RATIO = 1 << 28, 100
"""Bytes: 256 MiB, or a hundred times what the file has, are still a table; beyond, it is a trap."""

_CELL = 8
"""Bytes of a cell in memory, at least: a file may say in a few that a hundred million are alike."""


_LONGEST_NAME = 40
"""Characters of a column's name in messages."""


@dataclass(frozen=True)
class _Source:
    """Where a table is read from: a file, or the bytes that came out of a pipe."""

    path: Path
    content: bytes | None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)

    @property
    def nameless(self) -> bool:
        """Whether the name says nothing of the kind: pipes, and what a shell calls ``/dev/fd/63``."""
        return self.content is not None or self.path.absolute().parts[1:2] in (("dev",), ("proc",))

    @property
    def most_unpacked(self) -> int:
        """How many bytes a table in it may have."""
        return max(_SMALL_TABLE, _HIGHEST_RATIO * self.size)

    def refuse_more(self, n_bytes: int) -> None:
        """Refuse what unpacks to more than that."""
        if n_bytes > self.most_unpacked:
            raise InputError(
                f"{self.path} unpacks to more than {self.most_unpacked >> 20:,} MiB, too much for its size; "
                "unpack it first, and write it as CSV"
            )

    def open(self) -> IO[bytes]:
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def head(self, n_bytes: int = 512) -> bytes:
        with self.open() as file:
            return file.read(n_bytes)


def read_frame(path: Path, needed: list[str], as_written: list[str] | None) -> tuple[pd.DataFrame, bool]:
    """Read the needed columns, or if none are named that are to be kept as written, all as written.

    Returns
    -------
    frame, is_text
        The table, and whether it is from a text file, which has no types.
    """
    source = _source(path)
    if not source.size:
        raise InputError(f"{path} is empty")
    kind = _kind(source)
    try:
        if kind == "text":
            frame = _read_text(source, needed, as_written)
        else:
            frame = _read_arrow(source, needed, everything=as_written is None, parquet=kind == "parquet")
    except MemoryError:
        raise InputError(f"{path} does not fit into memory, or is damaged so that it seems so") from None
    if frame.empty:
        raise InputError(f"{path} has column names but no rows")
    return frame, kind == "text"


def _source(path: Path) -> _Source:
    """Find a file, or read a pipe to its end."""
    if str(path) == "-":
        return _Source(path, _limited(sys.stdin.buffer, path))
    if not path.exists():
        raise InputError(f"there is no file {path}")
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a directory, not a file with a table")
    if stat.S_ISREG(mode):
        return _Source(path)
    if not stat.S_ISFIFO(mode):  # /dev/zero has no end, and a terminal no table
        raise InputError(f"{path} is a device or a socket, not a file with a table")
    with path.open("rb") as pipe:
        return _Source(path, _limited(pipe, path))


def _limited(pipe: IO[bytes], path: Path) -> bytes:
    content = pipe.read(_LARGEST_PIPE + 1)
    if len(content) > _LARGEST_PIPE:
        raise InputError(
            f"more than {_LARGEST_PIPE >> 30} GiB come out of {path}; write them to a file first"
        )
    return content


def _kind(source: _Source) -> str:
    """Tell text, Parquet and Arrow apart, by the name if it has one and else by the first bytes."""
    suffixes = [suffix.lower() for suffix in source.path.suffixes]
    suffix = next((suffix for suffix in reversed(suffixes) if suffix in _KINDS), None)
    if suffix is not None:
        return "text" if suffix in _TEXT_SUFFIXES else "parquet" if suffix == ".parquet" else "arrow"
    if not source.nameless:
        known = ", ".join(sorted(_KINDS))
        raise InputError(f"{source.path} has an unknown kind of file name; it should end in one of {known}")
    head = source.head()
    return "parquet" if head.startswith(b"PAR1") else "arrow" if head.startswith(b"ARROW1") else "text"


def _read_text(source: _Source, needed: list[str], as_written: list[str] | None) -> pd.DataFrame:
    with _text(source) as text:
        separator, names = _separator(text, needed)
        written = _header(text, separator)
        # pandas would quietly call the second column of a name "name.1"
        _refuse_repeated_columns(source.path, written, needed if as_written is not None else written)
        # Groups and ids are read as written ("NA" may be a group, "01" is not 1), and only an empty cell is
        # missing. All columns are read: with usecols pandas accepts rows with more cells than the header.
        frame = _csv(
            text,
            separator,
            dtype=str if as_written is None else dict.fromkeys([*as_written, *map(escaped, as_written)], str),
            keep_default_na=False,
            na_values=[""],
            **_EXACT,
        )
        frame.columns = pd.Index(names)
        return _unescaped(frame) if text.apostrophes else frame


def _separator(text: _Text, needed: list[str]) -> tuple[str, list[str]]:
    """Return the separator by which the needed columns are there, and the names of all."""
    headers: dict[str, list[str]] = {}
    refusals = []
    for separator in _SEPARATORS:
        try:
            headers[separator] = _names(text, separator)
        except InputError as refusal:  # quotes that stand well between commas may not between tabs
            refusals.append(refusal)
            continue
        if set(needed) <= set(headers[separator]):
            return separator, headers[separator]
    if refusals:
        raise refusals[0]
    names = max(headers.values(), key=len)
    raise InputError(_lacking(text.path, names, needed))


def _names(text: _Text, separator: str) -> list[str]:
    """Return the names of columns; of several that are alike all but the first have a number."""
    names = [str(name) for name in _csv(text, separator, nrows=0).columns]
    before = unescaped(names)
    return [before[name] for name in names]


def _header(text: _Text, separator: str) -> list[str]:
    """Return the names of columns as they are written, alike or not."""
    names = [str(name) for name in _csv(text, separator, nrows=1, header=None, dtype=str).iloc[0]]
    before = unescaped(names)
    return [before[name] for name in names]


def _unescaped(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophes away by which `csv_text` keeps text from being a formula."""
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        if not pd.api.types.is_numeric_dtype(column.dtype) and column.str.startswith("'", na=False).any():
            before = unescaped(column.dropna().unique().tolist())
            frame.isetitem(position, column.map(before).astype(column.dtype).array)
    return frame


# Before 3.1 pandas read floats exactly only when asked to; since then it warns when asked.
_EXACT = {"float_precision": "round_trip"} if _PANDAS < (3, 1) else {}


@dataclass
class _Text:
    """The bytes of a text, to be read from their beginning as often as need be.

    Attributes
    ----------
    source, stream
        Where they are from, and they.
    apostrophes
        Whether some have been met, without which there is nothing to take away.
    """

    source: _Source
    stream: IO[bytes]
    apostrophes: bool = False

    @property
    def path(self) -> Path:
        return self.source.path

    def rewound(self) -> IO[bytes]:
        self.stream.seek(0)
        return _Watched(self)  # type: ignore[return-value]


class _Watched(io.BufferedIOBase):
    """Reads a text, and refuses what is none: zero bytes, at which C ends a word, and text without end."""

    def __init__(self, text: _Text) -> None:
        self.text, self.n_bytes = text, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return self._watched(self.text.stream.read(-1 if size is None else size))

    def read1(self, size: int = -1, /) -> bytes:
        return self._watched(self.text.stream.read(1 << 16 if size < 0 else size))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)

    def _watched(self, content: bytes) -> bytes:
        self.n_bytes += len(content)
        self.text.apostrophes |= b"'" in content
        if b"\x00" in content:
            raise InputError(
                f"{self.text.path} is not UTF-8 text: it holds zero bytes; save it as CSV in UTF-8"
            )
        self.text.source.refuse_more(self.n_bytes)
        return content


@contextmanager
def _text(source: _Source) -> Iterator[_Text]:
    """Open a text, unpacked."""
    path, head = source.path, source.head()
    compression = _compression(source, head)
    if compression == "tar" or head[257:262] == b"ustar":
        raise InputError(f"{path} is a tar archive; take the table out of it first")
    try:
        with source.open() as file, _unpacked(file, compression, source) as stream:
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


# RuntimeError: members that need a password; NotImplementedError: compressions that zipfile does not know.
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, ValueError)


def _compression(source: _Source, head: bytes) -> str | None:
    """Tell how a text is packed, by the name if that says so and else by the first bytes."""
    named = [
        _COMPRESSIONS[suffix.lower()] for suffix in source.path.suffixes if suffix.lower() in _COMPRESSIONS
    ]
    if "tar" in named:
        return "tar"
    return (
        named[-1] if named else next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    )


@contextmanager
def _unpacked(file: IO[bytes], compression: str | None, source: _Source) -> Iterator[IO[bytes]]:
    """Open what is packed, so that it can be rewound."""
    if compression is None:
        yield file
    elif compression == "zip":
        with zipfile.ZipFile(file) as archive, archive.open(_member(archive, source.path)) as member:
            yield member
    elif compression == "zstd":
        pyarrow = require("pyarrow", extra="cli", purpose="reading files packed by zstd")
        with pyarrow.CompressedInputStream(file, "zstd") as stream:
            yield io.BytesIO(stream.read(source.most_unpacked + 1))
    else:
        opened: dict[str, Callable[..., Any]] = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
        with opened[compression](file) as stream:
            yield stream


def _member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """Return the only file of an archive; what a Mac adds does not count."""
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) != 1:
        held = listed([shown(member.filename) for member in members]) if members else "none"
        raise InputError(f"{path} should hold one table, but it has {len(members)} files ({held})")
    if members[0].flag_bits & 1:
        raise InputError(f"{path} is encrypted; unpack it with its password first")
    return members[0]


def _csv(text: _Text, separator: str, **options: Any) -> pd.DataFrame:
    path = text.path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # low_memory would read a column in pieces, of different types; index_col would shift the columns
            # of a file whose rows end in a separator.
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


def _read_arrow(source: _Source, needed: list[str], *, everything: bool, parquet: bool) -> pd.DataFrame:
    """Read Parquet or Arrow; every value is validated before it is used.

    Thousands of files with flipped bytes made Arrow raise errors of all kinds, while unvalidated ones ended
    the process.
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
        # What pandas noted about its index is left alone: a column is a column.
        frame = pd.DataFrame(table.to_pandas(ignore_metadata=True))
        for name in wanted if everything else ():
            values = table.column(name)
            if values.null_count and pyarrow.types.is_integer(values.type):  # of which pandas makes floats
                dtype = pd.api.types.pandas_dtype(str(values.type).replace("int", "Int").replace("uI", "UI"))
                frame[name] = values.to_pandas(types_mapper={values.type: dtype}.get)
        return frame
    except (InputError, MemoryError):
        raise
    except Exception as error:  # of any kind, in damaged files
        kind = "Parquet" if parquet else "Arrow"
        raise InputError(f"{source.path} cannot be read as {kind}: {_reason(error)}") from error


_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls a column for row names that have no name."""


_Opened: TypeAlias = tuple[list[str], Callable[[list[str]], int], Callable[[list[str]], Any]]
"""Names of columns, how many bytes some of them have when unpacked (at least), and how to read them."""


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
