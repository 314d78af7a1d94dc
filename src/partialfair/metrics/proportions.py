"""Confidence bounds of gaps at one threshold, which are differences of proportions.

At one threshold θ a gap compares one proportion ``P_k`` of each group: selected rows of the interval (pDP),
or of the interval's rows with one label (pEOP, pEOD). Their bounds use no draws.

**Limits of one proportion.** Two things are sampled:

- The rank ``F = F̄_k(θ)`` of the threshold is a binomial proportion with exact (Clopper–Pearson) limits. P
  changes with F by ``1/m`` inside the interval and not at all outside. At an end of the interval, limits that
  are clipped like P would miss up to 9% of the time, for a nominal 5%. The slope is therefore continued
  beyond the ends, as long as the limits of F at half of the error reach the interval. The remaining rate is
  up to 6% where both groups' ranks lie at ends (5.4% where one does).
- Where ranks are taken in the whole group and the proportion is one of a label, labels are sampled too.
  Let ``h_A`` and ``h_B`` be the proportions with the label among the selected rows A and the other rows
  B, and T the proportion of A among the X rows with the label. Given the ranks, T varies like a
  proportion of ``X / [(1 − T)(1 − h_A) + T (1 − h_B)]`` rows, so its limits are the Clopper–Pearson
  limits for that number. With a proportion h of labels that is linear in the rank, T changes with F by
  ``h(F)`` over the labels' mass, and ``h(F) = (1 − ρ) h_A + ρ h_B`` if the threshold selects the
  proportion ρ of the interval. The two distances are added in squares. If h jumps at an end of the
  interval, rows beyond the end may enter, and this is too small. So distances are at least those of
  another sum of squares: of limits of T in X rows for known scores at the ends, and of changes of T with
  ends at their limits (on the absolute scale these two errors are not independent, and such a jump is not
  corrected for). On the interval (0, 1), T is a binomial proportion of the rows with the label.

Weights and clusters change sizes: the effective size is ``p (1 − p) / v`` with the linearized variance v
between rows or clusters, corrected by Student's quantile (Korn and Graubard), and never more than
``(Σw)² / Σw²`` of the rows. Where p is 0 or 1 and has no variance, the size is that of the clusters.

**Differences** (MOVER: Zou and Donner, Newcombe). Let ``l_k`` and ``u_k`` be the distances from P_k to its
limits. Then ``P_k − P_j`` is at most ``P_k − P_j + √(u_k² + l_j² − 2 r u_k l_j)``, where r is the correlation
that clusters with rows in both groups cause, else 0.

**Upper bound.** "No difference is larger than U" is a claim about every pair, sign and label, so U is the
largest of their upper limits, each at the whole error (intersection–union).

**Lower bound.** "Some difference is larger than L" is a choice among them. A tenth of the error goes to
simultaneous limits, which leave the candidates for the largest difference; the rest is divided among these
(Bonferroni), and L is the largest of their lower limits.

**The difference of two models' gaps** (`PairedProportions`). Bounds from draws miss too often with few
selected rows: a group in which a model selects no row selects none in any draw. So limits of proportions are
combined here too, for a combination ``Σ c_t P_t`` over the groups (and labels) of both models. With the
distances ``e_t`` from ``c_t P_t`` to its own upper limit, which have the sign of ``c_t``, the upper limit of
the sum is ``√(Σ r_tu e_t e_u)`` above its estimate. The r_tu are the correlations of the estimates: both
models score the same rows (Newcombe's method for paired proportions, in each group). A proportion of 0 or 1
has no correlation with others. The claims are those of `partialfair.metrics.paired`: ``P_k − P_j`` of B is at
most A's gap, for all k ≠ j, compared with the mean of A's contenders, and with A's difference of the same two
groups and label where that has the lower end. If both are compared, each has half of the error; the data
decide whether both are, which is not covered by theory, only by simulation (benchmarks/paired_and_chosen.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from partialfair.data.intervals import RANK_TOLERANCE, tie_ends
from partialfair.metrics.bounds import CANDIDATE_SHARE
from partialfair.metrics.inputs import GroupScores, ScoredGroups, Setting, effective_size
from partialfair.metrics.partial import labelled_proportion, selected_proportion
from partialfair.utils.typing import Floats, Ints

# Rows with the interval's proportion of labels that are added on each side of the threshold, because few rows
# there determine the change of labels with the rank poorly.
_PSEUDO_ROWS = 4.0
# Fraction of the error for the limits of a rank that decide whether it can reach the interval. At an end of
# the interval, where it matters most, this adds 0.1% to the probability of a miss.
_REACH_ERROR = 0.5
# Error at which contenders and the comparison with the lower end are chosen.
_USUAL_ERROR = 0.05
_SMALLEST_ERROR = 1e-12

# From proportions to their lower and upper limits.
_Distances: TypeAlias = tuple[Floats, Floats]


@dataclass(frozen=True)
class _Proportion:
    """Estimated proportion of one group, and the parameters of its limits.

    Attributes
    ----------
    value
        P.
    rank, n_rank
        F and its effective size.
    slope
        Change of P with F.
    next_start, last_end
        Ends of the parts of the interval between which the rank lies, if it lies outside; ∓∞ inside.
    n_labels
        Effective size of T given the ranks; infinite where labels do not matter.
    fixed_outside
        Whether a rank outside the interval determines P.
    degrees
        Degrees of freedom of the variances behind the sizes; infinite for plain counts.
    influence
        Clusters of the rows, and the derivative of P in the weight of each row; None without clusters.
    ends
        P as a function of the ends of the interval, where labels and these are sampled; else None.
    """

    value: float
    rank: float
    n_rank: float
    slope: float
    next_start: float
    last_end: float
    n_labels: float = np.inf
    fixed_outside: bool = True
    degrees: float = np.inf
    influence: tuple[Ints, Floats] | None = None
    ends: _Ends | None = None


@dataclass(frozen=True, eq=False)
class _Ends:
    """A label's proportion T as a function of the ends of the interval.

    Attributes
    ----------
    parts
        The interval.
    ranks, labeled
        Ranks at which blocks of ties end, and the mass of rows with the label that has been passed there.
    rank
        F, up to which rows are selected.
    n_labeled
        Effective size of the rows with the label.
    """

    parts: tuple[tuple[float, float], ...]
    ranks: Floats
    labeled: Floats
    rank: float
    n_labeled: float

    def value(self, lows: Floats, highs: Floats) -> float:
        """T, were these the ends."""
        lows = np.minimum(lows, highs)
        passed = [np.interp(at, self.ranks, self.labeled) for at in (lows, highs)]
        until = np.interp(np.clip(self.rank, lows, highs), self.ranks, self.labeled)
        selected, inside = float((until - passed[0]).sum()), float((passed[1] - passed[0]).sum())
        return selected / inside if inside > 0 else np.nan

    def distances(self, n_rank: float, n_labeled: float, error: float) -> tuple[float, float]:
        """Distances from T to its limits: given the ends, and with ends at the limits of their ranks."""
        starts, stops = (np.array(ends) for ends in zip(*self.parts, strict=True))
        first, last = float(starts[0]), float(stops[-1])
        # The correlation of the ranks of the two ends, as of two points of a Brownian bridge.
        together = np.sqrt(first * (1 - last) / max(last * (1 - first), RANK_TOLERANCE))
        estimate = self.value(starts, stops)
        limits = [_limits(ends, np.full(ends.size, n_rank), error) for ends in (starts, stops)]
        given = _limits(np.array([estimate]), np.array([n_labeled]), error)
        distances = []
        for side in (1, 0):  # with ends at higher ranks T is smaller
            moved = [self.value(limits[0][side], stops), self.value(starts, limits[1][side])]
            a, b = (0.0 if np.isnan(value) else abs(value - estimate) for value in moved)
            alone = abs(float(given[1 - side][0]) - estimate)
            distances.append(float(np.sqrt(alone**2 + a**2 + b**2 + 2 * together * a * b)))
        return distances[0], distances[1]


@dataclass(frozen=True, eq=False)
class ProportionGaps:
    """Bounds of the largest difference of proportions between groups, over one or two labels.

    Attributes
    ----------
    by_label
        For each label that is compared (pDP: for all rows), the proportions of the groups.
    error
        One minus the confidence of the intervals of pairs.
    """

    by_label: tuple[tuple[_Proportion, ...], ...]
    error: float

    @property
    def gap(self) -> float:
        """The largest difference."""
        return float(np.abs(self.differences).max())

    def above(self, error: float) -> float:
        """Return how far above the gap the true gap may be, at that error probability."""
        return float(self._upper(error).max()) - self.gap

    def below(self, error: float) -> float:
        """Return how far below the gap the true gap may be, at that error probability."""
        spent = CANDIDATE_SHARE * error
        n_groups = len(self.by_label[0])
        n_pairs = max(len(self.by_label) * n_groups * (n_groups - 1) // 2, 1)
        each = spent / (2 * n_pairs)
        lower, upper = self._lower(each), self._upper(each)
        # A difference and its negative are at [k, j] and [j, k]; candidates may be the largest of all.
        candidates = (upper >= max(lower.max(), 0.0)) & ~np.eye(n_groups, dtype=bool)
        level = (error - spent) / max(int(np.count_nonzero(candidates)), 1)  # Bonferroni
        return self.gap - float(np.where(candidates, self._lower(level), 0.0).max())

    def p_value(self, excess: float) -> float:
        """Return the smallest error at which the lower bound shows a gap larger than ``gap − excess``."""
        if excess <= 0:
            return 1.0
        return _smallest_error(lambda error: self.below(error) < excess, n_bisections=40)

    def pair_ends(self) -> tuple[Ints, Floats, Floats, Floats]:
        """Return positions, gap, and interval of every pair of groups, each as a single comparison."""
        k, j = np.triu_indices(len(self.by_label[0]), 1)
        # A pair's lower limit is the largest over its labels, which share the error.
        lower, upper = self._lower(self.error / (2 * len(self.by_label))), self._upper(self.error / 2)
        gaps, lows, highs = (
            np.maximum(ends[:, k, j], ends[:, j, k]).max(axis=0) for ends in (self.differences, lower, upper)
        )
        return np.stack([k, j], axis=1), gaps, lows, highs

    @cached_property
    def values(self) -> Floats:
        """Proportions by label and group."""
        return self._field("value")

    @cached_property
    def differences(self) -> Floats:
        """``P_k − P_j`` at ``[label, k, j]``."""
        return np.asarray(self.values[:, :, None] - self.values[:, None, :])

    def _upper(self, error: float) -> Floats:
        """Upper limit of each difference by itself (MOVER); that of a group with itself is 0."""
        below, above = self.distances(error)
        first, second = above[:, :, None], below[:, None, :]
        squares = first**2 + second**2 - 2 * self._correlations * first * second
        squares[:, np.arange(squares.shape[1]), np.arange(squares.shape[1])] = 0.0
        return np.asarray(self.differences + np.sqrt(np.maximum(squares, 0.0)))

    def _lower(self, error: float) -> Floats:
        return np.asarray(-np.swapaxes(self._upper(error), 1, 2))

    def distances(self, error: float) -> tuple[Floats, Floats]:
        """Distances from each proportion to its lower and upper limit."""
        rank, n_rank, slope = self._field("rank"), self._field("n_rank"), self._field("slope")
        degrees, n_labels = self._field("degrees"), self._field("n_labels")
        # The part of the rank: its limits times the slope, as long as they reach the interval.
        low, high = _limits(rank, _correct_sizes(n_rank, degrees, error), error)
        strict = _REACH_ERROR * error
        least, most = _limits(rank, _correct_sizes(n_rank, degrees, strict), strict)
        within_reach = (most > self._field("next_start")) | (least < self._field("last_end"))
        slope = np.where(within_reach, slope, 0.0)
        below, above = slope * np.maximum(rank - low, 0.0), slope * np.maximum(high - rank, 0.0)
        # The part of labels, given the ranks; the two distances are added in squares.
        uncertain = np.isfinite(n_labels) & (within_reach | ~self._field("fixed_outside").astype(bool))
        if uncertain.any():
            size = np.where(uncertain, n_labels, 1.0)
            low, high = _limits(self.values, _correct_sizes(size, degrees, error), error)
            below = np.where(uncertain, np.hypot(below, np.maximum(self.values - low, 0.0)), below)
            above = np.where(uncertain, np.hypot(above, np.maximum(high - self.values, 0.0)), above)
        # Where the proportion of labels jumps at an end of the interval, the distances are at least these.
        for place, proportion in np.ndenumerate(np.array(self.by_label, dtype=object)):
            if proportion.ends is not None and within_reach[place]:
                sizes = np.array([proportion.n_rank, proportion.ends.n_labeled])
                corrected = _correct_sizes(sizes, np.full(2, proportion.degrees), error)
                low_end, high_end = proportion.ends.distances(*corrected.tolist(), error)
                below[place], above[place] = max(below[place], low_end), max(above[place], high_end)
        return below, above

    @cached_property
    def _correlations(self) -> Floats:
        """Correlations of the groups' estimates: a cluster may have rows in several groups."""
        if self.by_label[0][0].influence is None:
            return np.zeros((1, 1, 1))
        return np.array([correlations(proportions) for proportions in self.by_label])

    def _field(self, name: str) -> Floats:
        return np.array([[getattr(each, name) for each in row] for row in self.by_label], dtype=np.float64)


