"""The data of the HTML report: summaries of each model's scores, and of rows that enter and leave.

The summaries are enough for exact gaps with any number of rows. Intervals end on whole percents. For two
groups, the visits of the rank curve to the cells of this grid (`partialfair.metrics.grid`) determine
statistical parity and the group AUC on all intervals. The gaps at a threshold follow from each group's ranks
and positives at the threshold and at whole percents.

Gaps depend on ranks alone, which count from the best score. Scores are only displayed, in the users' units.

Under every model an interval contains the same weight of a group, so that equal weights enter and leave, and
the weight that stays determines both. There are 5,050 intervals of whole percents; for each group and each
pair of models the data contain the weight that stays on each interval. The weights are packed by cells: with
S(i, j) the weight that stays on [i, j), ::

    T(i, j) = S(i, j) − S(i + 1, j) − S(i, j − 1) + S(i + 1, j − 1)

is the weight in the first percent of the interval under one model and in its last percent under the other.
For similar models it is 0 for most (i, j), and small elsewhere.

These data disclose how many rows have which ranks, in whole percents, under two models. In a small group this
would identify single members, so small groups are left out, except on the audited interval.
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
"""In groups of at most this size, quantiles at whole percents nearly disclose the scores."""

_N_BINS = 40
_KNOTS = np.arange(N_GRID + 1) / N_GRID


def pack(values: npt.ArrayLike, dtype: str = "<f8") -> str:
    """Return numbers as base64, which preserves all digits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def summarise(
    scored: ScoredGroups,
    *,
    threshold: float | None,
    confidence: float,
    pairs: Sequence[Pair] | None = None,
    worst: Worst | None = None,
) -> dict[str, Any]:
    """Return a summary of one model's scores as plain data for JSON.

    Parameters
    ----------
    scored
        The sorted scores of every group.
    threshold
        A threshold in addition to those that select whole percents of all rows.
    confidence
        The confidence level of the bands, each of which holds simultaneously for all intervals, pairs and
        thresholds.
    pairs, worst
        If there are too many pairs of groups: the pairs to keep, and the worst pair on every interval.
    """
    # Thresholds count from the best score; they are displayed in the users' units.
    thresholds = _thresholds(scored, threshold)
    drawn = oriented(thresholds, scored.higher_is_better)
    seen = scored.in_users_units()
    discrete = DiscreteScores.of(seen)
    edges = _bin_edges(seen)
    all_pairs = list(scored.pairs())
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
        "nPairs": len(all_pairs),
        "pairs": [{"groups": pair, "visits": pack(_visits(scored, pair)[1])} for pair in pairs or all_pairs],
        "worst": None if worst is None else worst.record(),
        "pairwise": _pairwise(scored),
    }


def _finite(level: float) -> float | None:
    """Return the level, or None for infinity, which JSON cannot represent."""
    return level if np.isfinite(level) else None


def leading_pairs(scored: ScoredGroups, worsts: Sequence[Worst], n_pairs: int) -> list[Pair]:
    """Return the pairs that are most often the worst pair, then those of the largest groups."""
    pairs, upper = list(scored.pairs()), np.triu_indices(N_GRID)
    # Count over all intervals, kinds of gap and models how often each pair is the worst.
    found = np.concatenate([pair[upper] for worst in worsts for pair in worst.pair.values()])
    often = np.bincount(found, minlength=len(pairs))
    sizes = np.array([min(scored.groups[k].n, scored.groups[j].n) for k, j in pairs])
    # Most frequent pairs first, then those of larger groups.
    first = np.lexsort((-sizes, -often))[:n_pairs]
    return [pairs[position] for position in sorted(first.tolist())]


def _thresholds(scored: ScoredGroups, own: float | None) -> Floats:
    """Return the scores above which 1, 2, ..., 99% of all rows lie, and the audited threshold."""
    scores = np.concatenate([group.scores for group in scored])
    weights = np.concatenate(
        [np.ones(group.n) if group.weights is None else group.weights for group in scored]
    )
    # Best score first, so that sums of weights are ranks from the top.
    order = np.argsort(scores)[::-1]
    above = np.cumsum(weights[order])
    first = np.searchsorted(above, _KNOTS[1:-1] * above[-1] * (1 + 1e-12), side="right")
    chosen = scores[order][np.minimum(first, scores.size - 1)]
    return chosen if own is None else np.append(chosen, own)


def _bin_edges(scored: ScoredGroups) -> Floats:
    """Return the edges of score bins; outliers belong to the first and the last bin."""
    low, high = score_span(scored)
    # If all scores are equal, the bins surround them.
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _N_BINS + 1)


