"""Datasets of the paper, and a made one that needs no file.

Files are looked for in the loader's ``path=``, the directory named by ``$PARTIALFAIR_DATA``, the user's
cache, and at last at their public source; they are checked by hash wherever they come from. Images and
weights of networks are not downloaded, and have no hash that is known.
"""

from partialfair.datasets._a9a import load_a9a
from partialfair.datasets._acs_income import load_acs_income
from partialfair.datasets._admissions import make_admissions
from partialfair.datasets._backbone import resnet18_backbone
from partialfair.datasets._bank import load_bank
from partialfair.datasets._celeba import load_celeba
from partialfair.datasets._celeba_images import FaceImages, load_celeba_images
from partialfair.datasets._entry import Entry, LocatedEntry
from partialfair.datasets._law_school import load_law_school
from partialfair.datasets._registry import REGISTRY, fetch, list_datasets, locate
from partialfair.datasets._task import Dataset, Shares, Split

__all__ = [
    "REGISTRY",
    "Dataset",
    "Entry",
    "FaceImages",
    "LocatedEntry",
    "Shares",
    "Split",
    "fetch",
    "list_datasets",
    "load_a9a",
    "load_acs_income",
    "load_bank",
    "load_celeba",
    "load_celeba_images",
    "load_law_school",
    "locate",
    "make_admissions",
    "resnet18_backbone",
]
