"""Group means, joined banks, and the checks for people who add some."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import surrogates
from partialfair.constraints.dc import (
    Bending,
    CheckFailed,
    DCSystem,
    GroupMeans,
    JoinedBank,
    atom,
    check_additive,
    check_columns,
    check_convex,
    check_majorises,
    check_subgradient,
)
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import Members, members_of
from partialfair_paper.quadratic import QuadraticPairs
from tests.blocks import Block, written_out
from tests.sizes import examples

N = 12
SIGMAS = [Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.5)]
every_surrogate = pytest.mark.parametrize("sigma", SIGMAS, ids=str)


def people(seed=1, n=N):
    rng = np.random.default_rng(seed)
    return members_of(rng.integers(-1, 2, size=n), rng.random(n), 2)


def means(sigma, n_theta=2, fixed=(0.3,), seed=1):
    return Block(GroupMeans(sigma, 2, n_theta, fixed), people(seed))


def joined(*blocks):
    return Block(JoinedBank(tuple(b.bank for b in blocks)), tuple(b.members for b in blocks))


def both(seed=0):
    """Two banks with thresholds, of other members each, and one without any between them."""
    cells = Block(QuadraticPairs(2, 1, ((0, 1), (1, 0))), people(5))
    return joined(means(Ramp(0.8)), cells, means(Sigmoid(1.0), n_theta=3, fixed=(), seed=2))


@every_surrogate
def test_group_means_pass_their_checks(sigma):
    block = means(sigma)
    check_convex(block)
    check_subgradient(block, n_trials=10)
    check_columns(block)
    check_additive(block)


@every_surrogate
def test_group_means_are_means(sigma):
    block = means(sigma)
    scores, theta = np.linspace(-1, 1, N), np.array([-0.2, 0.4])
    values, (codes, shares) = block.values(scores, theta), (block.members.codes, block.members.shares)
    for k in range(2):
        for j, threshold in enumerate([-0.2, 0.4, 0.3]):
            mean = values[block.bank.plus(k, j)] - values[block.bank.minus(k, j)]
            assert mean == pytest.approx(shares[codes == k] @ sigma(scores[codes == k] - threshold))


@pytest.mark.parametrize("sigma", SIGMAS[1:], ids=str)
@given(seed=st.integers(0, 1000))
def test_second_derivatives_are_those_of_slopes(sigma, seed):
    block, rng = means(sigma), np.random.default_rng(seed)
    scores, theta = rng.normal(size=N), rng.normal(size=2)
    coefficients, step = rng.normal(size=block.bank.n_atoms), 1e-5
    second = block.by_score(2, coefficients, scores, theta)

    def slopes(scores, theta):
        first = block.by_score(1, coefficients, scores, theta)
        return np.concatenate([first.scores, first.theta])

    def along(nudge):
        up, down = (slopes(scores + sign * nudge[:N], theta + sign * nudge[N:]) for sign in (1, -1))
        return (up - down) / (2 * step)

    hessian = np.array([along(step * unit) for unit in np.eye(N + 2)])
    near = np.abs(
        np.subtract.outer(scores, [*theta, 0.3])[..., None] / sigma.width - [-0.75, -0.25, 0.25, 0.75]
    )
    if sigma == SIGMAS[1] and near.min() < 1e-3:
        return  # second derivatives of rounded corners jump, which differences of slopes do not
    assert second.scores == pytest.approx(np.diag(hessian)[:N], abs=1e-4)
    by_score, by_theta = written_out(block.bank, scores, block.members, theta, [coefficients])
    assert by_score[block.bank.n_atoms :] == pytest.approx(hessian[N:, :N], abs=1e-4)
    assert by_theta[block.bank.n_atoms :] == pytest.approx(hessian[N:, N:], abs=1e-4)


@every_surrogate
def test_mixed_columns_are_minus_the_bends_of_each_threshold(sigma):
    block, rng = means(sigma, n_theta=2, fixed=()), np.random.default_rng(3)
    scores, theta = rng.normal(size=N), rng.normal(size=2)
    curved = list(rng.normal(size=(3, block.bank.n_atoms)))
    by_score, by_theta = written_out(block.bank, scores, block.members, theta, curved)
    for t, coefficients in enumerate(curved):
        mixed = slice(block.bank.n_atoms + 2 * t, block.bank.n_atoms + 2 * t + 2)
        second = block.by_score(2, coefficients, scores, theta)
        assert -by_score[mixed].sum(axis=0) == pytest.approx(second.scores)
        assert by_theta[mixed] == pytest.approx(np.diag(-by_score[mixed].sum(axis=1)))


def test_dense_columns_come_in_slabs(monkeypatch):
    """Of a surrogate without pieces, at most so many rows at a time."""
    monkeypatch.setattr(surrogates, "_ROWS_AT_ONCE", 5)
    block, rng = means(Sigmoid(0.5)), np.random.default_rng(3)
    scores, theta = rng.normal(size=N), rng.normal(size=2)
    slabs = list(block.bank.columns(scores, block.members, theta))
    assert [columns.first for columns in slabs] == [0, 5, 10]
    check_columns(block)
    coefficients = rng.normal(size=block.bank.n_atoms)
    in_slabs = block.by_score(2, coefficients, scores, theta)
    monkeypatch.undo()
    at_once = block.by_score(2, coefficients, scores, theta)
    assert in_slabs.scores == pytest.approx(at_once.scores)


@pytest.mark.parametrize(
    "block", [*map(means, SIGMAS), joined(*map(means, SIGMAS))], ids=lambda b: str(b.bank)[:60]
)
@examples(8)
@given(data=st.data())
def test_shards_add_up(block, data):
    """Any split of the rows, empty shards and shards of one group included."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    borders = sorted(data.draw(st.lists(st.integers(0, N), max_size=4)))
    bank, scores, theta = block.bank, rng.normal(size=N), rng.normal(size=block.bank.n_theta)
    coefficients, curved = rng.normal(size=bank.n_atoms), list(rng.normal(size=(2, bank.n_atoms)))
    members = block.members if isinstance(block.members, tuple) else (block.members,)
    order = np.argsort(members[0].codes, kind="stable") if data.draw(st.booleans()) else np.arange(N)
    members = tuple(Members(m.codes[order], m.shares[order]) for m in members)
    shards = []
    for first, last in zip([0, *borders], [*borders, N], strict=True):
        own = tuple(m.take(slice(first, last)) for m in members)
        shards.append((scores[first:last], own if isinstance(block.members, tuple) else own[0]))
    whole = scores, members if isinstance(block.members, tuple) else members[0]
    assert sum(bank.values(*shard, theta) for shard in shards) == pytest.approx(
        bank.values(*whole, theta), abs=1e-12
    )
    for derivative in (1, 2):
        total = bank.by_score(derivative, coefficients, *whole, theta)
        by_shard = [bank.by_score(derivative, coefficients, *shard, theta) for shard in shards]
        assert np.concatenate([part.scores for part in by_shard]) == pytest.approx(total.scores, abs=1e-12)
        assert sum(part.theta for part in by_shard) == pytest.approx(total.theta, abs=1e-12)
    by_score, by_theta = written_out(bank, *whole, theta, curved)
    written = [written_out(bank, *shard, theta, curved) for shard in shards]
    assert np.hstack([part[0] for part in written]) == pytest.approx(by_score, abs=1e-12)
    assert sum(part[1] for part in written) == pytest.approx(by_theta, abs=1e-12)


