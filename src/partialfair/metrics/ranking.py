"""Pairwise ranking gaps that need labels: the paper's Baselines 2 and 3 as metrics.

Both compare areas under the ROC curve, ``A(S, S') = Pr(s ≥ s')`` for s drawn from S and s' from S', computed
by merging sorted scores in O(n log n).
"""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any, get_args

import numpy as np

from partialfair.data.intervals import IntervalSet
from partialfair.exceptions import UndefinedGapWarning
from partialfair.metrics import _kernels
from partialfair.metrics.inputs import GroupScores, ScoredGroups, positives, scored_groups
from partialfair.metrics.partial import TIE_SHARES, WorstGap, differences, gap_of_pair
from partialfair.metrics.sweep import pair_aucs
from partialfair.utils.checks import check_choice
from partialfair.utils.typing import ArrayLike, Floats, MissingGroups, Ties

__all__ = ["inter_group_pairwise_difference", "intra_group_pairwise_difference"]


def inter_group_pairwise_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = 1,
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Gap in ranking one group's positives above another's negatives (Inter-Group Pairwise Fairness).

    ``max_{k≠k'} |A(k⁺, k'⁻) + A(k⁻, k'⁺) − 1|`` (Baseline igpf, eq. igpf). With ties counted ½ this is
    ``|A(k⁺, k'⁻) − A(k'⁺, k⁻)|``. The second sum of (inprocess_igpf_approx) has its indices swapped in the
    paper; the definition is what is computed here.

    Parameters
    ----------
    y_true, y_score, sensitive_features, pos_label, sample_weight, missing_groups
        As in `partial_equal_opportunity_difference`.
    ties
        Count a tie as ½ (``"half"``) or as 1 (``"geq"``, the definition's ≥, under which constant scores have
        gap 1).
    higher_is_better
        False if positives should score lower. With ties counted ½ the gap is the same either way.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan with a warning if some group lacks a label.
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        sample_weight=sample_weight,
        positive=positives(y_true, pos_label),
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return inter_group_gap(scored, ties).value


def intra_group_pairwise_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = 1,
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Gap between the groups' own AUCs (Intra-Group Pairwise Fairness).

    ``max_{k,k'} |A(k⁺, k⁻) − A(k'⁺, k'⁻)|`` (Baseline itgpf).

    Parameters
    ----------
    y_true, y_score, sensitive_features, pos_label, ties, sample_weight, higher_is_better, missing_groups
        As in `inter_group_pairwise_difference`.
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        sample_weight=sample_weight,
        positive=positives(y_true, pos_label),
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return intra_group_gap(scored, ties).value


def inter_group_gap(scored: ScoredGroups, ties: Ties) -> WorstGap:
    """Worst pair of `inter_group_pairwise_difference`; ordered, since ≥ is not symmetric under ties."""
    check_choice(ties, "ties", get_args(Ties))
    _warn_about_lone_labels(scored)
    gaps = np.abs(inter_group_leads(scored, ties))
    np.fill_diagonal(gaps, -1.0)
    return gap_of_pair(scored, gaps)


def inter_group_leads(scored: ScoredGroups, ties: Ties) -> Floats:
    """Return ``A(k⁺, j⁻) + A(k⁻, j⁺) − 1`` at ``[k, j]``, k ≠ j; nan where a group lacks a label."""
    n_groups = len(scored)
    everyone = scored.on(IntervalSet(((0.0, 1.0),)))
    by_label = [group.with_label(label) for label in (True, False) for group in everyone]
    pairs = [
        pair for k, j in permutations(range(n_groups), 2) for pair in ((k, n_groups + j), (n_groups + k, j))
    ]
    aucs = pair_aucs(by_label, pairs, TIE_SHARES[ties])
    return np.asarray(aucs[:n_groups, n_groups:] + aucs[n_groups:, :n_groups] - 1.0)


def intra_group_gap(scored: ScoredGroups, ties: Ties) -> WorstGap:
    """Worst pair of `intra_group_pairwise_difference`."""
    check_choice(ties, "ties", get_args(Ties))
    _warn_about_lone_labels(scored)
    return gap_of_pair(scored, differences(group_aucs(scored, ties)))


def group_aucs(scored: ScoredGroups, ties: Ties) -> list[float]:
    """Return ``A(k⁺, k⁻)`` of every group; nan for those that lack a label."""
    return [_auc(group.with_label(True), group.with_label(False), ties) for group in scored]


def _auc(upper: GroupScores, lower: GroupScores, ties: Ties) -> float:
    """Chance that a member of ``upper`` scores at least as high as one of ``lower``, over all ranks."""
    if upper.n == 0 or lower.n == 0:
        return float("nan")
    everyone = (np.zeros(1), np.ones(1), 1.0)
    return float(_kernels.band_auc(*upper.ranked, *lower.ranked, everyone, everyone, TIE_SHARES[ties]))


def _warn_about_lone_labels(scored: ScoredGroups) -> None:
    for group in scored:
        assert group.positive is not None
        if group.positive.all() or not group.positive.any():
            lacking = "negatives" if group.positive.all() else "positives"
            message = f"group {group.name!r} has no {lacking}, so pairwise gaps are undefined"
            warnings.warn(message, UndefinedGapWarning, stacklevel=3)
