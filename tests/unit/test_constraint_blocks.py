"""Blocks of constraints: thresholds, members, and what is said to people who get them wrong."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import DemographicParity, EqualizedOdds, GroupAUC, StatisticalParity
from partialfair.constraints.base import Constraint
from partialfair.constraints.block import ConstraintBlock, JoinedThresholds, Thresholds, join
from partialfair.constraints.dc import (
    DCSystem,
    GroupMeans,
    JoinedBank,
    atom,
    check_additive,
    check_columns,
    check_subgradient,
)
from partialfair.constraints.parity import OnAGrid
from partialfair.constraints.surrogates import Ramp, Sigmoid
from partialfair.data.groups import Members, encode_groups, members_of
from partialfair.exceptions import InputError
from partialfair_paper.quadratic import QuadraticGroupAUC
from tests.blocks import functions_of

N = 60
LABELS = np.array(["a", "b", "c"])[np.arange(N) % 3]
GROUPS = encode_groups(LABELS)
POSITIVE = np.arange(N) // 3 % 2 == 0
SIGMA = Ramp(1.0)


@dataclass(frozen=True)
class RanksByHand:
    """Scores at ranks from the top, and shares above thresholds, by counting."""

    scores: np.ndarray
    members: Members

    def at(self, group, ranks):
        inside = self.members.codes == group
        order = np.argsort(-self.scores[inside])
        scores, passed = self.scores[inside][order], np.cumsum(self.members.shares[inside][order])
        positions = [np.flatnonzero(passed >= min(rank, passed[-1]) - 1e-12)[0] for rank in ranks]
        return scores[positions]

    def above(self, group, thresholds):
        inside = self.members.codes == group
        return np.array([self.members.shares[inside & (self.scores > t)].sum() for t in thresholds])


def ranks_of(block, scores):
    return lambda bank: RanksByHand(scores, block.all_members[bank])


@dataclass(frozen=True)
class Floor(Constraint):
    """A contributed constraint with thresholds of its own that says nothing about keys and ranks."""

    def build(self, groups, weights, surrogate, positive=None):
        bank = GroupMeans(surrogate, len(groups.labels), 2)
        functions = [
            -(atom(bank.plus(k, j)) - atom(bank.minus(k, j))) + level
            for j, level in enumerate((0.2, 0.5))
            for k in range(bank.n_groups)
        ]
        return ConstraintBlock(
            bank,
            members_of(groups.codes, weights, bank.n_groups),
            DCSystem(tuple(functions), bank.n_atoms),
            tuple(f"floor {i}" for i in range(len(functions))),
            Thresholds(np.array([0.1, -0.4])),
        )


@given(seed=st.integers(0, 1000))
def test_thresholds_stand_at_the_middle_ranks_of_their_bands(seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=N), rng.random(N)
    constraint = StatisticalParity((0.1, 0.6), 0.1, n_points=4)
    block = constraint.build(GROUPS, weights, SIGMA)
    lows, highs = constraint.rank_boxes(GROUPS)
    theta = block.thresholds.at(ranks_of(block, scores))
    for j in range(4):
        by_group = []
        for k in range(3):
            inside = GROUPS.codes == k
            for s in np.sort(scores[inside])[::-1]:
                passed = weights[inside & (scores >= s)].sum() / weights[inside].sum()
                if passed >= (lows[j, k] + highs[j, k]) / 2 - 1e-12:
                    by_group.append(s)
                    break
        assert theta[j] == pytest.approx(np.mean(by_group))


def test_thresholds_without_ranks_move_with_the_median():
    scores = np.random.default_rng(0).normal(size=N)
    block = Floor().build(GROUPS, np.ones(N), SIGMA)
    assert block.thresholds.keys == (0.0, 1.0)
    medians = [np.sort(scores[label == LABELS])[::-1][9] for label in "abc"]  # of 20 members
    expected = np.array([0.1, -0.4]) + np.mean(medians)
    assert block.thresholds.at(ranks_of(block, scores)) == pytest.approx(expected)
    shifted = block.thresholds.at(ranks_of(block, scores + 3.0))
    assert shifted == pytest.approx(expected + 3.0)
    joined = join([StatisticalParity((0.1, 0.6), 0.1).build(GROUPS, np.ones(N), SIGMA), block])
    assert joined.thresholds.at(ranks_of(joined, scores))[-2:] == pytest.approx(expected)


def test_continued_thresholds_keep_their_values_by_key():
    """A grid that gained a point: the others stay where they are."""
    scores = np.random.default_rng(0).normal(size=N)
    stated = StatisticalParity((0.1, 0.6), 0.1, points=(0.2, 0.6))
    finer = StatisticalParity((0.1, 0.6), 0.08, points=(0.6, 0.4, 0.2))
    before, after = (c.build(GROUPS, np.ones(N), SIGMA) for c in (stated, finer))
    ranks = ranks_of(after, scores)
    found = after.thresholds.continued(before.thresholds, np.array([5.0, 7.0]), ranks)
    assert found.tolist() == [7.0, after.thresholds.at(ranks)[1], 5.0]

    def unseen(bank):
        raise AssertionError("no scores are needed")

    same = before.thresholds.continued(before.thresholds, np.array([5.0, 7.0]), unseen)
    assert same.tolist() == [5.0, 7.0]

    others = [
        EqualizedOdds((0.1, 0.6)).build(GROUPS, np.ones(N), SIGMA, POSITIVE),
        Floor().build(GROUPS, np.ones(N), SIGMA),
    ]
    earlier, later = join([before, *others]), join([after, *others])
    theta = np.array([5.0, 7.0, 1.0, 2.0])
    found = later.thresholds.continued(earlier.thresholds, theta, ranks_of(later, scores))
    assert found.tolist() == [7.0, after.thresholds.at(ranks)[1], 5.0, 1.0, 2.0]
    with pytest.raises(InputError, match="same constraints"):
        later.thresholds.continued(join(others).thresholds, theta[2:], unseen)


def test_points_at_which_nothing_is_asked_keep_their_bank():
    """So that blocks of the same constraints have the same banks, whatever κ."""
    nothing = StatisticalParity((0.0, 1.0), 1.0).build(GROUPS, np.ones(N), SIGMA)
    assert nothing.system.m == nothing.thresholds.n == nothing.bank.n_atoms == 0
    assert len(join([nothing]).bank.banks) == 1
    scores, none = np.zeros(N), np.empty(0)
    for sigma in (SIGMA, Sigmoid(1.0)):
        block = StatisticalParity((0.0, 1.0), 1.0).build(GROUPS, np.ones(N), sigma)
        assert functions_of(block, scores).size == 0
        for order in (1, 2):
            assert not block.bank.by_score(order, none, scores, block.members, none).scores.any()
        assert list(block.bank.columns(scores, block.members, none)) == []


def test_joined_blocks_are_flat():
    odds = EqualizedOdds((0.1, 0.6)).build(GROUPS, np.ones(N), SIGMA, POSITIVE)
    parity = StatisticalParity((0.1, 0.6), 0.1).build(GROUPS, np.ones(N), SIGMA)
    joined = join([odds, parity, join([odds, parity])])
    assert [type(bank) for bank in joined.bank.banks] == [GroupMeans] * 6
    assert len(joined.members) == len(joined.thresholds.by_bank) == 6
    assert joined.thresholds.starts.tolist() == [*parity.thresholds.starts] * 2
    scores = np.random.default_rng(0).normal(size=N)
    theta = np.concatenate([parity.thresholds.starts, parity.thresholds.starts + 1])
    expected = [functions_of(odds, scores), functions_of(parity, scores, theta[:10])]
    expected += [expected[0], functions_of(parity, scores, theta[10:])]
    assert functions_of(joined, scores, theta) == pytest.approx(np.concatenate(expected))
    check_columns(joined, n_trials=1)
    check_additive(joined)
    check_subgradient(joined, n_trials=2)


def test_blocks_without_members_are_the_same_functions_of_banks_in_a_row():
    parity = StatisticalParity((0.1, 0.6), 0.1).build(GROUPS, np.ones(N), SIGMA)
    alone = parity.without_members()
    assert alone.members is None
    assert alone.all_members == ()
    assert isinstance(alone.bank, JoinedBank)
    assert alone.thresholds.starts.tolist() == parity.thresholds.starts.tolist()
    scores, theta = np.linspace(-1, 1, N), parity.thresholds.starts
    atoms = alone.bank.values(scores, parity.all_members, theta)
    assert alone.system.values(atoms).tolist() == functions_of(parity, scores, theta).tolist()
    nothing = ConstraintBlock.none()
    assert nothing.system.m == nothing.bank.n_atoms == nothing.thresholds.n == 0


def parts(**changes):
    bank = GroupMeans(SIGMA, 2, 2)
    members = Members(np.array([0, 1, -1]), np.array([1.0, 1.0, 0.0]))
    system = DCSystem((atom(0) - atom(1),), bank.n_atoms)
    return {
        "bank": bank,
        "members": members,
        "system": system,
        "names": ("f",),
        "thresholds": Thresholds(np.zeros(2)),
    } | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": DCSystem((atom(0),), 3)}, "functions are of 3 atoms, but its GroupMeans has 8"),
        ({"names": ()}, "a constraint on GroupMeans has 1 functions but 0 names"),
        ({"names": ("f", "g")}, "a constraint on GroupMeans has 1 functions but 2 names: 'f', 'g'"),
        ({"thresholds": Thresholds.none()}, "has 2 free thresholds, but Thresholds for 0"),
        ({"thresholds": Thresholds(np.zeros(3))}, "has 2 free thresholds, but Thresholds for 3"),
        (
            {"thresholds": Thresholds(np.zeros(2), ranks=np.full((2, 1), 0.5))},
            "have ranks in 1 groups, but its members are of 2",
        ),
        ({"members": (parts()["members"],)}, "members of a constraint on GroupMeans must be Members"),
        ({"members": np.zeros(3)}, "must be Members, as members_of returns, not ndarray"),
        ({"members": Members(np.zeros(3, dtype=int), np.ones(4))}, "of different numbers of rows: 3, 4"),
        ({"bank": JoinedBank((parts()["bank"],))}, "must be a tuple of 1 Members"),
        (
            {"bank": JoinedBank((parts()["bank"],)), "members": (parts()["members"],)},
            "a constraint on a JoinedBank needs JoinedThresholds",
        ),
        (
            {"thresholds": JoinedThresholds((Thresholds(np.zeros(2)), Thresholds.none()))},
            "on 1 banks has thresholds for 2",
        ),
    ],
)
def test_blocks_that_do_not_fit_are_refused_in_a_sentence(changes, message):
    ConstraintBlock(**parts())
    with pytest.raises(InputError, match=message):
        ConstraintBlock(**parts(**changes))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"starts": np.zeros((2, 1))}, "must be a vector"),
        ({"starts": np.zeros(2), "keys": (1.0,)}, "2 thresholds need as many keys"),
        ({"starts": np.zeros(2), "ranks": np.zeros(2)}, r"must be of shape \(2, n_groups\)"),
        (
            {"starts": np.zeros(2), "ranks": np.zeros((3, 2))},
            r"must be of shape \(2, n_groups\), not \(3, 2\)",
        ),
    ],
)
def test_thresholds_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Thresholds(**fields)


def test_units_of_constraints():
    assert DemographicParity(threshold=3.0).in_units(-2.0).threshold == -1.5
    assert str(DemographicParity(threshold=0.0).in_units(-1.0).threshold) == "0.0"
    for constraint in (StatisticalParity((0.1, 0.6)), GroupAUC((0.1, 0.6)), Floor()):
        assert constraint.in_units(-4.0) == constraint


@dataclass(frozen=True)
class WithThreshold(Floor):
    threshold: float = 0.0


def test_a_threshold_whose_unit_is_not_known_is_refused():
    assert WithThreshold().in_units(1.0) == WithThreshold()
    with pytest.raises(InputError, match="WithThreshold has a threshold, but no in_units"):
        WithThreshold().in_units(2.0)


def test_only_statistical_parity_is_on_a_grid():
    assert isinstance(StatisticalParity(), OnAGrid)
    assert not any(
        isinstance(c, OnAGrid)
        for c in (DemographicParity(), EqualizedOdds(), GroupAUC(), QuadraticGroupAUC(1.0))
    )
    stated = StatisticalParity((0.1, 0.6), 0.1, n_points=3)
    trained = stated.on_grid(stated.grid)
    assert trained.points == pytest.approx(np.linspace(0, 1, 5))
    assert trained.on_grid(trained.grid) == trained
