"""Small random tables with all that is awkward: ties, tiny groups, odd weights, unions of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests import brute

STEP = Fraction(1, 20)
GROUP_NAMES = ("amber", "blue", "coral", "dun", "ecru")
EVERYONE = (Fraction(0), Fraction(1))

TIED_SCORES = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0])
ANY_SCORES = st.floats(allow_nan=False, allow_infinity=False)
WEIGHTS = {
    "integer": st.integers(0, 3).map(Fraction),
    "rational": st.sampled_from(
        [Fraction(w) for w in ("0", "1/3", "0.1", "0.2", "0.7", "1", "5/7", "1e-3", "250")]
    ),
}


@dataclass(frozen=True)
class Table:
    """Rows to compare; weights and interval ends are exact, and None stands for no weights."""

    scores: list[float]
    groups: list[str]
    labels: list[int]
    weights: list[Fraction] | None
    interval: Any
    threshold: float

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def present(self) -> list[str]:
        """Groups with a positive weight."""
        weights = self.weights or [1] * self.n
        return sorted({group for group, weight in zip(self.groups, weights, strict=True) if weight})

    def take(self, rows) -> Table:
        """Return these rows, in this order and as often as they are named."""
        return self.with_(
            scores=[self.scores[i] for i in rows],
            groups=[self.groups[i] for i in rows],
            labels=[self.labels[i] for i in rows],
            weights=self.weights and [self.weights[i] for i in rows],
        )

    def with_(self, **changes) -> Table:
        return Table(**(vars(self) | changes))


def as_floats(interval):
    """Write the exact interval as a user would."""
    if isinstance(interval, Mapping):
        return {group: as_floats(own) for group, own in interval.items()}
    return type(interval)(as_floats(end) if isinstance(end, tuple) else float(end) for end in interval)


@st.composite
def unions(draw, n_parts: int = 1):
    """Disjoint intervals (they may touch) with ends k/20: one pair, or a list of pairs in any order."""
    ends = draw(st.lists(st.integers(0, 20), min_size=2 * n_parts, max_size=2 * n_parts, unique=True))
    ends = [STEP * k for k in sorted(ends)]
    parts = list(zip(ends[::2], ends[1::2], strict=True))
    for i in range(1, n_parts):
        if draw(st.booleans()):
            parts[i] = (parts[i - 1][1], parts[i][1])
    return parts[0] if n_parts == 1 else draw(st.permutations(parts))


def common_intervals():
    """One interval or union for all groups."""
    return st.one_of(st.just(EVERYONE), unions(), unions(2), unions(3))


@st.composite
def weights_of(draw, groups: list[str], kinds=(None, "integer", "rational")):
    """Weights such that at least two groups have some."""
    kind = draw(st.sampled_from(kinds))
    if kind is None:
        return None
    weights = draw(st.lists(WEIGHTS[kind], min_size=len(groups), max_size=len(groups)))
    for name in GROUP_NAMES[:2]:
        first = groups.index(name)
        weights[first] = weights[first] or Fraction(1)
    return weights


@st.composite
def tables(
    draw,
    *,
    max_groups: int = 5,
    weights=(None, "integer", "rational"),
    per_group: bool = True,
    both_labels: bool = False,
) -> Table:
    """Rows of 2 to ``max_groups`` groups of 1 to 8 members, in any order.

    With ``both_labels`` each group has positives and negatives; without ``per_group`` there is one interval.
    """
    sizes = draw(st.lists(st.integers(1 + both_labels, 8), min_size=2, max_size=max_groups))
    groups = [name for name, size in zip(GROUP_NAMES, sizes, strict=False) for _ in range(size)]
    n = len(groups)
    scores = draw(
        st.lists(TIED_SCORES, min_size=n, max_size=n)
        | st.lists(ANY_SCORES, min_size=n, max_size=n, unique=True)
    )
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    if both_labels:
        for first in map(groups.index, set(groups)):
            labels[first], labels[first + 1] = 0, 1
    table = Table(
        scores,
        groups,
        labels,
        weights=draw(weights_of(groups, weights)),
        interval=draw(common_intervals()),
        threshold=draw(st.sampled_from(scores) | st.sampled_from([-3.0, 0.25, 3.0])),
    )
    if per_group and draw(st.booleans()):
        own = {name: common_intervals() for name in table.present}
        table = table.with_(interval=draw(st.fixed_dictionaries(own)))
    return table.take(draw(st.permutations(range(n)))) if draw(st.booleans()) else table


@st.composite
def tables_cut_between_members(draw) -> Table:
    """Tables whose interval begins and ends exactly where one member's ranks end and another's begin."""
    table = draw(tables(weights=("rational",), per_group=False))
    members = draw(st.sampled_from(list(brute.split(table.scores, table.groups, table.weights).values())))
    cuts = {brute.rank(members, member.score) for member in members} | {Fraction(1)}
    ends = draw(st.lists(st.sampled_from(sorted(cuts)), min_size=2, max_size=2, unique=True))
    return table.with_(interval=tuple(sorted(ends)))


def as_array(weights: list[Fraction] | None):
    return None if weights is None else np.array([float(w) for w in weights])
