"""Calibration by group: whether probabilities mean for every group what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair._checks import check_count, check_weights, finite_vector
from partialfair._typing import ArrayLike, Floats, MissingGroups
from partialfair.exceptions import InputError
from partialfair.groups import group_name
from partialfair.metrics._inputs import encoded_groups, positives

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["calibration_by_group"]


def calibration_by_group(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = 1,
    n_bins: int = 10,
    sample_weight: ArrayLike | None = None,
    missing_groups: MissingGroups = "error",
) -> pd.DataFrame:
    """Compare probabilities with what happened, within every group.

    The error of a group is ``Σ_b w_b |mean p − mean y| / Σ_b w_b`` over bins b of its probabilities that hold
    about the same weight (the expected calibration error). With few people a bin it is positive for
    calibrated probabilities, too: compare two models on the same people, or take fewer bins.

    Parameters
    ----------
    y_true, sensitive_features, pos_label, sample_weight, missing_groups
        As in `partial_equal_opportunity_difference`.
    y_prob : (n,)
        Probabilities of ``pos_label``.
    n_bins
        Of each group; rows of one probability are in one bin.

    Returns
    -------
    DataFrame
        Indexed by group: its ``weight``, the share of positives ``observed``, the mean probability
        ``predicted``, and the ``error``.

    Examples
    --------
    >>> from partialfair.metrics import calibration_by_group
    >>> table = calibration_by_group(
    ...     [1, 0, 1, 1], [0.5, 0.5, 0.75, 0.75], sensitive_features=["a", "a", "b", "b"]
    ... )
    >>> table["error"].tolist()
    [0.0, 0.25]
    """
    import pandas as pd

    check_count(n_bins, "n_bins")
    probabilities = finite_vector(y_prob, "y_prob")
    if probabilities.size and not 0 <= probabilities.min() <= probabilities.max() <= 1:
        raise InputError(
            "y_prob must hold probabilities, between 0 and 1; scores have to be calibrated first"
        )
    n = probabilities.size
    weights = np.ones(n)
    if sample_weight is not None:
        check_weights(sample_weight, n)
        weights = finite_vector(sample_weight, "sample_weight")  # as given: totals are in their units
    groups = encoded_groups(sensitive_features, n, missing_groups)
    happened = np.asarray(positives(y_true, pos_label), dtype=np.float64)
    lines = []
    for code in range(len(groups.labels)):
        rows = np.flatnonzero((groups.codes == code) & (weights > 0))
        lines.append(_line(happened[rows], probabilities[rows], weights[rows], n_bins))
    names = pd.Index([group_name(label) for label in groups.labels], name="group")
    return pd.DataFrame(lines, index=names, columns=["weight", "observed", "predicted", "error"])


def _line(happened: Floats, probabilities: Floats, weights: Floats, n_bins: int) -> tuple[float, ...]:
    """Return weight, share of positives, mean probability and calibration error of one group."""
    total = float(weights.sum())
    if total == 0:
        return 0.0, float("nan"), float("nan"), float("nan")
    values, which = np.unique(probabilities, return_inverse=True)
    mass = np.bincount(which, weights, minlength=values.size)
    middles = (np.cumsum(mass) - mass / 2) / total  # ranks of the values decide on their bins
    bins = np.minimum((n_bins * middles).astype(np.int64), n_bins - 1)[which]
    differences = np.bincount(bins, weights * (probabilities - happened))
    means = [float(np.average(column, weights=weights)) for column in (happened, probabilities)]
    return total, *means, float(np.abs(differences).sum() / total)
