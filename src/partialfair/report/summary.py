"""What a page needs to know of one model's scores: enough for exact gaps, whatever the number of rows.

Intervals end on whole percents. Between two groups, the visits of the rank curve to the cells of that grid
(see `partialfair.metrics.grid`) determine statistical parity and the group AUC on all of
them; the gaps at a threshold follow from each group's ranks and positives there and at whole percents.

Gaps come from ranks alone, which count from the best score. Scores are only shown, in the users' units.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.data.intervals import running_weight, tie_ends
from partialfair.metrics import grid
from partialfair.metrics.discrete import DiscreteScores, score_span
from partialfair.metrics.inputs import GroupScores, ScoredGroups, oriented
from partialfair.metrics.map_radii import MapRadii
from partialfair.metrics.partial import group_aucs, inter_group_leads
from partialfair.utils.typing import Floats, Ints

__all__ = ["DISCLOSED", "N_GRID", "Worst", "leading_pairs", "packed", "summarise"]

Pair: TypeAlias = tuple[int, int]

N_GRID = 100
"""Intervals end on multiples of 1 / N_GRID."""

DISCLOSED = 2 * N_GRID
"""Members of a group whose quantiles at whole percents are nearly the scores themselves."""

_N_BINS = 80
_KNOTS = np.arange(N_GRID + 1) / N_GRID


def packed(values: npt.ArrayLike, dtype: str = "<f8") -> str:
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
                "density": packed(_binned(shown, edges) if discrete is None else discrete.shares(shown)),
            }
            for k, (group, shown) in enumerate(zip(scored, seen, strict=True))
        ],
        "levels": {
            "interval": _finite(radii.interval_level),
            "absolute": _finite(radii.absolute_level),
        },
        "thresholds": drawn.tolist(),
        "selected": packed(np.average([group.rank(thresholds) for group in scored], axis=0, weights=sizes)),
        "bins": edges.tolist(),
        "bars": None if discrete is None else _bars(discrete, drawn, scored.higher_is_better),
        "nPairs": len(everyone),
        "pairs": [{"groups": pair, "visits": packed(_visits(scored, pair)[1])} for pair in pairs or everyone],
        "worst": None if worst is None else worst.record(),
        "pairwise": _pairwise(scored),
    }


def _finite(level: float) -> float | None:
    """JSON has no infinity: None stands for it."""
    return level if np.isfinite(level) else None


def leading_pairs(scored: ScoredGroups, worsts: Sequence[Worst], n_pairs: int) -> list[Pair]:
    """Return the pairs that are the worst most often under some models, then those of the largest groups."""
    pairs, upper = list(scored.pairs()), np.triu_indices(N_GRID)
    found = np.concatenate([pair[upper] for worst in worsts for pair in worst.pair.values()])
    often = np.bincount(found, minlength=len(pairs))
    sizes = np.array([min(scored.groups[k].n, scored.groups[j].n) for k, j in pairs])
    first = np.lexsort((-sizes, -often))[:n_pairs]
    return [pairs[position] for position in sorted(first.tolist())]


def _thresholds(scored: ScoredGroups, own: float | None) -> Floats:
    """Scores above which 1, 2, ..., 99 % of all are, and the one that was asked for."""
    scores = np.concatenate([group.scores for group in scored])
    weights = np.concatenate(
        [np.ones(group.n) if group.weights is None else group.weights for group in scored]
    )
    order = np.argsort(scores)[::-1]
    above = np.cumsum(weights[order])
    first = np.searchsorted(above, _KNOTS[1:-1] * above[-1] * (1 + 1e-12), side="right")
    chosen = scores[order][np.minimum(first, scores.size - 1)]
    return chosen if own is None else np.append(chosen, own)


def _bin_edges(scored: ScoredGroups) -> Floats:
    """Bins of scores; what lies far away from all others belongs to the first and the last bin."""
    low, high = score_span(scored)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _N_BINS + 1)


def _binned(group: GroupScores, edges: Floats) -> Floats:
    """Share of the group in each bin."""
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
        "cuts": packed(discrete.cuts(thresholds, higher_is_better)),
    }


def _group(group: GroupScores, thresholds: Floats, higher_is_better: bool) -> dict[str, Any]:
    """One group: its size, and what lies above whole percents and thresholds."""
    weights = np.ones(group.n) if group.weights is None else group.weights
    from_top = _Ladder.of(group.scores[::-1], weights[::-1])
    record = {
        "name": group.name,
        "n": group.n,
        "nEffective": group.n_effective,
        "tied": float(1 - from_top.is_alone.mean()),
        "scores": packed(oriented(from_top.scores_at(_KNOTS), higher_is_better)),
        "rows": packed(from_top.at(np.ones(group.n), _KNOTS)),
        "ranks": packed(group.rank(thresholds)),
    }
    if group.positive is not None:
        labelled = weights[::-1] * group.positive[::-1] / weights.sum()
        record["positives"] = packed(from_top.at(labelled, _KNOTS))
        record["positivesAbove"] = packed(from_top.at(labelled, group.rank(thresholds)))
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

    @property
    def is_alone(self) -> npt.NDArray[np.bool_]:
        """Whether each member's score is its own."""
        sizes = np.diff(self.ends)
        return np.repeat(sizes == 1, sizes)

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
            of_pair = {
                "interval": grid.clipped_grid_gaps(*visits),
                "absolute": grid.gaps_in_strips(grid.widest_in_strips(*visits)),
                "auc": grid.grid_aucs(*visits),
            }
            for kind in kinds:
                fair = 0.5 if kind == "auc" else 0.0
                grid.keep_widest(of_pair[kind], fair, position, values[kind], pair[kind])
        return cls(values, pair, bottom)

    def record(self) -> dict[str, Any]:
        """Return plain data: the upper triangles, row after row, and the gap at rank 1."""
        upper = np.triu_indices(N_GRID)
        kinds = {
            kind: {"values": packed(gaps[upper]), "pair": packed(self.pair[kind][upper], "<u4")}
            for kind, gaps in self.values.items()
        }
        return {"kinds": kinds, "bottom": self.bottom}


def _pairwise(scored: ScoredGroups) -> dict[str, Any] | None:
    """Gaps that have no interval: ``A(k⁺, j⁻) + A(k⁻, j⁺) − 1`` of pairs, and ``A(k⁺, k⁻)`` of groups."""
    if scored.groups[0].positive is None:
        return None
    leads = np.abs(inter_group_leads(scored, "half"))
    both_orders = np.maximum(leads, leads.T)[np.triu_indices(len(scored), 1)]
    return {"inter": packed(both_orders), "intra": packed(group_aucs(scored, "half"))}
