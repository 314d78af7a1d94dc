"""``decided`` over its whole truth table: what may be said of a point, and what never."""

from itertools import product

import numpy as np
import pytest

from partialfair.optimization.solvers import (
    CUT_SHORT,
    GOOD,
    Result,
    Status,
    decide_status,
    decide_status_on_new_rows,
)

CASES = list(product(Status, [True, False], [True, False, None], [True, False, None]))


def status_of(ended, feasible, certified, satisfied):
    return decide_status(ended, feasible=feasible, kkt_holds=certified, satisfied=satisfied)


def test_converged_needs_a_witness():
    """A certificate that holds, or, where nobody has looked, the solver's claim to have one."""
    for ended, feasible, certified, satisfied in CASES:
        claimed = certified is None and ended is Status.CONVERGED and feasible
        witness = certified or claimed
        converged = status_of(ended, feasible, certified, satisfied) is Status.CONVERGED
        assert converged == bool(witness and satisfied is not False)


def test_a_broken_promise_is_said():
    for ended, feasible, certified, satisfied in CASES:
        if satisfied is False:
            status = status_of(ended, feasible, certified, satisfied)
            interrupted = ended in CUT_SHORT or ended is Status.NONFINITE
            assert status is (ended if interrupted else Status.NO_FEASIBLE_POINT)


def test_what_was_cut_short_stays_so_unless_it_had_arrived():
    for ended, feasible, certified, satisfied in CASES:
        if ended in CUT_SHORT or ended is Status.NONFINITE:
            arrived = certified and satisfied is not False
            status = status_of(ended, feasible, certified, satisfied)
            assert status is (Status.CONVERGED if arrived else ended)


def test_infeasible_points_are_called_so():
    """Unless a certificate, which bounds the violation too, or somebody's impatience says otherwise."""
    for ended, feasible, certified, satisfied in CASES:
        status = status_of(ended, feasible, certified, satisfied)
        if not feasible and not certified:
            kept = Status.FEASIBLE if satisfied else Status.NO_FEASIBLE_POINT
            assert status in (*CUT_SHORT, Status.NONFINITE, kept)
        if status is Status.NO_FEASIBLE_POINT:
            assert not feasible or satisfied is False or ended is Status.NO_FEASIBLE_POINT


def test_a_promise_kept_without_a_certificate_is_called_that():
    for ended, feasible, certified, satisfied in CASES:
        claimed = certified is None and ended is Status.CONVERGED and feasible
        interrupted = ended in CUT_SHORT or ended is Status.NONFINITE
        if satisfied and not (certified or claimed or interrupted):
            assert status_of(ended, feasible, certified, satisfied) is Status.FEASIBLE


def test_a_feasible_point_without_a_certificate_keeps_its_ending():
    for ended, feasible, certified, satisfied in CASES:
        if feasible and not certified and satisfied is None:
            status = status_of(ended, feasible, certified, satisfied)
            disproved = ended is Status.CONVERGED and certified is False
            assert status is (Status.STALLED if disproved else ended)


def test_deciding_twice_changes_nothing():
    for ended, feasible, certified, satisfied in CASES:
        status = status_of(ended, feasible, certified, satisfied)
        assert status_of(status, feasible, certified, satisfied) is status


def test_more_evidence_is_never_worse():
    """A certificate that holds, instead of one that does not, never takes CONVERGED away."""
    for ended, feasible, certified, satisfied in CASES:
        if status_of(ended, feasible, certified, satisfied) is Status.CONVERGED:
            assert status_of(ended, feasible, True, satisfied) is Status.CONVERGED
            assert status_of(ended, True, certified, True) is Status.CONVERGED


@pytest.mark.parametrize("ended", Status)
@pytest.mark.parametrize("feasible", [True, False])
def test_results_say_what_may_be_said_before_a_certificate_is_computed(ended, feasible):
    result = Result(np.zeros(1), ended, 1.0, 0.0 if feasible else 1.0, feasible, ())
    assert result.status is decide_status(ended, feasible=feasible)


def test_a_model_for_new_people_is_good_only_if_rows_held_out_show_it():
    for ended, certified, cut in product(Status, [True, False], [None, *CUT_SHORT]):
        status = decide_status_on_new_rows(ended, validated=certified, cut=cut)
        assert (status in GOOD) == (certified and cut is None)
        assert (status is Status.CONVERGED) == (certified and cut is None and ended is Status.CONVERGED)
        assert (status is Status.NOT_VALIDATED) == (not certified and cut is None)
        if cut is not None:
            assert status is cut