def test_joined_banks_are_their_parts():
    block, rng = both(), np.random.default_rng(0)
    scores, theta = rng.normal(size=N), rng.normal(size=5)
    pieces = [
        (bank, members, np.arange(first, first + bank.n_atoms), np.arange(start, start + bank.n_theta))
        for bank, members, first, start in zip(
            block.bank.banks, block.members, np.cumsum([0, 12, 2]), (0, 2, 2), strict=True
        )
    ]
    values = [bank.values(scores, members, theta[own]) for bank, members, _, own in pieces]
    assert block.values(scores, theta).tolist() == np.concatenate(values).tolist()
    coefficients = rng.normal(size=block.bank.n_atoms)
    curved = [coefficients, np.where(np.arange(block.bank.n_atoms) < 12, 0.0, coefficients)]
    for order in (1, 2):
        total = block.by_score(order, coefficients, scores, theta)
        parts = [
            bank.by_score(order, coefficients[atoms], scores, members, theta[own])
            for bank, members, atoms, own in pieces
        ]
        assert total.scores == pytest.approx(sum(part.scores for part in parts))
        assert total.theta == pytest.approx(np.concatenate([part.theta for part in parts]))
    by_score, by_theta = written_out(block.bank, scores, block.members, theta, curved)
    expected, expected_theta = np.zeros_like(by_score), np.zeros_like(by_theta)
    for bank, members, atoms, own in pieces:
        rows = [*atoms, *(block.bank.n_atoms + 5 * t + j for t in range(2) for j in own)]
        part = written_out(bank, scores, members, theta[own], [vector[atoms] for vector in curved])
        expected[rows] = part[0]
        expected_theta[np.ix_(rows, own)] = part[1]
    assert by_score == pytest.approx(expected)
    assert by_theta == pytest.approx(expected_theta)
    check_subgradient(block, n_trials=3)
    check_columns(block, n_trials=3)
    assert not block.bank.additive


