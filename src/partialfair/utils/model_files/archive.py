"""Rewrites archives of unknown origin, so that skops opens one with valid sizes and no repeated members.

A zip file may claim any size for its members, overlap them, or name one many times; skops accepts that, keeps
a copy for every mention, and follows references between the nodes of ``schema.json``, of which thirty can
expand to a billion. Hence every member is unpacked up to a limit, checked, and written to a new uncompressed
archive, with a schema without references. Trees that compiled code follows node by node are checked here
first.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from partialfair.exceptions import InputError
from partialfair.utils.model_files.lightgbm import check_booster_node
from partialfair.utils.model_files.nodes import check_tree_node

SCHEMA = "schema.json"


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits on the size of a model's archive.

    Attributes
    ----------
    small, ratio
        Limits of the unpacked size in bytes, and relative to the file; loading makes three copies.
    small_schema, schema_ratio
        The same for the schema.
    few_nodes, bytes_per_node
        A node takes skops some 10 to 100 µs. Models have one for every attribute and every level of a column
        of text: thousands, or hundreds of thousands where tables are wide. Such files grow by 16 bytes for a
        node, and their schemas by 20 to 30 for each of those.
    members
        Files in the archive.
    longest_side
        Rows or columns of a sparse matrix, which needs little memory until it is used.
    streams
        Random numbers come from pools of four; the time to fill one grows with its square.
    piece
        Bytes that are unpacked at a time.
    """

    small: int = 1 << 27
    ratio: int = 50
    small_schema: int = 1 << 25
    schema_ratio: int = 40
    few_nodes: int = 50_000
    bytes_per_node: int = 8
    members: int = 10_000
    longest_side: int = 1 << 26
    streams: int = 16
    piece: int = 1 << 20


_LIMITS = ArchiveLimits()
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what save_model writes; others compress more

# How skops must build objects of compiled code: by checked loaders, not by a constructor.
_TREE, _BOOSTER = ("sklearn.tree._tree", "Tree"), ("lightgbm.basic", "Booster")
_LOADERS = {_TREE: "TreeNode", _BOOSTER: "ObjectNode"}
_LOSSES = ("_loss", "sklearn._loss", "sklearn.linear_model")
_SPARSE = {"csr", "csc", "coo", "bsr", "dia"}


def rewrite_archive(content: bytes) -> bytes:
    """Check every part of an archive, and return a new one with the same model.

    Raises
    ------
    InputError
        Saying what is wrong, in half a sentence.
    """
    budget = _Budget(max(_LIMITS.small, _LIMITS.ratio * len(content)))
    most_nodes = max(_LIMITS.few_nodes, len(content) // _LIMITS.bytes_per_node)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = _members(archive)
        most_bytes = max(_LIMITS.small_schema, _LIMITS.schema_ratio * len(content))
        schema = _read_schema(archive, members, most_bytes, most_nodes)
        mentions = _Mentions(most_nodes)
        mentions.look_at(schema)
        new = io.BytesIO()
        with zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as copy:
            for node in mentions.boosters:  # their text is written anew
                check_booster_node(node)
            copy.writestr(SCHEMA, json.dumps(schema))
            for name, (loaders, n_mentions) in mentions.files.items():
                if name not in members:
                    raise InputError(f"its member {name[:40]!r} is missing")
                data = _unpack(archive, members[name], budget)
                if "NdArrayNode" in loaders:
                    _check_array(data)
                if "SparseMatrixNode" in loaders:
                    data = _rewrite_sparse(data, budget)
                budget.spend((n_mentions - 1) * len(data))  # skops makes a copy for every mention
                copy.writestr(name, data)
        with zipfile.ZipFile(new) as copy:
            # Thousands of trees may share arrays, and to read one takes longer than to check it.
            shared: dict[str, npt.NDArray[Any]] = {}

            def read_array(name: str) -> npt.NDArray[Any]:
                if name in shared:
                    return shared[name]
                array: npt.NDArray[Any] = np.load(io.BytesIO(copy.read(name)), allow_pickle=False)
                if mentions.files[name][1] > 1:
                    shared[name] = array
                return array

            for node in mentions.trees:
                check_tree_node(node, read_array)
    return new.getvalue()


@dataclass
class _Budget:
    """The remaining number of bytes to unpack."""

    left: int

    def spend(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise InputError("it unpacks to more than any model")


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name; raise `InputError` for those that no model has."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    # Readers may choose different members of the same name.
    if len(members) < len(infos) or len(infos) > _LIMITS.members:
        raise InputError("it has members of one name, or too many")
    for info in infos:
        if info.flag_bits & 1 or info.compress_type not in _COMPRESSIONS:
            raise InputError(f"its member {info.filename[:40]!r} is encrypted or packed unusually")
    return members


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget) -> bytes:
    """Unpack a member piece by piece, without trusting its claimed size."""
    pieces = []
    with archive.open(info) as stream:
        while piece := stream.read(_LIMITS.piece):
            budget.spend(len(piece))
            pieces.append(piece)
    return b"".join(pieces)


def _read_schema(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], most_bytes: int, most_nodes: int
) -> Any:
    if SCHEMA not in members:
        raise InputError(f"it has no {SCHEMA}")
    text = _unpack(archive, members[SCHEMA], _Budget(most_bytes))
    # Before they are parsed, as every pair of brackets takes some hundred bytes of memory.
    if text.count(b"{") + text.count(b"[") > 4 * most_nodes:
        raise InputError(f"its {SCHEMA} has too many parts")
    return json.loads(text)


