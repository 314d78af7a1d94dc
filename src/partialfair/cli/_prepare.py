"""What ``train`` and ``path`` begin with: what is asked of models, and a table split and encoded."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from partialfair._checks import check_number
from partialfair._typing import Floats, GapScale, Ints
from partialfair.cli._audit import check_confidence, positive_label
from partialfair.cli._output import METRIC_TITLES, step
from partialfair.cli._tables import are_codes, check_groups, labels_of, read_table, weights_of
from partialfair.constraints import CONSTRAINTS
from partialfair.estimators import PartialFairClassifier
from partialfair.estimators._inputs import Features
from partialfair.estimators._promise import check_promises, promised
from partialfair.estimators._statement import read_constraints
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups, group_name
from partialfair.intervals import as_interval_set
from partialfair.models.linear import GroupTerms
from partialfair.tables import (
    Column,
    GroupColumn,
    NumberColumn,
    TableModel,
    as_text,
    encode,
    read_columns,
    strangers,
)

__all__ = ["NO_CONSTRAINT", "HoldOut", "ModelSettings", "Prepared", "Roles", "Rows", "prepare"]

NO_CONSTRAINT = "none"


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What is asked of every model, and how it is judged."""

    constraint: str
    interval: tuple[float, float]
    gap_scale: GapScale
    enforce: Literal["exact", "surrogate"]
    group_terms: GroupTerms
    time_limit: float | None
    pos_label: str | None
    confidence: float
    seed: int

    @property
    def metric(self) -> str:
        """The metric that the constraint bounds; of an ordinary model statistical parity."""
        return self.constraint if self.constraint in METRIC_TITLES else "statistical_parity"

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        as_interval_set(self.interval)
        if self.constraint not in (*CONSTRAINTS, NO_CONSTRAINT):
            known = ", ".join([*CONSTRAINTS, NO_CONSTRAINT])
            raise InputError(f"--constraint must be one of {known}, not {self.constraint}")
        if self.time_limit is not None:
            check_number(self.time_limit, "--time-limit", above=0.0)
        check_confidence(self.confidence)
        if self.constraint != NO_CONSTRAINT:
            read_constraints(self.classifier(self.constraint))

    def classifier(self, constraint: str | None, **settings: Any) -> PartialFairClassifier:
        """Return a classifier to fit, with that constraint or none."""
        stated: dict[str, Any] = {}
        if constraint is not None:
            stated = {"interval": self.interval, "gap_scale": self.gap_scale, "enforce": self.enforce}
        return PartialFairClassifier(
            constraint,
            group_terms=self.group_terms,
            time_limit=self.time_limit,
            random_state=self.seed,
            **stated,
            **settings,
        )

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; the positive label is told elsewhere, default or not."""
        return {name: value for name, value in asdict(self).items() if name != "pos_label"}


@dataclass(frozen=True)
class Roles:
    """What the columns of the table are for; those not named here are features."""

    target: str
    group: tuple[str, ...]
    weight: str | None
    ids: tuple[str, ...]
    drop: tuple[str, ...]
    categories: tuple[str, ...]

    @property
    def needed(self) -> list[str]:
        """All names."""
        return [name for _, names in self.uses for name in names]

    @property
    def uses(self) -> list[tuple[str, tuple[str, ...]]]:
        """The options, and the names given to them."""
        return [
            ("--target", (self.target,)),
            ("--group", self.group),
            ("--weight", () if self.weight is None else (self.weight,)),
            ("--id", self.ids),
            ("--drop", self.drop),
            ("--category", self.categories),
        ]

    def check(self) -> None:
        """Refuse a column that is given to two options."""
        for name in self.needed:
            uses = [use for use, names in self.uses if name in names]
            if len(uses) > 1:
                raise InputError(f"column {name!r} is given to both {uses[0]} and {uses[1]}")

    def features(self, table: pd.DataFrame) -> list[str]:
        """Return the names of the columns that features are made of."""
        taken = {*self.needed} - {*self.categories}
        return [name for name in map(str, table.columns) if name not in taken]


@dataclass(frozen=True)
class HoldOut:
    """Share of the rows to hold out, and the option that asks for it."""

    option: str
    share: float
    seed: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows of the table: features, labels, groups and weights."""

    X: Features
    positive: npt.NDArray[np.bool_]
    groups: pd.DataFrame
    weights: Floats | None

    def take(self, rows: Ints) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Rows(self.X[rows], self.positive[rows], self.groups.iloc[rows], weights)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, split and encoded.

    Attributes
    ----------
    roles, groups
        What the columns are for, and those that hold the group.
    labels
        The two values of the target; the second is the positive one.
    columns
        The columns that features are made of, as the training rows show them.
    parts
        Rows "training" and, if any, "held out".
    notes
        What may surprise.
    """

    roles: Roles
    groups: tuple[GroupColumn, ...]
    labels: tuple[str, str]
    columns: tuple[Column, ...]
    parts: dict[str, Rows]
    notes: tuple[str, ...]

    def model(self, classifier: PartialFairClassifier) -> TableModel:
        """Return a classifier with the preprocessing of the table."""
        roles = self.roles
        return TableModel(roles.target, self.labels, self.columns, self.groups, roles.ids, classifier)

    def record(self) -> dict[str, Any]:
        """Return what was predicted from what, as plain data for JSON."""
        return {
            "target": self.roles.target,
            "pos_label": self.labels[1],
            "group_columns": [group.name for group in self.groups],
            "rows": {name: len(part.positive) for name, part in self.parts.items()},
            "columns": [_column_record(column) for column in self.columns],
        }

    @property
    def headline(self) -> str:
        """What is predicted, from what."""
        n_features = sum(len(column.feature_names) for column in self.columns)
        counts = ", ".join(f"{len(part.positive):,} rows {name}" for name, part in self.parts.items())
        return (
            f"{self.roles.target} = {self.labels[1]} from {len(self.columns)} columns ({n_features} "
            f"features); {counts}"
        )


def prepare(path: Path, roles: Roles, settings: ModelSettings, hold_out: HoldOut) -> Prepared:
    """Read a table, split its rows, and make features by what the training rows show."""
    roles.check()
    with step(f"reading {path}"):
        table = read_table(path, roles.needed)
        groups = _group_columns(table, roles, path)
        labels = _labels(labels_of(table[roles.target], path))
        positive = positive_label(labels, path, settings.pos_label)
        people = pd.DataFrame({group.name: group.labels(table[group.name]) for group in groups})
        weights = None if roles.weight is None else weights_of(table[roles.weight], people, path)
    is_positive = (labels == positive).to_numpy(dtype=bool)
    text = as_text(labels)
    places = _split(people, is_positive, hold_out)
    counted = np.ones(len(people), dtype=bool) if weights is None else weights > 0
    training = places["training"][counted[places["training"]]]
    if len(np.unique(is_positive[training])) < 2:
        raise InputError(
            f"column {roles.weight!r} of {path} gives weight to one label only in the "
            f"{len(places['training'])} rows for training"
        )
    if "held out" in places:
        held_out = places["held out"]
        _check_members(people.iloc[held_out[counted[held_out]]], settings.interval, hold_out.option)
        if settings.group_terms is not None:
            _check_known(people.iloc[held_out], people.iloc[training], hold_out.option)
    _check_constraint(settings, people.iloc[training], is_positive[training])
    with step("reading columns"):
        names = roles.features(table)
        columns, notes = read_columns(table, names, places["training"], categories=roles.categories)
        notes += strangers(columns, table.iloc[places.get("held out", places["training"])])
        everybody = Rows(encode(columns, table), is_positive, people, weights)
    return Prepared(
        roles,
        groups,
        (str(text[~is_positive].iloc[0]), str(text[is_positive].iloc[0])),
        columns,
        {name: everybody.take(rows) for name, rows in places.items()},
        tuple(notes),
    )


def _group_columns(table: pd.DataFrame, roles: Roles, path: Path) -> tuple[GroupColumn, ...]:
    names = list(dict.fromkeys(roles.group))
    check_groups(table[names], path)
    return tuple(GroupColumn(name, are_codes(as_text(table[name], strip=False))) for name in names)


def _labels(column: pd.Series) -> pd.Series:
    """Return labels as numbers if they all are, so that 10 is larger than 9."""
    numbers = pd.to_numeric(column.astype(str), errors="coerce")
    return column if numbers.isna().any() else numbers


def _split(people: pd.DataFrame, positive: npt.NDArray[np.bool_], hold_out: HoldOut) -> dict[str, Ints]:
    """Hold out the same share of every group's positives and negatives."""
    if hold_out.share == 0:
        return {"training": np.arange(len(people))}
    strata = encode_groups(people.assign(**{"": positive})).codes
    shuffled = np.random.default_rng(hold_out.seed).permutation(len(people))
    held_out = np.zeros(len(people), dtype=bool)
    for code in np.unique(strata):
        members = shuffled[strata[shuffled] == code]
        held_out[members[: round(hold_out.share * members.size)]] = True
    for part, rows in {"held out": held_out, "for training": ~held_out}.items():
        n_groups, n_labels = len(people[rows].drop_duplicates()), len(np.unique(positive[rows]))
        if n_groups < 2 or n_labels < 2:
            lacking = "groups" if n_groups < 2 else "labels"
            raise InputError(
                f"{hold_out.option} {hold_out.share:g} leaves fewer than two {lacking} in the "
                f"{int(rows.sum())} rows {part}; change it"
            )
    return {"training": np.flatnonzero(~held_out), "held out": np.flatnonzero(held_out)}


