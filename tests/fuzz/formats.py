"""Tables as bytes: text in several dialects, encodings and archives, Parquet and Arrow; then damage."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from tests.fuzz.tables import Column, Table

__all__ = ["Blob", "as_arrow", "as_csv", "as_parquet", "damaged", "stored", "zipped"]


@dataclass(frozen=True)
class Blob:
    """A file's name and content."""

    name: str
    content: bytes


def stored(rng: Random, table: Table, stem: str) -> Blob:
    """Write a table in one of the formats that commands read."""
    kind = rng.choices(("text", "parquet", "arrow", "packed"), (8, 3, 3, 2))[0]
    if kind == "parquet":
        return Blob(f"{stem}.parquet", as_parquet(table, rng.choice(["snappy", "none", "gzip", "zstd"])))
    if kind == "arrow":
        content = as_arrow(table, rng.choice([None, None, "lz4", "zstd"]), stream=rng.random() < 0.08)
        return Blob(f"{stem}.{rng.choice(['arrow', 'feather', 'ipc'])}", content)
    text = _dialect(rng, table)
    if kind == "packed":
        return rng.choice(_PACKERS)(rng, text, stem)
    return Blob(f"{stem}.{rng.choices(('csv', 'tsv', 'txt', 'CSV'), (8, 2, 1, 1))[0]}", text)


def as_csv(
    table: Table,
    *,
    separator: str = ",",
    line_end: str = "\n",
    quoting: int = csv.QUOTE_MINIMAL,
    encoding: str = "utf-8",
) -> bytes:
    """Write CSV; surrogates, as in arguments, become the bytes that they stand for."""
    written = io.StringIO()
    writer = csv.writer(
        written, delimiter=separator, lineterminator=line_end, quoting=quoting, escapechar="\\"
    )
    writer.writerow([column.name for column in table.columns])
    for k in range(table.n_rows):
        writer.writerow([_cell(column.values[k]) for column in table.columns])
    errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
    return written.getvalue().encode(encoding, errors=errors)


