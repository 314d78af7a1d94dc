"""Group AUC: members of one group in the interval outrank those of another with probability near ½."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from partialfair.constraints.base import Constraint, Positive
from partialfair.constraints.block import ConstraintBlock
from partialfair.constraints.dc import DC, DCSystem, PairSums, atom
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Groups, members_of
from partialfair.exceptions import InputError
from partialfair.utils.text import short_percent
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class GroupAUC(Constraint):
    """Partial group AUC (pGAUC), by surrogates of all pairs (Appendix A).

    ``|M − ½| ≤ κ`` for every pair of groups k, k', with M the mean of ``σ(s_i − t_j)`` over the members of k
    and of k' in their intervals. All surrogates satisfy ``σ(x) + σ(−x) = 1``, so the order of a pair does not
    matter.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap, which never exceeds ½. Values below 0.001 count as 0.001.
    gap_scale : {"interval"}, default="interval"
        M is the same on any scale.

    See Also
    --------
    partialfair.metrics.partial_group_auc_difference : The gap that the constraint limits.
    StatisticalParity : Limits the difference of the whole distributions inside the interval.

    Notes
    -----
    Let ``H_φ(b, c)`` be the sum of ``φ(s_i − t_j)`` over the top b of k and the bottom c of k', as fractions
    of the groups' weights; it is jointly convex for φ = σ⁺ and σ⁻ (see `PairSums`). Each interval (α, β) is
    the top β without the top α, and in k' also the bottom 1 − α' without the bottom 1 − β'. Hence ``m_k m_k'
    M = Σ ±[H_σ⁺(b, 1 − r) − H_σ⁻(b, 1 − r)]`` over all ends b of intervals of k and r of k', with + where one
    of the two ends is an upper and the other a lower one. Linear scorers need no ρ-shift, unlike in the
    paper's Example D.7.

    Ramps cost O(n log n), the sigmoid O(n²). The constraint compares members of different groups, and
    therefore needs all rows in one place.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.constraints import GroupAUC
    >>> clf = PartialFairClassifier(GroupAUC((0.05, 0.30), max_gap=0.02))
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gap_scale == "absolute":
            raise InputError("gap_scale='absolute' has no meaning for group AUC, which has one scale only")

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Return two functions per pair of groups: M at most ½ + κ, and at least ½ − κ."""
        intervals = self.intervals(groups)
        # The set of ranks is the signed sum of tops: +1 for upper and −1 for lower ends of its intervals.
        ends = [
            {end: sign for low_high in part.parts for end, sign in zip(low_high, (-1, 1), strict=True)}
            for part in intervals
        ]
        pairs = tuple(combinations(range(len(groups.labels)), 2))
        bank = PairSums(
            surrogate,
            len(groups.labels),
            pairs,
            tops=tuple(tuple(end for end in group_ends if end > 0) for group_ends in ends),
            bottoms=tuple(tuple(end for end in group_ends if end < 1) for group_ends in ends),
        )
        functions, names = [], []
        for position, (k, other) in enumerate(pairs if self.can_bind(0.5) else ()):
            # m_k m_k' M: signed sums over tops and bottoms, (−1)² for two lower or two upper ends.
            mean = DC()
            for top, b in enumerate(bank.tops[k]):
                for bottom, r in enumerate(bank.bottoms[other]):
                    both = atom(bank.plus(position, top, bottom)) - atom(bank.minus(position, top, bottom))
                    mean = mean + (-ends[k][b] * ends[other][r]) * both
            mean = (1 / (intervals[k].measure * intervals[other].measure)) * mean
            # |M − ½| ≤ κ as two functions, each with a linearisation of its own.
            functions += [mean - (0.5 + self.kappa), -mean + (0.5 - self.kappa)]
            for ahead, behind in ((k, other), (other, k)):
                names.append(
                    f"{groups.names[ahead]} outrank {groups.names[behind]} at most "
                    f"{short_percent(0.5 + self.max_gap)} of the time"
                )
        members = members_of(groups.codes, weights, len(groups.labels))
        return ConstraintBlock(bank, members, DCSystem(tuple(functions), bank.n_atoms), tuple(names))
