"""The status of solves and fits."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The status of a solve or a fit; MAX_ITER means neither infeasibility nor convergence.

    STATIONARY: a first-order solver found a point at which the gradient of the Lagrangian vanishes; only with
    a KKT certificate the status is CONVERGED. FEASIBLE: the exact gaps of the model are within their limits,
    and no feasible point with a KKT certificate was found. NOT_VALIDATED: with ``enforce="population"``, the
    held-out rows validate no model.
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
"""Status of fits whose model satisfies the constraint."""

CUT_SHORT = (Status.TIME_LIMIT, Status.STOPPED)
"""Status of solves that the clock or the user ended."""


def decide_status(
    ended: Status, *, feasible: bool, kkt_holds: bool | None = None, satisfied: bool | None = None
) -> Status:
    """Return the status of a point.

    Parameters
    ----------
    ended
        The status of the solver. CONVERGED claims a witness of the KKT conditions.
    feasible
        Whether the point satisfies the constraints up to the solver's tolerance.
    kkt_holds
        Whether the KKT certificate holds for the point, or for a feasible point that is not better; None if
        it was not computed.
    satisfied
        Whether exact gaps are small enough; None if they were not computed.
    """
    claimed = kkt_holds is None and ended is Status.CONVERGED and feasible
    if (kkt_holds or claimed) and satisfied is not False:
        return Status.CONVERGED  # whatever ended the solver
    if ended in CUT_SHORT or ended is Status.NONFINITE:
        return ended
    if satisfied:
        return Status.FEASIBLE
    if not feasible or satisfied is False:
        return Status.NO_FEASIBLE_POINT
    if ended is Status.CONVERGED and kkt_holds is False:
        return Status.STALLED  # the solver reports convergence, but the KKT certificate does not hold
    return ended


def decide_status_on_new_rows(ended: Status, *, validated: bool, cut: Status | None = None) -> Status:
    """Return the status of a model that was chosen on held-out rows.

    Parameters
    ----------
    ended
        The status of its own fit to the training set.
    validated
        Whether held-out rows validate it.
    cut
        The status of an interruption of the search, if there was one.
    """
    if cut is not None:
        return cut
    if not validated:
        return Status.NOT_VALIDATED
    return Status.CONVERGED if ended is Status.CONVERGED else Status.FEASIBLE