def _smallest_error(is_shown: Callable[[float], bool], n_bisections: int) -> float:
    """Return the smallest error at which something is shown, given that it is at all larger ones."""
    low, high = np.log(_SMALLEST_ERROR), 0.0
    for _ in range(n_bisections):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))


def correlations(proportions: Sequence[_Proportion]) -> Floats:
    """Return the correlations of estimated proportions that share rows or clusters; 0 where one is fixed."""
    rows = [proportion.influence for proportion in proportions if proportion.influence is not None]
    clusters = np.concatenate([each for each, _ in rows])
    columns = np.repeat(np.arange(len(rows)), [each.size for each, _ in rows])
    values = np.concatenate([each for _, each in rows])
    sums = sparse.coo_array((values, (clusters, columns))).tocsr()
    products = np.asarray((sums.T @ sums).todense())
    size = np.sqrt(np.maximum(np.diag(products), np.finfo(np.float64).tiny))
    return np.clip(products / size[:, None] / size, -1.0, 1.0)


def estimate_proportions(
    scored: ScoredGroups, setting: Setting, labels: Sequence[bool | None], confidence: float
) -> ProportionGaps:
    """Return the proportions of all groups at the threshold, for each label or (None) for all rows."""

    def estimate(group: GroupScores, label: bool | None) -> _Proportion:
        if label is None:
            return _of_ranks(group, setting)
        # On all ranks, ranks of the whole group do not matter.
        if setting.rank_within == "group_and_label" or group.interval.parts == ((0.0, 1.0),):
            return _of_ranks(group.with_label(label), setting)
        return _of_label(group, setting, label)

    by_label = tuple(tuple(estimate(group, label) for group in scored) for label in labels)
    return ProportionGaps(by_label, 1 - confidence)


