"""Means of a surrogate by group, at thresholds that are free or given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from partialfair.constraints.dc.bank import AtomKinks, Gradient, Moves
from partialfair.constraints.dc.pieces import Pieces
from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.constraints.surrogates import Surrogate, slabs_of_rows
from partialfair.data.groups import Members
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """The means ``Σ_{i in k} ω_i σ±(s_i − θ_j)`` of a surrogate's two parts, for all groups and thresholds.

    Parameters
    ----------
    surrogate
        σ = σ⁺ − σ⁻.
    n_groups
        Number of groups; members have the codes 0 to ``n_groups − 1``.
    n_theta
        Number of free thresholds.
    fixed
        Thresholds that are given, numbered after the free ones.
    """

    additive: ClassVar[bool] = True

    surrogate: Surrogate
    n_groups: int
    n_theta: int
    fixed: tuple[float, ...] = ()

    @cached_property
    def n_thresholds(self) -> int:
        """Number of thresholds, free and fixed."""
        return self.n_theta + len(self.fixed)

    @cached_property
    def n_atoms(self) -> int:
        """Two per group and threshold."""
        return 2 * self.n_groups * self.n_thresholds

    @property
    def has_kinks(self) -> bool:
        """Whether the surrogate has kinks."""
        return bool(self.surrogate.kinks)

    def plus(self, group: int, threshold: int) -> int:
        """Position of the mean of σ⁺."""
        return group * self.n_thresholds + threshold

    def minus(self, group: int, threshold: int) -> int:
        """Position of the mean of σ⁻."""
        return self.n_groups * self.n_thresholds + self.plus(group, threshold)

    def values(self, scores: Floats, members: Members, theta: Floats) -> Floats:
        """Value of every atom."""
        # (2, n_groups, n_thresholds), which is the order of the atoms: see `plus` and `minus`.
        means = self.surrogate.means(
            scores, members.shares, members.codes, self._thresholds(theta), self.n_groups
        )
        return means.ravel()

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: Members, theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms``; second ones in the scores only."""
        rows = (scores, members.shares, members.codes, self._thresholds(theta))
        if order == 2:
            # Second derivatives in scores only; those in thresholds come with the columns.
            return Gradient(self.surrogate.curvature(self._by_part(coefficients), *rows), np.empty(0))
        by_score, by_threshold = self.surrogate.pull_back(self._by_part(coefficients), *rows)
        return Gradient(by_score, by_threshold[: self.n_theta])

    def columns(
        self, scores: Floats, members: Members, theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Slopes of all atoms by group, and mixed second derivatives in the free thresholds.

        From one table for each group and bin if the surrogate has pieces, and row by row if not.
        """
        if not self.n_atoms:
            return iter(())
        pieces = self.surrogate.pieces(self._thresholds(theta))
        if pieces is None:
            return self._dense_columns(scores, members, theta, curved)
        return iter([self._binned_columns(pieces, scores, members, curved)])

    def _binned_columns(
        self, pieces: Pieces, scores: Floats, members: Members, curved: Sequence[Floats]
    ) -> RowColumns:
        """One table for each group and bin, applied to the moments (ω, ωs)."""
        # Between two edges each slope is a + b s: (a, b) by bin, to be applied to (Σ ω, Σ ω s) of its rows.
        slopes = pieces.slopes.transpose(1, 0, 2)  # the same in all groups
        table = np.broadcast_to(slopes, (self.n_groups, *slopes.shape))
        if curved and self.n_theta:
            # ∂²/∂s ∂θ of a function of s − θ is minus its bend; bends are constant between edges.
            bends = pieces.bends.reshape(-1, 2, self.n_thresholds)
            mixed = np.zeros((self.n_groups, pieces.n_bins, 2, len(curved), self.n_thresholds))
            for t, coefficients in enumerate(curved):
                mixed[:, :, 0, t] = -np.einsum("bpj,pgj->gbj", bends, self._by_part(coefficients))
            free = mixed[..., : self.n_theta].reshape(self.n_groups, pieces.n_bins, 2, -1)
            table = np.concatenate([table, free], axis=-1)
        cells, moments = _cells_and_moments(
            pieces.bins(scores), pieces.n_bins, scores, members.codes, members.shares
        )
        return RowColumns(moments, cells, table, self.n_groups, *self._layout(len(curved)))

    def _dense_columns(
        self, scores: Floats, members: Members, theta: Floats, curved: Sequence[Floats]
    ) -> Iterator[RowColumns]:
        """Every slope and bend, of some rows at a time; each group is a block."""
        thresholds, layout = self._thresholds(theta), self._layout(len(curved))
        for rows in slabs_of_rows(scores.size):
            slab, slab_scores = members.take(rows), scores[rows]
            values = [self.surrogate.slopes(slab_scores, slab.shares, thresholds)]
            for coefficients in curved if self.n_theta else ():
                bends = self.surrogate.bends(
                    self._by_part(coefficients), slab_scores, slab.shares, slab.codes, thresholds
                )
                values.append(-bends[:, : self.n_theta])
            yield RowColumns(np.hstack(values), slab.codes, None, self.n_groups, *layout, first=rows.start)

    def _layout(self, n_curved: int) -> tuple[Ints, Ints]:
        """Return the outputs of each group's columns, and their free thresholds, (n_groups, n_columns).

        Columns are σ⁺ and σ⁻ at all thresholds, then mixed derivatives in the free ones.
        """
        atoms = np.arange(self.n_atoms).reshape(2, self.n_groups, self.n_thresholds)
        by_group = atoms.transpose(1, 0, 2).reshape(self.n_groups, -1)
        mixed = np.tile(self.n_atoms + np.arange(n_curved * self.n_theta), (self.n_groups, 1))
        free = np.arange(self.n_theta)
        every = np.concatenate([free, np.full(len(self.fixed), -1)])
        thresholds = np.concatenate([every, every, *[free] * n_curved])
        return np.hstack([by_group, mixed]), np.tile(thresholds, (self.n_groups, 1))

    def kinks(
        self,
        wanted: Floats,
        scores: Floats,
        members: Members,
        theta: Floats,
        moves: Moves,
        reach: float,
        limit: int,
    ) -> AtomKinks | None:
        """Return kinks within reach or passed; a score has one per threshold and kink of σ."""
        thresholds = self._thresholds(theta)
        threshold_moves = np.concatenate([moves[1], np.zeros(len(self.fixed))])
        # Members without weight have no kinks.
        codes, width = np.where(members.shares > 0, members.codes, -1), self.surrogate.width
        by_kink = []
        for part, kink_at, jump in self.surrogate.kinks:
            rows, near, residuals = _find_kinks(
                width * kink_at,
                self._by_part(wanted)[part],
                scores,
                codes,
                thresholds,
                moves[0],
                threshold_moves,
                reach * width,
                limit,
            )
            if rows.size > limit:
                return None
            first_atom = (self.plus(0, 0), self.minus(0, 0))[part]
            atoms = first_atom + codes[rows].astype(np.int64) * self.n_thresholds + near
            free = np.where(near < self.n_theta, near, -1)
            weights = jump / width * members.shares[rows]
            # The slope of a group's mean jumps by the row's share of it.
            by_kink.append(AtomKinks.alone(atoms, rows, free, residuals, weights, np.full_like(rows, -1)))
        return AtomKinks.joined(by_kink)

    def _by_part(self, by_atom: Floats) -> Floats:
        """Return values of the atoms by part of the surrogate, group and threshold."""
        return by_atom.reshape(2, self.n_groups, self.n_thresholds)

    def _thresholds(self, theta: Floats) -> Floats:
        """Return all thresholds, free and fixed."""
        return np.concatenate([theta, np.array(self.fixed, dtype=np.float64)])


@njit(cache=True, nogil=True)
def _cells_and_moments(
    bins: Ints, n_bins: int, scores: Floats, codes: Ints, shares: Floats
) -> tuple[Ints, Floats]:
    """Return the cell of each row by group and bin, −1 without a group, and (ω, ωs)."""
    cells, moments = np.empty(scores.size, dtype=np.int32), np.empty((scores.size, 2))
    for i in range(scores.size):
        cells[i] = codes[i] * n_bins + bins[i] if codes[i] >= 0 else -1
        moments[i, 0], moments[i, 1] = shares[i], shares[i] * scores[i]
    return cells, moments


@njit(cache=True, nogil=True)
def _find_kinks(
    kink_at: float,
    wanted: Floats,
    scores: Floats,
    codes: Ints,
    thetas: Floats,
    score_moves: Floats,
    theta_moves: Floats,
    reach: float,
    limit: int,
) -> tuple[Ints, Ints, Floats]:
    """Return rows and thresholds with ``|s_i − θ_j − kink_at| ≤ reach``, or whose sign the moves change.

    The search ends with one more than the limit if there are too many.
    """
    rows, thresholds = np.empty(limit + 1, dtype=np.int64), np.empty(limit + 1, dtype=np.int64)
    residuals, count = np.empty(limit + 1), 0
    for i in range(scores.size):
        if codes[i] >= 0:
            for j in range(thetas.size):
                if wanted[codes[i], j] != 0.0:
                    # In this order the sign is that of score > edge, which determines the slopes.
                    residual = scores[i] - (thetas[j] + kink_at)
                    moved = residual + score_moves[i] - theta_moves[j]
                    if abs(residual) <= reach or (residual > 0) != (moved > 0):
                        rows[count], thresholds[count], residuals[count] = i, j, residual
                        count += 1
                        if count > limit:
                            return rows, thresholds, residuals
    return rows[:count], thresholds[:count], residuals[:count]
