"""Whether a model tells people apart at all.

A model that scores everybody alike meets every constraint on ranks and on differences of scores, and its
certificate may well hold: whoever asked for a model must be told that this is hardly one.
"""

from __future__ import annotations

from partialfair.estimators.result import FitResult
from partialfair.exceptions import SurrogateWarning
from partialfair.problems import Counts

__all__ = ["flat_scores_warning"]

_FLAT = 1e-3
"""Standard deviation of scores, in units of the unconstrained model's, below which they are all but equal. A
surrogate is a quarter of a unit wide, so it sees a single score there, and the loss is that of a constant
model to a thousandth of what the features could do for it."""
_ROUNDING = 1e-9
"""The same relative to the scores' size: what differs by less does so by accident."""


def flat_scores_warning(result: FitResult, counts: Counts, unconstrained: Counts | None) -> Warning | None:
    """Say that a model's scores are nearly equal; None if they are not, or if others say so already.

    Parameters
    ----------
    result, counts
        What was found, and its scores.
    unconstrained
        Scores of the unconstrained model; None where the model is just that.
    """
    if result.gaps and result.tied_share == 1:
        return None
    own, _, largest = counts.scale
    if own <= _ROUNDING * (1 + largest):
        return SurrogateWarning(
            "all training scores are equal but for rounding errors: the model ranks nobody"
        )
    free = own if unconstrained is None else unconstrained.scale.deviation
    if own >= _FLAT * free:
        return None
    return SurrogateWarning(
        f"the training scores are nearly equal: their standard deviation is {own / free:.1e} times that of "
        "the unconstrained model's, so the model tells hardly anybody apart; raise max_gap, or add features "
        "or group_terms that can close the gap"
    )