def _of_ranks(group: GroupScores, setting: Setting) -> _Proportion:
    """Proportion of a group's interval that is selected."""
    assert setting.threshold is not None
    slope = 1 / group.interval.measure if setting.gap_scale == "interval" else 1.0
    rank, mass = float(group.rank(setting.threshold)), _mass(group)
    errors = mass * ((group.scores > setting.threshold) - rank)
    next_start, last_end = -np.inf, np.inf
    if group.interval.side(rank) != "inside":
        next_start = min((low for low, _ in group.interval.parts if low > rank), default=np.inf)
        last_end = max((high for _, high in group.interval.parts if high < rank), default=-np.inf)
    # Plain counts have binomial variances; those of weights or clusters are estimated.
    plain = group.weights is None and group.clusters is None
    return _Proportion(
        selected_proportion(group, setting),
        rank,
        _effective_size(group, rank, errors, effective_size(mass)),
        slope,
        next_start,
        last_end,
        degrees=np.inf if plain else max(group.n_effective - 1, 1.0),
        influence=None if group.clusters is None else (group.clusters, slope * errors),
    )


def _of_label(group: GroupScores, setting: Setting, label: bool) -> _Proportion:
    """Proportion, of a label's rows in the interval, that is selected; ranks are those of the whole group."""
    assert setting.threshold is not None
    assert group.positive is not None
    whole = _of_ranks(group, setting)  # the threshold's rank is that in the whole group
    is_selected, has_label = group.scores > setting.threshold, group.positive == label
    mass, inside = _mass(group), group.interval.measure * group.in_band
    # T is a proportion of these rows with the label.
    total = inside if setting.gap_scale == "interval" else mass
    selected = inside * is_selected
    with_label = float(total[has_label].sum())
    value = labelled_proportion(group, setting, label)

    def label_rate(part: Floats, pseudo_rows: float, rate: float) -> float:
        """Proportion with the label, of rows of that mass and some more with a given rate."""
        n_rows = part.sum() * group.n_effective
        n_labeled = part[has_label].sum() * group.n_effective
        return float((n_labeled + pseudo_rows * rate) / (n_rows + pseudo_rows))

    inside_rate = float(inside[has_label].sum() / inside.sum())
    upper, lower = (label_rate(part, _PSEUDO_ROWS, inside_rate) for part in (selected, inside - selected))
    # h(F) = (1 − ρ) h_A + ρ h_B over the labels' mass; ρ is the depth of the threshold in the interval.
    depth = float(selected.sum() / inside.sum())
    slope = ((1 - depth) * upper + depth * lower) / with_label
    # The part of labels. A row without the label is added on each side, so that few rows do not give a rate
    # of 1.
    others = total - selected
    known = (1 - value) * (1 - label_rate(selected, 1.0, 0.0)) + value * (1 - label_rate(others, 1.0, 0.0))
    rates = [float(part[has_label].sum() / part.sum()) if part.any() else 0.0 for part in (selected, others)]
    errors = (
        (1 - value) * selected * (has_label - rates[0]) - value * others * (has_label - rates[1])
    ) / with_label
    labeled = total[has_label]
    size = _effective_size(group, value, errors, effective_size(labeled) / known, group.with_label(label))
    # Derivative of the proportion in the weight of each row: through the rank, and through the labels.
    influence = slope * mass * (is_selected - whole.rank) + errors
    ends = None
    if setting.gap_scale == "interval":
        given_ends = has_label * (selected - value * total) / with_label
        n_labeled = _effective_size(
            group, value, given_ends, effective_size(labeled), group.with_label(label)
        )
        ends = _label_ends(group, mass, has_label, whole.rank, n_labeled)
    return replace(
        whole,
        value=value,
        slope=slope,
        n_labels=size,
        fixed_outside=not (selected.any() and others.any()),
        influence=None if group.clusters is None else (group.clusters, influence),
        ends=ends,
    )


