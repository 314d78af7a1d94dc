"""Defines targets: figures and tables of the paper, with their runs and numbers.

A target does not draw: `partialfair_paper.plots` draws from `Target.rows` and the store.
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
"""The method at which every frontier starts."""


@dataclass(frozen=True)
class Scope:
    """The part of a target that is run.

    Attributes
    ----------
    datasets
        Requested data sets.
    seeds
        Number of splits.
    protocol
        ``"fast"`` or ``"paper"``.
    rows
        Number of training rows; None for all.
    folder
        Directory of data files; None as in `partialfair.datasets`.
    methods
        Requested methods of frontiers; None for all. The unconstrained model is always included.
    """

    datasets: tuple[str, ...] = tuple(LOADERS)
    seeds: int = SEEDS
    protocol: str = "fast"
    rows: int | None = None
    folder: Path | None = None
    methods: tuple[str, ...] | None = None

    def question(self, dataset: str, fairness: str, **changes: Any) -> Question:
        """Return the setting of a comparison on a data set, by default on the paper's interval."""
        stated = {"interval": OWN_INTERVALS[dataset], "seeds": range(self.seeds), "rows": self.rows}
        return Question(dataset, fairness, **{**stated, **changes})

    def method(self, name: str) -> Method:
        """Return the method that solves the problem of ``name`` in this protocol."""
        return method_of(self.protocol, name)


class Target(ABC):
    """A figure or table.

    Attributes
    ----------
    name
        Label in the paper.
    title
        Title of the figure or table.
    datasets
        Data sets of the figure or table in the paper.
    """

    name: str
    title: str
    datasets: Sequence[str] = DATASETS

    @abstractmethod
    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of the target."""

    @abstractmethod
    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the numbers of the target, as rows of a table."""

    def of(self, scope: Scope) -> list[str]:
        """Return the data sets of the target within a scope."""
        return [dataset for dataset in self.datasets if dataset in scope.datasets]


def comparable(protocol: str) -> list[Method]:
    """Return the unconstrained model and the methods of a protocol's frontiers, the paper's method first."""
    return [
        method
        for method in METHODS.values()
        if method.in_frontiers and (method.protocol == protocol or method.name == _START)
    ]


def list_methods(scope: Scope) -> list[Method]:
    """Return the requested methods that can be run here."""
    return [
        method
        for method in comparable(scope.protocol)
        if (scope.methods is None or method.name in (_START, *scope.methods)) and method.missing() is None
    ]


def write_mean(mean: Mean) -> str:
    """Return a mean with its standard error, if there is one."""
    return f"{mean.value:.4f}" if np.isnan(mean.error) else f"{mean.value:.4f} ± {mean.error:.4f}"


def yes_or_no(holds: bool) -> str:
    """Return "yes" or "no"."""
    return "yes" if holds else "no"
