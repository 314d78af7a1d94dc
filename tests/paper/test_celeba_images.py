"""CelebA's images on noise in both layouts; no face is needed, and none is kept."""

from __future__ import annotations

import dataclasses
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partialfair.datasets import source
from partialfair.exceptions import DataFetchError, InputError
from partialfair_paper.celeba_images import FaceImages, load_celeba_images

ATTRACTIVE, MALE = 2, 20
# Of each shard: the image ids. The first train shard comes first by name, not by its ids.
SHARDS = {
    "train1": (9, 3, 5),
    "train3": (1, 2),
    "val": (162_771, 162_775),
    "test": (182_640, 202_599, 182_641),
}
PACKED_IDS = [9, 3, 5, 1, 2, 162_771, 162_775, 182_640, 202_599, 182_641]
PACKED_PARTS = [0] * 5 + [1] * 2 + [2] * 3


def noise(seed: int, width: int, height: int, image_format: str) -> bytes:
    """Return an encoded image of smoothed noise, which lossy formats do not wholly wash out."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (height // 6, width // 6, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((width, height)).save(buffer, image_format, quality=80)
    return buffer.getvalue()


def attributes_of(image_id: int) -> tuple[int, int]:
    """Return (attractive, male) such that all four cases occur."""
    return image_id % 2, image_id // 2 % 2


def write_shard(path: Path, image_ids: tuple[int, ...], files: list[bytes] | None = None, **changed) -> None:
    files = [noise(i, 96, 96, "WEBP") for i in image_ids] if files is None else files
    attr = np.random.default_rng(0).integers(0, 2, (len(image_ids), 40)).astype(np.uint8)
    attr[:, [ATTRACTIVE, MALE]] = [attributes_of(i) for i in image_ids]
    arrays = {
        "data": np.frombuffer(b"".join(files), dtype=np.uint8),
        "offsets": np.cumsum([0, *map(len, files)]),
        "image_id": np.array(image_ids, dtype=np.int32),
        "attr": attr,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: array for name, array in (arrays | changed).items() if array is not None})


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A data directory with packed shards; some of train are missing."""
    for name, image_ids in SHARDS.items():
        write_shard(tmp_path / "faces" / f"celeba96_{name}.npz", image_ids)
    return tmp_path


ALIGNED_PARTS = [0, 0, 0, 1, 1, 2, 0]


@pytest.fixture
def aligned(tmp_path: Path) -> Path:
    """A data directory in torchvision's layout; the last image is one more of train."""
    folder = tmp_path / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True)
    names = [f"attribute_{j}" for j in range(40)]
    names[ATTRACTIVE], names[MALE] = "Attractive", "Male"
    lines, partition = [str(len(ALIGNED_PARTS)), " ".join(names) + " "], []
    for image_id, part in enumerate(ALIGNED_PARTS, start=1):
        (folder / "img_align_celeba" / f"{image_id:06d}.jpg").write_bytes(noise(image_id, 178, 218, "JPEG"))
        values = [-1] * 40
        values[ATTRACTIVE], values[MALE] = (2 * one - 1 for one in attributes_of(image_id))
        # As in the published file, numbers are set flush right.
        lines.append(f"{image_id:06d}.jpg " + " ".join(f"{value:2d}" for value in values))
        partition.append(f"{image_id:06d}.jpg {part}")
    (folder / "list_attr_celeba.txt").write_text("\r\n".join(lines) + "\r\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(partition) + "\n")
    return tmp_path


def decoded(raw: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(raw)).convert("RGB"))


def resized(pixels: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.LANCZOS))


def check_labels(faces: FaceImages, image_ids: list[int], parts: list[int]) -> None:
    assert faces.image_ids.tolist() == image_ids
    assert faces.partition.tolist() == parts
    assert faces.y.tolist() == [attributes_of(i)[0] for i in image_ids]
    assert faces.sensitive_features.tolist() == [("Female", "Male")[attributes_of(i)[1]] for i in image_ids]
    assert faces.sensitive_features.name == "sex"
    assert faces.sensitive_features.index.tolist() == list(range(len(image_ids)))
    assert (faces.image_ids.dtype, faces.partition.dtype, faces.y.dtype) == (np.int32, np.int8, np.int8)


