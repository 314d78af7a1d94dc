"""Evaluates the paper's theorems on generalization (Appendix F).

Where a constant differs from the paper's, the docstring gives both and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partialfair.data.groups import encode_groups, group_name
from partialfair.data.intervals import intervals_by_group
from partialfair.exceptions import InputError
from partialfair.theory.deviations import (
    describe_bound,
    dkw_bound,
    members_needed,
    uniform_deviation_bound,
)
from partialfair.utils.checks import check_count, check_fraction, check_number, finite_vector
from partialfair.utils.text import short_percent
from partialfair.utils.typing import ArrayLike, GroupLabel, IntervalLike


class HasLevel(Protocol):
    """A non-decreasing surrogate with ``σ(−x) = 1 − σ(x)``, such as `constraints.surrogates` has."""

    def level(self, share: float) -> float:
        """Return the x with σ(x) = share."""


@dataclass(frozen=True)
class NearThresholds:
    """γ, and ``n_k^γ = max_p #{i in k : σ(|s_i − θ_p|) ≤ 1 − γ}``, the scores that count partly.

    Attributes
    ----------
    tolerance : float
        γ in (0, ½], the largest distance of σ from the indicator for scores that do not count as near a
        threshold. A difference of proportions, not of scores.
    margin : float
        The distance in scores at which σ is within γ of the indicator, ``σ(margin) = 1 − γ``.
    counts : mapping
        ``n_k^γ`` of each group, at the threshold with the most members near it.
    """

    tolerance: float
    margin: float
    counts: Mapping[GroupLabel, int]


def near_thresholds(
    scores: ArrayLike,
    thresholds: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    surrogate: HasLevel,
    tolerance: float | None = None,
) -> NearThresholds:
    """Count ``n_k^γ = max_p #{i in k : σ(|s_i − θ_p|) ≤ 1 − γ}``, members near a threshold (Appendix F).

    Parameters
    ----------
    scores : array-like of shape (n,)
        Training scores, the ``decision_function`` of the training rows.
    thresholds : array-like of shape (n_points,)
        The θ_p of the constraint, the ``result_.thresholds`` of a fitted estimator.
    sensitive_features : array-like of shape (n,) or (n, q)
        The group of every row.
    surrogate : Surrogate
        Surrogate σ, the ``result_.surrogate`` of a fitted estimator.
    tolerance : float, optional
        Tolerance γ. By default the one of 0.01, 0.02, ..., 0.5 with the least ``max_k γ + n_k^γ / (2 n_k)``. Step 3
        of the proof is deterministic, so γ may depend on the scores.

    Returns
    -------
    NearThresholds
        Tolerance γ and the counts of the groups, for `gap_bound`.

    See Also
    --------
    gap_bound : The bound that uses these counts.

    Examples
    --------
    >>> from partialfair.constraints.surrogates import Ramp
    >>> from partialfair.theory import near_thresholds
    >>> scores, groups = [0.1, 2, 3, 4], ["a", "a", "b", "b"]
    >>> near = near_thresholds(
    ...     scores, [0.0], sensitive_features=groups, surrogate=Ramp(1.0), tolerance=0.1
    ... )
    >>> near.counts
    {'a': 1, 'b': 0}
    """
    values, thetas = finite_vector(scores, "scores"), finite_vector(thresholds, "thresholds")
    if not thetas.size:
        raise InputError("thresholds is empty; only constraints on ranks have thresholds")
    if tolerance is not None:
        check_number(tolerance, "tolerance", high=0.5, low=1e-6)
    groups = encode_groups(sensitive_features, n_rows=values.size)
    by_group = [np.sort(values[groups.codes == k]) for k in range(len(groups.labels))]
    # A large γ counts few scores as near, a small one many; the sum decides.
    found = []
    for gamma in np.arange(1, 51) / 100 if tolerance is None else (tolerance,):
        margin = surrogate.level(1 - float(gamma))  # σ(margin) = 1 − γ
        counts = []
        for members in by_group:
            first = np.searchsorted(members, thetas - margin, side="left")
            counts.append(int((np.searchsorted(members, thetas + margin, side="right") - first).max()))
        bias = max(gamma + n / (2 * members.size) for n, members in zip(counts, by_group, strict=True))
        found.append((bias, float(gamma), margin, counts))
    _, gamma, margin, counts = min(found, key=lambda each: each[0])
    return NearThresholds(gamma, margin, dict(zip(groups.labels, counts, strict=True)))


@dataclass(frozen=True)
class GroupContribution:
    """``(γ + n_k^γ / (2 n_k) + E(n_k)) / m_k``, the part of one group in the bound on its gap to another.

    Attributes
    ----------
    group
        Its label.
    size
        ``n_k``, its members in the training data.
    measure
        ``m_k``, the fraction of them that its interval holds; β − α for one interval.
    surrogate
        ``γ + n_k^γ / (2 n_k)``, the bound on the distance of the mean of σ from the proportion above the
        threshold.
    deviation
        ``E(n_k)``, the bound on the distance of that proportion from the one in the population.
    fixed_deviation
        `dkw_bound`, the same for one scorer that does not depend on these rows.
    size_for_tenth
        The members at which ``2 E(n) / m_k`` would be 0.1.
    """

    group: GroupLabel
    size: int
    measure: float
    surrogate: float
    deviation: float
    fixed_deviation: float
    size_for_tenth: int

    @property
    def excess(self) -> float:
        """The sum on the scale of the gap."""
        return (self.surrogate + self.deviation) / self.measure

    @property
    def fixed_excess(self) -> float:
        """The sum for a fixed scorer and exact counts."""
        return self.fixed_deviation / self.measure

    @property
    def vacuous(self) -> bool:
        """Whether this group alone makes the bound vacuous."""
        return 2 * self.excess >= 1


@dataclass(frozen=True)
class GapBound:
    """``κ + step + 2 v + 2 max_k (γ + n_k^γ / (2 n_k) + E(n_k)) / m_k`` (Theorem F.1).

    Attributes
    ----------
    max_gap : float
        κ of the constraint that the model satisfies on the training data.
    step : float
        Largest step of the grid of ranks, as a fraction of the interval.
    violation : float
        v, the violation of the constraints, on the scale of the gap.
    confidence : float
        1 − δ, the probability over training samples with which the bound holds for all scorers of the class.
    groups : tuple of GroupContribution
        The terms of each group.
    """

    max_gap: float
    step: float
    violation: float
    confidence: float
    groups: tuple[GroupContribution, ...]

    @property
    def worst(self) -> GroupContribution:
        """The group whose terms are largest."""
        return max(self.groups, key=lambda terms: terms.excess)

    @property
    def value(self) -> float:
        """The bound on the gap in the population, on the interval scale."""
        return self.max_gap + self.step + 2 * self.violation + 2 * self.worst.excess

    @property
    def vacuous(self) -> bool:
        """Whether the bound is vacuous: no gap exceeds 1."""
        return self.value >= 1

    @property
    def reference_gap(self) -> float:
        """``κ' = κ − 2 max_k (...) / m_k``, the gap of the models that the objective is compared with.

        A model with that gap in the population satisfies the training constraints: its thresholds for the
        rank ``p + (β − α)(κ − κ') / 2`` can be used for p, so that no step of the grid is lost in this
        direction. Its n_k^γ is unknown and is approximated by that of the fitted model. Below 0 there is no
        such model.
        """
        return self.max_gap - 2 * self.worst.excess

    @property
    def fixed_deviation(self) -> float:
        """Bound on the error of the gap of a fixed scorer that is measured on equally many new rows.

        The sum of the two largest ``ε_k / m_k`` with the ε of `dkw_bound`, for all groups simultaneously.
        """
        return sum(sorted(terms.fixed_excess for terms in self.groups)[-2:])

    def __str__(self) -> str:
        return describe_generalization(self)


def gap_bound(
    group_sizes: Mapping[GroupLabel, int],
    *,
    interval: IntervalLike,
    max_gap: float,
    n_features: int,
    n_points: int | None = 10,
    near: NearThresholds | None = None,
    violation: float = 0.0,
    confidence: float = 0.95,
) -> GapBound:
    """Bound the gap by ``κ + step + 2 v + 2 max_k (γ + n_k^γ / (2 n_k) + E(n_k)) / m_k``.

    This is Theorem F.1 with explicit constants instead of O(·), for statistical parity on the interval scale
    and linear scorers.

    Parameters
    ----------
    group_sizes : mapping from group to int
        ``n_k``, members of each group in the training data, all of weight 1.
    interval : interval-like
        The interval of the constraint: ``(low, high)``, a union, or a mapping from group to either.
    max_gap : float
        Limit κ of the constraint.
    n_features : int
        Dimension d of the space that the features span: E uses the VC dimension d + 1, also with group
        terms, since each group then has a linear scorer of its own. A dummy-coded column counts its levels
        less one.
    n_points : int, default=10
        Points of the constraint's grid. None if κ bounds the exact gap on the training data, or is that gap:
        then there is no grid (step 0), and no surrogate.
    near : NearThresholds, optional
        Members near the thresholds. None if the constraints hold for counts.
    violation : float, default=0.0
        Violation v, the ``result_.max_violation`` of a fitted estimator.
    confidence : float, default=0.95
        1 − δ.

    Returns
    -------
    GapBound
        The bound and its terms.

    See Also
    --------
    near_thresholds : Computes ``near``.
    objective_bound : The bound on the loss.
    describe_generalization : Both bounds in words.

    Notes
    -----
    Differences from the paper, with reasons:

    - The paper uses δ for the probability and γ for the group as well as the tolerance; here the probability
      is ``1 − confidence``, and the step of the grid has a name.
    - *Step 1.* The paper has O(1/|Î|) by Lipschitz continuity, which is not needed. Let Q_k(θ) be the
      fraction of group k's interval above θ, let all ``Q_k(θ_j)`` lie in ``[u_j − a_k, u_j + κ + a_k]``, and
      add ``u_0 = 0, θ_0 = ∞`` and ``u_{N+1} = 1 − κ, θ_{N+1} = −∞``. Some adjacent points have ``θ_j ≥ θ ≥
      θ_{j+1}``, and there ``Q_k(θ) − Q_k'(θ) ≤ u_{j+1} + κ + a_k − (u_j − a_k')``: at most κ, one step, and
      ``a_k + a_k' ≤ 2 max a``, which explains the factor 2. The grid's step is ``(1 − κ) / (N + 1)``.
    - *Step 2.* E(n_k) as in the paper. Groups may differ in size, and their intervals in measure: Q_k is
      ``1/m_k``-Lipschitz in the rank, so ``a_k = v + (...) / m_k``.
    - *Step 3.* The paper has O(γ + n_k^γ/n_k). The distance of a symmetric σ from the indicator is at most ½,
      also at ties with θ_p, which halves the second term.
    - Without a grid, the gaps of training data and of the population differ by at most ``a_k + a_k'``.

    The rows must be independent draws from the population. The absolute scale has no such bound: its points
    on [α, β) do not bound the gap even on the training data.

    Examples
    --------
    >>> from partialfair.theory import gap_bound
    >>> bound = gap_bound({"f": 9694, "m": 19611}, interval=(0.05, 0.30), max_gap=0.05, n_features=123)
    >>> round(bound.value, 2), bound.vacuous, bound.worst.group
    (8.61, True, 'f')
    """
    sizes = _check_sizes(group_sizes)
    check_number(max_gap, "max_gap", low=0.0, high=1.0)
    check_count(n_features, "n_features")
    check_number(violation, "violation", low=0.0)
    if n_points is None and near is not None:
        raise InputError("n_points=None says that max_gap bounds the exact gap, so near must not be given")
    if n_points is not None:
        check_count(n_points, "n_points")
    shared = {
        "vc_dimension": n_features + 1,  # halfspaces, with a free threshold
        "n_points": n_points or 1,
        "n_groups": len(sizes),
    }
    terms = []
    for (label, n), part in zip(sizes.items(), intervals_by_group(interval, tuple(sizes)), strict=True):
        terms.append(
            GroupContribution(
                group=label,
                size=n,
                measure=part.measure,
                surrogate=0.0 if near is None else _surrogate_bias(near, label, n),
                deviation=uniform_deviation_bound(n, **shared, confidence=confidence),
                fixed_deviation=dkw_bound(n, confidence, n_comparisons=len(sizes)),
                # Two deviations on the scale of the gap make 0.1.
                size_for_tenth=members_needed(0.05 * part.measure, **shared, confidence=confidence),
            )
        )
    step = 0.0 if n_points is None else (1 - max_gap) / (n_points + 1)  # step 1 of the proof, see the notes
    return GapBound(float(max_gap), step, float(violation), confidence, tuple(terms))


def _check_sizes(group_sizes: Mapping[GroupLabel, int]) -> dict[GroupLabel, int]:
    if not isinstance(group_sizes, Mapping) or len(group_sizes) < 2:
        raise InputError("group_sizes must map each of two or more groups to its number of members")
    for label, n in group_sizes.items():
        check_count(n, f"the size of group {group_name(label)!r}")
    return {label: int(n) for label, n in group_sizes.items()}


def _surrogate_bias(near: NearThresholds, label: GroupLabel, n: int) -> float:
    """``γ + n_k^γ / (2 n_k)``."""
    if label not in near.counts:
        raise InputError(f"near has no count for group {group_name(label)!r}, only for {list(near.counts)}")
    if near.counts[label] > n:
        raise InputError(
            f"near counts {near.counts[label]} members of group {group_name(label)!r}, which has {n}"
        )
    return near.tolerance + near.counts[label] / (2 * n)


@dataclass(frozen=True)
class ObjectiveBound:
    """``2 L B R / √n + c sqrt(2 log(4 |Î| |G| / δ) / n)``, the largest excess of the loss over the best one.

    Attributes
    ----------
    complexity : float
        The first term, twice the Rademacher complexity of the class of losses.
    sampling : float
        The second term.
    loss_at_zero : float
        ℓ(0), the loss of a model that scores all rows 0.
    confidence : float
        1 − δ.
    """

    complexity: float
    sampling: float
    loss_at_zero: float
    confidence: float

    @property
    def value(self) -> float:
        """The bound."""
        return self.complexity + self.sampling

    @property
    def vacuous(self) -> bool:
        """Whether it is vacuous: scores of 0 for all rows have gap 0 and a loss of at most ℓ(0)."""
        return self.value >= self.loss_at_zero


def objective_bound(
    n: int,
    *,
    coef_norm: float,
    feature_norm: float,
    lipschitz: float = 1.0,
    loss_at_zero: float = math.log(2),
    n_points: int = 10,
    n_groups: int = 2,
    confidence: float = 0.95,
) -> ObjectiveBound:
    """Bound ``f_0(ŵ) − f_0(w*)`` by ``2 L B R / √n + c sqrt(2 log(4 |Î| |G| / δ) / n)`` (Theorem F.2).

    ``R_n ≤ L B R / √n`` is the Rademacher complexity of an L-Lipschitz loss of linear scorers with ‖w‖ ≤ B on
    features with ``E‖ξ‖² ≤ R²`` (contraction), and ``c = min{ℓ(0) + L B R, 2 L B R}`` the range of the loss
    if it is at least 0 and ‖ξ‖ ≤ R.

    Parameters
    ----------
    n : int
        ``n_0``, rows of the training data.
    coef_norm : float
        B. It must not depend on the data. A penalty ``½ alpha ‖w‖²`` implies ``B = sqrt(2 ℓ(0) / alpha)``
        where w = 0 is feasible, as it is unless intervals differ by group.
    feature_norm : float
        R, the length of the longest feature vector. With an intercept it is ``sqrt(R² + 1)``, and B must
        bound the intercept too; the estimators do not penalize theirs.
    lipschitz : float, default=1.0
        L, of the loss in the score: 1 for the logistic and the hinge loss.
    loss_at_zero : float, default=log(2)
        Loss ℓ(0), the same for both labels: log 2 for the logistic loss, 1 for the hinge loss.
    n_points : int, default=10
        As in `uniform_deviation_bound`.
    n_groups : int, default=2
        As in `uniform_deviation_bound`.
    confidence : float, default=0.95
        1 − δ.

    Returns
    -------
    ObjectiveBound
        The bound and its terms.

    See Also
    --------
    gap_bound : The bound on the gap.
    describe_generalization : Both bounds in words.

    Notes
    -----
    ŵ is the best model that satisfies the training constraints, and w* the best one whose gap in the
    population is at most κ' (`GapBound.reference_gap`). Differences from the paper, with reasons:

    - The paper's Rademacher complexity has no factor. With the usual ``E sup (1/n) Σ ε_i ℓ_i`` the first of
      its three differences needs 2; the third has a fixed w* and needs none.
    - The paper assumes losses in [0, 1]; the factor c replaces that.
    - A penalty is not part of f_0: it adds up to ``½ alpha ‖w*‖²``.
    - The problem is not convex. Solvers find critical points, to which the bound does not apply.
    - The paper's logarithm is unchanged. It is so large that this bound and `gap_bound` hold simultaneously
      with the same confidence: the two events here have probability ``δ / (2 |Î| |G|)`` together, those there
      far less.

    Examples
    --------
    >>> from partialfair.theory import objective_bound
    >>> round(objective_bound(100_000, coef_norm=2.0, feature_norm=3.0).value, 3)
    0.119
    """
    check_count(n, "n")
    given = {"coef_norm": coef_norm, "feature_norm": feature_norm, "lipschitz": lipschitz}
    for name, value in {**given, "loss_at_zero": loss_at_zero}.items():
        check_number(value, name, above=0.0)
    for name, count in {"n_points": n_points, "n_groups": n_groups}.items():
        check_count(count, name)
    check_fraction(confidence, "confidence")
    reach = lipschitz * coef_norm * feature_norm  # by how much a loss may differ from ℓ(0)
    loss_range = min(loss_at_zero + reach, 2 * reach)  # c: losses lie in [max(ℓ(0) − LBR, 0), ℓ(0) + LBR]
    return ObjectiveBound(
        # Rademacher complexity of the losses by contraction, twice by symmetrisation.
        complexity=2 * reach / math.sqrt(n),
        sampling=loss_range * math.sqrt(2 * math.log(4 * n_points * n_groups / (1 - confidence)) / n),
        loss_at_zero=loss_at_zero,
        confidence=confidence,
    )


def describe_generalization(gap: GapBound, objective: ObjectiveBound | None = None) -> str:
    """Describe ``κ + step + 2 v + 2 max_k (...)`` and the bound on the objective in words, group by group.

    Vacuous bounds are called vacuous.

    Parameters
    ----------
    gap : GapBound
        From `gap_bound`.
    objective : ObjectiveBound, optional
        From `objective_bound`.

    Returns
    -------
    str
        One sentence per line.

    See Also
    --------
    gap_bound : Computes the bound on the gap.
    objective_bound : Computes the bound on the loss.

    Examples
    --------
    >>> from partialfair.theory import describe_generalization, gap_bound
    >>> bound = gap_bound({"f": 9694, "m": 19611}, interval=(0.05, 0.30), max_gap=0.05, n_features=123)
    >>> print(describe_generalization(bound).splitlines()[0][:74])
    With 95% confidence the gap in the population is at most 8.61 (vacuous: no
    """
    parts = [
        f"{gap.max_gap:.3g} limit",
        *([f"{gap.step:.3g} grid step"] if gap.step else []),
        *([f"{2 * gap.violation:.3g} violation"] if gap.violation > 1e-4 else []),  # else rounding
        f"{2 * gap.worst.excess:.3g} group {group_name(gap.worst.group)}",
    ]
    lines = [
        f"With {short_percent(gap.confidence)} confidence the gap in the population is at most "
        f"{describe_bound(gap.value)}: {' + '.join(parts)}."
    ]
    for terms in gap.groups:
        verdict = "vacuous alone" if terms.vacuous else "not vacuous alone"
        unit = int(10 ** max(len(str(terms.size_for_tenth)) - 2, 0))  # two digits are enough
        lines.append(
            f"Group {group_name(terms.group)}, {terms.size:,} members: surrogate {terms.surrogate:.3g} and "
            f"sampling {terms.deviation:.3g} on {short_percent(terms.measure)} of the ranks add "
            f"{2 * terms.excess:.3g} ({verdict}); sampling would add 0.1 with about "
            f"{-(-terms.size_for_tenth // unit) * unit:,} members."
        )
    lines.append(
        "This holds for all linear scorers simultaneously. For one fixed beforehand, the gap measured on "
        f"as many new rows is within {describe_bound(gap.fixed_deviation)} of the true one."
    )
    if objective is None:
        return "\n".join(lines)
    if gap.reference_gap < 0:
        lines.append(
            f"The objective is compared with models whose gap is at most {gap.reference_gap:.3g}; there are "
            "none: vacuous."
        )
    else:
        verdict = " (vacuous: the bound also holds for scores of 0)" if objective.vacuous else ""
        lines.append(
            "The loss of the best feasible model in training exceeds that of the best model with a gap of at "
            f"most {gap.reference_gap:.3g} by at most {objective.value:.3g}{verdict}."
        )
    return "\n".join(lines)
