"""``partialfair train``: from a table to a model with its preprocessing, judged on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair._checks import check_number
from partialfair._typing import Ints
from partialfair.cli._audit import Gate, positive_label
from partialfair.cli._output import METRIC_TITLES, step
from partialfair.cli._tables import are_codes, check_groups, complete, read_table, weights_of
from partialfair.cli._trained import NO_CONSTRAINT, Judged, Rows, Training, TrainSettings
from partialfair.constraints import CONSTRAINTS
from partialfair.estimators import PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.intervals import as_interval_set
from partialfair.metrics import fairness_report
from partialfair.solvers import Record
from partialfair.tables import GroupColumn, TableModel, as_text, encode, read_columns, strangers

__all__ = ["Roles", "check_settings", "train"]


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
        weight = [] if self.weight is None else [self.weight]
        return [self.target, *self.group, *weight, *self.ids, *self.drop, *self.categories]

    def features(self, table: pd.DataFrame) -> list[str]:
        """Return the names of the columns that features are made of."""
        taken = {*self.needed} - {*self.categories}
        return [name for name in map(str, table.columns) if name not in taken]


def check_settings(settings: TrainSettings, gate: Gate | None) -> None:
    """Refuse settings that cannot be right, before any file is read."""
    as_interval_set(settings.interval)
    if settings.constraint not in (*CONSTRAINTS, NO_CONSTRAINT):
        known = ", ".join([*CONSTRAINTS, NO_CONSTRAINT])
        raise InputError(f"--constraint must be one of {known}, not {settings.constraint}")
    check_number(settings.max_gap, "--max-gap", low=0.0, high=1.0)
    check_number(settings.alpha, "--alpha", low=0.0)
    if settings.time_limit is not None:
        check_number(settings.time_limit, "--time-limit", above=0.0)
    if not 0 <= settings.test_size < 1:
        raise InputError(f"--test-size must be at least 0 and below 1, not {settings.test_size:g}")
    if not 0 < settings.confidence < 1:
        raise InputError(f"--confidence must lie between 0 and 1, not {settings.confidence:g}")
    if gate is not None:
        check_number(gate.limit, "--fail-above", low=0.0, high=1.0)
        if gate.metric not in METRIC_TITLES:
            raise InputError(f"--fail-metric must be one of {', '.join(METRIC_TITLES)}, not {gate.metric}")


def train(path: Path, roles: Roles, settings: TrainSettings) -> Training:
    """Read, split, encode, fit with and without the constraint, and judge both."""
    for name in roles.needed:
        uses = [use for use, names in _uses(roles) if name in names]
        if len(uses) > 1:
            raise InputError(f"column {name!r} is given to both {uses[0]} and {uses[1]}")
    with step(f"reading {path}"):
        table = read_table(path, roles.needed)
        groups = _group_columns(table, roles, path)
        labels = _labels(complete(table[roles.target], path))
        positive = positive_label(labels, path, settings.pos_label)
        people = pd.DataFrame({group.name: group.labels(table[group.name]) for group in groups})
        weights = None if roles.weight is None else weights_of(table[roles.weight], people, path)
    is_positive = (labels == positive).to_numpy(dtype=bool)
    text = as_text(labels)
    places = _split(people, is_positive, settings)
    with step("reading columns"):
        names = roles.features(table)
        columns, notes = read_columns(table, names, places["training"], categories=roles.categories)
        notes += strangers(columns, table.iloc[places.get("held out", places["training"])])
        everybody = Rows(encode(columns, table), is_positive, people, weights)
    parts = {name: everybody.take(rows) for name, rows in places.items()}
    models: dict[str, PartialFairClassifier] = {}
    with _collecting(notes):
        for name, constraint in _models(settings):
            models[name] = _fit(name, constraint, settings, parts["training"])
        judged = {
            (name, part): _judge(model, rows, settings)
            for name, model in models.items()
            for part, rows in parts.items()
        }
    model = TableModel(
        roles.target,
        (str(text[~is_positive].iloc[0]), str(text[is_positive].iloc[0])),
        columns,
        groups,
        roles.ids,
        list(models.values())[-1],
    )
    return Training(path, settings, model, parts, judged, tuple(dict.fromkeys(notes)))


def _uses(roles: Roles) -> list[tuple[str, tuple[str, ...]]]:
    weight = () if roles.weight is None else (roles.weight,)
    return [
        ("--target", (roles.target,)),
        ("--group", roles.group),
        ("--weight", weight),
        ("--id", roles.ids),
        ("--drop", roles.drop),
        ("--category", roles.categories),
    ]


def _group_columns(table: pd.DataFrame, roles: Roles, path: Path) -> tuple[GroupColumn, ...]:
    names = list(dict.fromkeys(roles.group))
    check_groups(table[names], path)
    return tuple(GroupColumn(name, are_codes(as_text(table[name], strip=False))) for name in names)


def _labels(column: pd.Series) -> pd.Series:
    """Return labels as numbers if they all are, so that 10 is larger than 9."""
    numbers = pd.to_numeric(column.astype(str), errors="coerce")
    return column if numbers.isna().any() else numbers


def _split(people: pd.DataFrame, positive: npt.NDArray[np.bool_], settings: TrainSettings) -> dict[str, Ints]:
    """Hold out the same share of every group's positives and negatives."""
    if settings.test_size == 0:
        return {"training": np.arange(len(people))}
    strata = encode_groups(people.assign(**{"": positive})).codes
    shuffled = np.random.default_rng(settings.seed).permutation(len(people))
    held_out = np.zeros(len(people), dtype=bool)
    for code in np.unique(strata):
        members = shuffled[strata[shuffled] == code]
        held_out[members[: round(settings.test_size * members.size)]] = True
    for part, rows in {"held out": held_out, "for training": ~held_out}.items():
        n_groups, n_labels = len(people[rows].drop_duplicates()), len(np.unique(positive[rows]))
        if n_groups < 2 or n_labels < 2:
            lacking = "groups" if n_groups < 2 else "labels"
            raise InputError(
                f"--test-size {settings.test_size:g} leaves fewer than two {lacking} in the "
                f"{int(rows.sum())} rows {part}; change it, or use 0 to train on all rows"
            )
    return {"training": np.flatnonzero(~held_out), "held out": np.flatnonzero(held_out)}


