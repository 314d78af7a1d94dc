import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from partialfair.constraints.dc import Bending, PairSums, check_columns, check_convex, check_subgradient
from partialfair.constraints.dc.pieces import hinge_pieces, sums_of_differences
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid, Surrogate
from partialfair.data.groups import members_of
from partialfair_paper.quadratic import QuadraticPairs
from tests.blocks import Block
from tests.sizes import examples

N = 40
CODES = np.arange(N) % 4 - 1  # a quarter without a group
SIGMAS = [Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.5)]
NOTHING = np.empty(0)


def pair_sums(sigma, seed=0):
    members = members_of(CODES, np.random.default_rng(seed).random(N), 3)
    tops = ((0.3, 1.0), (0.55,), (0.2,))
    bottoms = ((0.1,), (0.0, 0.45), (0.9,))
    return Block(PairSums(sigma, 3, ((0, 1), (2, 1), (1, 0)), tops, bottoms), members)


def cells(seed=0, margin=1.0):
    codes = np.where(CODES >= 0, 2 * CODES + np.arange(N) // 4 % 2, -1)
    members = members_of(codes, np.random.default_rng(seed).random(N), 6)
    return Block(QuadraticPairs(3, 2, ((0, 3), (2, 1), (5, 4)), margin), members)


BLOCKS = [*map(pair_sums, SIGMAS), cells(), cells(margin=-0.3)]
every_bank = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block.bank).__name__)


def top(scores, shares, size):
    """Members from the top until their shares add up to the size; the last one in part."""
    counted, left = np.zeros(scores.size), size
    for i in np.argsort(-scores):
        counted[i] = min(shares[i], left)
        left -= counted[i]
    return counted


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_pair_sums_by_hand(sigma):
    """H_φ(b, c) = Σ_ij u_i v_j φ(s_i − t_j)."""
    block, scores = pair_sums(sigma), np.random.default_rng(1).normal(size=N)
    bank, shares = block.bank, block.members.shares
    values = block.values(scores)
    for pair, (k, other) in enumerate(bank.pairs):
        s, t = scores[k == CODES], scores[other == CODES]
        parts = sigma.parts(np.subtract.outer(s, t))
        for b, size in enumerate(bank.tops[k]):
            u = top(s, shares[k == CODES], size)
            for c, start in enumerate(bank.bottoms[other]):
                v = top(-t, shares[other == CODES], 1 - start)
                assert values[bank.plus(pair, b, c)] == pytest.approx(u @ parts[0] @ v)
                assert values[bank.minus(pair, b, c)] == pytest.approx(u @ parts[1] @ v)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_an_interval_is_a_signed_sum_of_tops_and_bottoms(sigma, seed):
    """Σ ±[H_σ⁺(b, 1 − r) − H_σ⁻(b, 1 − r)] over all ends, + where one is an upper and one a lower end."""
    rng = np.random.default_rng(seed)
    s, t = np.round(rng.normal(size=15), 1), rng.normal(size=12)
    omega, other = (rng.random(n) for n in (15, 12))
    omega, other = omega / omega.sum(), other / other.sum()
    first, second = [(0.1, 0.3), (0.5, 0.8)], [(0.0, 0.45)]
    plus, minus = sigma.parts(np.subtract.outer(s, t))
    total = 0.0
    for b, upper in ((end, place) for ends in first for place, end in enumerate(ends)):
        for r, other_upper in ((end, place) for ends in second for place, end in enumerate(ends)):
            sign = 1 if upper != other_upper else -1
            total += sign * top(s, omega, b) @ (plus - minus) @ top(-t, other, 1 - r)
    u, v = (
        sum(top(scores, shares, high) - top(scores, shares, low) for low, high in parts)
        for scores, shares, parts in ((s, omega, first), (t, other, second))
    )
    assert total == pytest.approx(u @ sigma(np.subtract.outer(s, t)) @ v)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_no_other_subsets_have_larger_sums(sigma, seed):
    """The maximum that makes them convex: any u and v of the same sizes give no more."""
    block, rng = pair_sums(sigma), np.random.default_rng(seed)
    scores, shares = np.round(rng.normal(size=N), 1), block.members.shares
    s, t = scores[CODES == 0], scores[CODES == 1]
    u = top(rng.normal(size=s.size), shares[CODES == 0], 0.3)
    v = top(rng.normal(size=t.size), shares[CODES == 1], 0.55)
    plus, minus = sigma.parts(np.subtract.outer(s, t))
    values = block.values(scores)
    assert u @ plus @ v <= values[block.bank.plus(0, 0, 1)] + 1e-12
    assert u @ minus @ v <= values[block.bank.minus(0, 0, 1)] + 1e-12


