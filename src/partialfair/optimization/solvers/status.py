"""How a solve or a fit ended, decided in one place."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Endings; running out of steps is not infeasibility, and neither is convergence.

    STATIONARY is what first-order solvers call a point at which the gradient of the Lagrangian vanishes; only
    a KKT certificate makes it CONVERGED. FEASIBLE is a model whose exact gaps are small enough, where no
    point with a KKT certificate was found that satisfies the constraint. NOT_VALIDATED is a fit for the
    population whose held-out rows do not show of any model that its gap is small enough.
    """

    CONVERGED = "converged"
    FEASIBLE = "feasible"
    STATIONARY = "stationary"
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    NONFINITE = "nonfinite"
    STOPPED = "stopped"
    NO_FEASIBLE_POINT = "no_feasible_point"
    NOT_VALIDATED = "not_validated"


GOOD = (Status.CONVERGED, Status.FEASIBLE)
"""Endings of fits whose model satisfies the constraint."""

CUT_SHORT = (Status.TIME_LIMIT, Status.STOPPED)
"""Endings of solves that the clock or the user ended."""


def decide_status(
    ended: Status, *, feasible: bool, certified: bool | None = None, satisfied: bool | None = None
) -> Status:
    """Return the status of a point.

    Parameters
    ----------
    ended
        How the solver says that it ended. Its CONVERGED claims a witness of the KKT conditions.
    feasible
        Whether the point satisfies the constraints up to the solver's tolerance.
    certified
        Whether the KKT certificate of the point holds, or of another that is no better and satisfies the
        constraint, too; None if it was not computed.
    satisfied
        Whether exact gaps are small enough; None if they were not computed.
    """
    claimed = certified is None and ended is Status.CONVERGED and feasible
    if (certified or claimed) and satisfied is not False:
        return Status.CONVERGED  # whatever ended the solver
    if ended in CUT_SHORT or ended is Status.NONFINITE:
        return ended
    if satisfied:
        return Status.FEASIBLE
    if not feasible or satisfied is False:
        return Status.NO_FEASIBLE_POINT
    if ended is Status.CONVERGED and certified is False:
        return Status.STALLED  # it converged as far as the solver knows, and the KKT certificate says no
    return ended


def decide_status_on_new_rows(ended: Status, *, certified: bool, cut: Status | None = None) -> Status:
    """Return the status of a model that was chosen on rows held out.

    Parameters
    ----------
    ended
        The status of its own fit, which satisfied the constraint on the training set or did not.
    certified
        Whether held-out rows show that it satisfies the constraint in the population.
    cut
        What cut the search for models short, if anything did.
    """
    if cut is not None:
        return cut
    if not certified:
        return Status.NOT_VALIDATED
    return Status.CONVERGED if ended is Status.CONVERGED else Status.FEASIBLE