def check_pixels(faces: FaceImages, expected: list[np.ndarray]) -> None:
    assert faces.images.dtype == np.uint8
    assert faces.images.flags.c_contiguous
    np.testing.assert_array_equal(faces.images.transpose(0, 2, 3, 1), np.stack(expected))


class TestPacked:
    def test_images_of_96_pixels_are_as_they_were_packed(self, packed):
        faces = load_celeba_images(path=packed)
        check_labels(faces, PACKED_IDS, PACKED_PARTS)
        check_pixels(faces, [decoded(noise(i, 96, 96, "WEBP")) for i in PACKED_IDS])

    @pytest.mark.parametrize("size", [64, 128])
    def test_other_sizes_are_resized(self, packed, size):
        faces = load_celeba_images(path=packed, size=size, parts=["test"])
        check_labels(faces, PACKED_IDS[7:], [2, 2, 2])
        check_pixels(faces, [resized(decoded(noise(i, 96, 96, "WEBP")), size) for i in PACKED_IDS[7:]])

    def test_limit_keeps_the_first_of_each_part_across_shards(self, packed):
        assert load_celeba_images(path=packed, limit=1).image_ids.tolist() == [9, 162_771, 182_640]
        faces = load_celeba_images(path=packed, limit=4, parts=("test", "train"))
        check_labels(faces, [9, 3, 5, 1, 182_640, 202_599, 182_641], [0] * 4 + [2] * 3)

    def test_the_folder_itself_may_be_given(self, packed):
        assert len(load_celeba_images(path=packed / "faces").y) == len(PACKED_IDS)

    def test_shards_of_other_parts_are_not_opened(self, packed):
        (packed / "faces" / "celeba96_test.npz").write_bytes(b"damaged")
        assert load_celeba_images(path=packed, parts=("train", "validation")).y.size == 7

    def test_a_part_without_shards_is_named(self, packed):
        (packed / "faces" / "celeba96_val.npz").unlink()
        with pytest.raises(
            DataFetchError, match="faces holds CelebA images, but none of the validation part"
        ):
            load_celeba_images(path=packed)
        with pytest.raises(DataFetchError, match="validation"):
            load_celeba_images(path=packed, parts=("validation",))

    def test_a_copy_of_a_shard_is_noticed(self, packed):
        faces = packed / "faces"
        shutil.copy(faces / "celeba96_train1.npz", faces / "celeba96_train1_copy.npz")
        with pytest.raises(DataFetchError, match="faces holds image 3 of CelebA more than once"):
            load_celeba_images(path=packed)

    @pytest.mark.parametrize(
        "changed",
        [
            {"data": None},
            {"attr": np.zeros((2, 39), dtype=np.uint8)},
            {"attr": np.full((2, 40), 2, dtype=np.uint8)},
            {"image_id": np.array([1, 2, 3])},
            {"image_id": np.array(["1", "2"], dtype=object)},
            {"offsets": np.array([0, 10, 5])},
            {"offsets": np.array([0.0, 1.0, 2.0])},
            {"data": np.zeros(10**4)},
        ],
        ids=str,
    )
    def test_arrays_that_do_not_fit_are_refused(self, packed, changed):
        shard = packed / "faces" / "celeba96_val.npz"
        write_shard(shard, SHARDS["val"], **changed)
        self.check_refused(shard)

    @pytest.mark.parametrize("damage", ["cut", "flipped", "text", "empty", "folder", "npy"])
    def test_a_damaged_shard_is_named(self, packed, damage):
        shard = packed / "faces" / "celeba96_val.npz"
        raw = shard.read_bytes()
        middle = len(raw) // 2
        flipped = raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]
        shard.unlink()
        if damage == "folder":
            shard.mkdir()
        elif damage == "npy":
            with shard.open("wb") as file:
                np.save(file, np.zeros(3))
        else:
            contents = {"cut": raw[:middle], "flipped": flipped, "text": b"no archive", "empty": b""}
            shard.write_bytes(contents[damage])
        self.check_refused(shard)

    @staticmethod
    def check_refused(shard: Path) -> None:
        with pytest.raises(
            DataFetchError, match=r"is not a complete shard of packed faces|cannot be read"
        ) as caught:
            load_celeba_images(path=shard.parents[1])
        assert str(caught.value).startswith(str(shard))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "file",
        [
            noise(0, 96, 96, "WEBP")[:200],
            b"no image",
            noise(0, 96, 96, "JPEG"),
            noise(0, 48, 96, "WEBP"),
        ],
        ids=["cut", "text", "jpeg", "small"],
    )
    def test_a_damaged_image_is_named_with_its_shard(self, packed, file):
        shard = packed / "faces" / "celeba96_val.npz"
        write_shard(shard, (162_771, 162_775), [noise(1, 96, 96, "WEBP"), file])
        with pytest.raises(DataFetchError, match="not a complete WEBP image of 96 × 96 pixels") as caught:
            load_celeba_images(path=packed)
        assert str(caught.value).startswith(f"image 162775 of CelebA in {shard} ")


