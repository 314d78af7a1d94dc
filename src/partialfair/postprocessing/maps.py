"""Maps of scores, one per group: piecewise linear between knots; in memory, as tables and as files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import Groups, group_name
from partialfair.exceptions import InputError
from partialfair.utils.checks import shown
from partialfair.utils.files import write_file
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats, GroupLabel

if TYPE_CHECKING:
    import pandas as pd

LARGEST_SCORE = 1e100
"""Squares of larger scores, and their sums, exceed the range of floats."""

SCHEMA = "partialfair.adjustment/1"
"""Schema of the file. Its number increases with incompatible changes."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoreMap:
    """A strictly increasing, piecewise linear map of one group's scores.

    Attributes
    ----------
    group
        Its label.
    knots, values : (n,)
        Increasing scores, and their new values. The map is linear between knots; beyond either end, scores
        change by as much as the end.
    inside
        Ranges of old scores that were in the interval in `fit`, both ends included.
    """

    group: GroupLabel
    knots: Floats
    values: Floats
    inside: tuple[tuple[float, float], ...] = ()

    def __call__(self, scores: Floats) -> Floats:
        """Return the new scores; exact at knots, and wherever scores do not change."""
        knots, values = self.knots, self.values
        if knots.size == 1:  # a shift
            return np.asarray(np.where(scores == knots[0], values[0], scores + (values[0] - knots[0])))
        left = np.clip(np.searchsorted(knots, scores, side="right") - 1, 0, knots.size - 2)
        below, above = values[left], values[left + 1]
        share = (scores - knots[left]) / (knots[left + 1] - knots[left])
        # Rounding must not move a score past its neighbors, or the order would change.
        moved = np.clip(below + share * (above - below), below, above)
        still = (below == knots[left]) & (above == knots[left + 1])
        moved = np.where(still, scores, moved)
        moved = np.where(scores >= knots[-1], values[-1] + (scores - knots[-1]), moved)
        return np.asarray(np.where(scores <= knots[0], values[0] + (scores - knots[0]), moved))

    def __repr__(self) -> str:
        ends = " to ".join(f"{knot:.4g}" for knot in self.knots[[0, -1]])
        return f"<ScoreMap of group {shown(self.group)}: {self.knots.size:,} knots from {ends}>"

    def check(self) -> None:
        """Raise `InputError` unless the map consists of finite numbers and increases strictly."""
        columns = (self.knots, self.values)
        if not all(
            isinstance(one, np.ndarray) and one.dtype == np.float64 and one.ndim == 1 for one in columns
        ):
            raise InputError("a map of scores holds values that are not scores")
        rising = all((np.abs(one) <= LARGEST_SCORE).all() and (np.diff(one) > 0).all() for one in columns)
        if not (rising and 0 < self.knots.size == self.values.size):
            raise InputError(f"the map of group {shown(self.group)} does not increase strictly")

    def with_fixed_ends(self, bounds: tuple[float, float]) -> ScoreMap:
        """Return the map with both ends of a range as fixed knots, so that no score leaves the range."""
        low, high = bounds
        knots, values = self.knots, self.values
        if low < min(knots[0], values[0]):
            knots, values = np.append(low, knots), np.append(low, values)
        if high > max(knots[-1], values[-1]):
            knots, values = np.append(knots, high), np.append(values, high)
        return replace(self, knots=knots, values=values)

    @property
    def turned(self) -> ScoreMap:
        """The same map for negated scores."""
        # Subtracted from 0, so that 0 does not become −0.
        inside = tuple((0.0 - high, 0.0 - low) for low, high in reversed(self.inside))
        return ScoreMap(self.group, 0.0 - self.knots[::-1], 0.0 - self.values[::-1], inside)


def score_map(group: GroupLabel, knots: Floats, values: Floats) -> ScoreMap:
    """Build a map, without knots between two unchanged knots."""
    still = knots == values
    needless = np.zeros(knots.size, dtype=np.bool_)
    needless[1:-1] = still[:-2] & still[1:-1] & still[2:]
    return ScoreMap(group, knots[~needless], values[~needless])


def apply_maps(maps: Sequence[ScoreMap], scores: Floats, groups: Groups) -> Floats:
    """Return new scores by the map of each row's group; scores of rows without a group do not change."""
    of_group = {one.group: one for one in maps}
    adjusted = scores.copy()
    for code, label in enumerate(groups.labels):
        if label not in of_group:
            names = listed([shown(known) for known in of_group], most=8)
            raise InputError(f"group {shown(label)} was not seen in fit, which saw {names}")
        rows = groups.codes == code
        adjusted[rows] = of_group[label](scores[rows])
    return adjusted


def maps_frame(maps: tuple[ScoreMap, ...]) -> pd.DataFrame:
    """Return one row per knot: group, score_from, score_to."""
    import pandas as pd

    return pd.DataFrame(
        {
            "group": np.repeat([group_name(one.group) for one in maps], [one.knots.size for one in maps]),
            "score_from": np.concatenate([one.knots for one in maps]),
            "score_to": np.concatenate([one.values for one in maps]),
        }
    )


def maps_record(maps: tuple[ScoreMap, ...], columns: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the maps as plain data for JSON; floats are written so that they can be read back exactly."""
    return {
        "schema": SCHEMA,
        "columns": [str(name) for name in columns],
        "groups": [
            {
                "group": list(one.group) if isinstance(one.group, tuple) else one.group,
                "score_from": one.knots.tolist(),
                "score_to": one.values.tolist(),
                "inside": [list(part) for part in one.inside],
            }
            for one in maps
        ],
    }


def write_maps(path: str | os.PathLike[str], maps: tuple[ScoreMap, ...], columns: tuple[Any, ...]) -> None:
    """Write the maps to a JSON file, atomically."""
    try:
        text = json.dumps(maps_record(maps, columns), indent=1)
    except TypeError as error:
        raise InputError(f"the groups cannot be written as JSON: {error}") from None
    write_file(path, text.encode())


def read_maps(path: str | os.PathLike[str]) -> tuple[tuple[ScoreMap, ...], tuple[Any, ...]]:
    """Read the file of `write_maps`; raise `InputError` unless it has strictly increasing, finite maps."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    try:
        record = json.loads(content)
    except (RecursionError, ValueError):
        raise InputError(f"{path} is not JSON") from None
    if not (isinstance(record, dict) and record.get("schema") == SCHEMA):
        raise InputError(f"{path} is not a file of an adjuster: its schema is not {SCHEMA!r}")
    try:
        columns = tuple(map(str, record.get("columns", ())))
        "".join(columns).encode()  # raises ValueError for half a surrogate pair; see `_read_map`
        maps = tuple(_read_map(line) for line in record["groups"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} is damaged: it does not have increasing scores of groups") from None
    if not maps or len({one.group for one in maps}) < len(maps):
        raise InputError(f"{path} is damaged: it names no group, or one of them twice")
    return maps, columns


def _read_map(line: Any) -> ScoreMap:
    label = line["group"]
    parts = label if isinstance(label, list) else [label]
    if not all(isinstance(part, str | int | float) for part in parts):
        raise TypeError
    "".join(map(str, parts)).encode()  # raises ValueError for half a surrogate pair, which JSON can hold
    knots, values = (np.array([float(x) for x in line[name]]) for name in ("score_from", "score_to"))
    inside = tuple((float(low), float(high)) for low, high in line.get("inside", ()))
    one = ScoreMap(tuple(label) if isinstance(label, list) else label, knots, values, inside)
    one.check()
    return one
