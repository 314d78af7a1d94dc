"""Scores out of fold: of every row by a model that has not seen it, brought to one scale.

With ``cv`` each model is fitted once on all rows but those of a fold, for every fold f, and once on all rows.
Rows are scored by the model of their own fold, which has not seen them. Such scores are many, as many as
there are rows, and of several models, which raises two questions.

**What they estimate.** Let ``d_f(u)`` be the difference that the model of fold f makes, in truth, between two
groups at the score that a share u of all people exceeds. Scores of all folds together show
``max_u |mean_f d_f(u)|``: the gap that models trained like this, on such a share of the rows, have on the
average. It is not the gap of the model that is fitted on all rows, and no promise about it. Means over the
rows of all folds have the errors of so many independent rows, as those of one test sample would, if a model
hardly depends on any one row (Bayle, Bayle, Janson and Mackey 2020), so intervals are those of a report.

Two errors are left, both towards a smaller gap. Where the models' differences have different signs, they
cancel. And folds lean against each other: a group that is too high in the rows of a fold is too low in those
that its model was trained on, which a constraint corrects the wrong way. Where the constraint is met by
fitting the noise of the training rows, the two cancel in the mean, to the last row in the worst case (one
threshold and an intercept per group). Judging fold by fold and averaging five gaps instead is worse: gaps are
maxima, and those of a fifth of the people are too wide by √5 times as much.

**On which scale.** Models of different folds differ in intercept and spread, more so the fewer the rows. Put
side by side as they are, their scores mix people of different ranks, which blurs the groups' difference. All
gaps that are shares depend on scores by their order alone, so that each fold's scores may be replaced by any
increasing function of them. They are brought to the folds' mean scale: with ``P_f`` the share of a fold's
people below a score and ``Q_g`` its inverse for fold g,

    t = mean_g Q_g(P_f(s)).

Equal shares of people get equal scores in all folds; units stay those of the scores. Thresholds stay where
they are, or else decisions would change: shares on either side of a threshold are stretched to their mean
over the folds first. A group's weight in ``P_f`` is that among all rows, whatever the fold happened to get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partialfair.utils.typing import Floats, Ints

__all__ = ["meaning_of_folds", "on_one_scale"]


def meaning_of_folds(folds: Ints) -> str:
    """Say what out-of-fold figures are about."""
    n_folds = len(np.unique(folds))
    share = f"{100 - 100 / n_folds:.0f} %"
    return (
        f"out of fold: every row was scored by one of {n_folds} models, each trained without a fold of the "
        f"rows; gaps and scores say how models trained like this, on {share} of the rows, do on the average, "
        "and not what the model that is fitted on all rows does"
    )


def on_one_scale(
    scores: Floats, folds: Ints, weights: Floats, codes: Ints, thresholds: Sequence[float]
) -> Floats:
    """Return scores of several folds' models on the folds' mean scale (see the module's text).

    The order within each fold is kept, ties stay ties, and every score stays on its side of the thresholds.

    Parameters
    ----------
    scores, folds, weights : (n,)
        Scores, which model they are of, and weights of the rows; rows without weight have no say.
    codes : (n,)
        Group of each row; −1 is one as well.
    thresholds
        Scores at which people are selected.
    """
    even = _even_weights(weights, codes, folds)
    fixed = np.array(sorted({float(threshold) for threshold in thresholds}))
    members = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    scales = [_FoldScale.of(scores[rows], even[rows], fixed) for rows in members]
    common = np.mean([scale.cuts for scale in scales], axis=0)
    inverses = [scale.inverse(common, fixed) for scale in scales]
    found = np.empty(scores.size)
    for rows, scale in zip(members, scales, strict=True):
        shares = scale.stretched(scale.shares_below(scores[rows]), common)
        found[rows] = np.mean([np.interp(shares, *inverse) for inverse in inverses], axis=0)
    for threshold in fixed.tolist():  # rounding must not move a decision
        below, above = np.nextafter(threshold, [-np.inf, np.inf])
        found = np.where(scores < threshold, np.minimum(found, below), found)
        found = np.where(scores > threshold, np.maximum(found, above), found)
        found = np.where(scores == threshold, threshold, found)
    return found


@dataclass(frozen=True, eq=False)
class _FoldScale:
    """How the scores of one fold's people are distributed.

    Attributes
    ----------
    values, shares : (v,)
        Scores that occur, ascending, and the share of people below each, half of those at it included.
    cuts : (2 t,)
        For every threshold the share of people below it, and below or at it.
    """

    values: Floats
    shares: Floats
    cuts: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats, thresholds: Floats) -> _FoldScale:
        """Count the people with weight."""
        values, at = np.unique(scores[weights > 0], return_inverse=True)
        amounts = np.bincount(at, weights=weights[weights > 0])
        up_to = np.concatenate([[0.0], np.cumsum(amounts)]) / amounts.sum()
        sides = [np.searchsorted(values, thresholds, side=side) for side in ("left", "right")]
        return cls(values, (up_to[:-1] + up_to[1:]) / 2, up_to[np.stack(sides, axis=1).ravel()])

    def shares_below(self, scores: Floats) -> Floats:
        """``P(s)``; between scores that occur, in proportion."""
        return np.interp(scores, self.values, self.shares)

    def stretched(self, shares: Floats, common: Floats) -> Floats:
        """Return shares with those at the thresholds moved to common ones, and others in proportion."""
        own, theirs = (np.concatenate([[0.0], cuts, [1.0]]) for cuts in (self.cuts, common))
        # Between equal cuts there is nobody; the last of them is where the next people begin.
        segment = np.clip(np.searchsorted(own, shares, side="right") - 1, 0, own.size - 2)
        length = own[segment + 1] - own[segment]
        along = np.divide(shares - own[segment], length, out=np.zeros_like(shares), where=length > 0)
        return np.asarray(theirs[segment] + along * (theirs[segment + 1] - theirs[segment]))

    def inverse(self, common: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return shares and scores of ``Q`` between which it is linear."""
        shares = np.concatenate([self.stretched(self.shares, common), common])
        values = np.concatenate([self.values, np.repeat(thresholds, 2)])
        order = np.lexsort((values, shares))
        return shares[order], values[order]


def _even_weights(weights: Floats, codes: Ints, folds: Ints) -> Floats:
    """Return weights by which every group has the same share of each fold that it has of all rows."""
    _, group = np.unique(codes, return_inverse=True)
    _, fold = np.unique(folds, return_inverse=True)
    in_fold = np.zeros((fold.max() + 1, group.max() + 1))
    np.add.at(in_fold, (fold, group), weights)
    total = in_fold.sum(axis=0)
    factors = np.divide(total, in_fold, out=np.zeros_like(in_fold), where=in_fold > 0)
    return np.asarray(weights * factors[fold, group])