class TestAligned:
    @pytest.mark.parametrize("size", [96, 178, 40])
    def test_the_central_square_is_resized(self, aligned, size):
        faces = load_celeba_images(path=aligned, size=size)
        ids = [1, 2, 3, 7, 4, 5, 6]
        check_labels(faces, ids, [0, 0, 0, 0, 1, 1, 2])
        squares = [decoded(noise(i, 178, 218, "JPEG"))[20:198] for i in ids]
        check_pixels(faces, squares if size == 178 else [resized(square, size) for square in squares])

    def test_limit_and_parts_leave_other_images_unread(self, aligned):
        images = aligned / "celeba" / "img_align_celeba"
        for unused in (3, 6, 7):
            (images / f"{unused:06d}.jpg").unlink()
        faces = load_celeba_images(path=aligned, parts=("validation", "train"), limit=2)
        check_labels(faces, [1, 2, 4, 5], [0, 0, 1, 1])

    def test_the_folder_itself_may_be_given(self, aligned):
        assert len(load_celeba_images(path=aligned / "celeba", limit=1).y) == 3

    def test_packed_shards_come_first(self, packed, aligned):
        assert packed == aligned
        assert load_celeba_images(path=aligned, limit=1).image_ids.tolist() == [9, 162_771, 182_640]

    def test_a_part_without_images_is_named(self, aligned):
        table = aligned / "celeba" / "list_eval_partition.txt"
        table.write_text(table.read_text().replace(" 2", " 1"))
        with pytest.raises(DataFetchError, match="celeba holds CelebA images, but none of the test part"):
            load_celeba_images(path=aligned)

    def test_an_image_that_is_listed_twice_is_noticed(self, aligned):
        for table in ("list_attr_celeba.txt", "list_eval_partition.txt"):
            path = aligned / "celeba" / table
            path.write_text(path.read_text().replace("000005.jpg", "000004.jpg"))
        with pytest.raises(DataFetchError, match="celeba holds image 4 of CelebA more than once"):
            load_celeba_images(path=aligned)

    @pytest.mark.parametrize("damage", ["absent", "cut", "text", "png"])
    def test_a_damaged_image_is_named(self, aligned, damage):
        image = aligned / "celeba" / "img_align_celeba" / "000005.jpg"
        raw = image.read_bytes()
        image.unlink()
        if damage != "absent":
            png = io.BytesIO()
            Image.new("RGB", (178, 218)).save(png, "PNG")
            image.write_bytes(
                {"cut": raw[: len(raw) // 2], "text": b"no image", "png": png.getvalue()}[damage]
            )
        with pytest.raises(
            DataFetchError, match=r"cannot be read|not a complete JPEG image of 178 × 218"
        ) as caught:
            load_celeba_images(path=aligned)
        assert str(image) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("table", "old", "new"),
        [
            ("list_attr_celeba.txt", "7\n", "8\n"),
            ("list_attr_celeba.txt", "7\n", "\n"),
            ("list_attr_celeba.txt", " Male ", " Female "),
            ("list_attr_celeba.txt", "000005.jpg", "five.jpg"),
            ("list_attr_celeba.txt", "000005.jpg", "000005.jpg 1"),
            ("list_attr_celeba.txt", "000005.jpg", "000004.jpg"),
            ("list_attr_celeba.txt", " 1", " 7"),
            ("list_attr_celeba.txt", " 1", " é"),
            ("list_eval_partition.txt", "000005.jpg", "000008.jpg"),
            ("list_eval_partition.txt", "000005.jpg 1", ""),
            ("list_eval_partition.txt", " 1", " 3"),
            ("list_eval_partition.txt", " 1", " val"),
            ("list_attr_celeba.txt", None, None),
            ("list_eval_partition.txt", None, None),
        ],
    )
    def test_a_damaged_table_is_named(self, aligned, table, old, new):
        path = aligned / "celeba" / table
        if old is None:
            path.unlink()
        else:
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(DataFetchError) as caught:
            load_celeba_images(path=aligned)
        assert str(aligned / "celeba") in str(caught.value)
        assert "\n" not in str(caught.value)


class TestWhereImagesAre:
    def test_the_variable_comes_before_the_cache(self, packed, cache, monkeypatch):
        write_shard(cache / "faces" / "celeba96_test.npz", (182_700,))
        assert load_celeba_images(parts=["test"]).image_ids.tolist() == [182_700]
        monkeypatch.setenv(source.DATA_VARIABLE, str(packed))
        assert load_celeba_images(parts=["test"], limit=1).image_ids.tolist() == [182_640]

    def test_a_missing_source_is_one_sentence_with_both_ways_out(self, tmp_path, cache):
        write_shard(cache / "faces" / "celeba96_test.npz", (182_700,))
        with pytest.raises(DataFetchError) as caught:
            load_celeba_images(path=tmp_path / "nowhere")
        shutil.rmtree(cache)
        with pytest.raises(DataFetchError) as without_path:
            load_celeba_images()
        for message in (str(caught.value), str(without_path.value)):
            for words in ("faces/celeba96_*.npz", "celeba/img_align_celeba/", "$PARTIALFAIR_DATA", "path="):
                assert words in message
            assert "\n" not in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size must be at least 1"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"limit": 1.5}, "limit must be a whole number"),
        ({"parts": "train"}, "parts must be a list of some of 'train', 'validation', 'test', not 'train'"),
        ({"parts": ("train", "val")}, "parts must be a list"),
        ({"parts": ()}, "parts must be a list"),
    ],
)
def test_settings_are_checked(packed, options, words):
    with pytest.raises(InputError, match=words):
        load_celeba_images(path=packed, **options)


