"""What ``train`` and ``path`` begin with: what is asked of models, and a table split and encoded."""

from __future__ import annotations

import hashlib
import logging
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from partialfair.cli._intervals import AUTO, AskedInterval, by_label, interval_record
from partialfair.cli._judging import Judging, merged_groups
from partialfair.cli._labels import positive_label
from partialfair.cli._models import Models, check_model, made_estimator
from partialfair.cli._split import CHOSEN_ON_ALL_ROWS, OUT_OF_FOLD, Everybody, HoldOut, split_rows
from partialfair.cli._tables import are_codes, check_groups, clusters_of, labels_of, read_table, weights_of
from partialfair.cli.output import step
from partialfair.constraints import Constraint
from partialfair.data.groups import Groups, encode_groups
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.held_out import explain_folds
from partialfair.exceptions import InputError
from partialfair.optimization.models.linear import GroupTerms
from partialfair.persistence import is_trusted
from partialfair.tables import (
    Column,
    GroupColumn,
    NumberColumn,
    TableModel,
    as_text,
    as_they_are,
    encode,
    read_columns,
    strangers,
)
from partialfair.training.named_constraints import NAMED_CONSTRAINTS, NO_CONSTRAINT, NamedConstraint
from partialfair.training.result import CHOSEN_IN_TRAINING
from partialfair.utils.checks import check_number
from partialfair.utils.typing import Floats, Ints, RankWithin

__all__ = ["ModelSettings", "Prepared", "Roles", "prepare"]

_FEWEST = 2
"""The estimators' own ``min_group_size``: fewer members cannot be held to anything."""

_PACKAGES = ("partialfair", "numpy", "scipy", "scikit-learn", "pandas", "numba", "piqp", "clarabel")
"""Whose versions a result depends on; of the solvers of quadratic programs one is enough."""

