"""Datasets of the paper, and a made one that needs no file.

Files are looked for in the loader's ``path=``, the directory named by ``$PARTIALFAIR_DATA``, the user's
cache, and at last at their public source; they are checked by hash wherever they come from. CelebA belongs
to the distribution partialfair-paper, which registers it.
"""

from partialfair.datasets._a9a import load_a9a
from partialfair.datasets._acs_income import load_acs_income
from partialfair.datasets._admissions import make_admissions
from partialfair.datasets._bank import load_bank
from partialfair.datasets._entry import Entry, LocatedEntry
from partialfair.datasets._law_school import load_law_school
from partialfair.datasets.registry import REGISTRY, fetch, list_datasets, locate
from partialfair.datasets.task import Dataset, Shares, Split

__all__ = [
    "REGISTRY",
    "Dataset",
    "Entry",
    "LocatedEntry",
    "Shares",
    "Split",
    "fetch",
    "list_datasets",
    "load_a9a",
    "load_acs_income",
    "load_bank",
    "load_law_school",
    "locate",
    "make_admissions",
]