def _models(settings: TrainSettings) -> list[tuple[str, str | None]]:
    """Return the names and constraints of the models to fit; the last one is saved."""
    if settings.constraint == NO_CONSTRAINT:
        return [("without a constraint", None)]
    return [("without the constraint", None), ("with the constraint", settings.constraint)]


def _fit(name: str, constraint: str | None, settings: TrainSettings, rows: Rows) -> PartialFairClassifier:
    """Fit one model, showing progress."""
    stated: dict[str, Any] = {}
    if constraint is not None:
        stated = {
            "interval": settings.interval,
            "max_gap": settings.max_gap,
            "gap_scale": settings.gap_scale,
            "enforce": settings.enforce,
        }
    model = PartialFairClassifier(
        constraint,
        alpha=settings.alpha,
        group_terms=settings.group_terms,
        time_limit=settings.time_limit,
        random_state=settings.seed,
        **stated,
    )
    with step(f"training {name} on {len(rows.positive):,} rows") as say:

        def show(line: Record) -> None:
            say(f"step {line.step}, objective {line.objective:.4g}, violation {line.violation:.1e}")

        model.set_params(callback=show)
        model.fit(rows.X, rows.positive, sensitive_features=rows.groups, sample_weight=rows.weights)
    model.set_params(callback=None)
    return model


def _judge(model: PartialFairClassifier, rows: Rows, settings: TrainSettings) -> Judged:
    with step(f"measuring {len(rows.positive):,} scores"):
        scores = model.decision_function(rows.X, rows.groups)
        report = fairness_report(
            rows.positive,
            scores,
            sensitive_features=rows.groups,
            interval=settings.interval,
            threshold=0.0,  # where decisions are made
            confidence=settings.confidence,
            gap_scale=settings.gap_scale,
            pos_label=True,
            sample_weight=rows.weights,
            random_state=settings.seed,
        )
    return Judged(
        scores,
        float(accuracy_score(rows.positive, scores > 0, sample_weight=rows.weights)),
        float(roc_auc_score(rows.positive, scores, sample_weight=rows.weights)),
        report,
    )


@contextmanager
def _collecting(notes: list[str]) -> Iterator[None]:
    """Turn warnings into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes.extend(str(warning.message) for warning in caught)