_logger = logging.getLogger("partialfair")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Judging):
    """What is asked of every model, and how it is judged."""

    constraint: str
    enforce: Literal["exact", "surrogate", "population"]
    group_terms: GroupTerms
    time_limit: float | None
    model: str = Models.linear.value

    @property
    def bounds(self) -> NamedConstraint | None:
        """What is known of the constraint; None of an ordinary model."""
        return NAMED_CONSTRAINTS.get(self.constraint)

    @property
    def metric(self) -> str:
        """The metric that the constraint bounds; of an ordinary model statistical parity."""
        return "statistical_parity" if self.bounds is None else self.bounds.metric

    @property
    def largest_gap(self) -> float:
        """The largest gap that may be allowed."""
        return Constraint.largest_gap if self.bounds is None else self.bounds.kind.largest_gap

    @property
    def is_at_threshold(self) -> bool:
        """Whether the constraint is about the shares above a threshold."""
        return self.bounds is not None and self.bounds.bounded.needs_threshold

    @property
    def once_merged(self) -> ModelSettings:
        """How prepared rows are judged: small groups that were to be merged are one group by then."""
        return replace(self, small_groups="list") if self.small_groups == "merge" else self

    @property
    def rank_within(self) -> RankWithin:
        """Where models are judged to take ranks: where the constraint takes them."""
        by_label = self.bounds is not None and self.bounds.bounded.needs_labels
        return "group_and_label" if by_label else "group"

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        super().check()
        check_model(self.model, self.group_terms)
        if self.constraint not in (*NAMED_CONSTRAINTS, NO_CONSTRAINT):
            known = ", ".join([*NAMED_CONSTRAINTS, NO_CONSTRAINT])
            raise InputError(f"--constraint must be one of {known}, not {self.constraint}")
        if self.interval == AUTO and self.constraint == NO_CONSTRAINT:
            raise InputError("--interval auto is chosen for a constraint, and --constraint none has none")
        if self.time_limit is not None:
            check_number(self.time_limit, "--time-limit", above=0.0)
        if self.group_terms is not None and self.missing_groups == "ignore":
            raise InputError("--group-terms needs the group of every row, so --missing-groups must be error")
        if self.group_terms is not None and self.small_groups == "merge":
            raise InputError(
                "--small-groups merge does not go with --group-terms: new rows have the groups of the table, "
                "not the merged one"
            )
        if self.constraint != NO_CONSTRAINT:
            self.classifier(self.constraint, self.interval)._read_constraints()

    def check_savable(self) -> None:
        """Refuse, before any fit, a constraint whose models could not be written."""
        if self.bounds is not None and not is_trusted(self.bounds.kind):
            raise InputError(
                f"--constraint {self.constraint} is a class of another package, which files of models do not "
                "hold; use it from Python"
            )

    def classifier(
        self, constraint: str | None, interval: AskedInterval, **settings: Any
    ) -> PartialFairEstimator:
        """Return a classifier to fit, with that constraint or none."""
        stated: dict[str, Any] = {}
        if constraint is not None:
            stated = {
                "interval": interval,
                "gap_scale": self.gap_scale,
                "enforce": self.enforce,
                "higher_is_better": self.higher_is_better,
                "min_group_size": _FEWEST if self.small_groups == "keep" else self.min_group_size,
                "missing_groups": self.missing_groups,
            }
        if self.model == Models.linear:
            stated |= {"group_terms": self.group_terms}
        stated |= {"time_limit": self.time_limit, **settings}
        return made_estimator(self.model, constraint, self.seed, **stated)

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; the positive label is told elsewhere, default or not."""
        told_elsewhere = ("pos_label", "interval_given")
        plain = {name: value for name, value in asdict(self).items() if name not in told_elsewhere}
        return {**plain, "interval": interval_record(self.interval)}


@dataclass(frozen=True)
class Roles:
    """What the columns of the table are for; those not named here are features."""

    target: str
    group: tuple[str, ...]
    weight: str | None
    ids: tuple[str, ...]
    drop: tuple[str, ...]
    categories: tuple[str, ...]
    clusters: str | None = None

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
            ("--clusters", () if self.clusters is None else (self.clusters,)),
        ]

    def check(self) -> None:
        """Refuse a column that is given to two options; an id may say which rows belong together."""
        for name in self.needed:
            uses = [use for use, names in self.uses if name in names]
            if len(uses) > 1 and uses != ["--id", "--clusters"]:
                raise InputError(f"column {name!r} is given to both {uses[0]} and {uses[1]}")

    def features(self, table: pd.DataFrame) -> list[str]:
        """Return the names of the columns that features are made of."""
        taken = {*self.needed} - {*self.categories}
        return [name for name in map(str, table.columns) if name not in taken]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, split and encoded.

    Attributes
    ----------
    path, digest
        The file, and the SHA-256 of its bytes; None of a pipe, which cannot be read again.
    roles, groups
        What the columns are for, and those that hold the group.
    interval
        The interval asked for, by labels of groups where it differs by group.
    labels
        The two values of the target; the second is the positive one.
    columns
        The columns that features are made of, as the training rows show them.
    parts
        Rows "training" and, if any, "held out"; or with folds "out of fold", which are the same.
    held_out
        Of the rows held out or in folds: their number in the file, from 1, and the columns that say who they
        are.
    hold_out
        How they were drawn.
    folds : (n,)
        The fold of every row; None without.
    notes
        What may surprise.
    """

    path: Path
    digest: str | None
    roles: Roles
    groups: tuple[GroupColumn, ...]
    interval: AskedInterval
    labels: tuple[str, str]
    columns: tuple[Column, ...]
    parts: dict[str, Samples]
    held_out: pd.DataFrame
    hold_out: HoldOut
    folds: Ints | None
    notes: tuple[str, ...]

    def model(self, classifier: PartialFairEstimator, satisfied: bool | None) -> TableModel:
        """Return a classifier with the preprocessing of the table."""
        roles = self.roles
        return TableModel(
            roles.target, self.labels, self.columns, self.groups, roles.ids, classifier, satisfied
        )

    def record(self) -> dict[str, Any]:
        """Return what was predicted from what, and how to do it again, as plain data for JSON."""
        return {
            "file": str(self.path),
            "file_sha256": self.digest,
            "versions": _versions(),
            "target": self.roles.target,
            "pos_label": self.labels[1],
            "group_columns": [group.name for group in self.groups],
            "rows": {name: part.n for name, part in self.parts.items()},
            "split": {
                "held_out_share": self.hold_out.share,
                "within": "each group's positives and negatives",
                "seed": self.hold_out.seed,
                "folds": self.hold_out.n_folds,
                "clusters": self._clusters_record,
            },
            "columns": [_column_record(column) for column in self.columns],
        }

    @property
    def _clusters_record(self) -> dict[str, Any] | None:
        """The column of the clusters and their number."""
        found = [part.clusters for part in self.parts.values() if part.clusters is not None]
        if not found:
            return None
        return {"column": self.roles.clusters, "n": len(np.unique(np.concatenate(found)))}

    def scored(self, scores: dict[str, Floats]) -> pd.DataFrame:
        """Return who was held out, with scores: what ``audit`` needs to check the numbers."""
        taken = {str(name) for name in self.held_out.columns}
        return self.held_out.assign(**{_free(name, taken): column for name, column in scores.items()})

    @property
    def headline(self) -> str:
        """What is predicted, from what."""
        n_features = self.parts["training"].X.shape[1]
        counts = ", ".join(f"{part.n:,} rows {name}" for name, part in self.parts.items())
        if self.hold_out.n_folds is not None:
            counts = f"{self.parts['training'].n:,} rows in {self.hold_out.n_folds} folds"
        if (together := self._clusters_record) is not None:
            counts += f", {together['n']:,} clusters of rows by {together['column']}"
        made = "" if n_features == len(self.columns) else f" ({n_features} features)"
        return f"{self.roles.target} = {self.labels[1]} from {len(self.columns)} columns{made}; {counts}"


