"""Finds CelebA's encoded images with their attributes and official partition.

Two layouts are read. In each directory that is searched for data sets, the packed layout comes first:

    faces/celeba96_train1.npz, ..._val.npz, ..._test.npz    WebP files of 96 × 96, joined end to end
    celeba/img_align_celeba/000001.jpg, ...                 torchvision's: JPEG files of 178 × 218
    celeba/list_attr_celeba.txt, list_eval_partition.txt    and its two tables

A shard of the packed layout holds ``data`` (the files), ``offsets`` (image i is
``data[offsets[i]:offsets[i + 1]]``), ``image_id`` and ``attr`` (the 40 attributes, 0 or 1).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import DataFetchError
from partialfair.extension import (
    DATA_VARIABLE,
    PathLike,
    describe_search,
    either_layout,
    search_directories,
)

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("train", "validation", "test")
"""The official parts; CelebA numbers them 0, 1, 2."""

_SHARDS = "faces/celeba96_*.npz"
_SHARDS_OF_PART = ("celeba96_train*.npz", "celeba96_val*.npz", "celeba96_test*.npz")
_SHARD_ARRAYS = ("data", "offsets", "image_id", "attr")
# zipfile raises RuntimeError for a member that it cannot decrypt or unpack, NumPy ValueError for a bad array.
_SHARD_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, RuntimeError, ValueError)
_N_ATTRIBUTES, _ATTRACTIVE, _MALE = 40, 2, 20

_IMAGES = "celeba/img_align_celeba"
_ATTRIBUTES, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_TABLE_ERRORS = (OSError, ValueError, KeyError)


@dataclass(frozen=True)
class Layout:
    """How images are stored.

    Parameters
    ----------
    image_format : str
        Pillow's name of the format.
    pixels : tuple of int
        Width and height.
    box : tuple of int
        The square that is used: left, upper, right and lower bound, the last two exclusive.
    """

    image_format: str
    pixels: tuple[int, int]
    box: tuple[int, int, int, int]


_PACKED = Layout("WEBP", (96, 96), (0, 0, 96, 96))
_ALIGNED = Layout("JPEG", (178, 218), (0, 20, 178, 198))


class EncodedImage(NamedTuple):
    """The file of an image, and a function that reads its encoded bytes."""

    path: Path
    read: Callable[[], bytes]


@dataclass(frozen=True, eq=False)
class EncodedFaces:
    """Images that are not decoded yet; every field except the layout has one entry per image."""

    layout: Layout
    encoded: Sequence[EncodedImage]
    image_ids: npt.NDArray[np.int32]
    attractive: npt.NDArray[np.int8]
    male: npt.NDArray[np.int8]
    partition: npt.NDArray[np.int8]


def find_faces(path: PathLike | None, parts: Collection[str], limit: int | None) -> EncodedFaces:
    """Return the images of some parts, at most ``limit`` of each, in the order of ``PARTS``.

    Within a part, images keep the order of the files: of the names of the shards and of the images in each
    shard, or of the table.
    """
    for directory in search_directories(path):
        for pattern in either_layout(directory, _SHARDS):
            if any(pattern.parent.glob(pattern.name)):
                return _packed_faces(pattern.parent, parts, limit)
        for images in either_layout(directory, _IMAGES):
            if images.is_dir():
                return _aligned_faces(images, parts, limit)
    raise DataFetchError(
        f"there are no CelebA images in {describe_search(path)}, and they are never downloaded; give path= or"
        f" ${DATA_VARIABLE} a directory that holds packed shards ({_SHARDS}), or CelebA as torchvision lays"
        f" it out ({_IMAGES}/ next to {_ATTRIBUTES} and {_PARTITION})"
    )


def _select_rows(
    partition: npt.NDArray[np.int8], parts: Collection[str], limit: int | None, folder: Path
) -> npt.NDArray[np.intp]:
    """Return the positions of the first ``limit`` images of each requested part, part by part."""
    rows = {part: np.flatnonzero(partition == code) for code, part in enumerate(PARTS) if part in parts}
    for part, of_part in rows.items():
        if not of_part.size:
            raise DataFetchError(
                f"{folder} holds CelebA images, but none of the {part} part; add some, or choose other parts="
            )
    return np.concatenate([of_part[:limit] for of_part in rows.values()])


def _refuse_repeated(image_ids: npt.NDArray[np.int32], folder: Path) -> None:
    """Raise DataFetchError if an image occurs twice, for example because a shard was copied."""
    ids, counts = np.unique(image_ids, return_counts=True)
    if ids.size < image_ids.size:
        repeated = ids[np.argmax(counts)]
        raise DataFetchError(f"{folder} holds image {repeated} of CelebA more than once; keep one copy")


@dataclass(frozen=True, eq=False)
class _Shard:
    """The arrays of one file of the packed layout."""

    path: Path
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.integer[Any]]
    image_id: npt.NDArray[np.integer[Any]]
    attr: npt.NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        n_images = self.image_id.size
        fits = (
            self.data.dtype == np.uint8
            and all(array.dtype.kind in "iu" for array in (self.offsets, self.image_id, self.attr))
            and (self.data.ndim, self.image_id.ndim) == (1, 1)
            and self.offsets.shape == (n_images + 1,)
            and self.attr.shape == (n_images, _N_ATTRIBUTES)
            and bool(np.isin(self.attr, (0, 1)).all())
            and (self.offsets[0], self.offsets[-1]) == (0, self.data.size)
            and bool((np.diff(self.offsets) > 0).all())
        )
        if not fits:
            raise ValueError("its arrays do not fit together")

    def images(self) -> list[EncodedImage]:
        """Return the images of the shard; their bytes are not copied until they are read."""
        files = np.split(self.data, self.offsets[1:-1])
        return [EncodedImage(self.path, file.tobytes) for file in files[: self.image_id.size]]


def _packed_faces(folder: Path, parts: Collection[str], limit: int | None) -> EncodedFaces:
    # Shards of other parts are not opened.
    paths = [
        (code, path)
        for code, part in enumerate(PARTS)
        if part in parts
        for path in sorted(folder.glob(_SHARDS_OF_PART[code]))
    ]
    shards = [_read_shard(path) for _, path in paths]
    sizes = [shard.image_id.size for shard in shards]
    partition = np.repeat(np.array([code for code, _ in paths], dtype=np.int8), sizes)
    rows = _select_rows(partition, parts, limit, folder)
    image_ids = np.concatenate([shard.image_id for shard in shards]).astype(np.int32)
    _refuse_repeated(image_ids, folder)
    attributes = np.concatenate([shard.attr for shard in shards]).astype(np.int8)[rows]
    encoded = [image for shard in shards for image in shard.images()]
    return EncodedFaces(
        layout=_PACKED,
        encoded=[encoded[row] for row in rows],
        image_ids=image_ids[rows],
        attractive=attributes[:, _ATTRACTIVE].copy(),
        male=attributes[:, _MALE].copy(),
        partition=partition[rows],
    )


def _read_shard(path: Path) -> _Shard:
    """Read a shard; the checksums of the archive reveal a damaged file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Shard(path, *(_read_array(archive, name) for name in _SHARD_ARRAYS))
    except _SHARD_ERRORS as error:
        raise _unusable(path, "a complete shard of packed faces", error) from error


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array


