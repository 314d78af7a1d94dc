"""The choice of the penalty alpha, which shrinks leaf values towards those of the library, on held-out rows.

A small alpha overfits the rows of the refit, and also their gap: on new data the gap is larger than with a
large alpha, though the loss may be lower. So both count. Among all alphas whose refit satisfies the
constraint on its rows, the choice is the one with the lowest

    held-out loss + price · held-out gap,    price = 2 · Σ (loss − loss₀) / Σ (gap₀ − gap)

where loss₀ and gap₀ are those of the library's own model, and sums are over these alphas. The quotient is the
slope of chords from the library's model, which is near the lowest loss of all, to models that close a part of
its gap. From there the loss increases, to leading order, with the square of that part, and a parabola is
twice as steep as its chord: the price is the cost of closing the last part of the gap. If no gap is closed,
or if closing it costs nothing, only the loss counts.
"""

from __future__ import annotations

import copy
import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.data.samples import Samples, draw_rows
from partialfair.estimators.decisions import TUNE
from partialfair.estimators.path_fits import Listener, with_gap
from partialfair.exceptions import InputError
from partialfair.optimization.problems import Cells
from partialfair.optimization.solvers import Status
from partialfair.training.statement import check_groups, group_constraints
from partialfair.trees.base_estimators import positive_rows, unwrap
from partialfair.trees.ensembles import is_fitted
from partialfair.trees.refitting import LeafSamples, evaluate, linear_estimator
from partialfair.utils.clock import out_of_time

_logger = logging.getLogger("partialfair")


@dataclass(frozen=True)
class AlphaSearch:
    """Settings of the choice of alpha.

    Attributes
    ----------
    alphas
        The alphas, in decreasing order of shrinkage: each refit is warm-started from the last one.
    fraction
        Fraction of the rows that is held out to compare alphas if none are held out for early stopping.
    time_fraction
        Fraction of a time limit that the choice may use; the rest is for the refit on all rows.
    """

    alphas: tuple[float, ...] = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
    fraction: float = 0.15
    time_fraction: float = 0.5


ALPHA_SEARCH = AlphaSearch()


@dataclass(frozen=True, eq=False)
class AlphaTrial:
    """A model, evaluated on held-out rows.

    Attributes
    ----------
    loss, gap
        On the held-out rows; the gap is the sum over several constraints, and 0 without any.
    satisfied
        Whether it satisfies the constraint on the rows that it was fitted to, if there is one.
    refit
        The linear model with its alpha; None for the library's own model.
    """

    loss: float
    gap: float
    satisfied: bool
    refit: Any = None


def hold_out_rows(trees: Any, samples: Samples, seed: int) -> npt.NDArray[np.bool_] | None:
    """Draw the rows on which no tree is trained, also used for early stopping; None if none are needed.

    They are used to choose alpha or the decision threshold. Rows that cannot compare alphas raise
    `InputError` before any training.

    Parameters
    ----------
    trees, samples
        The `PartialFairTrees`, and all rows that have weight.
    seed
        Seed of the draw; the same as when the trees were trained.
    """
    chooses_alpha = isinstance(trees.alpha, str)  # "auto"; other text was rejected
    # Only users know on which rows a fitted model was trained.
    trained_here = hasattr(trees, "_held_out_seed") or not is_fitted(unwrap(trees.estimator))
    if not chooses_alpha and (trees.decision_threshold != TUNE or not trained_here):
        return None
    fraction = ALPHA_SEARCH.fraction if trees.validation_fraction is None else trees.validation_fraction
    held_out = draw_rows(samples.strata, fraction, seed, samples.clusters)
    if not chooses_alpha:
        return held_out
    validation = samples.take(np.flatnonzero(held_out))
    try:
        cells = Cells(validation.row_weights, validation.groups.codes, positive_rows(trees, validation))
        constraints = trees._read_constraints()
        check_groups(group_constraints(constraints, validation.groups, cells, trees.min_group_size))
    except InputError as error:
        raise InputError(
            f"alpha='auto' compares alphas on {validation.n} held-out rows: {error}; or set alpha to a number"
        ) from error
    return held_out


def choose_alpha(
    trees: Any,
    leaves: LeafSamples,
    held_out: npt.NDArray[np.bool_],
    deadline: float,
    gaps: Sequence[float] = (),
) -> Any:
    """Return the refit with the best alpha, to be fitted again on all rows as a warm start.

    Parameters
    ----------
    trees
        The estimator whose alpha is chosen.
    leaves, held_out
        All rows, and which of them compare alphas; refits use the others.
    deadline
        Time at which the refit on all rows has to end; part of the time is left for it.
    gaps
        Limits of a path; alpha is chosen for the middle one.
    """
    linear = linear_estimator(trees)
    if trees.enforce == "population":  # its models are fitted with exact limits
        linear.set_params(enforce="exact")
    if gaps:
        linear.set_params(**with_gap(trees, gaps[len(gaps) // 2]))
    train, validation = (leaves.take(np.flatnonzero(which)) for which in (~held_out, held_out))
    rows = validation.samples
    now = time.monotonic()
    end = now + ALPHA_SEARCH.time_fraction * (deadline - now)
    listener = Listener(linear.callback)
    refit = copy.copy(linear).set_params(warm_start=True, callback=listener)
    trials: list[AlphaTrial] = []
    for alpha in ALPHA_SEARCH.alphas:
        if trials and (out_of_time(end) or listener.stopped):
            break
        refit = copy.copy(refit).set_params(alpha=alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refit on all rows issues warnings
            train.refit(refit, end)
        if refit.result_.status is Status.STOPPED and not listener.stopped:
            raise KeyboardInterrupt  # no model was fitted on all rows yet
        # All use the constraints of the first refit, so that a chosen interval is the same for all.
        first = trials[0].refit if trials else refit
        satisfied = refit.result_.satisfied is not False
        trials.append(AlphaTrial(*evaluate(first, validation.scores(refit), rows), satisfied, refit))
        n_left = len(ALPHA_SEARCH.alphas) - len(trials)
        seconds = min(n_left * (time.monotonic() - now) / len(trials), end - time.monotonic())
        _logger.info(
            "alpha %g tried, %d of %d; about %.0f s left", alpha, len(trials), n_left + len(trials), seconds
        )
    own = AlphaTrial(*evaluate(first, validation.offset.scores, rows), satisfied=False)
    return best_of(trials, own).refit.set_params(callback=linear.callback)


def best_of(trials: Sequence[AlphaTrial], own: AlphaTrial) -> AlphaTrial:
    """Return the trial with the lowest held-out loss + price · held-out gap; see the module docstring."""
    eligible = [trial for trial in trials if trial.satisfied] or list(trials)
    rise = sum(trial.loss - own.loss for trial in eligible)
    closed = sum(own.gap - trial.gap for trial in eligible)
    price = max(0.0, 2 * rise / closed) if closed > 0 else 0.0
    return min(eligible, key=lambda trial: trial.loss + price * trial.gap)
