"""Fits whose coefficients are counted from those of another model, whose scores are the offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from partialfair.optimization.models.linear import LinearModel
from partialfair.optimization.problems import Box
from partialfair.utils.typing import Floats

DeployedScores: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Offset:
    """Another model of the same features, ``s_i = coef · x_i + intercept``, at which coefficients are 0.

    The penalty ``½ alpha ‖coef − origin‖²`` then shrinks towards that model, and not towards scores of 0.

    Attributes
    ----------
    scores : (n,)
        Of the rows that have weight, by that model.
    coef, intercept : (1, d), (1,)
        Its own parameters.
    level : (1, d)
        Coefficients whose scores are all 1.
    bounds
        The least and the largest value that coefficients, those of this model included, may have.
    deploy
        From coefficients and intercepts, those of this model included, to the numbers that a user's library
        adds up for a row, (1, d), and to what makes scores of their sums.
    """

    scores: Floats
    coef: Floats
    intercept: Floats
    level: Floats
    bounds: tuple[float, float]
    deploy: Callable[[Floats, Floats], tuple[Floats, DeployedScores]]

    def in_units(self, unit: float) -> Offset:
        """Return the same model, with scores in other units."""

        def deploy(coef: Floats, intercept: Floats) -> tuple[Floats, DeployedScores]:
            summands, scores_of = self.deploy(unit * coef, unit * intercept)
            return summands, lambda sums: scores_of(sums) / unit

        low, high = sorted(bound / unit for bound in self.bounds)
        return replace(
            self,
            scores=self.scores / unit,
            coef=self.coef / unit,
            intercept=self.intercept / unit,
            bounds=(low, high),
            deploy=deploy,
        )

    def domain(self, model: LinearModel) -> Box | None:
        """Return where the parameters of a linear model that is counted from here may lie; None: anywhere.

        Its features must not be centred, or every parameter would move the intercept.
        """
        if np.isinf(self.bounds).all():
            return None
        assert not model.n_intercepts
        low, high = (model.pack(bound - self.coef, np.empty(0)) for bound in self.bounds)
        return Box(low, high)

    def moved(self, model: LinearModel) -> OffsetModel:
        """Return a linear model whose parameters are counted from here."""
        given = {field.name: getattr(model, field.name) for field in fields(model)}
        given |= {
            "offset": self.scores,
            "flat": model.pack(-self.coef, -self.intercept[: model.n_intercepts]),
        }
        if not model.n_intercepts:
            given["level"] = model.pack(self.level, np.empty(0))
        return OffsetModel(**given, origin=self)


@dataclass(frozen=True, eq=False, kw_only=True)
class OffsetModel(LinearModel):
    """A linear model whose parameters are counted from another's, and whose scores a library computes."""

    origin: Offset

    def deployed_scores(self, w: Floats, scores: Floats) -> Floats:
        """Return the scores that the library computes, to the last digit."""
        coef, intercept = self.unpack(w)
        if not self.n_intercepts:
            intercept = np.zeros(1)
        summands, scores_of = self.origin.deploy(self.origin.coef + coef, self.origin.intercept + intercept)
        return scores_of(self.design.forward(summands))