def _dialect(rng: Random, table: Table) -> bytes:
    return as_csv(
        table,
        separator=rng.choices(",;\t|", (10, 2, 2, 1))[0],
        line_end=rng.choices(("\n", "\r\n", "\r"), (10, 3, 1))[0],
        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        encoding=rng.choices(("utf-8", "utf-8-sig", "utf-16", "latin-1"), (40, 6, 1, 1))[0],
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _compressed(rng: Random, text: bytes, stem: str) -> Blob:
    suffix, compress = rng.choice(
        [
            ("gz", lambda data: gzip.compress(data, mtime=0)),
            ("zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
            ("xz", lzma.compress),  # which commands refuse, as they do the next
            ("bz2", bz2.compress),
        ]
    )
    return Blob(f"{stem}.csv.{suffix}", compress(text))


def _one_member(rng: Random, text: bytes, stem: str) -> Blob:
    return Blob(f"{stem}.csv.zip", zipped({f"{stem}.csv": text}, rng.choice([0, 8, 12, 14])))


def _several_members(rng: Random, text: bytes, stem: str) -> Blob:
    names = rng.choice([["a.csv", "b.csv"], ["dir/", "dir/a.csv"], ["__MACOSX/._a.csv", "a.csv"], []])
    members = {name: b"" if name.endswith("/") else text for name in names}
    return Blob(f"{stem}.csv.zip", zipped(members))


def _encrypted(rng: Random, text: bytes, stem: str) -> Blob:
    """Set the flag that says that a member is encrypted, in both of its headers."""
    content = bytearray(zipped({"a.csv": text}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(signature) + offset] |= 1
    return Blob(f"{stem}.csv.zip", bytes(content))


def _odd_method(rng: Random, text: bytes, stem: str) -> Blob:
    """Name a method of compression that nobody has."""
    content = bytearray(zipped({"a.csv": text}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.find(signature) + offset] = rng.choice([1, 9, 97, 99])
    return Blob(f"{stem}.csv.zip", bytes(content))


def _tar(rng: Random, text: bytes, stem: str) -> Blob:
    written = io.BytesIO()
    mode = rng.choice(["w", "w:gz", "w:bz2"])
    with tarfile.open(fileobj=written, mode=mode) as archive:
        member = tarfile.TarInfo(f"{stem}.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    suffix = rng.choice(["csv.tar", "csv.zip", "tar.gz", "csv", "csv.tar.gz", "csv.tar.bz2"])
    return Blob(f"{stem}.{suffix}", written.getvalue())


def _bomb(rng: Random, text: bytes, stem: str) -> Blob:
    """Twenty megabytes of blanks after a table: small in the file, harmless if read, not if multiplied."""
    return Blob(f"{stem}.csv.gz", gzip.compress(text + b" " * 20_000_000, mtime=0))


_PACKERS: tuple[Callable[[Random, bytes, str], Blob], ...] = (
    _compressed,
    _compressed,
    _compressed,
    _one_member,
    _one_member,
    _several_members,
    _encrypted,
    _odd_method,
    _tar,
    _bomb,
)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip file that does not depend on the clock."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return written.getvalue()


def _arrow_table(table: Table) -> pa.Table:
    names = [column.name.encode("utf-8", "replace").decode() for column in table.columns]
    return pa.Table.from_arrays([_arrow_array(column) for column in table.columns], names=names)


def _arrow_array(column: Column) -> pa.Array:
    try:
        return pa.array(column.values, type=column.kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        cells = [
            None if value is None else _cell(value).encode("utf-8", "surrogateescape")
            for value in column.values
        ]
        # Unsafe on purpose: text that is not UTF-8 stays as it is.
        return pa.array(cells, type=pa.binary()).cast(pa.string(), safe=False)


def as_parquet(table: Table, codec: str = "snappy") -> bytes:
    """Write Parquet; of a table that it cannot hold, only what such files begin and end with."""
    written = pa.BufferOutputStream()
    try:
        pa.parquet.write_table(_arrow_table(table), written, compression=codec, row_group_size=100)
    except (pa.ArrowException, ValueError):
        return b"PAR1" + bytes(200) + b"PAR1"
    return written.getvalue().to_pybytes()


def as_arrow(table: Table, codec: str | None = None, *, stream: bool = False) -> bytes:
    """Write an Arrow file, or a stream."""
    written, data = pa.BufferOutputStream(), _arrow_table(table)
    writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with writer(written, data.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as file:
        file.write_table(data)
    return written.getvalue().to_pybytes()


def damaged(rng: Random, blob: Blob) -> Blob:
    """Do to a file what disks, networks and enemies do."""
    return rng.choice(_DAMAGES)(rng, blob)


def _flipped(rng: Random, blob: Blob) -> Blob:
    content = bytearray(blob.content)
    for _ in range(rng.choice([1, 1, 3, 20]) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return Blob(blob.name, bytes(content))


def _overwritten(rng: Random, blob: Blob) -> Blob:
    """Write a number that is large, or 0, or −1, over four or eight bytes: offsets and lengths are such."""
    content = bytearray(blob.content)
    width = rng.choice([4, 8])
    for _ in range(rng.choice([1, 3])):
        start = rng.randrange(max(1, len(content) - width))
        content[start : start + width] = rng.choice([b"\xff" * width, b"\0" * width, b"\x7f" * width])
    return Blob(blob.name, bytes(content))


def _cut(rng: Random, blob: Blob) -> Blob:
    return Blob(blob.name, blob.content[: rng.randrange(len(blob.content) + 1)])


def _spliced(rng: Random, blob: Blob) -> Blob:
    """Move, repeat or drop a piece."""
    content, n = blob.content, len(blob.content)
    first, last = sorted(rng.randrange(n + 1) for _ in range(2))
    place = rng.randrange(n + 1)
    piece = rng.choice([content[first:last], b"\0" * 8, b"\xff" * 8, b"\n\n", b'"', b"\x1b[2J"])
    drop = place + rng.choice([0, len(piece)])
    return Blob(blob.name, content[:place] + piece + content[drop:])


def _renamed(rng: Random, blob: Blob) -> Blob:
    """Give a file the name of another kind."""
    suffix = rng.choice(["csv", "parquet", "arrow", "csv.gz", "csv.zip", "csv.xz", "csv.bz2", "skops"])
    return Blob(f"{blob.name.split('.')[0]}.{suffix}", blob.content)


def _noise(rng: Random, blob: Blob) -> Blob:
    return Blob(blob.name, rng.randbytes(rng.choice([0, 1, 3, 100, 5000])))


_DAMAGES: tuple[Callable[[Random, Blob], Blob], ...] = (
    _flipped,
    _flipped,
    _flipped,
    _overwritten,
    _overwritten,
    _cut,
    _spliced,
    _spliced,
    _renamed,
    _noise,
)