class TestFaceImages:
    def test_a_part_is_what_is_loaded_alone_and_copies_no_pixel(self, packed):
        faces = load_celeba_images(path=packed)
        for name in ("train", "validation", "test"):
            part, alone = faces.part(name), load_celeba_images(path=packed, parts=[name])
            check_labels(part, alone.image_ids.tolist(), alone.partition.tolist())
            np.testing.assert_array_equal(part.images, alone.images)
            assert np.shares_memory(part.images, faces.images)
            assert part.images.flags.c_contiguous

    def test_parts_that_are_not_there_are_refused(self, packed):
        faces = load_celeba_images(path=packed, parts=["train"])
        with pytest.raises(InputError, match="no images of the test part here"):
            faces.part("test")
        with pytest.raises(InputError, match="the part must be one of 'train', 'validation', 'test'"):
            faces.part("val")

    def test_columns_must_fit_and_parts_lie_together(self, packed):
        faces = load_celeba_images(path=packed)
        with pytest.raises(InputError, match="y has 9 entries, but there are 10 images"):
            dataclasses.replace(faces, y=faces.y[1:])
        with pytest.raises(InputError, match="partition must not decrease"):
            dataclasses.replace(faces, partition=faces.partition[::-1])

    def test_repr_counts_and_shows_no_pixel(self, packed):
        faces = load_celeba_images(path=packed, parts=["test"])
        assert repr(faces) == "<FaceImages: 3 of 96 px, Female 2, Male 1>"
