"""Data sets of the paper (``fetch_*``), a sample in the package (``load_adult``), and synthetic data.

Files of ``fetch_*`` are looked for in ``path=``, the directory named by ``$PARTIALFAIR_DATA``, the user's
cache, and at last at their public source; they are checked by hash wherever they come from. CelebA belongs
to the distribution partialfair-paper, which registers it.

A new data set is a loader and an `Entry`, and its name in ``REGISTRY``; other distributions call
`register_dataset`.
"""

from __future__ import annotations

from pathlib import Path

from partialfair.datasets._acs_income import ACS_INCOME, fetch_acs_income
from partialfair.datasets._admissions import ADMISSIONS, make_admissions
from partialfair.datasets._tables import A9A, BANK, LAW_SCHOOL, fetch_a9a, fetch_bank, fetch_law_school
from partialfair.datasets.adult import ADULT, load_adult
from partialfair.datasets.source import PathLike, ensure, find
from partialfair.datasets.task import Entry, LocatedEntry
from partialfair.exceptions import InputError
from partialfair.utils.extras import PAPER_DATASETS, load_extensions, missing_paper

__all__ = [
    "fetch_a9a",
    "fetch_acs_income",
    "fetch_bank",
    "fetch_law_school",
    "load_adult",
    "make_admissions",
]

# In the order in which they are listed.
REGISTRY: dict[str, Entry] = {
    entry.name: entry for entry in (ADULT, ADMISSIONS, A9A, BANK, LAW_SCHOOL, ACS_INCOME)
}


def register_dataset(entry: Entry) -> None:
    """Add a dataset to those that are listed, located and fetched by name."""
    REGISTRY[entry.name] = entry


def list_datasets() -> tuple[LocatedEntry, ...]:
    """Return every dataset with the places of its files, found but not checked."""
    load_extensions()
    return tuple(LocatedEntry(entry, locate(name)) for name, entry in REGISTRY.items())


def locate(name: str) -> dict[str, Path | None]:
    """Return the local path of each file of a dataset, found but not checked, or None."""
    return {file.name: find(file) for file in find_entry(name).files}


def fetch(name: str, *, path: PathLike | None = None) -> tuple[Path, ...]:
    """Make sure that checked copies of a dataset's files are on this machine, and return their paths.

    Parameters
    ----------
    name
        A key of ``REGISTRY``.
    path
        A directory to put them in, made if need be, for instance one that ``$PARTIALFAIR_DATA`` will
        name on a machine without a network. By default what ``$PARTIALFAIR_DATA`` or the user's cache
        holds is used, and the rest goes into the cache.
    """
    return tuple(ensure(file, path) for file in find_entry(name).files)


def find_entry(name: str) -> Entry:
    """Return the entry of a dataset; one that this package does not have may be an extension's."""
    if name not in REGISTRY:
        load_extensions()
    if name not in REGISTRY:
        if name in PAPER_DATASETS:
            raise missing_paper(f"the dataset {name!r}")
        raise InputError(f"there is no dataset {name!r}; there are {', '.join(REGISTRY)}")
    return REGISTRY[name]
