"""Make the data of a page: of each model's scores, and of rows that enter and leave the interval.

They are enough for exact gaps, whatever the number of rows. Intervals end on whole percents. Between two
groups, the visits of the rank curve to the cells of that grid (`partialfair.metrics.grid`)
determine statistical parity and the group AUC on all of them; the gaps at a threshold follow from each
group's ranks and positives there and at whole percents.

Gaps come from ranks alone, which count from the best score. Scores are only shown, in the users' units.

Under every model an interval holds the same weight of a group, so that the weight that stays tells the rest:
as much enters as leaves. There are 5,050 intervals of whole percents, and for each group and two models the
data hold the weight that stays on each. These are packed by cells: with S(i, j) the weight that stays on
[i, j), ::

    T(i, j) = S(i, j) − S(i + 1, j) − S(i, j − 1) + S(i + 1, j − 1)

is what is in the first percent of the interval under one model and in its last under the other. It is 0 for
most (i, j) where the models are alike, and small elsewhere.

What a page discloses this way is how many rows rank at which two percents. Of a group with few members that
would be each of them, so such groups are left out and have their line for the audited interval only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.data.groups import group_name, members_text
from partialfair.data.intervals import as_interval_set, interval_text, running_weight, tie_ends
from partialfair.metrics import grid, interval_changes
from partialfair.metrics.discrete import DiscreteScores, score_span
from partialfair.metrics.inputs import GroupScores, ScoredGroups, oriented, read_groups
from partialfair.metrics.map_radii import MapRadii
from partialfair.metrics.membership import GridPlaces, grid_stays
from partialfair.metrics.partial import group_aucs, inter_group_leads
from partialfair.report.sections import Section
from partialfair.utils.checks import finite_vector
from partialfair.utils.typing import ArrayLike, Floats, IntervalLike, Ints, MissingGroups

Pair: TypeAlias = tuple[int, int]

N_GRID = 100
"""Intervals end on multiples of 1 / N_GRID."""

DISCLOSED = 2 * N_GRID
"""Members of a group whose quantiles at whole percents are nearly the scores themselves."""

_N_BINS = 40
_KNOTS = np.arange(N_GRID + 1) / N_GRID


def pack(values: npt.ArrayLike, dtype: str = "<f8") -> str:
    """Return numbers as base64, which a page reads without rounding."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def summarise(
    scored: ScoredGroups,
    *,
    threshold: float | None,
    confidence: float,
    pairs: Sequence[Pair] | None = None,
    worst: Worst | None = None,
) -> dict[str, Any]:
    """Return plain data for JSON about one model's scores.

    Parameters
    ----------
    scored
        The sorted scores of every group.
    threshold
        One more threshold than those that select whole percents of all, on those scores.
    confidence
        Of the bands, each of which holds for all intervals, pairs and thresholds at once.
    pairs, worst
        If there are too many pairs of groups: those to keep, and the worst of all on every interval.
    """
    # Thresholds in units of ranks; drawn in the users' units.
    thresholds = _thresholds(scored, threshold)
    drawn = oriented(thresholds, scored.higher_is_better)
    seen = scored.in_users_units()
    discrete = DiscreteScores.of(seen)
    edges = _bin_edges(seen)
    everyone = list(scored.pairs())
    radii = MapRadii.of(scored, confidence)
    sizes = [group.n if group.weights is None else group.weights.sum() for group in scored]
    return {
        "groups": [
            {
                **_group(group, thresholds, scored.higher_is_better),
                "epsilon": radii.epsilon[k],
                "noise": radii.noise[k],
                "membership": radii.membership[k],
                "density": pack(_binned(shown, edges) if discrete is None else discrete.shares(shown)),
            }
            for k, (group, shown) in enumerate(zip(scored, seen, strict=True))
        ],
        "levels": {
            "interval": _finite(radii.interval_level),
            "absolute": _finite(radii.absolute_level),
        },
        "thresholds": drawn.tolist(),
        "selected": pack(np.average([group.rank(thresholds) for group in scored], axis=0, weights=sizes)),
        "bins": edges.tolist(),
        "bars": None if discrete is None else _bars(discrete, drawn, scored.higher_is_better),
        "nPairs": len(everyone),
        "pairs": [{"groups": pair, "visits": pack(_visits(scored, pair)[1])} for pair in pairs or everyone],
        "worst": None if worst is None else worst.record(),
        "pairwise": _pairwise(scored),
    }


def _finite(level: float) -> float | None:
    """JSON has no infinity: None stands for it."""
    return level if np.isfinite(level) else None