def test_tops_of_both_groups_are_not_convex():
    """Why bottoms are needed: two scores in each group, the top one of each, on a segment."""

    def sum_of_tops(s, t):
        return max(s[0] - t.max() + 0.5, s[1] - t.max() + 0.5, 0.0)

    ends = (np.zeros(2), np.array([1.0, -1.0])), (np.zeros(2), np.array([-1.0, 1.0]))
    middle = tuple((a + b) / 2 for a, b in zip(*ends, strict=True))
    assert sum_of_tops(*middle) > np.mean([sum_of_tops(*end) for end in ends])


@every_bank
def test_banks_pass_their_checks(block):
    check_convex(block)
    check_subgradient(block, n_trials=10)
    check_columns(block)
    assert not block.bank.additive


@every_bank
def test_tied_scores_have_subgradients_too(block):
    rng = np.random.default_rng(3)
    coefficients = rng.random(block.bank.n_atoms)
    for _ in range(20):
        scores, others = (np.round(0.5 * rng.normal(size=N), 1) for _ in range(2))
        slopes = block.by_score(1, coefficients, scores).scores
        line = coefficients @ block.values(scores) + slopes @ (others - scores)
        assert coefficients @ block.values(others) >= line - 1e-9


@pytest.mark.parametrize("block", BLOCKS[1:], ids=lambda block: type(block.bank).__name__)
def test_second_derivatives_are_those_of_each_slope(block):
    rng = np.random.default_rng(2)
    scores, coefficients, step = rng.normal(size=N), rng.random(block.bank.n_atoms), 1e-6
    second = block.by_score(2, coefficients, scores)
    assert second.theta.size == 0
    for i in range(N):
        nudge = step * (np.arange(N) == i)
        up, down = (block.by_score(1, coefficients, scores + sign * nudge).scores[i] for sign in (1, -1))
        assert second.scores[i] == pytest.approx((up - down) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("margin", [1.0, 0.25, -1.0])
@given(seed=st.integers(0, 1000))
def test_quadratic_pairs_by_moments(margin, seed):
    """A = ½ [(margin + μ_a − μ_b)² + v_a + v_b] is the mean of ½ (margin + s − t)² over pairs."""
    block = cells(seed, margin)
    scores, (codes, shares) = 2 * np.random.default_rng(seed).normal(size=N), cells_and_shares(block)
    for (a, b), value in zip(block.bank.pairs, block.values(scores), strict=True):
        inside, other = codes == a, codes == b
        pairs = 0.5 * (margin + np.subtract.outer(scores[inside], scores[other])) ** 2
        assert value == pytest.approx(shares[inside] @ pairs @ shares[other])


def cells_and_shares(block):
    return block.members.codes, block.members.shares


@given(seed=st.integers(0, 1000))
def test_slopes_of_quadratic_pairs(seed):
    """ω_i (1 + s_i − μ_b) in cell a and ω_j (t_j − μ_a − 1) in cell b."""
    block, rng = cells(seed), np.random.default_rng(seed)
    scores, coefficients = 2 * rng.normal(size=N), rng.normal(size=3)
    expected, (codes, shares) = np.zeros(N), cells_and_shares(block)
    for (a, b), factor in zip(block.bank.pairs, coefficients, strict=True):
        first, second = codes == a, codes == b
        means = [shares[cell] @ scores[cell] for cell in (first, second)]
        expected[first] += factor * shares[first] * (1 + scores[first] - means[1])
        expected[second] += factor * shares[second] * (scores[second] - means[0] - 1)
    assert block.by_score(1, coefficients, scores).scores == pytest.approx(expected)


@examples(20)
@given(seed=st.integers(0, 1000), rounding=st.sampled_from([0.0, 0.25]), far=st.sampled_from([0.0, 1e7]))
def test_sums_of_differences_by_hand(seed, rounding, far):
    """Σ_m weights[c, m] p_j(targets_i − sources_m), however far the scores are from 0."""
    rng = np.random.default_rng(seed)
    pieces = hinge_pieces(np.array([-0.3, 0.4]), 0.7, rounding)
    # Multiples of 2⁻⁴, so that adding 10⁷ is exact; a few differences are exactly 0.
    targets, sources = (np.sort(np.round(16 * rng.normal(size=n)) / 16) for n in (30, 20))
    weights = rng.random((3, 20))
    found = sums_of_differences(pieces.edges, pieces.values, targets + far, sources + far, weights)
    x = np.subtract.outer(targets, sources)
    polynomials = pieces.values[:, np.searchsorted(pieces.edges, x)]
    each = polynomials[0] + polynomials[1] * x[..., None] + polynomials[2] * x[..., None] ** 2
    assert found == pytest.approx(np.einsum("cm,imj->jci", weights, each), abs=1e-9)


def test_sums_of_nobody():
    pieces = hinge_pieces(np.array([0.0]), 1.0, 0.0)
    some, nobody = np.zeros(3), np.empty(0)
    arguments = pieces.edges, pieces.values
    assert sums_of_differences(*arguments, nobody, some, np.ones((2, 3))).shape == (1, 2, 0)
    assert not sums_of_differences(*arguments, some, nobody, np.ones((2, 0))).any()


@pytest.mark.parametrize(
    # Second derivatives of rounded corners jump, which differences of slopes do not.
    ("own", "order"),
    [(own, order) for own in SIGMAS for order in (0, 1, 2) if order < 2 or own != SIGMAS[1]],
    ids=str,
)
def test_surrogates_add_up_pairs_as_plain_ones_do(own, order):
    attributes = {"terms": staticmethod(type(own).terms), "kinks": own.kinks}
    plain = type("Plain", (Surrogate,), attributes)(own.width)
    rng = np.random.default_rng(0)
    targets, sources, weights = (
        np.sort(rng.normal(size=50)),
        np.sort(rng.normal(size=40)),
        rng.random((3, 40)),
    )
    expected = plain.pair_sums(order, targets, sources, weights)
    found = own.pair_sums(order, targets, sources, weights)
    assert found == pytest.approx(expected, abs=1e-9)


def kinks_of(block, scores, reach, move=None, limit=10_000):
    wanted, moves = np.ones(block.bank.n_atoms), np.zeros(N) if move is None else move
    return block.bank.kinks(wanted, scores, block.members, NOTHING, (moves, NOTHING), reach, limit)


def bent(block, kinks, change):
    """What kinks add to the tangents of atoms when scores change: those of borders by linear programs."""
    alone = kinks.take(np.flatnonzero(kinks.borders < 0))
    inside = np.maximum(alone.residuals, 0.0)
    gains = np.maximum(alone.residuals + change[alone.rows] - change[alone.others], 0.0)
    slopes = alone.residuals > 0  # the tangent already holds these
    along = slopes * (change[alone.rows] - change[alone.others])
    bends = np.zeros(block.bank.n_atoms)
    np.add.at(bends, alone.atoms, alone.weights * (gains - inside - along))
    for border in np.unique(kinks.border_keys[kinks.borders >= 0]):
        part = kinks.take(np.flatnonzero(kinks.border_keys == border))
        heights = part.weights * (np.sign(part.amounts) * change[part.rows] - np.abs(part.residuals))
        balance, bounds = (
            part.amounts[None] / np.abs(part.amounts).max(),
            np.stack([-part.backs, np.ones(part.rows.size)], axis=1),
        )
        best = linprog(-heights / part.weights.max(), A_eq=balance, b_eq=[0.0], bounds=bounds)
        bends[part.atoms[0]] -= part.weights.max() * best.fun
    return bends


def tangents(block, scores, change):
    slopes = [block.by_score(1, unit, scores).scores for unit in np.eye(block.bank.n_atoms)]
    return block.values(scores) + np.array(slopes) @ change


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_kinks_are_no_more_than_atoms_bend(sigma, seed):
    """Tangents with the kinks near a point or passed on the way lie below the atoms, to first order."""
    block, rng = pair_sums(sigma, seed), np.random.default_rng(seed)
    scores, size = rng.normal(size=N), 10.0 ** rng.uniform(-4, -2)
    change = size * rng.normal(size=N)
    kinks = kinks_of(block, scores, 0.01, change)
    below = tangents(block, scores, change) + bent(block, kinks, change)
    assert (below <= block.values(scores + change) + 0.1 * size**2).all()


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_kinks_are_all_that_atoms_bend_where_two_members_tie(sigma, seed):
    """Two members at the border of a top of group 0 are nearly tied, all others are far from kinks."""
    block, rng = pair_sums(sigma, seed), np.random.default_rng(seed)
    scores = rng.permutation(N) * 0.037
    rows = np.flatnonzero(CODES == 0)
    rows = rows[np.argsort(-scores[rows])]
    passed = np.cumsum(block.members.shares[rows])
    border = np.searchsorted(passed, block.bank.tops[0][0])  # who is counted in part
    rank = border + rng.choice([-1, 0])
    above, below = rows[rank], rows[rank + 1]
    scores[below] = scores[above] - 1e-9
    change = 1e-5 * rng.normal(size=N)
    kinks = kinks_of(block, scores, 0.002)
    expected = block.values(scores + change) - tangents(block, scores, change)
    assert bent(block, kinks, change) == pytest.approx(expected, abs=2e-9)
    if change[below] > change[above] + 1e-9:
        assert (expected > 0).any()


def test_too_many_kinks_are_none():
    block, rng = pair_sums(Ramp(0.8)), np.random.default_rng(0)
    scores = rng.normal(size=N)
    assert kinks_of(block, scores, 0.1).atoms.size > 5
    assert kinks_of(block, scores, 0.1, limit=5) is None
    assert kinks_of(block, scores, 0.0, move=rng.normal(size=N), limit=1) is None
    assert kinks_of(block, scores, 0.0, move=1e3 * rng.normal(size=N), limit=2) is None


def test_where_everybody_is_alike_anybody_may_be_counted():
    """The border splits all of them, so that all may come and go, but those of whole groups."""
    block = pair_sums(Ramp(0.8))
    kinks = kinks_of(block, np.zeros(N), 0.0)
    bank, shares = block.bank, block.members.shares
    split = [(k, rank) for k, other in bank.pairs for rank in bank.tops[k] for _ in bank.bottoms[other]]
    split += [(other, rank) for k, other in bank.pairs for rank in bank.bottoms[other] for _ in bank.tops[k]]
    # σ⁺ has a slope where all scores are the same, and σ⁻ has none.
    expected = sum((k == CODES).sum() for k, rank in split if 0 < rank < 1)
    assert kinks.atoms.size == expected
    assert (kinks.residuals == 0).all()
    room = np.abs(kinks.amounts) * (1 + kinks.backs)
    assert room == pytest.approx(shares[kinks.rows])


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_any_choice_near_the_border_is_a_lower_bound(sigma, seed):
    """Multipliers of kinks are a choice of members: its tangent lies below H, wherever scores go.

    ``H ≥ Σ_ij u_i v_j φ(s_i − t_j)``; one border at a time, with Φ exact in the other group's scores.
    """
    block, rng = pair_sums(sigma, seed), np.random.default_rng(seed)
    scores = np.round(2 * rng.normal(size=N), 1)  # many ties
    atom = block.bank.plus(0, 0, 1)
    kinks = kinks_of(block, scores, 0.3)
    top = kinks.take(np.flatnonzero((kinks.atoms == atom) & (kinks.borders == 0)))
    assume(top.rows.size)
    heights = rng.normal(size=top.rows.size)
    bounds = np.stack([-top.backs, np.ones(top.rows.size)], axis=1)
    scale = np.abs(top.amounts).max()
    found = linprog(-heights, A_eq=top.amounts[None] / scale, b_eq=[0.0], bounds=bounds)
    change = np.zeros(N)
    change[CODES == 0] = 10.0 ** rng.uniform(-3, 1) * rng.normal(size=(CODES == 0).sum())
    loss = found.x @ (top.weights * np.abs(top.residuals))
    slope = found.x @ (top.weights * np.sign(top.amounts) * change[top.rows])
    line = tangents(block, scores, change)[atom] + slope - loss
    assert block.values(scores + change)[atom] >= line - 1e-9


def random_fractions(kinks, rng):
    """How much of each kink is used: any part of a crossing, an extreme choice at each border."""
    fractions = rng.choice([0.0, 0.3, 1.0], size=kinks.rows.size)
    for border in np.unique(kinks.border_keys[kinks.borders >= 0]):
        part = np.flatnonzero(kinks.border_keys == border)
        amounts = kinks.amounts[part]
        bounds = np.stack([-kinks.backs[part], np.ones(part.size)], axis=1)
        balance = amounts[None] / np.abs(amounts).max()
        fractions[part] = linprog(rng.normal(size=part.size), A_eq=balance, b_eq=[0.0], bounds=bounds).x
    return fractions


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 10_000))
def test_any_kinks_with_their_interaction_are_a_lower_bound(sigma, seed):
    """Both borders and crossings at once, wherever scores go: the way to where atoms are lowest beside it."""
    block, rng = pair_sums(sigma, seed), np.random.default_rng(seed)
    levels = 0.4 * np.arange(5) + rng.choice([1e-11, 0.03]) * rng.normal(size=(3, 5))
    scores = levels[CODES, rng.integers(0, 5, N)]  # many ties, and differences on both sides of kinks
    kinks = kinks_of(block, scores, 0.15)
    assume(kinks.atoms.size)
    fractions, coefficients = random_fractions(kinks, rng), np.zeros(block.bank.n_atoms)
    coefficients[rng.choice(kinks.atoms, 2)] = rng.random(2)
    rooms = coefficients[kinks.atoms]
    found = block.bank.interaction(kinks, fractions, rooms, scores, block.members)
    away = np.where(kinks.borders >= 0, np.sign(kinks.amounts), np.where(kinks.residuals > 0, -1.0, 1.0))
    used = rooms * fractions * found.ratios * kinks.weights
    slope = block.by_score(1, coefficients, scores).scores + found.scores
    np.add.at(slope, kinks.rows, away * used)
    crossing = kinks.others >= 0
    np.add.at(slope, kinks.others[crossing], -(away * used)[crossing])
    height = coefficients @ block.values(scores) - used @ np.abs(kinks.residuals) - found.loss
    change, size = np.zeros(N), 10.0 ** rng.uniform(-3, 0)
    for _ in range(30):
        beside = block.by_score(1, coefficients, scores + change).scores - slope
        change -= size * beside / max(np.linalg.norm(beside), 1e-9)
        assert coefficients @ block.values(scores + change) >= height + slope @ change - 1e-9


def test_whether_there_are_kinks_is_known_without_scores():
    assert all(isinstance(pair_sums(sigma).bank, Bending) for sigma in SIGMAS)
    assert all(pair_sums(sigma).bank.has_kinks for sigma in SIGMAS)  # members change places
    assert not isinstance(cells().bank, Bending)
