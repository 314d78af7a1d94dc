"""Who enters and leaves the interval from one model to another, for every interval that a page shows.

Under every model an interval holds the same weight of a group, so that the weight that stays tells the rest:
as much enters as leaves. A page's intervals end on whole percents; there are 5,050 of them, and for each
group and two models it holds the weight that stays on each. These are packed by cells: with S(i, j) the
weight that stays on [i, j), ::

    T(i, j) = S(i, j) − S(i + 1, j) − S(i, j − 1) + S(i + 1, j − 1)

is what is in the first percent of the interval under one model and in its last under the other. It is 0 for
most (i, j) where the models are alike, and small elsewhere.

What a page tells of people this way is how many rank at which two percents. Of a group with few members each
would be told one by one, so such groups are left out and have their line for the audited interval only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from partialfair.data.groups import group_name, members_text
from partialfair.data.intervals import as_interval_set, interval_text
from partialfair.metrics import band_changes
from partialfair.metrics.inputs import oriented, read_groups
from partialfair.metrics.membership import GridPlaces, grid_stays
from partialfair.report.sections import Section
from partialfair.report.summary import DISCLOSED, N_GRID
from partialfair.utils.checks import finite_vector
from partialfair.utils.typing import ArrayLike, Floats, IntervalLike, Ints, MissingGroups

__all__ = ["IntervalChanges", "interval_changes", "packed_stays"]

_STEPS_PER_MEMBER = 1000
"""Weights that stay are held to a thousandth of a member, finer than any is written."""


@dataclass(frozen=True, eq=False)
class _Members:
    """One group that is large enough to be told: its name, weights, and places under each model."""

    name: str
    weights: Floats
    places: tuple[GridPlaces, ...]

    @property
    def step(self) -> float:
        """The unit in which weights that stay are held."""
        return float(self.weights.mean()) / _STEPS_PER_MEMBER


@dataclass(frozen=True, eq=False)
class IntervalChanges:
    """Who enters and leaves from model to model: on the audited interval, and what a page needs for others.

    Attributes
    ----------
    names
        Of the models.
    section
        Table of the audited interval, from the first model to each other.
    members
        The groups of which a page tells other intervals.
    left_out
        Number of groups with too few members for that.
    """

    names: tuple[str, ...]
    section: Section
    members: tuple[_Members, ...]
    left_out: int

    def record(self, shown: int, room: int) -> dict[str, Any]:
        """Return plain data for JSON: tables of weights that stay, while there is room for them.

        The model that is shown first comes first with the first model, then others with the first, then all
        other pairs; of each pair of models large groups come first.

        Parameters
        ----------
        shown
            Position of the model that is shown first.
        room
            Most characters of all tables.
        """
        tables: dict[tuple[int, int], dict[str, str]] = {}
        for models, k in self._by_priority(shown):
            group = self.members[k]
            before, after = (group.places[model] for model in models)
            text = packed_stays(grid_stays(before, after, group.weights) / group.step)
            room -= len(text)
            if room < 0:
                break
            tables.setdefault(models, {})[str(k)] = text
        return {
            "groups": [
                {"name": group.name, "total": float(group.weights.sum()), "step": group.step}
                for group in self.members
            ],
            "leftOut": self.left_out,
            "most": DISCLOSED,
            "tables": [{"models": models, "stays": stays} for models, stays in tables.items()],
        }

    def _by_priority(self, shown: int) -> Iterator[tuple[tuple[int, int], int]]:
        sizes = [-group.weights.size for group in self.members]
        pairs = sorted(
            combinations(range(len(self.names)), 2), key=lambda pair: (0 not in pair, shown not in pair)
        )
        for pair in pairs:
            for k in np.argsort(sizes, kind="stable"):
                yield pair, int(k)


def interval_changes(
    scores: Mapping[str, ArrayLike],
    *,
    sensitive_features: Any,
    interval: IntervalLike,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> IntervalChanges | None:
    """Compare who is in the interval under several models' scores of the same rows, for `audit_page`.

    Parameters
    ----------
    scores
        By name of the model, in the order of the reports.
    sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `band_changes`.

    Returns
    -------
    IntervalChanges or None
        None if there is one model only.
    """
    if len(scores) < 2:
        return None
    people: dict[str, Any] = {
        "sensitive_features": sensitive_features,
        "sample_weight": sample_weight,
        "higher_is_better": higher_is_better,
        "missing_groups": missing_groups,
    }
    section = _audited_changes(scores, interval, people)
    vectors = [
        oriented(finite_vector(values, "y_score", ranked=True), higher_is_better)
        for values in scores.values()
    ]
    n_rows = vectors[0].size
    weights = np.ones(n_rows) if sample_weight is None else finite_vector(sample_weight, "sample_weight")
    groups = read_groups(sensitive_features, n_rows, missing_groups)
    members, left_out = [], 0
    for code, label in enumerate(groups.labels):
        rows = np.flatnonzero((groups.codes == code) & (weights > 0))
        if rows.size <= DISCLOSED:
            left_out += 1
            continue
        places = tuple(GridPlaces.of(vector[rows], weights[rows], N_GRID) for vector in vectors)
        members.append(_Members(group_name(label), weights[rows], places))
    return IntervalChanges(tuple(scores), section, tuple(members), left_out)


def _audited_changes(
    scores: Mapping[str, ArrayLike], interval: IntervalLike, people: Mapping[str, Any]
) -> Section:
    """Return who enters and leaves the audited interval from the first model to each other."""
    first, *others = scores
    kinds = ("in_interval", "stays", "enters", "leaves")
    rows = [
        [name, str(group), *(members_text(line[kind]) for kind in kinds)]
        for name in others
        for group, line in band_changes(scores[first], scores[name], interval=interval, **people).iterrows()
    ]
    ranks = interval_text(as_interval_set(interval), people["higher_is_better"])
    text = (
        f"At {ranks}, compared with {first}; weights are counted where there are any. "
        "The interval holds as many of a group under every model."
    )
    columns = ("model", "group", "in the interval", "stay", "enter", "leave")
    return Section("Who enters and leaves: as audited", rows, columns, text)


def packed_stays(steps: Floats) -> str:
    """Return S(i, j), in steps, by its rounded T(i, j): numbers of seven bits a byte, as base64.

    T is taken of rounded S, so that a page that adds it up again has S to half a step. Numbers are zigzag
    (0, −1, 1, −2, ...), the lowest bits first; a zero is followed by how many more zeros there are.
    """
    corners = np.zeros((N_GRID + 1, N_GRID + 1), dtype=np.int64)  # S at [i, j]; an empty interval has 0
    upper = np.triu_indices(N_GRID)
    corners[upper[0], upper[1] + 1] = np.rint(steps).astype(np.int64)
    cells = corners[:-1, 1:] - corners[1:, 1:] - corners[:-1, :-1] + corners[1:, :-1]
    return base64.b64encode(bytes(_varints(_zigzag(cells[upper])))).decode()


def _zigzag(values: Ints) -> Sequence[int]:
    """Return numbers from 0 on, small for small numbers of either sign."""
    zigzag: list[int] = np.where(values < 0, -2 * values - 1, 2 * values).tolist()
    return zigzag


def _varints(values: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of numbers from 0 on: seven bits each, the eighth set where another follows."""
    place = 0
    while place < len(values):
        yield from _varint(values[place])
        begin = place
        while place + 1 < len(values) and values[begin] == values[place + 1] == 0:
            place += 1
        if values[begin] == 0:
            yield from _varint(place - begin)
        place += 1


def _varint(value: int) -> Iterator[int]:
    while value > 127:
        yield value % 128 + 128
        value //= 128
    yield value
