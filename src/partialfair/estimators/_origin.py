"""Fits whose coefficients are counted from those of another model, whose scores are the offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

from partialfair._typing import Floats
from partialfair.models.linear import LinearModel

__all__ = ["MovedModel", "Origin", "Told"]

Told: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Origin:
    """Another model of the same features, ``s_i = coef · x_i + intercept``, at which coefficients are 0.

    The penalty ``½ alpha ‖coef − origin‖²`` then draws towards that model, and not towards scores of 0.

    Attributes
    ----------
    scores : (n,)
        Of the rows that have weight, by that model.
    coef, intercept : (1, d), (1,)
        Its own parameters.
    told
        From coefficients and intercepts, those of this model included, to the numbers that a user's library
        adds up for a row, (1, d), and to what makes scores of their sums.
    """

    scores: Floats
    coef: Floats
    intercept: Floats
    told: Callable[[Floats, Floats], tuple[Floats, Told]]

    def in_units(self, unit: float) -> Origin:
        """Return the same model, with scores in other units."""

        def told(coef: Floats, intercept: Floats) -> tuple[Floats, Told]:
            summands, scores_of = self.told(unit * coef, unit * intercept)
            return summands, lambda sums: scores_of(sums) / unit

        return Origin(self.scores / unit, self.coef / unit, self.intercept / unit, told)

    def moved(self, model: LinearModel) -> MovedModel:
        """Return a linear model whose parameters are counted from here."""
        given = {field.name: getattr(model, field.name) for field in fields(model)}
        given |= {"offset": self.scores, "flat": model.pack(-self.coef, -self.intercept)}
        return MovedModel(**given, origin=self)


@dataclass(frozen=True, eq=False, kw_only=True)
class MovedModel(LinearModel):
    """A linear model whose parameters are counted from another's, and whose scores a library computes."""

    origin: Origin

    def told_scores(self, w: Floats, scores: Floats) -> Floats:
        """Return the scores that the library computes, to the last digit."""
        coef, intercept = self.unpack(w)
        summands, scores_of = self.origin.told(self.origin.coef + coef, self.origin.intercept + intercept)
        return scores_of(self.design.forward(summands))