def test_no_banks_at_all():
    block, scores, nothing = joined(), np.zeros(4), np.empty(0)
    assert block.values(scores, nothing).size == 0
    assert block.by_score(1, nothing, scores, nothing).scores.tolist() == [0] * 4
    assert list(block.bank.columns(scores, (), nothing)) == []
    assert block.bank.additive
    assert not block.bank.has_kinks
    check_convex(block, n_trials=2)


def test_kinks_of_group_means_by_hand():
    """One for each member, threshold and kink of the ramp that is near or passed."""
    block, rng = means(Ramp(0.8)), np.random.default_rng(4)
    bank, members = block.bank, block.members
    scores, theta = rng.normal(size=N), rng.normal(size=2)
    moves, reach = (0.3 * rng.normal(size=N), 0.3 * rng.normal(size=2)), 0.2
    kinks = bank.kinks(np.ones(bank.n_atoms), scores, members, theta, moves, reach, 1000)
    expected = {}
    for i, k in enumerate(members.codes):
        for j, (threshold, move) in enumerate(zip([*theta, 0.3], [*moves[1], 0.0], strict=True)):
            for position, kink_at in ((bank.plus, -0.4), (bank.minus, 0.4)):
                residual = scores[i] - threshold - kink_at
                passed = (residual > 0) != (residual + moves[0][i] - move > 0)
                if k >= 0 and (passed or abs(residual) <= reach * 0.8):
                    expected[position(k, j), i] = (j if j < 2 else -1, residual, members.shares[i] / 0.8)
    listed = zip(kinks.atoms, kinks.rows, kinks.thresholds, kinks.residuals, kinks.weights, strict=True)
    assert {(a, i): pytest.approx(rest) for a, i, *rest in listed} == {
        k: list(v) for k, v in expected.items()
    }
    assert (kinks.others == -1).all()
    count = kinks.atoms.size
    assert bank.kinks(np.ones(bank.n_atoms), scores, members, theta, moves, reach, count) is not None
    assert bank.kinks(np.ones(bank.n_atoms), scores, members, theta, moves, reach, count // 3) is None


@pytest.mark.parametrize(("width", "theta"), [(1.0, 0.1), (0.8, -0.3), (0.3, 1.7), (2.0, 1e-9)])
def test_a_kink_lies_on_the_side_that_slopes_say(width, theta):
    """Scores a few last digits from an edge, where ``s − θ`` may round to the edge though s is beyond it."""
    bank = GroupMeans(Ramp(width), 1, 1, ())
    for part, first in ((-0.5, bank.plus(0, 0)), (0.5, bank.minus(0, 0))):
        edge = theta + part * width
        scores = edge + np.spacing(edge) * np.arange(-8, 9)
        members = members_of(np.zeros(scores.size, int), np.ones(scores.size), 1)
        coefficients = np.eye(bank.n_atoms)[first]
        moves = np.zeros(scores.size), np.zeros(1)
        kinks = bank.kinks(coefficients, scores, members, np.array([theta]), moves, 1e-3, 100)
        slopes = bank.by_score(1, coefficients, scores, members, np.array([theta])).scores
        assert kinks.rows.tolist() == list(range(scores.size))
        assert ((kinks.residuals > 0) == (slopes > 0)).all()


def test_joined_banks_pass_kinks_on():
    block, rng = both(), np.random.default_rng(4)
    block = joined(
        *(Block(bank, members) for bank, members in zip(block.bank.banks, block.members, strict=True)),
        means(Ramp(0.5), n_theta=1, fixed=(0.1,), seed=7),
    )
    bank, scores, theta = block.bank, rng.normal(size=N), rng.normal(size=6)
    moves = np.zeros(N), np.zeros(6)
    kinks = bank.kinks(np.ones(bank.n_atoms), scores, block.members, theta, moves, 0.5, 1000)
    first, last = bank.banks[0], bank.banks[-1]
    ours = first.kinks(np.ones(12), scores, block.members[0], theta[:2], (moves[0], np.zeros(2)), 0.5, 1000)
    theirs = last.kinks(np.ones(8), scores, block.members[3], theta[5:], (moves[0], np.zeros(1)), 0.5, 1000)
    assert kinks.rows.tolist() == [*ours.rows, *theirs.rows]
    assert kinks.atoms.tolist() == [*ours.atoms, *(theirs.atoms + bank.n_atoms - 8)]
    assert kinks.thresholds.tolist() == [*ours.thresholds, *np.where(theirs.thresholds < 0, -1, 5)]
    assert bank.kinks(np.ones(bank.n_atoms), scores, block.members, theta, moves, 0.5, 1) is None


def test_whether_there_are_kinks_is_known_without_scores():
    assert [means(sigma).bank.has_kinks for sigma in SIGMAS] == [True, False, False]
    assert isinstance(means(Ramp(1.0)).bank, Bending)
    assert both().bank.has_kinks
    assert not joined(means(Sigmoid(1.0))).bank.has_kinks
    assert not joined(Block(QuadraticPairs(2, 1, ((0, 1),)), people())).bank.has_kinks


class Concave(GroupMeans):
    """A bank that lies: minus its values."""

    def values(self, scores, members, theta):
        return -super().values(scores, members, theta)


class WrongSlope(GroupMeans):
    """A bank whose by_score forgets the thresholds' width."""

    def by_score(self, order, coefficients, scores, members, theta):
        right = super().by_score(order, coefficients, scores, members, theta)
        return replace(right, scores=3 * right.scores)


class MeanOfShards(GroupMeans):
    """A bank that normalises what it is given."""

    def values(self, scores, members, theta):
        total = max(members.shares.sum(), 1e-9)
        return super().values(scores, members, theta) / total


def test_the_checks_can_say_no():
    settings = Ramp(0.8), 2, 2, (0.3,)
    system = DCSystem((atom(0) - atom(1),), 12)
    honest, concave, wrong, normalising = (
        Block(kind(*settings), people(), system) for kind in (GroupMeans, Concave, WrongSlope, MeanOfShards)
    )
    with pytest.raises(CheckFailed, match="not convex"):
        check_convex(concave)
    with pytest.raises(CheckFailed, match="not a subgradient"):
        check_subgradient(wrong)
    with pytest.raises(CheckFailed, match="columns that differ"):
        check_columns(wrong)
    with pytest.raises(CheckFailed, match="not additive"):
        check_additive(normalising)
    check_majorises(honest)
    with pytest.raises(CheckFailed, match="not majorized"):
        check_majorises(wrong)
