"""Data sets on which small changes of order, names or rounding decided how exact fits ended.

They resemble two real problems on which fits failed: a few thousand rows with small integers and four groups,
and several thousand rows of one-hot columns with two groups. Few features both separate the groups and
predict the target, so feasible models are far from the unconstrained one, with many critical points between.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _real import read_adult

_ACS_FEATURES = ("AGEP", "COW", "SCHL", "MAR", "RELP", "WKHP", "SEX", "OCCP", "POBP")
_ACS_GROUPS = {"white": 1200, "black": 800, "asian": 500, "other": 300}
"""Numbers of rows by group; RAC1P has nine values, of which six are rare."""
_ADULT_FEATURES = ("workclass", "education", "marital-status", "occupation", "relationship")
_ONE_HOT_LEVELS = (8, 7, 6, 5, 4, 4, 3)
"""Number of values of each categorical feature."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A data set and the constraint of its fits, which are exact and use defaults otherwise.

    Attributes
    ----------
    X, y, groups : array
        Features, labels (0 or 1), and group names.
    interval : tuple of float
        Constrained ranks (statistical parity).
    max_gap : float
        Limit of the gap.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    groups: Any = field(repr=False)
    interval: tuple[float, float]
    max_gap: float

    def permute(self, seed: int) -> Problem:
        """Return the problem with rows, columns and group names in random order."""
        rng = np.random.default_rng(seed)
        rows, columns = rng.permutation(len(self.y)), rng.permutation(self.X.shape[1])
        labels = np.unique(self.groups)
        names = dict(zip(labels, rng.permutation([f"group {k}" for k in range(len(labels))]), strict=True))
        groups = np.array([names[label] for label in self.groups[rows]])
        return replace(self, X=self.X[rows][:, columns], y=self.y[rows], groups=groups)

    def perturb(self, seed: int, size: float = 1e-9) -> Problem:
        """Return the problem with features multiplied by random factors next to 1."""
        factors = 1 + size * np.random.default_rng(seed).uniform(-1, 1, size=self.X.shape)
        return replace(self, X=self.X * factors)

    def head(self, n: int | None) -> Problem:
        """Return the problem with its first n rows."""
        return replace(self, X=self.X[:n], y=self.y[:n], groups=self.groups[:n])


def draw_acs(path: Path | None, n_features: int, max_gap: float, seed: int = 0) -> Problem:
    """Return a stratified sample of ACS income: numbers, most of them small integers, and four groups."""
    directory = path or Path(os.environ["PARTIALFAIR_DATA"])
    names = list(_ACS_FEATURES[:n_features])
    file = directory / "acs_income" / "acs_income_2018_us.parquet"
    table = pd.read_parquet(file, columns=[*names, "RAC1P", "label"])
    table["race"] = table.pop("RAC1P").map({1: "white", 2: "black", 6: "asian"}).fillna("other")
    parts = [table[table["race"] == race].sample(n, random_state=seed) for race, n in _ACS_GROUPS.items()]
    table = pd.concat(parts).sample(frac=1.0, random_state=seed)
    X: Any = table[names].to_numpy(dtype=float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y, groups = table["label"].to_numpy(dtype=int), table["race"].to_numpy(dtype=str)
    return Problem(X, y, groups, (0.3, 0.7), max_gap)


def draw_adult(path: Path | None, seed: int, n: int = 9000) -> Problem:
    """Return a sample of Adult: one-hot columns of five categorical features, women and men."""
    table = read_adult(path).sample(n, random_state=seed)
    X = pd.get_dummies(table[list(_ADULT_FEATURES)]).to_numpy(dtype=float)
    y = (table["income"] == ">50K").to_numpy(dtype=int)
    return Problem(X, y, table["sex"].to_numpy(dtype=str), (0.3, 0.6), 0.05)


def draw_integers(seed: int, n: int = 1500) -> Problem:
    """Return small integers whose differences between four groups conflict with the target."""
    rng = np.random.default_rng([14, seed])
    groups = rng.choice(4, size=n, p=[0.45, 0.3, 0.15, 0.1])
    levels = np.array([12, 5, 4, 3, 3, 2, 2, 9])
    shift = 0.5 * rng.normal(size=(4, 8))
    X = np.clip(np.round((rng.normal(size=(n, 8)) + shift[groups] + 1.5) * levels / 4), 0, levels)
    truth = X / levels @ rng.normal(1.0, 0.6, size=8)
    truth = (truth - truth.mean()) / truth.std()
    y = (1.2 * truth + rng.logistic(size=n) > 0.2).astype(int)
    return Problem(X, y, np.array(list("ABCD"))[groups], (0.3, 0.7), 0.1)


def draw_one_hot(seed: int, n: int = 9000) -> Problem:
    """Return one-hot columns of seven categorical features, whose values differ between two groups."""
    rng = np.random.default_rng([1402, seed])
    groups = (rng.random(n) < 0.45).astype(int)
    blocks, truth = [], np.zeros(n)
    for n_levels in _ONE_HOT_LEVELS:
        base, shift = 0.7 * rng.normal(size=n_levels), 0.9 * rng.normal(size=n_levels)
        values = (base + np.outer(groups, shift) + rng.gumbel(size=(n, n_levels))).argmax(axis=1)
        truth += (0.8 * rng.normal(size=n_levels) + 0.5 * shift)[values]
        blocks.append(np.eye(n_levels)[values])
    truth -= np.quantile(truth, 0.6)
    y = (1.2 * truth + rng.logistic(size=n) > 0).astype(int)
    X = np.concatenate(blocks, axis=1)
    return Problem(X, y, np.array(["F", "M"])[groups], (0.3, 0.6), 0.05)


PROBLEMS: dict[str, Callable[[Path | None], Problem]] = {
    "ACS income, six features, limit 0.1": lambda path: draw_acs(path, 6, 0.1),
    "ACS income, six features, limit 0.125": lambda path: draw_acs(path, 6, 0.125),
    "integers 1": lambda path: draw_integers(1),
    "one-hot 1": lambda path: draw_one_hot(1),
    "Adult, one-hot": lambda path: draw_adult(path, 1),
    "ACS income, nine features": lambda path: draw_acs(path, 9, 0.1),
    "integers 3": lambda path: draw_integers(3),
    "one-hot 4": lambda path: draw_one_hot(4),
}
"""On each of them fits failed before searches escalated: no feasible model, or results depended on order."""