def leading_pairs(scored: ScoredGroups, worsts: Sequence[Worst], n_pairs: int) -> list[Pair]:
    """Return the pairs that are the worst most often under some models, then those of the largest groups."""
    pairs, upper = list(scored.pairs()), np.triu_indices(N_GRID)
    # How often each pair is the worst, over all intervals, kinds of gap and models.
    found = np.concatenate([pair[upper] for worst in worsts for pair in worst.pair.values()])
    often = np.bincount(found, minlength=len(pairs))
    sizes = np.array([min(scored.groups[k].n, scored.groups[j].n) for k, j in pairs])
    # Most often first; of equals those of larger groups.
    first = np.lexsort((-sizes, -often))[:n_pairs]
    return [pairs[position] for position in sorted(first.tolist())]


def _thresholds(scored: ScoredGroups, own: float | None) -> Floats:
    """Scores above which 1, 2, ..., 99% of all are, and the one that was asked for."""
    scores = np.concatenate([group.scores for group in scored])
    weights = np.concatenate(
        [np.ones(group.n) if group.weights is None else group.weights for group in scored]
    )
    # From the best score down, so that sums of weights are ranks from the top.
    order = np.argsort(scores)[::-1]
    above = np.cumsum(weights[order])
    first = np.searchsorted(above, _KNOTS[1:-1] * above[-1] * (1 + 1e-12), side="right")
    chosen = scores[order][np.minimum(first, scores.size - 1)]
    return chosen if own is None else np.append(chosen, own)


def _bin_edges(scored: ScoredGroups) -> Floats:
    """Bins of scores; what lies far away from all others belongs to the first and the last bin."""
    low, high = score_span(scored)
    # All scores are equal: one bin around them.
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _N_BINS + 1)


def _binned(group: GroupScores, edges: Floats) -> Floats:
    """Share of the group in each bin."""
    # The first and the last bin hold what lies outside the edges.
    beyond = np.concatenate([[1.0], group.rank(edges[1:-1]), [0.0]])
    return np.asarray(-np.diff(beyond))


def _bars(discrete: DiscreteScores, thresholds: Floats, higher_is_better: bool) -> dict[str, Any]:
    """Where the bars of discrete scores stand, what they are called, and where thresholds are drawn."""
    return {
        "centres": discrete.centres.tolist(),
        "labels": discrete.labels,
        "width": discrete.width,
        "span": discrete.span,
        "even": discrete.is_even,
        "cuts": pack(discrete.cuts(thresholds, higher_is_better)),
    }