@dataclass
class _Mentions:
    """Files that the nodes of a schema refer to, with the nodes and counts."""

    most_nodes: int
    files: dict[str, tuple[set[str], int]] = field(default_factory=dict)
    n_nodes: int = 0
    trees: list[dict[str, Any]] = field(default_factory=list)
    boosters: list[dict[str, Any]] = field(default_factory=list)

    def look_at(self, schema: Any) -> None:
        """Visit a schema, and remove ids for references to nodes, and old names."""
        waiting = [schema]  # not by recursion: schemas may be deep
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting.extend(part)
            elif isinstance(part, dict):
                if "__loader__" in part:
                    self._look_at_node(part)
                waiting.extend(part.values())

    def _look_at_node(self, node: dict[str, Any]) -> None:
        self.n_nodes += 1
        if self.n_nodes > self.most_nodes:
            raise InputError(f"its {SCHEMA} has more nodes than any model")
        node.pop("__id__", None)  # save_model writes a node out wherever it occurs, so that none is missed
        loader = str(node["__loader__"])
        if loader == "BytearrayNode":  # which skops would unpack as a list of integers
            raise InputError("it holds a bytearray, and no model does")
        self._check_loader(node, loader)
        if loader == "RandomGeneratorNode":
            _check_pool(node)
        if isinstance(name := node.get("file"), str):
            loaders, n_mentions = self.files.get(name, (set(), 0))
            self.files[name] = ({*loaders, loader}, n_mentions + 1)

    def _check_loader(self, node: dict[str, Any], loader: str) -> None:
        """Raise `InputError` for loaders that avoid the checks of compiled code; record the others."""
        module, name = str(node.get("__module__")), str(node.get("__class__"))
        is_sparse = module.startswith("scipy.sparse.")
        if loader != _LOADERS.get((module, name), "SparseMatrixNode" if is_sparse else loader):
            raise InputError(f"it holds a {name[:40]} that is not written as one")
        if loader == "LossNode" and not module.startswith(_LOSSES):
            raise InputError(f"it holds a {name[:40]}, which is not a loss")
        if loader == "TreeNode":
            self.trees.append(node)
        if (module, name) == _BOOSTER:
            self.boosters.append(node)


def _check_pool(node: dict[str, Any]) -> None:
    """Raise `InputError` for random generators whose setup would take hours."""
    try:
        size = json.loads(node["content"]["seed_seq"]["content"]["pool_size"]["content"])
    except (KeyError, TypeError, ValueError):
        size = None
    if not (isinstance(size, int) and 0 < size <= _LIMITS.streams):
        raise InputError("it holds a random generator that none is like")


def _check_array(data: bytes) -> None:
    """Raise `InputError` for arrays with wrong sizes, or of objects."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise InputError("an array in it is of an unknown format")
    # Python's integers do not overflow; types without bytes, such as |V0, would make any shape fit.
    n_values, n_bytes = math.prod(shape), len(data) - stream.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or n_values > max(n_bytes, 0) * 8:
        raise InputError("an array in it is not what it says")
    if n_values * dtype.itemsize != n_bytes:
        raise InputError("an array in it is not as large as it says")


def _rewrite_sparse(data: bytes, budget: _Budget) -> bytes:
    """Return the same sparse matrix, uncompressed, after a check of its indices."""
    new = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as copy:
        for name, info in _members(archive).items():
            array = _unpack(archive, info, budget)
            _check_array(array)
            copy.writestr(name, array)
    new.seek(0)
    with np.load(new, allow_pickle=False) as held:
        layout, shape = held["format"].item(), held["shape"]
    if isinstance(layout, bytes):
        layout = layout.decode("ascii", errors="replace")
    if (
        layout not in _SPARSE
        or shape.shape != (2,)
        or not ((shape >= 0) & (shape <= _LIMITS.longest_side)).all()
    ):
        raise InputError("a sparse matrix in it is not what it says")
    new.seek(0)
    matrix = sparse.load_npz(new)
    # Compiled code does not check indices; other layouts are checked by their constructors.
    if layout in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
    return new.getvalue()