def _binned(group: GroupScores, edges: Floats) -> Floats:
    """Return the proportion of the group in each bin."""
    # The first and the last bin include scores outside the edges.
    beyond = np.concatenate([[1.0], group.rank(edges[1:-1]), [0.0]])
    return np.asarray(-np.diff(beyond))


def _bars(discrete: DiscreteScores, thresholds: Floats, higher_is_better: bool) -> dict[str, Any]:
    """Return positions and labels of the bars of discrete scores, and positions of thresholds."""
    return {
        "centres": discrete.centres.tolist(),
        "labels": discrete.labels,
        "width": discrete.width,
        "span": discrete.span,
        "even": discrete.is_even,
        "cuts": pack(discrete.cuts(thresholds, higher_is_better)),
    }


def _group(group: GroupScores, thresholds: Floats, higher_is_better: bool) -> dict[str, Any]:
    """Return the size of a group, and its sums above whole percents and thresholds."""
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
        # Calibration curves need the mean score of every tenth of the group.
        totals = from_top.at(from_top.scores * weights[::-1] / weights.sum(), _KNOTS[:: N_GRID // 10])
        record["tenths"] = pack(oriented(np.diff(totals) * 10, higher_is_better))
    return record


@dataclass(frozen=True, eq=False)
class _Ladder:
    """Members of one group from the top, in blocks of ties, with the rank at which each block ends."""

    scores: Floats
    ends: Ints
    ranks: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats) -> _Ladder:
        ends, above = tie_ends(scores), running_weight(weights)
        return cls(scores, ends, above[ends] / above[-1])

    def at(self, amounts: Floats, ranks: Floats) -> Floats:
        """Return sums of amounts above each rank; blocks of ties that a rank splits count in proportion."""
        above = np.concatenate([[0.0], np.cumsum(amounts)])[self.ends]
        return np.asarray(np.interp(ranks, self.ranks, above))

    def scores_at(self, ranks: Floats) -> Floats:
        """Return the score at each rank."""
        block = np.searchsorted(self.ranks, ranks + 1e-12, side="right") - 1
        return self.scores[self.ends[np.minimum(block, self.ends.size - 2)]]


def _visits(scored: ScoredGroups, pair: Pair) -> tuple[Ints, Floats]:
    """Return the cells of the grid and the visits of the rank curve of two groups."""
    a, b = (scored.groups[position] for position in pair)
    cells, visits = grid.grid_visits(*a.ranked, *b.ranked, N_GRID)
    return cells, visits


@dataclass(frozen=True, eq=False)
class Worst:
    """The largest gap of all pairs on every interval ``[i, j)``, and its pair, by kind of gap."""

    values: dict[str, Floats]
    pair: dict[str, Ints]
    bottom: float

    @classmethod
    def of(cls, scored: ScoredGroups) -> Worst:
        """Compute the gaps of all pairs."""
        kinds = ("interval", "absolute", "auc")
        values = {kind: np.where(np.tri(N_GRID, k=-1) > 0, np.nan, -1.0) for kind in kinds}
        pair: dict[str, Ints] = {kind: np.zeros((N_GRID, N_GRID), dtype=np.int64) for kind in kinds}
        bottom = 0.0
        for position, curve in enumerate(grid.visits_of_pairs(scored.groups, N_GRID)):
            visits = (*curve, N_GRID)
            bottom = max(bottom, grid.bottom_lead(*visits))
            # One pass along the rank curve gives three kinds of gap on all 5,050 intervals.
            of_pair = {
                "interval": grid.clipped_grid_gaps(*visits),
                "absolute": grid.gaps_in_strips(grid.widest_in_strips(*visits)),
                "auc": grid.grid_aucs(*visits),
            }
            for kind in kinds:
                # Without a gap the AUC is one half.
                no_gap = 0.5 if kind == "auc" else 0.0
                grid.keep_widest(of_pair[kind], no_gap, position, values[kind], pair[kind])
        return cls(values, pair, bottom)

    def record(self) -> dict[str, Any]:
        """Return plain data: the upper triangles by rows, and the gap at rank 1."""
        upper = np.triu_indices(N_GRID)
        kinds = {
            kind: {"values": pack(gaps[upper]), "pair": pack(self.pair[kind][upper], "<u4")}
            for kind, gaps in self.values.items()
        }
        return {"kinds": kinds, "bottom": self.bottom}


def _pairwise(scored: ScoredGroups) -> dict[str, Any] | None:
    """Return gaps of all ranks: ``A(k⁺, j⁻) + A(k⁻, j⁺) − 1`` of pairs, and ``A(k⁺, k⁻)`` of groups."""
    if scored.groups[0].positive is None:
        return None
    leads = np.abs(inter_group_leads(scored, "half"))
    both_orders = np.maximum(leads, leads.T)[np.triu_indices(len(scored), 1)]
    return {"inter": pack(both_orders), "intra": pack(group_aucs(scored, "half"))}


_STEPS_PER_MEMBER = 1000
"""Weights that stay are stored in thousandths of a member, more precisely than they are displayed."""


@dataclass(frozen=True, eq=False)
class _Members:
    """A group that is large enough to be disclosed: its name, weights, and positions under each model."""

    name: str
    weights: Floats
    places: tuple[GridPlaces, ...]

    @property
    def step(self) -> float:
        """The unit in which weights that stay are stored."""
        return float(self.weights.mean()) / _STEPS_PER_MEMBER


@dataclass(frozen=True, eq=False)
class IntervalChanges:
    """Rows that enter and leave between models, on the audited interval and on all others.

    Attributes
    ----------
    names
        Names of the models.
    section
        The table of the audited interval, from the first model to each other one.
    members
        The groups that are shown on other intervals.
    left_out
        Number of groups that are too small for this.
    """

    names: tuple[str, ...]
    section: Section
    members: tuple[_Members, ...]
    left_out: int

    def record(self, shown: int, room: int) -> dict[str, Any]:
        """Return plain data for JSON: tables of weights that stay, up to the available size.

        The pair of the first model and the one that is shown first comes first, then other pairs with the
        first model, then the rest; within a pair of models, large groups come first.

        Parameters
        ----------
        shown
            Position of the model that is shown first.
        room
            The largest number of characters of all tables.
        """
        tables: dict[tuple[int, int], dict[str, str]] = {}
        for models, k in self._by_priority(shown):
            group = self.members[k]
            before, after = (group.places[model] for model in models)
            text = pack_stays(grid_stays(before, after, group.weights) / group.step)
            room -= len(text)
            # Tables of lower priority are left out as well.
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
    """Compare which rows are in the interval under several models, for `audit_page`.

    Parameters
    ----------
    scores
        Scores of the same rows by name of the model, in the order of the reports.
    sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `interval_changes`.

    Returns
    -------
    IntervalChanges or None
        None if there is only one model.
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
        # The ranks of so few members could be inferred.
        if rows.size <= DISCLOSED:
            left_out += 1
            continue
        places = tuple(GridPlaces.of(vector[rows], weights[rows], N_GRID) for vector in vectors)
        members.append(_Members(group_name(label), weights[rows], places))
    return IntervalChanges(tuple(scores), section, tuple(members), left_out)


def _audited_changes(
    scores: Mapping[str, ArrayLike], interval: IntervalLike, ranking_options: Mapping[str, Any]
) -> Section:
    """Return how many rows enter and leave the audited interval, from the first model to each other."""
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
        f"At {ranks}, compared with {first}; weights are counted if there are any. "
        "The interval contains the same number of a group under every model."
    )
    columns = ("model", "group", "in the interval", "stay", "enter", "leave")
    return Section("Rows that enter and leave: as audited", rows, columns, text)


def pack_stays(steps: Floats) -> str:
    """Return S(i, j), in steps, as its differences T(i, j), packed with seven bits per byte as base64.

    T is computed from rounded S, so that sums of T restore S within half a step. Numbers are zigzag encoded
    (0, −1, 1, −2, ...), lowest bits first; a zero is followed by the number of further zeros.
    """
    # S is 0 on empty intervals.
    corners = np.zeros((N_GRID + 1, N_GRID + 1), dtype=np.int64)  # S at [i, j]; an empty interval has 0
    upper = np.triu_indices(N_GRID)
    corners[upper[0], upper[1] + 1] = np.rint(steps).astype(np.int64)
    cells = corners[:-1, 1:] - corners[1:, 1:] - corners[:-1, :-1] + corners[1:, :-1]
    return base64.b64encode(bytes(_varints(_zigzag(cells[upper])))).decode()


def _zigzag(values: Ints) -> Sequence[int]:
    """Return the zigzag code of signed numbers."""
    zigzag: list[int] = np.where(values < 0, -2 * values - 1, 2 * values).tolist()
    return zigzag


def _varints(values: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of nonnegative numbers: seven bits each, the eighth bit set if another byte follows."""
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