def _group(group: GroupScores, thresholds: Floats, higher_is_better: bool) -> dict[str, Any]:
    """One group: its size, and what lies above whole percents and thresholds."""
    weights = np.ones(group.n) if group.weights is None else group.weights
    # Scores are sorted upwards; ranks count from the top.
    from_top = _Ladder.of(group.scores[::-1], weights[::-1])
    record = {
        "name": group.name,
        "n": group.n,
        "nEffective": group.n_effective,
        "scores": pack(oriented(from_top.scores_at(_KNOTS), higher_is_better)),
        "rows": pack(from_top.at(np.ones(group.n), _KNOTS)),
        "ranks": pack(group.rank(thresholds)),
    }
    if group.positive is not None:
        labelled = weights[::-1] * group.positive[::-1] / weights.sum()
        record["positives"] = pack(from_top.at(labelled, _KNOTS))
        record["positivesAbove"] = pack(from_top.at(labelled, group.rank(thresholds)))
        # Of calibration curves: the mean score of every tenth of the group.
        totals = from_top.at(from_top.scores * weights[::-1] / weights.sum(), _KNOTS[:: N_GRID // 10])
        record["tenths"] = pack(oriented(np.diff(totals) * 10, higher_is_better))
    return record


@dataclass(frozen=True, eq=False)
class _Ladder:
    """Members of one group from the top, in blocks of ties: rank at which each block ends."""

    scores: Floats
    ends: Ints
    ranks: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats) -> _Ladder:
        ends, above = tie_ends(scores), running_weight(weights)
        return cls(scores, ends, above[ends] / above[-1])

    def at(self, amounts: Floats, ranks: Floats) -> Floats:
        """Sum of the amounts of the members above each rank; a block that it cuts counts in proportion."""
        above = np.concatenate([[0.0], np.cumsum(amounts)])[self.ends]
        return np.asarray(np.interp(ranks, self.ranks, above))

    def scores_at(self, ranks: Floats) -> Floats:
        """Score of who holds each rank."""
        block = np.searchsorted(self.ranks, ranks + 1e-12, side="right") - 1
        return self.scores[self.ends[np.minimum(block, self.ends.size - 2)]]


def _visits(scored: ScoredGroups, pair: Pair) -> tuple[Ints, Floats]:
    """Follow the rank curve of two groups."""
    a, b = (scored.groups[position] for position in pair)
    cells, visits = grid.grid_visits(*a.ranked, *b.ranked, N_GRID)
    return cells, visits


@dataclass(frozen=True, eq=False)
class Worst:
    """The widest gap of any pair on every interval ``[i, j)``, and whose it is, by kind of gap."""

    values: dict[str, Floats]
    pair: dict[str, Ints]
    bottom: float

    @classmethod
    def of(cls, scored: ScoredGroups) -> Worst:
        """Follow every pair."""
        kinds = ("interval", "absolute", "auc")
        values = {kind: np.where(np.tri(N_GRID, k=-1) > 0, np.nan, -1.0) for kind in kinds}
        pair: dict[str, Ints] = {kind: np.zeros((N_GRID, N_GRID), dtype=np.int64) for kind in kinds}
        bottom = 0.0
        for position, curve in enumerate(grid.visits_of_pairs(scored.groups, N_GRID)):
            visits = (*curve, N_GRID)
            bottom = max(bottom, grid.bottom_lead(*visits))
            # Three kinds of gap on all 5,050 intervals, from one walk along the rank curve.
            of_pair = {
                "interval": grid.clipped_grid_gaps(*visits),
                "absolute": grid.gaps_in_strips(grid.widest_in_strips(*visits)),
                "auc": grid.grid_aucs(*visits),
            }
            for kind in kinds:
                # An AUC of one half is no gap.
                fair = 0.5 if kind == "auc" else 0.0
                grid.keep_widest(of_pair[kind], fair, position, values[kind], pair[kind])
        return cls(values, pair, bottom)

    def record(self) -> dict[str, Any]:
        """Return plain data: the upper triangles, row after row, and the gap at rank 1."""
        upper = np.triu_indices(N_GRID)
        kinds = {
            kind: {"values": pack(gaps[upper]), "pair": pack(self.pair[kind][upper], "<u4")}
            for kind, gaps in self.values.items()
        }
        return {"kinds": kinds, "bottom": self.bottom}


def _pairwise(scored: ScoredGroups) -> dict[str, Any] | None:
    """Gaps that have no interval: ``A(k⁺, j⁻) + A(k⁻, j⁺) − 1`` of pairs, and ``A(k⁺, k⁻)`` of groups."""
    if scored.groups[0].positive is None:
        return None
    leads = np.abs(inter_group_leads(scored, "half"))
    both_orders = np.maximum(leads, leads.T)[np.triu_indices(len(scored), 1)]
    return {"inter": pack(both_orders), "intra": pack(group_aucs(scored, "half"))}


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
            text = pack_stays(grid_stays(before, after, group.weights) / group.step)
            room -= len(text)
            # Tables of lower priority do not fit either.
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


def collect_changes(
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
        As in `interval_changes`.

    Returns
    -------
    IntervalChanges or None
        None if there is one model only.
    """
    if len(scores) < 2:
        return None
    ranking_options: dict[str, Any] = {
        "sensitive_features": sensitive_features,
        "sample_weight": sample_weight,
        "higher_is_better": higher_is_better,
        "missing_groups": missing_groups,
    }
    section = _audited_changes(scores, interval, ranking_options)
    vectors = [
        oriented(finite_vector(values, "y_score", ranked=True), higher_is_better)
        for values in scores.values()
    ]
    n_rows = vectors[0].size
    weights = np.ones(n_rows) if sample_weight is None else finite_vector(sample_weight, "sample_weight")
    groups = read_groups(sensitive_features, n_rows, missing_groups)
    # Groups that are large enough to be disclosed, and the number of others.
    members, left_out = [], 0
    for code, label in enumerate(groups.labels):
        rows = np.flatnonzero((groups.codes == code) & (weights > 0))
        # So few members could be read off one by one.
        if rows.size <= DISCLOSED:
            left_out += 1
            continue
        places = tuple(GridPlaces.of(vector[rows], weights[rows], N_GRID) for vector in vectors)
        members.append(_Members(group_name(label), weights[rows], places))
    return IntervalChanges(tuple(scores), section, tuple(members), left_out)


def _audited_changes(
    scores: Mapping[str, ArrayLike], interval: IntervalLike, ranking_options: Mapping[str, Any]
) -> Section:
    """Return who enters and leaves the audited interval from the first model to each other."""
    first, *others = scores
    kinds = ("in_interval", "stays", "enters", "leaves")
    rows = [
        [name, str(group), *(members_text(line[kind]) for kind in kinds)]
        for name in others
        for group, line in interval_changes(
            scores[first], scores[name], interval=interval, **ranking_options
        ).iterrows()
    ]
    ranks = interval_text(as_interval_set(interval), ranking_options["higher_is_better"])
    text = (
        f"At {ranks}, compared with {first}; weights are counted where there are any. "
        "The interval holds as many of a group under every model."
    )
    columns = ("model", "group", "in the interval", "stay", "enter", "leave")
    return Section("Who enters and leaves: as audited", rows, columns, text)


def pack_stays(steps: Floats) -> str:
    """Return S(i, j), in steps, by its rounded T(i, j): numbers of seven bits a byte, as base64.

    T is taken of rounded S, so that a page that adds it up again has S to half a step. Numbers are zigzag
    (0, −1, 1, −2, ...), the lowest bits first; a zero is followed by how many more zeros there are.
    """
    # S is 0 on empty intervals, which begin where they end.
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
