"""Decodes CelebA's images from local files; nothing is downloaded."""

from __future__ import annotations

import io
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from partialfair.exceptions import DataFetchError, InputError
from partialfair.extension import PathLike, check_choice, check_count, group_series
from partialfair_paper.celeba_files import PARTS, EncodedFaces, find_faces

if TYPE_CHECKING:
    import pandas as pd

_CHUNK_IMAGES = 256
"""Images per task of a thread, a few hundredths of a second of work."""


@dataclass(frozen=True, eq=False, repr=False)
class FaceImages:
    """Images of faces with labels and groups, ordered by part.

    Parameters
    ----------
    images : ndarray of shape (n, 3, size, size), dtype uint8
        RGB values.
    y : ndarray of shape (n,), dtype int8
        "Attractive", 0 or 1.
    sensitive_features : pandas.Series of shape (n,)
        "Female" or "Male", categorical, as in `fetch_celeba`.
    partition : ndarray of shape (n,), dtype int8
        The official part: 0 train, 1 validation, 2 test, in increasing order.
    image_ids : ndarray of shape (n,), dtype int32
        1 is CelebA's ``000001.jpg``, which is row 0 of `fetch_celeba`.
    """

    images: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int8]
    sensitive_features: pd.Series[Any]
    partition: npt.NDArray[np.int8]
    image_ids: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        for name in ("y", "sensitive_features", "partition", "image_ids"):
            n_entries = len(getattr(self, name))
            if n_entries != len(self.images):
                raise InputError(f"{name} has {n_entries} entries, but there are {len(self.images)} images")
        if np.any(np.diff(self.partition) < 0):
            raise InputError("partition must not decrease: images must be ordered by part")

    def __repr__(self) -> str:
        counts = self.sensitive_features.value_counts(sort=False)
        groups = ", ".join(f"{group} {count:,}" for group, count in counts.items())
        return f"<FaceImages: {len(self.y):,} of {self.images.shape[-1]} px, {groups}>"

    def part(self, name: str) -> FaceImages:
        """Return the images of "train", "validation" or "test"; no pixel is copied."""
        check_choice(name, "the part", PARTS)
        code = PARTS.index(name)
        first, end = np.searchsorted(self.partition, (code, code + 1))
        if first == end:
            raise InputError(f"there are no images of the {name} part here; load them with parts=")
        rows = slice(first, end)
        return FaceImages(
            images=self.images[rows],
            y=self.y[rows],
            sensitive_features=self.sensitive_features.iloc[rows].reset_index(drop=True),
            partition=self.partition[rows],
            image_ids=self.image_ids[rows],
        )


def load_celeba_images(
    *,
    path: PathLike | None = None,
    size: int = 96,
    parts: Collection[str] = PARTS,
    limit: int | None = None,
) -> FaceImages:
    """Load faces of CelebA with the label "attractive" and the sensitive feature "male".

    The function reads the packed subset (``faces/celeba96_*.npz``; shards of training images may be missing)
    or all of CelebA in torchvision's layout (``celeba/img_align_celeba/`` and two tables), whichever is found
    first. It downloads nothing. CelebA is for non-commercial research, must not be redistributed, and its
    faces must not be shown in reports.

    Parameters
    ----------
    path : str or path-like, optional
        The directory ``faces`` or ``celeba``, or one that holds either. By default ``$PARTIALFAIR_DATA``
        and the user's cache are searched.
    size : int, default=96
        Width and height in pixels. Of aligned images, the central 178 × 178 pixels are resized (Lanczos).
        Packed images are these squares at 96 pixels, and are resized from that size.
    parts : collection of str, default=("train", "validation", "test")
        Parts to load; they are returned in the default's order.
    limit : int, optional
        Load at most this many images of each part, the first ones in file order. By default all are loaded.

    Returns
    -------
    FaceImages
        Images, labels, groups and official parts.
    """
    check_count(size, "size")
    if limit is not None:
        check_count(limit, "limit")
    if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
        raise InputError(f"parts must be a list of some of {', '.join(map(repr, PARTS))}, not {parts!r}")
    faces = find_faces(path, parts, None if limit is None else int(limit))
    return FaceImages(
        images=_decode(faces, int(size)),
        y=faces.attractive,
        sensitive_features=group_series("sex", faces.male, ("Female", "Male")),
        partition=faces.partition,
        image_ids=faces.image_ids,
    )


def _decode(faces: EncodedFaces, size: int) -> npt.NDArray[np.uint8]:
    """Decode all images into one array, in threads, since Pillow releases the interpreter's lock."""
    n_images = len(faces.encoded)
    images = np.empty((n_images, 3, size, size), dtype=np.uint8)

    def fill(first: int) -> None:
        for row in range(first, min(first + _CHUNK_IMAGES, n_images)):
            images[row] = _pixels(faces, row, size).transpose(2, 0, 1)

    with ThreadPoolExecutor() as pool:
        # Iterating over the results, which are all None, raises the errors of the calls.
        for _ in pool.map(fill, range(0, n_images, _CHUNK_IMAGES)):
            pass
    return images


def _pixels(faces: EncodedFaces, row: int, size: int) -> npt.NDArray[np.uint8]:
    """Return one image, (size, size, 3)."""
    path, read = faces.encoded[row]
    layout = faces.layout
    try:
        raw = read()
    except OSError as error:
        raise DataFetchError(f"{path} cannot be read ({error.strerror}); replace it") from error
    try:
        with Image.open(io.BytesIO(raw), formats=(layout.image_format,)) as image:
            # Checked before decoding, so that a file that states a huge size takes no time or memory.
            if image.size != layout.pixels:
                raise ValueError(f"it has {image.size} pixels")
            square = image.convert("RGB").crop(layout.box)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        width, height = layout.pixels
        raise DataFetchError(
            f"image {faces.image_ids[row]} of CelebA in {path} is not a complete {layout.image_format} image"
            f" of {width} × {height} pixels; replace the file"
        ) from error
    # `resize` with a box would also use pixels outside the box.
    return np.asarray(square.resize((size, size), Image.Resampling.LANCZOS))