def _aligned_faces(images: Path, parts: Collection[str], limit: int | None) -> EncodedFaces:
    table = _read_attributes(images.parent / _ATTRIBUTES)
    partition = _read_partition(images.parent / _PARTITION, table.index)
    image_ids = table.index.str.removesuffix(".jpg").astype(np.int32).to_numpy()
    _refuse_repeated(image_ids, images.parent)
    rows = _select_rows(partition, parts, limit, images.parent)
    paths = [images / name for name in table.index[rows]]
    return EncodedFaces(
        layout=_ALIGNED,
        encoded=[EncodedImage(path, path.read_bytes) for path in paths],
        image_ids=image_ids[rows],
        attractive=(table["Attractive"].to_numpy()[rows] > 0).astype(np.int8),
        male=(table["Male"].to_numpy()[rows] > 0).astype(np.int8),
        partition=partition[rows],
    )


def _read_attributes(path: Path) -> pd.DataFrame:
    """Read "Attractive" and "Male", -1 or 1, by image name; the file has a count, column names and rows."""
    try:
        with path.open(encoding="ascii") as file:
            n_images = int(file.readline())
            table = _rows_by_name(file, file.readline().split())[["Attractive", "Male"]]
        if len(table) != n_images:
            raise ValueError(f"it lists {len(table)} images, but its first line states {n_images}")
        if not table.isin((-1, 1)).all(axis=None):
            raise ValueError("not all attributes are -1 or 1")
    except _TABLE_ERRORS as error:
        raise _unusable(path, "a complete table of CelebA's attributes", error) from error
    return table


def _read_partition(path: Path, names: pd.Index[str]) -> npt.NDArray[np.int8]:
    """Read the official partition of the images in ``names``."""
    try:
        with path.open(encoding="ascii") as file:
            table = _rows_by_name(file, ["part"])
        if not table.index.equals(names):
            raise ValueError(f"it does not list the images of {_ATTRIBUTES}")
        if not table["part"].isin(range(len(PARTS))).all():
            raise ValueError("not all parts are 0, 1 or 2")
    except _TABLE_ERRORS as error:
        raise _unusable(path, "CelebA's complete partition", error) from error
    return table["part"].to_numpy(dtype=np.int8)


def _rows_by_name(file: TextIO, columns: Sequence[str]) -> pd.DataFrame:
    """Read the rest of a table whose rows begin with names like ``000001.jpg``."""
    import pandas as pd

    table = pd.read_csv(file, sep=r"\s+", names=["image", *columns], index_col="image", dtype={"image": str})
    if not table.index.str.fullmatch(r"\d{6}\.jpg").all():
        raise ValueError("not all rows begin with the name of an image, such as 000001.jpg")
    return table


def _unusable(path: Path, wanted: str, error: Exception) -> DataFetchError:
    if isinstance(error, OSError):
        return DataFetchError(f"{path} cannot be read ({error.strerror or error}); replace it")
    # The text of a KeyError is the repr of its message. Messages of pandas end in a line break.
    reason = " ".join(str(error.args[0] if isinstance(error, KeyError) else error).split())
    return DataFetchError(f"{path} is not {wanted} ({reason}); replace it")
