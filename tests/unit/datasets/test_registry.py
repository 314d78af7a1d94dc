from __future__ import annotations

import dataclasses
import hashlib
import inspect

import pytest

from partialfair import datasets
from partialfair.datasets import REGISTRY, fetch, list_datasets, locate, make_admissions
from partialfair.datasets.source import RemoteFile
from partialfair.datasets.task import Entry
from partialfair.exceptions import InputError
from partialfair.utils.extras import load_extensions

CONTENT = b"toy"


@pytest.fixture
def toy(server, cache, monkeypatch) -> Entry:
    load_extensions()  # which may register others, and once only
    sha = hashlib.sha256(CONTENT).hexdigest()
    files = tuple(RemoteFile("toy", f"toy/{n}", sha, server.serve(n, CONTENT)) for n in ("one", "two"))
    entry = Entry("toy", make_admissions, files, "a toy", "none")
    monkeypatch.setattr(datasets, "REGISTRY", {"toy": entry})
    return entry


def test_fetch_gets_every_file_into_the_cache(toy, cache):
    assert locate("toy") == {"toy/one": None, "toy/two": None}
    assert not list_datasets()[0].available
    paths = fetch("toy")
    assert paths == (cache / "toy" / "one", cache / "toy" / "two")
    assert locate("toy") == {"toy/one": paths[0], "toy/two": paths[1]}
    assert list_datasets()[0].available


def test_fetch_gets_every_file_into_a_directory_of_the_users(toy, tmp_path, monkeypatch):
    fetch("toy", path=tmp_path / "offline")
    assert locate("toy") == {"toy/one": None, "toy/two": None}
    monkeypatch.setenv("PARTIALFAIR_DATA", str(tmp_path / "offline"))
    assert list_datasets()[0].available


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="no dataset 'a9b'; there are adult, admissions, a9a, bank"):
        fetch("a9b")


def test_every_entry_is_described_and_its_loader_public():
    load_extensions()
    for name, entry in REGISTRY.items():
        assert entry.name == name
        if entry.loader.__module__.startswith("partialfair."):
            assert entry.loader.__name__ in datasets.__all__
        assert all(file.dataset == name for file in entry.files)
        assert entry.summary
        assert entry.terms
        parameters = inspect.signature(entry.loader).parameters
        assert all(p.default is not inspect.Parameter.empty for p in parameters.values())
        assert ("path" in parameters) == bool(entry.files)


@pytest.mark.parametrize("name", ["admissions", "adult"])
def test_data_of_the_package_are_always_available(cache, name):
    assert locate(name) == {}
    assert fetch(name) == ()


def test_functions_say_by_name_where_data_come_from():
    """As in scikit-learn: ``fetch_*`` looks for files, ``load_*`` ships, ``make_*`` is synthetic."""
    prefixes = {entry.loader.__name__.partition("_")[0]: bool(entry.files) for entry in REGISTRY.values()}
    assert prefixes == {"fetch": True, "load": False, "make": False}


def test_entries_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        REGISTRY["a9a"].name = "other"
