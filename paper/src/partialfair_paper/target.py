"""Defines what a target is: a figure or table of the paper, its runs, and its numbers.

A target knows nothing of pictures: `partialfair.plotting` draws what `Target.rows` and the store tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partialfair_paper.frontiers import Mean
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS, method_of
from partialfair_paper.parts import LOADERS
from partialfair_paper.published import DATASETS, OWN_INTERVALS, SEEDS
from partialfair_paper.runs import Run
from partialfair_paper.store import Store

Row = dict[str, Any]

_START = "unconstrained"
"""The method that every frontier starts from."""


@dataclass(frozen=True)
class Scope:
    """How much of a target is done.

    Attributes
    ----------
    datasets
        Those that are wanted, of the target's own.
    seeds
        Number of splits.
    protocol
        ``"fast"`` or ``"paper"``.
    rows
        Training rows that are kept; None for all.
    folder
        Where data files are; None as in `partialfair.datasets`.
    methods
        Those of frontiers that are wanted; None for all. What frontiers start from is always among them.
    """

    datasets: tuple[str, ...] = tuple(LOADERS)
    seeds: int = SEEDS
    protocol: str = "fast"
    rows: int | None = None
    folder: Path | None = None
    methods: tuple[str, ...] | None = None

    def question(self, dataset: str, fairness: str, **changes: Any) -> Question:
        """Return what methods are asked on a data set, on its own interval."""
        stated = {"interval": OWN_INTERVALS[dataset], "seeds": range(self.seeds), "rows": self.rows}
        return Question(dataset, fairness, **{**stated, **changes})

    def method(self, name: str) -> Method:
        """Return who solves the problem of a method in this protocol."""
        return method_of(self.protocol, name)


class Target(ABC):
    """A figure or table.

    Attributes
    ----------
    name
        The paper's label.
    title
        What it shows.
    datasets
        On which it is in the paper.
    """

    name: str
    title: str
    datasets: Sequence[str] = DATASETS

    @abstractmethod
    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs that it needs."""

    @abstractmethod
    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return what it says, as rows of a table."""

    def of(self, scope: Scope) -> list[str]:
        """Return its data sets within a scope."""
        return [dataset for dataset in self.datasets if dataset in scope.datasets]


def comparable(protocol: str) -> list[Method]:
    """Return the methods of a protocol's frontiers, ours first, and what every frontier starts from."""
    return [
        method
        for method in METHODS.values()
        if method.in_frontiers and (method.protocol == protocol or method.name == _START)
    ]


def list_methods(scope: Scope) -> list[Method]:
    """Return those that are wanted and can be run here."""
    return [
        method
        for method in comparable(scope.protocol)
        if (scope.methods is None or method.name in (_START, *scope.methods)) and method.missing() is None
    ]


def write_mean(mean: Mean) -> str:
    """Return a mean with its standard error, if it has one."""
    return f"{mean.value:.4f}" if np.isnan(mean.error) else f"{mean.value:.4f} ± {mean.error:.4f}"


def yes_or_no(holds: bool) -> str:
    """Return what a table says of what holds or does not."""
    return "yes" if holds else "no"
