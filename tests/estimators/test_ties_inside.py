"""Ties count where a constraint looks: who is in the interval, and which ties a candidate may have."""

from types import SimpleNamespace

import numpy as np
import pytest

from partialfair.constraints import StatisticalParity
from partialfair.data.groups import encode_groups
from partialfair.optimization.problems import Cells, WeightedScores
from partialfair.training.candidates import CandidateModel, Pool
from partialfair.training.statement import group_constraints

N = 40


def constraint_and_codes():
    groups = encode_groups(np.repeat(["a", "b"], N // 2))
    cells = Cells(np.ones(N), groups.codes)
    (grouped,) = group_constraints([StatisticalParity((0.1, 0.5), 0.1)], groups, cells, 2)
    return grouped, groups.codes


def test_who_is_inside():
    """Of 20 people at ranks 1/20, ..., those at (2, 10] are; those who tie with the tenth are as well."""
    grouped, codes = constraint_and_codes()
    scores = np.tile(-np.arange(20.0), 2)
    ranks = np.tile(np.arange(1, 21), 2)
    counts = WeightedScores(scores, np.ones(N), codes)
    np.testing.assert_array_equal(grouped.inside(counts), (ranks > 2) & (ranks <= 10))
    scores[codes == 1] = np.maximum(scores[codes == 1], -9.0)  # from the tenth on all of b are tied
    tied = (ranks > 2) & ((ranks <= 10) | (codes == 1))
    np.testing.assert_array_equal(grouped.inside(WeightedScores(scores, np.ones(N), codes)), tied)


@pytest.mark.parametrize(("first", "welcome"), [(15, True), (5, False)])
def test_new_ties_are_welcome_outside_of_the_interval_only(first, welcome):
    """All people from some rank on get one score: beyond the interval that meets no constraint."""
    grouped, codes = constraint_and_codes()
    pool = Pool(SimpleNamespace(constraints=(grouped,)), None, None)
    apart = -np.arange(20.0)
    scores = np.concatenate([apart, apart - 0.5])
    flat = np.maximum(scores, -first)

    def candidate(scores):
        ties = WeightedScores(scores, np.ones(N), codes).ties([grouped])
        return CandidateModel(np.zeros(1), 0.0, np.zeros(1), ties)

    pool.candidates.append(candidate(scores))
    assert pool.is_informative(candidate(scores))
    assert pool.is_informative(candidate(flat)) is welcome
