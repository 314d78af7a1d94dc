"""The first steps of ``train`` and ``path``: a table is read, split into parts, checked and encoded.

Rows are stored as `Samples`. Groups are encoded once, before the split.
"""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from partialfair.cli.columns import (
    are_codes,
    check_group_columns,
    encode_table_groups,
    find_positive_label,
    read_clusters,
    read_labels,
    read_table,
    read_weights,
)
from partialfair.cli.intervals import (
    ANYWHERE,
    AUTO,
    RequestedInterval,
    by_label,
    interval_among,
    interval_record,
)
from partialfair.cli.options import Models
from partialfair.cli.output import step
from partialfair.cli.screening import note_answers, note_protected_columns
from partialfair.cli.settings import MAX_GROUPS, TableFitSettings
from partialfair.constraints.base import Constraint, effective_sizes
from partialfair.data.groups import Groups, enough
from partialfair.data.intervals import intervals_by_group
from partialfair.data.samples import Samples, draw_folds, draw_rows
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.held_out import explain_folds
from partialfair.exceptions import InputError
from partialfair.metrics.evaluation import MERGED, check_comparable
from partialfair.optimization.problems import Cells
from partialfair.tables import (
    Column,
    GroupColumn,
    NumberColumn,
    TableModel,
    as_text,
    encode,
    read_columns,
    tree_features,
    unseen_levels,
)
from partialfair.training.result import CHOSEN_IN_TRAINING
from partialfair.training.statement import check_groups, group_constraints
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats, IntervalLike, Ints

TRAINING, HELD_OUT = "training", "held out"
OUT_OF_FOLD: Literal["out of fold"] = "out of fold"
"""Parts of the rows; the last one, which ``--cv`` evaluates, contains all rows."""

_CHOSEN_ON_ALL_ROWS = (
    "the interval was chosen for its large gap on all rows, including those on which models are evaluated: "
    "the gap of the unconstrained model is slightly overestimated there"
)
"""The note on gaps out of fold with ``--interval auto``."""

_PACKAGES = ("partialfair", "numpy", "scipy", "scikit-learn", "pandas", "numba", "piqp", "clarabel")
"""Packages whose versions affect results; one solver of quadratic programs is enough."""

