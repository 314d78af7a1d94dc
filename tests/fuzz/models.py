"""Model files: a good one as `train` saves it, and what an enemy makes of it, all under a megabyte."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.formats import Blob, damaged, zipped
from tests.fuzz.tables import HOSTILE_TEXTS

__all__ = ["Members", "array_bytes", "array_members", "canonical", "hostile_model"]

_SCHEMA, _NOTE = "schema.json", "partialfair.json"

Members = dict[str, bytes]


def canonical(model: bytes) -> Members:
    """Return the members of a model file with names that do not depend on addresses in memory."""
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = members[_SCHEMA].decode()
    arrays = sorted((name for name in members if name not in (_SCHEMA, _NOTE)), key=schema.index)
    renamed = {name: f"{k}{Path(name).suffix}" for k, name in enumerate(arrays)}
    identities: dict[int, int] = {}
    tree = json.loads(schema)
    for node in _objects(tree):
        if node.get("file") in renamed:
            node["file"] = renamed[node["file"]]
        if isinstance(node.get("__id__"), int):
            node["__id__"] = identities.setdefault(node["__id__"], len(identities))
    rest = {renamed.get(name, name): content for name, content in members.items() if name != _SCHEMA}
    return {**dict(sorted(rest.items())), _SCHEMA: json.dumps(tree).encode()}


def hostile_model(rng: Random, members: Members) -> bytes:
    """Return a model file that somebody tampered with."""
    return rng.choice(_TAMPERINGS)(rng, members)


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Walk through the JSON objects of a tree."""
    if isinstance(tree, dict):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _objects(inner)


_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    2**63,
    1e308,
    "",
    "nan",
    [],
    {},
    [[[[]]]],
    "../../etc/passwd",
    "0.npy",
    _SCHEMA,
    "builtins",
    "os",
    "numpy",
    "partialfair.tables",
    *HOSTILE_TEXTS[:14],
)


def _schema_value(rng: Random, members: Members) -> bytes:
    """Replace, drop or exchange values somewhere in the schema."""
    tree = json.loads(members[_SCHEMA])
    for _ in range(rng.choice([1, 1, 2, 5])):
        node = rng.choice([node for node in _objects(tree) if node])
        key = rng.choice(sorted(node))
        change = rng.randrange(3)
        if change == 0:
            node[key] = rng.choice(_VALUES)
        elif change == 1:
            del node[key]
        else:
            other = rng.choice([node for node in _objects(tree) if node])
            node[key] = json.loads(json.dumps(other[rng.choice(sorted(other))]))
    return zipped({**members, _SCHEMA: _dumped(tree)})


def _schema_leaf(rng: Random, members: Members) -> bytes:
    """Change one plain value that a model is made of: a JSON text in the schema."""
    tree = json.loads(members[_SCHEMA])
    leaves = [node for node in _objects(tree) if node.get("__loader__") == "JsonNode"]
    for node in rng.sample(leaves, min(len(leaves), rng.choice([1, 1, 3]))):
        node["content"] = json.dumps(rng.choice([*_VALUES, 3, 0.5, "women", [1, 2], {"a": 1}]))
    return zipped({**members, _SCHEMA: _dumped(tree)})


def _dumped(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _deep(rng: Random, members: Members) -> bytes:
    depth = rng.choice([500, 5000, 100_000])
    return zipped({**members, _SCHEMA: b"[" * depth + b"]" * depth})


def _many_nodes(rng: Random, members: Members) -> bytes:
    """Repeat a node, or a reference to one large array, very often."""
    tree = json.loads(members[_SCHEMA])
    node = rng.choice([node for node in _objects(tree) if node.get("__loader__")])
    copies = [json.loads(json.dumps(node)) for _ in range(20)] * rng.choice([5, 500])
    for k, copy in enumerate(copies):
        if rng.random() < 0.5:
            copies[k] = {**copy, "__id__": k}
    target = rng.choice([node for node in _objects(tree) if isinstance(node.get("content"), dict | list)])
    inner = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": copies}
    if isinstance(target["content"], dict):
        target["content"]["extra"] = inner
    else:
        target["content"] = [*target["content"], inner]
    written = _dumped(tree)
    return zipped({**members, _SCHEMA: written if len(written) < 30_000_000 else written[:1_000_000]})


def array_members(members: Members) -> list[str]:
    return [name for name in members if name.endswith(".npy")]


def array_bytes(array: np.ndarray) -> bytes:
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)
    return written.getvalue()


