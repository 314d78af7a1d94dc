"""How strongly leaf values are drawn to those of the library, chosen on rows held out.

A weak pull fits the rows of the refit too well, and their gap as well: on new people the gap is wider than
that of a stronger pull, though the loss may be lower. So both count. Of all alphas that keep the promise on
the rows of the refit the one with the lowest

    held-out loss + price · held-out gap,    price = 2 · Σ (loss − loss₀) / Σ (gap₀ − gap)

is taken, where loss₀ and gap₀ are those of the library's own model, and sums are over these alphas. Their
quotient is the slope of chords, from the library's model, which is near the lowest loss of all, to models
that close some of its gap. From there the loss rises with the square of what is closed, to leading order, and
a parabola is twice as steep as its chord: the price is what the last bit of the gap costs. Where no gap is
closed, or closing it costs nothing, the loss alone counts.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_regressor

from partialfair.data.samples import Samples
from partialfair.data.splits import draw_rows
from partialfair.estimators.inputs import two_classes
from partialfair.estimators.parameters import seed_of
from partialfair.estimators.path_fits import TINY_TIME, Listener
from partialfair.exceptions import InputError
from partialfair.optimization.problems import Cells
from partialfair.optimization.solvers import Status
from partialfair.training import check_groups, group_constraints
from partialfair.trees._leaf_rows import LeafRows, exact_gaps, mean_loss
from partialfair.utils.checks import check_number, shown
from partialfair.utils.clock import out_of_time
from partialfair.utils.typing import Floats

__all__ = ["ALPHAS", "AlphaTrial", "best_of", "check_alpha", "chosen_refit", "is_auto", "judging_rows"]

ALPHAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""What is tried, from values near those of the library on: each refit begins with the last one's."""

_SHARE = 0.15
"""Of the rows that compare alphas where none are held out to stop early."""

_SHARE_OF_TIME = 0.5
"""Of a time limit that choosing may take; the rest is for the refit on all rows."""


def is_auto(alpha: Any) -> bool:
    """Whether alpha is to be chosen."""
    return isinstance(alpha, str) and alpha == "auto"


def check_alpha(alpha: Any) -> None:
    """Refuse what is neither a number nor to be chosen."""
    if isinstance(alpha, str) and not is_auto(alpha):
        raise InputError(f"alpha must be a number or 'auto', not {shown(alpha)}")
    if not is_auto(alpha):
        check_number(alpha, "alpha", low=0.0)


def judging_rows(linear: Any, rows: Samples, share: float | None) -> npt.NDArray[np.bool_]:
    """Draw the rows that compare alphas; refuse, before anything is grown, rows that could not.

    Parameters
    ----------
    linear
        The estimator that refits leaf values.
    rows
        All rows.
    share
        How many are held out to stop early, which are then the same ones; None if none are.
    """
    share = _SHARE if share is None else share
    unseen = draw_rows(rows.strata, share, seed_of(linear), rows.clusters)
    held_out = rows.take(np.flatnonzero(unseen))
    try:
        positive = None if is_regressor(linear) else held_out.y == two_classes(held_out.y)[1]
        stated, least = linear._read_constraints(), linear.min_group_size
        groups = held_out.groups
        cells = Cells(held_out.row_weights, groups.codes, positive)
        check_groups(group_constraints(stated, groups, cells, least))
    except InputError as error:
        raise InputError(
            f"alpha='auto' compares alphas on {held_out.n} rows held out: {error}; or give alpha a number"
        ) from error
    return unseen


@dataclass(frozen=True, eq=False)
class AlphaTrial:
    """A model, as rows held out see it.

    Attributes
    ----------
    loss, gap
        On the rows held out; gaps of several constraints are added up, and 0 without any.
    kept
        Whether it keeps the promise on the rows that it was fitted on, where one was made.
    refit
        The linear model, with its alpha; None for the library's own.
    """

    loss: float
    gap: float
    kept: bool
    refit: Any = None


def best_of(candidates: Sequence[AlphaTrial], own: AlphaTrial) -> AlphaTrial:
    """Return the candidate with the lowest held-out loss + price · held-out gap; see the module."""
    eligible = [one for one in candidates if one.kept] or list(candidates)
    rise = sum(one.loss - own.loss for one in eligible)
    closed = sum(own.gap - one.gap for one in eligible)
    price = max(0.0, 2 * rise / closed) if closed > 0 else 0.0
    return min(eligible, key=lambda one: one.loss + price * one.gap)


def chosen_refit(linear: Any, rows: LeafRows, unseen: npt.NDArray[np.bool_], moment: float) -> Any:
    """Return the refit of the best alpha, to be fitted again on all rows from where it ended.

    Parameters
    ----------
    linear
        The estimator that refits leaf values; its alpha is varied.
    rows, unseen
        All rows, and which of them judge; refits are on the others.
    moment
        When the refit on all rows has to end; half of the time is left for it.
    """
    train, held_out = (rows.take(np.flatnonzero(which)) for which in (~unseen, unseen))
    now = time.monotonic()
    end = now + _SHARE_OF_TIME * (moment - now)
    listener = Listener(linear.callback)
    refit = copy.copy(linear).set_params(warm_start=True, callback=listener)
    candidates: list[AlphaTrial] = []
    for alpha in ALPHAS:
        if candidates and (out_of_time(end) or listener.stopped):
            break
        refit = copy.copy(refit).set_params(alpha=alpha)
        if end < float("inf"):
            refit.set_params(time_limit=max(end - time.monotonic(), TINY_TIME))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refit on all rows says what is to be said
            train.refit(refit)
        if refit.result_.status is Status.STOPPED and not listener.stopped:
            raise KeyboardInterrupt  # nothing was fitted on all rows yet
        # All by the first one's constraints: an interval that scores choose is then the same for all.
        judge = candidates[0].refit if candidates else refit
        kept = refit.result_.satisfied is not False
        candidates.append(AlphaTrial(*_judged(judge, held_out, held_out.scores(refit)), kept, refit))
    own = AlphaTrial(*_judged(judge, held_out, held_out.origin.scores), kept=False)
    return best_of(candidates, own).refit.set_params(callback=linear.callback)


def _judged(judge: Any, held_out: LeafRows, scores: Floats) -> tuple[float, float]:
    """Return the loss and the gap of scores of the rows held out."""
    gaps = [gap.value for gap in exact_gaps(judge, scores, held_out.rows)]
    return mean_loss(judge, scores, held_out.rows), float(np.nansum(gaps))