def prepare(path: Path, roles: Roles, settings: ModelSettings, hold_out: HoldOut) -> Prepared:
    """Read a table, split its rows, and make features by what the training rows show."""
    roles.check()
    with step(f"reading {path.name}"):
        table, _ = read_table(path, roles.needed)
        group_columns = _group_columns(table, roles, path, settings)
        labels = _labels(labels_of(table[roles.target], path))
        positive = positive_label(labels, path, settings.pos_label)
        people = pd.DataFrame({column.name: column.labels(table[column.name]) for column in group_columns})
        weights = None if roles.weight is None else weights_of(table[roles.weight], people, path)
        clusters = None
        if roles.clusters is not None:
            clusters = np.asarray(pd.factorize(clusters_of(table[roles.clusters], path))[0])
    _logger.info("%s", positive.sentence(roles.target))
    is_positive = (labels == positive.value).to_numpy(dtype=bool)
    named = encode_groups(people, missing=settings.missing_groups)
    split = split_rows(named, is_positive, hold_out, clusters)
    folds = hold_out.fold_of_rows(named, is_positive, clusters)
    groups = _judged(named, weights, split["training"], settings)
    everybody = Everybody(groups, is_positive, weights, roles.weight, split, hold_out, clusters, folds)
    interval = AUTO if settings.interval == AUTO else by_label(settings.interval, groups)
    everybody.check(interval, settings.metric, settings, group_terms=settings.group_terms is not None)
    if settings.constraint != NO_CONSTRAINT:
        everybody.check_promise(settings.classifier(settings.constraint, interval))
    with step("reading columns"):
        columns, notes = read_columns(
            table, roles.features(table), split["training"], categories=roles.categories
        )
        judged = split["training"] if everybody.judged is None else split[everybody.judged]
        trees = settings.model != Models.linear
        notes += strangers(columns, table.iloc[judged], as_they_are=trees)
        numbered = settings.model == Models.xgboost
        X = as_they_are(columns, table, numbered_levels=numbered) if trees else encode(columns, table)
        rows = Samples(X, is_positive, groups, weights, clusters)
    return Prepared(
        path,
        _digest(path),
        roles,
        group_columns,
        interval,
        _texts(labels, is_positive),
        columns,
        _parts(rows, split),
        _who(table, roles, np.arange(0) if everybody.judged is None else judged, folds),
        hold_out,
        folds,
        (*_choices(settings, folds), *_missing_note(groups), *notes),
    )


