"""How a fit searches for its model: one object, whose defaults suit most fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from partialfair.constraints.surrogates import SURROGATES, Surrogate
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_choice, check_count, check_flag, check_number


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a fit that most users leave alone: ``PartialFairClassifier(..., options=FitOptions(...))``.

    ``set_params(options__n_points=30)`` and ``GridSearchCV(clf, {"options__n_points": [10, 30]})`` change one
    field and leave the others as they are.

    Parameters
    ----------
    n_points : int, default=10
        Ranks at which statistical parity is imposed.
    surrogate : str or Surrogate, default="ramp"
        ``"ramp"``, ``"sigmoid"`` or a surrogate of `partialfair.constraints.surrogates`, which has a width of
        its own.
    surrogate_width : float or "auto", default="auto"
        In units of the scores; the paper's is 1.0. ``"auto"`` takes a quarter of the spread of the scores of
        the unconstrained model, and rounds the corners of the ramp, which makes fits faster.
    n_starts : int, default=2
        Starts of ``solver="auto"``: the unconstrained model, the best model that gives all rows equal scores,
        and random ones. Critical points differ; the best is returned.
    search_steps : int, default=100
        How many models the search on the exact metric itself evaluates, after the last correction, if there
        are some 12,000 rows; more where rows or parameters are few, fewer where rows are many. With more than
        3,000 parameters it comes between corrections as well, until a model satisfies the constraints. It
        lowers the objective at the same gap; 0 leaves it out, and with it the longer search for a feasible
        model that follows where no feasible point with a KKT certificate was found.
    surrogate_halvings : int, default=0
        How often the search may make the surrogate half as wide, up to 3 and as long as it covers enough
        members, and correct constraints rank by rank. The objective is then lower at the same training gap,
        since models fit its noise: on new data they tend to be less accurate at the same gap.
    allow_ties : bool, default=False
        Whether the constraints may be satisfied by more ties (by 0.01 of the weight) than the unconstrained
        model has: equal scores satisfy any constraint, and rank no rows.

    Raises
    ------
    InputError
        If a value cannot be right; the message names ``options`` and the field.

    Examples
    --------
    >>> from partialfair import FitOptions, PartialFairClassifier
    >>> clf = PartialFairClassifier(interval=(0.1, 0.5), options=FitOptions(n_starts=4))
    >>> clf.set_params(options__n_points=30).options
    FitOptions(n_points=30, surrogate='ramp', surrogate_width='auto', n_starts=4, search_steps=100, \
surrogate_halvings=0, allow_ties=False)
    """

    n_points: int = 10
    surrogate: str | Surrogate = "ramp"
    surrogate_width: float | Literal["auto"] = "auto"
    n_starts: int = 2
    search_steps: int = 100
    surrogate_halvings: int = 0
    allow_ties: bool = False

    def __post_init__(self) -> None:
        for name, low in (("n_points", 1), ("n_starts", 1), ("search_steps", 0), ("surrogate_halvings", 0)):
            check_count(getattr(self, name), f"options.{name}", low=low)
        check_flag(self.allow_ties, "options.allow_ties")
        is_object = isinstance(self.surrogate, Surrogate)
        if not is_object:
            check_choice(self.surrogate, "options.surrogate", SURROGATES)
        if self.surrogate_width != "auto":
            check_number(self.surrogate_width, "options.surrogate_width", above=0.0)
            if is_object:
                raise InputError(
                    "options.surrogate has a width of its own, so options.surrogate_width must not be given"
                )