_logger = logging.getLogger("partialfair")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table, split and encoded.

    Attributes
    ----------
    path, digest
        The file, and the SHA-256 of its bytes; None of a pipe, which cannot be read again.
    settings, group_columns
        What was requested, and the columns that hold the group.
    interval
        The requested interval, keyed by labels of groups if it differs by group.
    labels
        The two values of the target; the second is the positive one.
    columns
        The columns of the features, with statistics of the training rows.
    parts
        Rows "training" and, if any, "held out"; with folds "out of fold", which are the same rows.
    unseen
        Row numbers in the file, from 1, and identifying columns of the rows held out or in folds.
    folds : (n,)
        The fold of every row; None without folds.
    constraint
        The constraint, or for an unconstrained model the one whose metric evaluates it.
    merged
        Names of the small groups that were merged.
    notes
        Warnings and remarks.
    """

    path: Path
    digest: str | None
    settings: TableFitSettings
    group_columns: tuple[GroupColumn, ...]
    interval: RequestedInterval
    labels: tuple[str, str]
    columns: tuple[Column, ...]
    parts: dict[str, Samples]
    unseen: pd.DataFrame
    folds: Ints | None
    constraint: Constraint
    merged: tuple[str, ...]
    notes: tuple[str, ...]

    def model(self, classifier: PartialFairEstimator, satisfied: bool | None) -> TableModel:
        """Return a classifier with the preprocessing of the table."""
        target, ids = self.settings.target, self.settings.ids
        return TableModel(target, self.labels, self.columns, self.group_columns, ids, classifier, satisfied)

    def record(self, interval: IntervalLike, excluded: list[str]) -> dict[str, Any]:
        """Return target, features, split, settings and versions as plain data for JSON."""
        versions = {"python": platform.python_version()}
        for name in _PACKAGES:
            with suppress(PackageNotFoundError):
                versions[name] = version(name)
        return {
            "file": str(self.path),
            "file_sha256": self.digest,
            "versions": versions,
            "target": self.settings.target,
            "pos_label": self.labels[1],
            "group_columns": [group.name for group in self.group_columns],
            "rows": {name: part.n for name, part in self.parts.items()},
            "split": {
                "test_size": self.settings.share,
                "within": "each group's positives and negatives",
                "seed": self.settings.seed,
                "folds": self.settings.cv,
                "clusters": self._clusters_record,
            },
            "columns": [
                {"kind": "number" if isinstance(column, NumberColumn) else "categories", **asdict(column)}
                for column in self.columns
            ],
            "settings": self.settings.record(),
            "interval": interval_record(interval),
            "excluded_groups": excluded,
            "merged_groups": list(self.merged),
        }

    @property
    def _clusters_record(self) -> dict[str, Any] | None:
        """The column of the clusters and their number."""
        numbers = [part.clusters for part in self.parts.values() if part.clusters is not None]
        if not numbers:
            return None
        return {"column": self.settings.clusters, "n": len(np.unique(np.concatenate(numbers)))}

    def scored(self, scores: dict[str, Floats]) -> pd.DataFrame:
        """Return the rows that were not trained on, with scores; ``audit`` can read them."""
        taken = {str(name) for name in self.unseen.columns}
        return self.unseen.assign(**{_free_name(name, taken): column for name, column in scores.items()})

    def headline(self, purpose: str, interval: IntervalLike, excluded: list[str]) -> str:
        """Describe the target, the rows, the purpose, the interval and the excluded groups."""
        settings = self.settings
        n_features = self.parts[TRAINING].X.shape[1]
        counts = ", ".join(f"{part.n:,} rows {name}" for name, part in self.parts.items())
        if settings.cv is not None:
            counts = f"{self.parts[TRAINING].n:,} rows in {settings.cv} folds"
        if (clusters := self._clusters_record) is not None:
            counts += f", {clusters['n']:,} clusters of rows by {clusters['column']}"
        made = "" if n_features == len(self.columns) else f" ({n_features} features)"
        what = f"{settings.target} = {self.labels[1]} from {len(self.columns)} columns{made}; {counts}"
        chosen = ", chosen by the scores" if settings.interval == AUTO else ""
        outside = f"; excluded from the constraint: {listed(excluded)}" if excluded else ""
        where = f"{settings.words(interval)}{chosen}, on the {settings.gap_scale} scale{outside}"
        return f"{what}; {purpose} at {where}"


def prepare(settings: TableFitSettings, estimator: PartialFairEstimator) -> Prepared:
    """Read a table, split its rows, and encode features by the statistics of the training rows.

    The estimator gets the interval by labels of groups. Tables that cannot be trained on raise an error here.
    """
    path = settings.file
    # Invalid constraints raise an error before any file is opened.
    (constraint,) = estimator._read_constraints()
    # Columns that options name; all others are features.
    used = _used_columns(settings)
    with step(f"reading {path.name}"):
        table, _ = read_table(path, used)
        names = list(dict.fromkeys(settings.group))
        check_group_columns(table[names], path, settings.missing_groups)
        group_columns = tuple(
            GroupColumn(name, are_codes(as_text(table[name].dropna(), strip=False))) for name in names
        )
        labels = _as_numbers(read_labels(table[settings.target], path))
        positive = find_positive_label(labels, path, settings.pos_label)
        # Groups are texts, so that they are equal in all file formats.
        group_table = pd.DataFrame(
            {column.name: column.labels(table[column.name]) for column in group_columns}
        )
        groups = encode_table_groups(group_table, path, settings.missing_groups, max_groups=MAX_GROUPS)
        weights = None if settings.weight is None else read_weights(table[settings.weight], group_table, path)
        clusters = None
        if settings.clusters is not None:
            # Splits and bootstraps need numbers.
            clusters = np.asarray(pd.factorize(read_clusters(table[settings.clusters], path))[0])
    # Logged before any work: a wrong positive label reverses all results.
    _logger.info("%s", positive.sentence(settings.target))
    is_positive = (labels == positive.value).to_numpy(dtype=bool)
    # Features come last: their encoding depends on the training rows.
    rows = Samples(np.empty((len(table), 0)), is_positive, groups, weights, clusters)
    # The split precedes the merge of small groups: its strata are the groups of the table.
    split, folds = _split(rows, settings)
    merged: tuple[str, ...] = ()
    if settings.small_groups == "merge":
        large, merged = _merge_small_groups(rows, split[TRAINING], settings)
        rows = replace(rows, groups=large)
    interval = AUTO if settings.interval == AUTO else by_label(settings.interval, rows.groups)
    estimator.set_params(interval=interval)
    if interval != AUTO:
        constraint = replace(constraint, interval=interval)
    _check_parts(rows, split, folds, interval, settings, (constraint,) if settings.is_constrained else ())
    with step("reading columns"):
        features = [name for name in map(str, table.columns) if name not in {*used} - {*settings.categories}]
        columns, notes = read_columns(table, features, split[TRAINING], categories=settings.categories)
        notes += note_protected_columns(columns)
        notes += note_answers(columns, table, is_positive, settings.target, *_screening_rows(split, folds))
        # Without held-out rows this is empty.
        unseen = next((numbers for part, numbers in split.items() if part != TRAINING), np.arange(0))
        trees = settings.model != Models.linear
        # Levels that training did not contain, on held-out rows or else on the training rows.
        notes += unseen_levels(
            columns, table.iloc[unseen if len(split) > 1 else split[TRAINING]], for_trees=trees
        )
        if trees:
            numbered = settings.model == Models.xgboost
            rows = rows.with_features(tree_features(columns, table, numbered_levels=numbered))
        else:
            rows = rows.with_features(encode(columns, table))
    training = rows.take(split[TRAINING])
    # Rows in folds share the memory of the training rows.
    parts = {
        part: training if part in (TRAINING, OUT_OF_FOLD) else rows.take(numbers)
        for part, numbers in split.items()
    }
    n_missing = int((rows.groups.codes < 0).sum())
    missing = [f"{n_missing:,} rows have no group: they count in the loss only"] if n_missing else []
    doubts = positive.doubts(settings.target, lower_is_better=settings.lower_is_better)
    # Labels as predictions will write them.
    text = as_text(labels)
    return Prepared(
        path,
        _digest(path),
        settings,
        group_columns,
        interval,
        (str(text[~is_positive].iloc[0]), str(text[is_positive].iloc[0])),
        columns,
        parts,
        _identify_rows(table, settings, unseen, folds),
        folds,
        constraint,
        merged,
        (*doubts, *_choices(settings, folds), *_name_merged(merged), *missing, *notes),
    )


def _used_columns(settings: TableFitSettings) -> list[str]:
    """Return the columns of all options; only --id and --clusters may name the same column."""
    uses: dict[str, tuple[str | None, ...]] = {
        "--target": (settings.target,),
        "--group": tuple(settings.group),
        "--weight": (settings.weight,),
        "--id": settings.ids,
        "--drop": settings.drop,
        "--category": settings.categories,
        "--clusters": (settings.clusters,),
    }
    used = [name for names in uses.values() for name in names if name is not None]
    for name in used:
        flags = [flag for flag, names in uses.items() if name in names]
        if len(flags) > 1 and flags != ["--id", "--clusters"]:
            raise InputError(f"column {name!r} is given to both {flags[0]} and {flags[1]}")
    return used


def _as_numbers(column: pd.Series) -> pd.Series:
    """Return labels as numbers if all of them are numbers, so that 10 is larger than 9."""
    codes, different = pd.factorize(column)  # converting every row would delay Ctrl-C
    numbers = pd.to_numeric(pd.Series(different).astype(str), errors="coerce").to_numpy()
    if np.isnan(numbers).any():
        return column
    return pd.Series(numbers[codes], index=column.index, name=column.name)


def _split(rows: Samples, settings: TableFitSettings) -> tuple[dict[str, Ints], Ints | None]:
    """Return the rows of every part, and the fold of each row; strata are combinations of group and label."""
    every = np.arange(rows.n)
    if settings.cv is not None:
        folds = draw_folds(rows.strata, settings.cv, settings.seed, rows.clusters)
        return {TRAINING: every, OUT_OF_FOLD: every}, folds
    if settings.share == 0:
        return {TRAINING: every}, None
    held_out = draw_rows(rows.strata, settings.share, settings.seed, rows.clusters)
    return {TRAINING: np.flatnonzero(~held_out), HELD_OUT: np.flatnonzero(held_out)}, None


def _screening_rows(split: dict[str, Ints], folds: Ints | None) -> tuple[Ints, Ints]:
    """Return rows for rates and rows for the AUC: held-out rows, a fold, or every other row."""
    if HELD_OUT in split:
        return split[TRAINING], split[HELD_OUT]
    rows = split[TRAINING]
    held_out = rows % 2 == 0 if folds is None else folds == 0
    return rows[~held_out], rows[held_out]


def _name_merged(merged: Sequence[str]) -> list[str]:
    """Return a note on the groups that were merged."""
    if not merged:
        return []
    return [f"small groups were merged into {MERGED!r}: {listed([*map(repr, merged)], most=8)}"]


def _merge_small_groups(
    rows: Samples, training: Ints, settings: TableFitSettings
) -> tuple[Groups, tuple[str, ...]]:
    """Merge the groups that are small in the training rows; return all groups and the merged names."""
    groups = rows.groups
    interval = ANYWHERE if isinstance(settings.interval, str) else settings.interval
    weights = np.ones(training.size) if rows.weights is None else rows.weights[training]
    sizes = effective_sizes(Groups(groups.codes[training], groups.labels), weights)
    small = np.array(
        [
            not enough(size * part.measure, settings.min_group_size)
            for size, part in zip(sizes, intervals_by_group(interval, groups.labels), strict=True)
        ]
    )
    if not small.any():
        return groups, ()
    # The other groups keep their labels; rows of small groups get the last code.
    large = [label for label, is_small in zip(groups.labels, small, strict=True) if not is_small]
    if MERGED in large:
        raise InputError(
            f"--small-groups merge makes a group {MERGED!r}, but the data have a group of that name"
        )
    names = tuple(name for name, is_small in zip(groups.names, small, strict=True) if is_small)
    return groups.regroup(np.where(small, len(large), np.cumsum(~small) - 1), (*large, MERGED)), names


def _check_parts(
    rows: Samples,
    split: dict[str, Ints],
    folds: Ints | None,
    interval: RequestedInterval,
    settings: TableFitSettings,
    constraints: Sequence[Constraint],
) -> None:
    """Raise an error, before any fit, for parts that cannot be trained on or evaluated."""
    for part, numbers in split.items():
        # Rows with weight 0 are ignored.
        counted = rows.take(numbers).with_weight()
        # Every part needs two groups and two labels.
        if (lacking := _lacking(counted)) is None:
            continue
        where = f"{numbers.size:,} rows {'for training' if part == TRAINING else part}"
        if counted.n < numbers.size:
            raise InputError(
                f"column {settings.weight!r} gives weight to fewer than two {lacking} in the {where}"
            )
        option = f"{settings.share_flag} {settings.share:g}" if folds is None else f"--cv {settings.cv}"
        raise InputError(f"{option} leaves fewer than two {lacking} in the {where}; change it")
    # One entry for the saved model, and one for each fold.
    fits = list(_training_rows(rows.take(split[TRAINING]), folds))
    for others in fits[1:]:
        if (lacking := _lacking(others)) is not None:
            raise InputError(
                f"--cv {settings.cv} leaves fewer than two {lacking} to train on without some fold; hold "
                "rows out instead"
            )
    unseen_part = next((part for part in split if part != TRAINING), None)
    if unseen_part is not None:
        _check_evaluation(rows.take(split[unseen_part]).with_weight(), unseen_part, interval, settings)
        if settings.group_terms is not None:
            _check_known_groups(rows.take(split[unseen_part]).groups, fits, settings)
    # Sizes depend on the width of an interval only, so that any position represents "auto".
    placed = [replace(stated, interval=ANYWHERE if interval == AUTO else interval) for stated in constraints]
    for train in fits if constraints else ():
        weights = np.ones(train.n) if train.weights is None else train.weights
        # Each row is one cell, see `partialfair.optimization.problems`.
        cells = Cells(weights, train.groups.codes, train.y)
        check_groups(group_constraints(placed, train.groups, cells, settings.constrained_size))


def _training_rows(training: Samples, folds: Ints | None) -> Iterator[Samples]:
    """Yield the rows with positive weight of each fit: all of them, then those outside of each fold."""
    yield training.with_weight()
    for fold in [] if folds is None else np.unique(folds):
        yield training.take(np.flatnonzero(folds != fold)).with_weight()


def _lacking(rows: Samples) -> str | None:
    """Return "groups" or "labels" if the rows have fewer than two of them, else None."""
    if len(rows.groups.labels) < 2:
        return "groups"
    return "labels" if len(np.unique(rows.y)) < 2 else None


def _check_evaluation(
    rows: Samples, part: str, interval: RequestedInterval, settings: TableFitSettings
) -> None:
    """Raise an error if fewer than two groups of the held-out rows can be evaluated."""
    if settings.small_groups == "keep":
        return
    try:
        check_comparable(
            rows.groups,
            ANYWHERE if interval == AUTO else interval_among(interval, rows.groups),
            metric=settings.metric,
            positive=rows.y,
            sample_weight=rows.weights,
            clusters=rows.clusters,
            min_group_size=settings.min_group_size,
            missing_groups=settings.missing_groups,
        )
    except InputError as error:
        more = f"; or raise {settings.share_flag}" if settings.cv is None else ""
        raise InputError(f"of the {rows.n:,} rows {part}: {error}{more}") from error


def _check_known_groups(groups: Groups, fits: list[Samples], settings: TableFitSettings) -> None:
    """Raise an error for groups that a model with group terms could not score."""
    for train in fits:
        known = train.groups.labels
        for label, name in zip(groups.labels, groups.names, strict=True):
            if label not in known:
                fewer = f"lower {settings.share_flag}" if settings.cv is None else "leave --cv out"
                raise InputError(
                    f"no row of group {name!r} is left for training, and --group-terms needs some; {fewer}"
                )


def _choices(settings: TableFitSettings, folds: Ints | None) -> list[str]:
    """Return notes on out-of-fold figures, and on the rows on which an interval was chosen."""
    notes = [] if folds is None else [explain_folds(folds)]
    if settings.interval == AUTO:
        notes.append(CHOSEN_IN_TRAINING if folds is None else _CHOSEN_ON_ALL_ROWS)
    return notes


def _identify_rows(
    table: pd.DataFrame, settings: TableFitSettings, rows: Ints, folds: Ints | None
) -> pd.DataFrame:
    """Return each row's number in the file, from 1, its fold if any, and the columns that identify it."""
    optional = [name for name in (settings.weight, settings.clusters) if name is not None]
    # Each column once: --id and --clusters may name the same column.
    names = dict.fromkeys([*settings.ids, *settings.group, settings.target, *optional])
    frame = table[list(names)].iloc[rows].reset_index(drop=True)
    frame.insert(0, _free_name("row", set(map(str, frame.columns))), rows + 1)
    if folds is not None:
        frame.insert(1, _free_name("fold", set(map(str, frame.columns))), folds[rows] + 1)
    return frame


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that no column has."""
    while name in taken:
        name += "_"
    return name


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