def _check_constraint(settings: ModelSettings, people: pd.DataFrame, positive: npt.NDArray[np.bool_]) -> None:
    """Refuse, before any fit, rows for training that the constraint cannot be tied to."""
    if settings.constraint == NO_CONSTRAINT:
        return
    classifier, groups = settings.classifier(settings.constraint), encode_groups(people)
    check_promises(
        [
            promised(stated, groups, np.ones(len(people)), positive, classifier.min_group_size)
            for stated in read_constraints(classifier)
        ]
    )


def _check_known(people: pd.DataFrame, training: pd.DataFrame, option: str) -> None:
    """Refuse groups that a model with a term for each group could not score."""
    known = encode_groups(training).labels
    for label in encode_groups(people).labels:
        if label not in known:
            raise InputError(
                f"no row of group {group_name(label)!r} is left for training, and --group-terms needs some; "
                f"lower {option}"
            )


def _check_members(people: pd.DataFrame, interval: tuple[float, float], option: str) -> None:
    """Refuse, before any fit, rows held out on which no gap could be measured."""
    groups, wanted = encode_groups(people), as_interval_set(interval)
    if len(groups.labels) < 2:
        raise InputError(f"fewer than two groups have weight in the rows held out; raise {option}")
    counts = np.bincount(groups.codes)
    fewest = int(np.argmin(counts))
    if counts[fewest] * wanted.measure < 1 - 1e-9:
        raise InputError(
            f"the interval of {wanted} holds no one of the {counts[fewest]} members of group "
            f"{groups.names[fewest]!r} in the rows held out; widen --interval, or raise {option}"
        )


def _column_record(column: Column) -> dict[str, Any]:
    kind = "number" if isinstance(column, NumberColumn) else "categories"
    return {"kind": kind, **asdict(column)}