def _parts(rows: Samples, split: dict[str, Ints]) -> dict[str, Samples]:
    """Return the rows of every part; those in folds are the training rows, and not another copy."""
    training = rows.take(split["training"])
    same = ("training", OUT_OF_FOLD)
    return {part: training if part in same else rows.take(numbers) for part, numbers in split.items()}


def _choices(settings: ModelSettings, folds: Ints | None) -> list[str]:
    """Say what out-of-fold figures mean, on which rows an interval is chosen, and where none was given.

    Without an interval everybody is meant, which asks for more than most people want.
    """
    said = [] if folds is None else [explain_folds(folds)]
    if settings.interval == AUTO:
        return [*said, CHOSEN_IN_TRAINING if folds is None else CHOSEN_ON_ALL_ROWS]
    if settings.interval_given or settings.constraint == NO_CONSTRAINT:
        return said
    return [
        *said,
        "no --interval was given, so the gap is bounded among everybody, ranks 0–100 %; --interval 0.05 0.30 "
        "asks it of the contested only, and --interval auto looks for them",
    ]


def _missing_note(groups: Groups) -> list[str]:
    """Say how many rows have no group, whom no promise is about."""
    n_missing = int((groups.codes < 0).sum())
    return [f"{n_missing:,} rows have no group: they count in the loss only"] if n_missing else []


def _texts(labels: pd.Series, is_positive: npt.NDArray[np.bool_]) -> tuple[str, str]:
    """Return the negative and the positive label as text."""
    text = as_text(labels)
    return str(text[~is_positive].iloc[0]), str(text[is_positive].iloc[0])


def _judged(groups: Groups, weights: Floats | None, training: Ints, settings: ModelSettings) -> Groups:
    """Return the group of every row; those small in the training rows are merged if that was asked for."""
    if settings.small_groups != "merge":
        return groups
    return merged_groups(groups, weights, training, settings)


def _who(table: pd.DataFrame, roles: Roles, rows: Ints, folds: Ints | None) -> pd.DataFrame:
    """Return each row's number in the file, from 1, its fold if any, and who it is, as written."""
    optional = [name for name in (roles.weight, roles.clusters) if name is not None]
    names = [*roles.ids, *dict.fromkeys(roles.group), roles.target, *optional]
    who = table[list(dict.fromkeys(names))].iloc[rows].reset_index(drop=True)
    who.insert(0, _free("row", set(map(str, who.columns))), rows + 1)
    if folds is not None:
        who.insert(1, _free("fold", set(map(str, who.columns))), folds[rows] + 1)
    return who


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no column has."""
    while name in taken:
        name += "_"
    return name


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _group_columns(
    table: pd.DataFrame, roles: Roles, path: Path, settings: ModelSettings
) -> tuple[GroupColumn, ...]:
    names = list(dict.fromkeys(roles.group))
    check_groups(table[names], path, settings.missing_groups)
    return tuple(GroupColumn(name, are_codes(as_text(table[name].dropna(), strip=False))) for name in names)


def _labels(column: pd.Series) -> pd.Series:
    """Return labels as numbers if they all are, so that 10 is larger than 9."""
    codes, different = pd.factorize(column)  # few, and reading every row as a number would hold up Ctrl-C
    numbers = pd.to_numeric(pd.Series(different).astype(str), errors="coerce").to_numpy()
    if np.isnan(numbers).any():
        return column
    return pd.Series(numbers[codes], index=column.index, name=column.name)


def _column_record(column: Column) -> dict[str, Any]:
    kind = "number" if isinstance(column, NumberColumn) else "categories"
    return {"kind": kind, **asdict(column)}


def _versions() -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