def _array_swapped(rng: Random, members: Members) -> bytes:
    """Put other numbers where the model's were."""
    arrays = (
        np.zeros(0),
        np.full(3, np.nan),
        np.full((2, 2), np.inf),
        np.array("text"),
        np.arange(10, dtype=np.int8),
        np.zeros((1, 1, 1, 1, 1)),
        np.array([{"a": 1}], dtype=object),
        np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.full(5, 1e308),
    )
    names = array_members(members)
    contents = [array_bytes(rng.choice(arrays)), members[rng.choice(names)], b"", members[names[0]][:90]]
    changed = dict.fromkeys(rng.sample(names, rng.choice([1, 2])), rng.choice(contents))
    return zipped({**members, **changed})


def _array_bomb(rng: Random, members: Members) -> bytes:
    """Zeros that pack well: in one array, or in an .npz in its place, or declared but absent."""
    size = rng.choice([20_000_000, 90_000_000, 150_000_000])
    name = rng.choice(array_members(members))
    header = {"descr": "<f8", "fortran_order": False, "shape": (size,)}
    declared = io.BytesIO()
    np.lib.format.write_array_header_2_0(declared, header)
    small = io.BytesIO()
    np.savez_compressed(small, a=np.zeros(5_000_000))
    packed = rng.choice([array_bytes(np.zeros(5_000_000)), declared.getvalue() + bytes(16), small.getvalue()])
    method = rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    return _under_a_megabyte(zipped({**members, name: packed}, method), members)


def _member_bomb(rng: Random, members: Members) -> bytes:
    """A member that nobody refers to, or the schema itself, is mostly blanks."""
    blanks = b" " * rng.choice([50_000_000, 100_000_000])
    name = rng.choice(["extra.bin", _SCHEMA, _NOTE])
    return _under_a_megabyte(zipped({**members, name: blanks + members.get(name, b"")}), members)


def _under_a_megabyte(model: bytes, members: Members) -> bytes:
    return model if len(model) < 1_000_000 else zipped({**members, _NOTE: b"{}"})


def _declared_sizes(rng: Random, members: Members) -> bytes:
    """Lie about sizes, methods, flags or checksums in the directory of the archive."""
    content = bytearray(zipped(members, rng.choice([0, 8, 12, 14])))
    entry = content.find(b"PK\x01\x02")
    for _ in range(rng.randrange(len(members))):
        entry = content.find(b"PK\x01\x02", entry + 4)
    lie = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**32 - 2])
    offset = rng.choice([8, 10, 16, 20, 24, 42])
    width = "<H" if offset < 16 else "<I"
    struct.pack_into(width, content, entry + offset, lie & (0xFFFF if width == "<H" else 0xFFFFFFFF))
    return bytes(content)


def _note(rng: Random, members: Members) -> bytes:
    notes = (
        b"{}",
        b"[]",
        b"null",
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 1e400, "partialfair": "1"}',
        b'{"format": 1' + b"0" * 5000 + b', "partialfair": "1"}',
        b'{"format": "1", "partialfair": "\\u001b[31m"}',
        b'{"format": 99, "partialfair": "\\u001b[31m' + b"x" * 5000 + b'"}',
        b'{"format": NaN, "partialfair": []}',
        b'{"format": -5, "partialfair": {}}',
    )
    return zipped({**members, _NOTE: rng.choice(notes)})


def _missing(rng: Random, members: Members) -> bytes:
    gone = rng.choice(sorted(members))
    return zipped({name: content for name, content in members.items() if name != gone})


def _bytes(rng: Random, members: Members) -> bytes:
    return damaged(rng, Blob("model.skops", zipped(members))).content


def _pickle(rng: Random, members: Members) -> bytes:
    return b"\x80\x04\x95" + b"cos\nsystem\n(S'true'\ntR."


_TAMPERINGS: tuple[Callable[[Random, Members], bytes], ...] = (
    *[_schema_value] * 6,
    *[_schema_leaf] * 6,
    _deep,
    _many_nodes,
    *[_array_swapped] * 2,
    _array_bomb,
    _member_bomb,
    *[_declared_sizes] * 2,
    *[_note] * 2,
    _missing,
    *[_bytes] * 3,
    _pickle,
)
