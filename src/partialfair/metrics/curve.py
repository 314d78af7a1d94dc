"""The rank curve: one group's rank against another's from best to worst (the paper's Figure 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.metrics.inputs import ScoredGroups, oriented, scored_groups
from partialfair.utils.checks import check_count
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel, MissingGroups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RankCurve", "groups_curve", "rank_curve"]


@dataclass(frozen=True, eq=False)
class RankCurve:
    """Ranks of thresholds from the best to the worst in every group.

    Attributes
    ----------
    thresholds : (t,)
        Falling from +∞ to −∞; rising from −∞ to +∞ where lower is better.
    ranks : (t, n_groups)
        ``F̄_k(θ)``, the share of group k with a better score than θ: from 0 to 1.
    labels
        The groups.
    higher_is_better
        Whether high scores are the good ones.
    """

    thresholds: Floats
    ranks: Floats
    labels: tuple[GroupLabel, ...]
    higher_is_better: bool = True

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the curve; see `partialfair.plotting.plot_rank_curve`, which names the options."""
        from partialfair.plotting import plot_rank_curve

        return plot_rank_curve(self, ax=ax, **options)


def rank_curve(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_points: int | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> RankCurve:
    """Follow ``(F̄_1(θ), ..., F̄_G(θ))`` as θ goes from the best score to the worst.

    Equal score distributions give the diagonal; statistical parity on ``[α, β)`` means that the curve follows
    it between α and β.

    Parameters
    ----------
    y_score, sensitive_features, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    n_points
        At most this many thresholds, evenly spaced among the distinct scores; None keeps all of them.
    """
    if n_points is not None:
        check_count(n_points, "n_points", low=2)
    scored = scored_groups(
        y_score,
        sensitive_features,
        sample_weight=sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return groups_curve(scored, n_points)


def groups_curve(scored: ScoredGroups, n_points: int | None = None) -> RankCurve:
    """Follow the ranks of groups that are sorted already, such as ``report.scored``."""
    distinct = np.unique(np.concatenate([group.scores for group in scored]))[::-1]
    if n_points is not None and n_points < distinct.size:
        distinct = distinct[np.linspace(0, distinct.size - 1, n_points).round().astype(int)]
    thresholds = np.concatenate([[np.inf], distinct, [-np.inf]])
    ranks = np.stack([group.rank(thresholds) for group in scored], axis=1)
    labels = tuple(group.label for group in scored)
    return RankCurve(oriented(thresholds, scored.higher_is_better), ranks, labels, scored.higher_is_better)
