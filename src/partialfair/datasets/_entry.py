"""What the registry knows of a dataset without loading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from partialfair.datasets.source import DataFile
from partialfair.datasets.task import Dataset


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Parameters
    ----------
    name
        What users call it.
    loader
        Returns the `Dataset`; all its arguments are optional keywords.
    files
        What it reads; empty for made data.
    summary, terms
        One line each: what it is, and whose and under which conditions.
    """

    name: str
    loader: Callable[..., Dataset]
    files: tuple[DataFile, ...]
    summary: str
    terms: str


@dataclass(frozen=True)
class LocatedEntry:
    """A dataset and where each of its files lies on this machine (None: to be fetched)."""

    entry: Entry
    paths: Mapping[str, Path | None]

    @property
    def available(self) -> bool:
        """Whether it can be loaded without a network."""
        return None not in self.paths.values()