def _label_ends(
    group: GroupScores, mass: Floats, has_label: npt.NDArray[np.bool_], rank: float, n_labeled: float
) -> _Ends:
    """Return the mass of labels passed at each rank, from the top: T for any ends follows from it."""
    blocks = tie_ends(group.scores[::-1])
    passed_rows, passed_labels = (
        np.concatenate([[0.0], np.cumsum(part[::-1])])[blocks] for part in (mass, mass * has_label)
    )
    return _Ends(group.interval.parts, passed_rows / passed_rows[-1], passed_labels, rank, n_labeled)


def _limits(proportion: Floats, size: Floats, error: float) -> tuple[Floats, Floats]:
    """Clopper–Pearson limits, each with that error; sizes may be fractions."""
    hits, others = proportion * size, (1 - proportion) * size
    tiny = np.finfo(np.float64).tiny
    low = special.betaincinv(np.maximum(hits, tiny), others + 1, error)
    high = special.betaincinv(hits + 1, np.maximum(others, tiny), 1 - error)
    return np.where(hits > 0, low, 0.0), np.where(others > 0, high, 1.0)


def _correct_sizes(size: Floats, degrees: Floats, error: float) -> Floats:
    """Return effective sizes that correct normal quantiles for estimated variances."""
    student = np.where(np.isfinite(degrees), special.stdtrit(np.minimum(degrees, 1e9), 1 - error), 1.0)
    normal = np.where(np.isfinite(degrees), special.ndtri(1 - error), 1.0)
    return np.asarray(np.maximum(size * (normal / student) ** 2, 1.0)) if error < 0.5 else size


