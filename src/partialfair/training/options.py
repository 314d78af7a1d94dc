"""Options of a fit that most users leave at their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from partialfair.constraints.surrogates import SURROGATES, Surrogate
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_choice, check_count, check_flag, check_number


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a fit that most users leave at their defaults.

    Pass them as ``PartialFairClassifier(..., options=FitOptions(...))``. To change one field only, use
    ``set_params(options__n_points=30)`` or ``GridSearchCV(clf, {"options__n_points": [10, 30]})``.

    Parameters
    ----------
    n_points : int, default=10
        Number of ranks in the interval at which statistical parity is imposed.
    surrogate : str or Surrogate, default="ramp"
        ``"ramp"``, ``"sigmoid"`` or a surrogate of `partialfair.constraints.surrogates` with its own width.
    surrogate_width : float or "auto", default="auto"
        Width of the surrogate in units of the scores; the paper uses 1.0. ``"auto"`` uses a quarter of the
        spread of the scores of the unconstrained model and rounds the corners of the ramp, which makes fits
        faster.
    n_starts : int, default=2
        Number of starts of ``solver="auto"``: the unconstrained model, the best model with equal scores for
        all rows, then random ones. Different starts reach different critical points; the best is returned.
    search_steps : int, default=100
        Number of models that the search on the exact metric evaluates after the last correction, for about
        12,000 rows; more for fewer rows or parameters, fewer for more rows. With more than 3,000 parameters
        the search also runs between corrections until a model satisfies the constraints. It lowers the
        objective at the same gap. 0 disables it, and with it the longer search for a feasible model that
        runs if no feasible point with a KKT certificate was found.
    surrogate_halvings : int, default=0
        How often the search may halve the width of the surrogate, up to 3, as long as it covers enough rows,
        and correct the constraints at each rank. This lowers the objective at the same training gap by
        fitting noise: on new data such models tend to be less accurate at the same gap.
    allow_ties : bool, default=False
        Whether the model may have more ties than the unconstrained model (by 0.01 of the weight). Equal
        scores satisfy any constraint and rank no rows.

    Raises
    ------
    InputError
        If a value is invalid; the message names ``options`` and the field.

    See Also
    --------
    PartialFairClassifier : Its ``options`` parameter accepts this object.

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
                    "options.surrogate has its own width, so options.surrogate_width must not be given"
                )
