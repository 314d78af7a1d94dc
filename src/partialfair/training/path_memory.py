"""What the fits of one path know of each other: they are about the same rows, and differ in ``max_gap``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from partialfair.data.samples import Samples
from partialfair.optimization.models.linear import LinearModel
from partialfair.optimization.objectives import Objective
from partialfair.optimization.problems import InMemoryData
from partialfair.optimization.solvers import Result
from partialfair.training.attempts import Attempt
from partialfair.training.candidates import Candidate
from partialfair.training.column_units import ColumnUnits
from partialfair.utils.typing import Floats

__all__ = ["PathMemory", "PathModel", "PreparedFit"]


@dataclass(frozen=True, eq=False)
class PreparedFit:
    """Samples that are ready to be fitted.

    Attributes
    ----------
    samples, objective
        Rows with weight, and the loss of their scores in the unit of the fit.
    units, model, alpha
        Units of the columns, the model that scores them in these units, and its penalty.
    data
        The rows as problems are stated about them.
    """

    samples: Samples
    objective: Objective
    units: ColumnUnits
    model: LinearModel
    alpha: Floats
    data: InMemoryData


@dataclass(frozen=True, eq=False)
class PathModel:
    """What one fit came back with.

    Attributes
    ----------
    max_gaps : (n_promises,)
        What it allowed.
    candidate
        The model, judged by that.
    attempt
        The attempt that is certified.
    """

    max_gaps: Floats
    candidate: Candidate
    attempt: Attempt


@dataclass(eq=False)
class PathMemory:
    """What is known of rows that are fitted again and again, with other gaps allowed.

    Attributes
    ----------
    prepared
        The rows, once a fit has prepared them.
    free
        The model without constraint, once it is fitted.
    """

    prepared: PreparedFit | None = None
    free: Result | None = None
    _models: dict[tuple[float, ...], PathModel] = field(default_factory=dict, repr=False)
    _candidates: list[Candidate] = field(default_factory=list, repr=False)

    def note(self, model: PathModel) -> None:
        """Remember a model, instead of one for which as much was allowed."""
        self._models[tuple(model.max_gaps.tolist())] = model

    def extend(self, candidates: Sequence[Candidate], max_gaps: Floats) -> None:
        """Remember the candidates of a fit, feasible or not, that no other beats in gaps and objective."""
        given = [replace(one, excess=one.excess + max_gaps) for one in candidates if one.is_predictive]
        for candidate in given:
            if not any(_beats(other, candidate) for other in self._candidates):
                self._candidates = [one for one in self._candidates if not _beats(candidate, one)]
                self._candidates.append(candidate)

    def has_better(self, model: PathModel) -> bool:
        """Whether a candidate of another fit satisfies the limits of a model, and is the better answer."""
        own = model.candidate
        return any(
            one.worst <= 0 and (own.worst > 0 or one.objective < own.objective)
            for one in self.candidates(model.max_gaps)
        )

    def candidates(self, max_gaps: Floats) -> list[Candidate]:
        """Return all candidates of earlier fits, evaluated by the given limits: gaps do not change."""
        return [replace(one, excess=one.excess - max_gaps) for one in self._candidates]

    def allowing(self, max_gaps: Floats) -> PathModel | None:
        """Return the model for which as much was allowed."""
        return self._models.get(tuple(max_gaps.tolist()))

    @property
    def models(self) -> tuple[PathModel, ...]:
        """All of them, in the order in which gaps were first allowed."""
        return tuple(self._models.values())

    @property
    def last(self) -> PathModel | None:
        """The last of them."""
        return self.models[-1] if self._models else None


def _beats(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is at least as good in every gap, in its objective and in its ties."""
    no_more_ties = not (one.tied > other.tied).any()  # nan, unknown, is not more
    return bool(no_more_ties and (one.excess <= other.excess).all() and one.objective <= other.objective)
