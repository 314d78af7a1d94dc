"""CelebA's table of attributes, on a made-up file and on the public one, and the packed images."""

import dataclasses
import hashlib

import numpy as np
import pandas as pd
import pytest

from partialfair import datasets
from partialfair.exceptions import MissingExtraError
from partialfair.utils import extras
from partialfair_paper import celeba
from partialfair_paper.celeba import fetch_celeba
from partialfair_paper.celeba_files import PARTS, EncodedFaces, find_faces
from partialfair_paper.celeba_images import load_celeba_images


def counts(column) -> dict[object, int]:
    return pd.Series(column).value_counts().to_dict()


def test_signs_become_zeros_and_ones(tmp_path, monkeypatch):
    table = "filename,Attractive,Male,Young\n000001.jpg,1,-1,1\n000002.jpg,-1,1,-1\n000003.jpg,-1,-1,1\n"
    contents = table.encode(), b"000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n"
    files = []
    for file, content in zip(celeba._FILES, contents, strict=True):
        (tmp_path / file.name).parent.mkdir(exist_ok=True)
        (tmp_path / file.name).write_bytes(content)
        files.append(dataclasses.replace(file, raw_sha256=hashlib.sha256(content).hexdigest()))
    monkeypatch.setattr(celeba, "_FILES", tuple(files))
    data = fetch_celeba(path=tmp_path)
    assert data.feature_names == ("Young",)
    assert data.X["Young"].tolist() == [1, 0, 1]
    assert data.X["Young"].dtype == np.int8
    assert data.y.tolist() == [1, 0, 0]
    assert data.sensitive_features.tolist() == ["Female", "Male", "Female"]
    assert data.official_partition.tolist() == [0, 1, 2]
    # The paper draws its own test part.
    assert data.shares.test == 0.2


def test_the_table_is_among_the_data_sets():
    assert [found.entry.name for found in datasets.list_datasets()][-1] == "celeba"
    assert list(datasets.locate("celeba")) == [file.name for file in celeba._FILES]


def test_without_the_package_its_data_sets_say_how_to_install_it(monkeypatch):
    known = {name: entry for name, entry in datasets.REGISTRY.items() if name != "celeba"}
    monkeypatch.setattr(datasets, "REGISTRY", known)
    monkeypatch.setattr(datasets, "load_extensions", lambda: None)
    with pytest.raises(MissingExtraError) as caught:
        datasets.fetch("celeba")
    assert str(caught.value) == (
        "the dataset 'celeba' needs partialfair-paper, which is not installed; "
        "run: pip install partialfair-paper"
    )
    assert "celeba" in extras.PAPER_DATASETS


@pytest.mark.real_data
def test_the_table_of_celeba(load_real):
    data = load_real("celeba")
    assert data.X.shape == (202_599, 38)
    assert counts(data.sensitive_features) == {"Female": 118_165, "Male": 84_434}
    women = (data.sensitive_features == "Female").to_numpy()
    assert (data.y[women].sum(), data.y[~women].sum()) == (80_254, 23_579)
    assert set(np.unique(data.X)) == {0, 1}
    # The sizes CelebA's authors give for the three parts.
    assert counts(data.official_partition) == {0: 162_770, 1: 19_867, 2: 19_962}


@pytest.fixture
def packed_faces(data_dir) -> EncodedFaces:
    """The packed images, none of them decoded."""
    if not list((data_dir / "faces").glob("celeba96_*.npz")):
        pytest.skip(f"no real data: {data_dir} has no faces/celeba96_*.npz")
    return find_faces(data_dir, PARTS, None)


# Women, men, attractive women, attractive men, as counted when the shards were packed.
PACKED_COUNTS = {
    "celeba96_train1": (2_207, 1_793, 1_474, 461),
    "celeba96_train2": (2_228, 1_772, 1_458, 466),
    "celeba96_train3": (2_227, 1_773, 1_481, 438),
    "celeba96_train4": (2_236, 1_764, 1_481, 447),
    "celeba96_val": (1_070, 930, 718, 279),
    "celeba96_test": (2_704, 1_936, 1_734, 446),
}


@pytest.mark.real_data
def test_the_packed_images_of_celeba(packed_faces):
    shards = pd.Series([image.path.stem for image in packed_faces.encoded])
    assert len(np.unique(packed_faces.image_ids)) == len(shards)
    for shard in shards.unique():
        rows = (shards == shard).to_numpy()
        male, attractive = packed_faces.male[rows] == 1, packed_faces.attractive[rows]
        found = (np.sum(~male), np.sum(male), attractive[~male].sum(), attractive[male].sum())
        assert found == PACKED_COUNTS[shard]
        part = shard.removeprefix("celeba96_").rstrip("1234").replace("val", "validation")
        assert set(packed_faces.partition[rows]) == {PARTS.index(part)}


@pytest.mark.real_data
def test_the_packed_images_agree_with_the_table_of_all(packed_faces, load_real):
    table = load_real("celeba")
    rows = packed_faces.image_ids - 1
    np.testing.assert_array_equal(packed_faces.attractive, table.y[rows])
    np.testing.assert_array_equal(packed_faces.partition, table.official_partition[rows])
    np.testing.assert_array_equal(packed_faces.male == 1, table.sensitive_features.iloc[rows] == "Male")


@pytest.mark.real_data
def test_some_packed_images_of_celeba_are_decoded(packed_faces, data_dir):
    faces = load_celeba_images(path=data_dir, limit=2)
    assert faces.images.shape == (6, 3, 96, 96)
    assert faces.images.std(axis=(1, 2, 3)).min() > 10
    assert set(faces.image_ids) <= set(packed_faces.image_ids)