def _effective_size(
    group: GroupScores, proportion: float, errors: Floats, most: float, members: GroupScores | None = None
) -> float:
    """Return the number of independent rows of equal weight with the same variance of the proportion.

    ``errors`` are the contributions of rows to the estimate's error, ``most`` is the size for independent
    rows, and ``members`` are the rows that count where the proportion is 0 or 1.
    """
    if group.weights is None and group.clusters is None:
        return most
    if not RANK_TOLERANCE < proportion < 1 - RANK_TOLERANCE:
        return min(most, (group if members is None else members).n_effective)
    sums = errors if group.clusters is None else np.bincount(group.clusters, weights=errors)
    n_units = errors.size if group.clusters is None else np.unique(group.clusters).size
    variance = float((sums**2).sum()) * n_units / max(n_units - 1, 1)
    return (
        min(most, proportion * (1 - proportion) / variance) if variance > 0 else min(most, group.n_effective)
    )


def _mass(group: GroupScores) -> Floats:
    """Weights of the rows, which add up to 1."""
    return np.full(group.n, 1 / group.n) if group.weights is None else group.weights / group.weights.sum()


@dataclass(frozen=True, eq=False)
class PairedProportions:
    """Upper ends of one model's gap minus the other's.

    Attributes
    ----------
    one, other
        The proportions of both models on the same rows, which have clusters.
    n_deviations
        Largest distance of the other model's contenders from its largest difference, in standard deviations.
    """

    one: ProportionGaps
    other: ProportionGaps
    n_deviations: float

    def upper_end(self, error: float) -> float:
        """Return the upper end of the difference of the true gaps at that error probability."""
        ends = self._ends(error)[0]
        if self._compare_both.any():
            ends = np.where(self._compare_both, np.minimum(*self._ends(error / 2)), ends)
        return float(ends.max())

    def p_value(self) -> float:
        """Return the largest error at which the upper end is not below 0."""
        return _smallest_error(lambda error: self.upper_end(error) < 0, n_bisections=20)

    @cached_property
    def _compare_both(self) -> npt.NDArray[np.bool_]:
        with_mean, at_same = self._ends(_USUAL_ERROR)
        return np.asarray(at_same < with_mean - 1e-12)

    def _ends(self, error: float) -> tuple[Floats, Floats]:
        """Upper ends of ``P_k − P_j`` minus the mean of contenders, and minus the other's ``P_k − P_j``."""
        ours, theirs = self.one.differences, self.other.differences
        reference = (self._contenders * self.other.values).sum()
        distances = self.one.distances(error), self.other.distances(error)
        with_mean = ours - reference + self._radius(0, self._contenders, *distances)
        at_same = ours - theirs + self._radius_at_same(*distances)
        diagonal = np.eye(ours.shape[1], dtype=bool)  # a group has no difference from itself
        return np.where(diagonal, -np.inf, with_mean), np.where(diagonal, -np.inf, at_same)

    @cached_property
    def _contenders(self) -> Floats:
        """Coefficients by which the other model's proportions make the mean difference of its contenders."""
        differences = self.other.differences
        label, k, j = np.unravel_index(np.argmax(differences), differences.shape)
        top = np.zeros_like(self.other.values)
        top[label, k] += 1
        top[label, j] -= 1
        distances = self.other.distances(_USUAL_ERROR)
        deviation = self._radius(1, top, distances, distances) / special.ndtri(1 - _USUAL_ERROR)
        shortfall = differences[label, k, j] - differences
        chosen = (shortfall <= self.n_deviations * deviation) & (differences > 0)
        return np.asarray((chosen.sum(axis=2) - chosen.sum(axis=1)) / max(int(chosen.sum()), 1))

    def _radius(self, model: int, coefficients: Floats, ours: _Distances, theirs: _Distances) -> Floats:
        """Distance to the upper end of a model's differences minus a combination of the other's."""
        (below, above), (their_below, their_above) = ours, theirs
        errors = -coefficients * np.where(coefficients > 0, their_below, their_above)
        shared = np.tensordot(self._correlations[model, :, :, 1], errors, axes=2)
        squares = np.tensordot(errors, np.tensordot(self._correlations[1, :, :, 1], errors, axes=2), axes=2)
        crossed = (above * shared)[:, :, None] - (below * shared)[:, None, :]
        return np.sqrt(np.maximum(self._squares(model, above, below) + 2 * crossed + squares, 0.0))

    def _radius_at_same(self, ours: _Distances, theirs: _Distances) -> Floats:
        """Distance to the upper end of the difference of both models' differences."""
        (below, above), (their_below, their_above) = ours, theirs
        shared = self._by_label(0, 1)
        of_same_group = np.diagonal(shared, axis1=1, axis2=2)
        crossed = (
            shared * above[:, :, None] * their_above[:, None, :]
            + np.swapaxes(shared, 1, 2) * their_below[:, :, None] * below[:, None, :]
            - (of_same_group * above * their_below)[:, :, None]
            - (of_same_group * below * their_above)[:, None, :]
        )
        squares = self._squares(0, above, below) + self._squares(1, their_below, their_above)
        return np.sqrt(np.maximum(squares + 2 * crossed, 0.0))

    def _squares(self, model: int, first: Floats, second: Floats) -> Floats:
        """Squared distance of a model's differences, by those of the first and of the second proportion."""
        first, second = first[:, :, None], second[:, None, :]
        return np.asarray(first**2 + second**2 - 2 * self._by_label(model, model) * first * second)

    def _by_label(self, model: int, other: int) -> Floats:
        """Correlations of two models' proportions of the same label, at ``[label, k, j]``."""
        return np.stack([self._correlations[model, i, :, other, i] for i in range(self.one.values.shape[0])])

    @cached_property
    def _correlations(self) -> Floats:
        """Correlations at ``[model, label, group, model, label, group]``."""
        proportions = [each for model in (self.one, self.other) for row in model.by_label for each in row]
        matrix = correlations(proportions)
        np.fill_diagonal(matrix, 1.0)
        return matrix.reshape(2 * (2, *self.one.values.shape))
