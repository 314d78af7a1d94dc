"""The Lagrangian in score space: for whoever moves scores by other means than parameters.

Boosting needs its slope and curvature in every score; a training loop of batches needs a gradient. Neither
has to know how constraints are built: multipliers and thresholds are all that solvers hand over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._typing import Floats
from partialfair.constraints import ConstraintBlock
from partialfair.dc import Gradient
from partialfair.objectives import Objective, parts

__all__ = ["ScoreLagrangian"]


@dataclass(frozen=True, eq=False)
class ScoreLagrangian:
    """``L(s, θ) = loss(s) + Σ λ_i f_i(s, θ)`` of the scores s of some rows, for multipliers λ ≥ 0.

    The f_i are differences of convex functions of *atoms*, which are sums over rows. Given a batch, pass the
    values that the atoms have over all rows: they say which pieces of maxima are active, and the gradient of
    the batch is then its part of the gradient of all rows.

    Parameters
    ----------
    objective
        The loss, tied to the rows.
    constraints
        The functions f_i, tied to the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair.constraints import DemographicParity
    >>> from partialfair.groups import encode_groups
    >>> from partialfair.objectives import Logistic
    >>> from partialfair.surrogates import RoundedRamp
    >>> groups = encode_groups(["a", "a", "b", "b"])
    >>> block = DemographicParity(max_gap=0.1).build(groups, np.ones(4), RoundedRamp(1.0))
    >>> objective = Logistic().build(np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4))
    >>> lagrangian = ScoreLagrangian(objective, block)
    >>> scores, theta, multipliers = np.array([0.3, 0.1, -0.2, -0.4]), np.empty(0), np.array([1.0, 0.0])
    >>> lagrangian.gradient(scores, theta, multipliers).scores.round(3)
    array([ 0.344,  0.631, -0.637, -0.25 ])
    """

    objective: Objective
    constraints: ConstraintBlock

    def atoms(self, scores: Floats, theta: Floats) -> Floats:
        """Return the values of the atoms, which add up over batches."""
        return self.constraints.bank.values(scores, self.constraints.members, theta)

    def value(self, scores: Floats, theta: Floats, multipliers: Floats, atoms: Floats | None = None) -> float:
        """Return L; of a batch, its part of the loss plus the constraints' terms of all rows."""
        known = self.atoms(scores, theta) if atoms is None else atoms
        loss = self.objective.loss.value_and_slopes(scores, self.objective.targets, self.objective.shares)[0]
        return float(loss + multipliers @ self.constraints.system.values(known))

    def gradient(
        self, scores: Floats, theta: Floats, multipliers: Floats, atoms: Floats | None = None
    ) -> Gradient:
        """Return an element of ``∂L`` in the scores and in the thresholds."""
        plus, minus = self._coefficients(scores, theta, multipliers, atoms)
        tied, bank = self.objective, self.constraints.bank
        slopes = tied.loss.value_and_slopes(scores, tied.targets, tied.shares)[1]
        of_atoms = bank.by_score(1, plus - minus, scores, self.constraints.members, theta)
        return Gradient(slopes + of_atoms.scores, of_atoms.theta)

    def curvature(
        self, scores: Floats, theta: Floats, multipliers: Floats, atoms: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return second derivatives of L's convex and concave part in each score, both ≥ 0.

        ``∂²L/∂s_i²`` is their difference, smoothed over kinks; what couples scores is left out.
        """
        tied, members = self.objective, self.constraints.members
        losses = [
            np.zeros(scores.size)
            if loss is None
            else loss.curvature(scores, tied.targets, tied.shares).diagonal
            for loss in parts(tied.loss)
        ]
        convex, concave = (
            diagonal + self.constraints.bank.by_score(2, coefficients, scores, members, theta).scores
            for diagonal, coefficients in zip(
                losses, self._coefficients(scores, theta, multipliers, atoms), strict=True
            )
        )
        return convex, concave

    def _coefficients(
        self, scores: Floats, theta: Floats, multipliers: Floats, atoms: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return the multipliers of the atoms in ``Σ λ_i f⁺_i`` and in ``Σ λ_i f⁻_i``."""
        known = self.atoms(scores, theta) if atoms is None else atoms
        return self.constraints.system.combined(known, multipliers)
