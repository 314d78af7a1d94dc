from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.constraints.block import join
from partialfair.constraints.dc import check_majorises
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_statistical_parity_difference,
)
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from tests.blocks import atoms_of, functions_of, slopes_of
from tests.sizes import examples

N = 60
UNION = [(0.1, 0.3), (0.5, 0.8)]
BY_GROUP = {"a": (0.1, 0.5), "b": UNION, "c": (0.0, 1.0)}
STATEMENTS = [
    StatisticalParity((0.1, 0.5), 0.1),
    StatisticalParity((0.1, 0.5), 0.1, "absolute"),
    StatisticalParity(UNION, 0.1, n_points=4),
    StatisticalParity(BY_GROUP, 0.1),
    DemographicParity((0.1, 0.5), 0.1, threshold=0.2),
    DemographicParity((0.1, 0.5), 0.1, "absolute"),
    DemographicParity(UNION, 0.1),
    DemographicParity(BY_GROUP, 0.1),
    EqualOpportunity((0.1, 0.5), 0.1, threshold=0.2),
    EqualOpportunity((0.1, 0.5), 0.1, "absolute"),
    EqualOpportunity(UNION, 0.1),
    EqualOpportunity(BY_GROUP, 0.1),
    EqualizedOdds((0.1, 0.5), 0.1, threshold=0.2),
    EqualizedOdds((0.1, 0.5), 0.1, "absolute"),
    EqualizedOdds(UNION, 0.1),
    EqualizedOdds(BY_GROUP, 0.1),
    GroupAUC((0.0, 1.0), 0.1),
    GroupAUC((0.1, 0.5), 0.1),
    GroupAUC(UNION, 0.1),
    GroupAUC(BY_GROUP, 0.1),
    QuadraticGroupAUC(2.0),
    InterGroupPairwise(15.0),
    IntraGroupPairwise(0.3),
]
POSITIVE = np.arange(N) // 3 % 2 == 0


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c"])[np.arange(n) % 3]
    return encode_groups(labels), labels, rng


@pytest.mark.parametrize("sigma", [Ramp(1.0), Sigmoid(0.5)], ids=str)
@pytest.mark.parametrize("constraint", STATEMENTS, ids=str)
def test_linearisations_majorise(constraint, sigma):
    groups, _, rng = people()
    block = constraint.build(groups, rng.random(N), sigma, POSITIVE)
    check_majorises(block, n_trials=15)
    assert len(block.names) == len(set(block.names)) == block.system.m
    atoms = atoms_of(block, rng.normal(size=N), rng.normal(size=block.bank.n_theta))
    touching = block.system.parts(atoms)[0] - block.system.tangents(atoms).values
    assert touching == pytest.approx(block.system.values(atoms))


@pytest.mark.parametrize("sigma", [Ramp(1.0), RoundedRamp(0.7), Sigmoid(0.5)], ids=str)
@pytest.mark.parametrize("constraint", STATEMENTS, ids=str)
@examples(4)
@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_both_parts_are_convex_in_the_parameters_of_a_linear_model(constraint, sigma, seed, share):
    groups, _, rng = people(seed=seed)
    block = constraint.build(groups, rng.random(N), sigma, POSITIVE)
    X = rng.normal(size=(N, 3))
    ends = [(rng.normal(size=3), rng.normal(size=block.bank.n_theta)) for _ in range(2)]
    between = tuple(share * a + (1 - share) * b for a, b in zip(*ends, strict=True))
    for part in range(2):
        first, second, middle = (
            block.system.parts(atoms_of(block, X @ w, theta))[part] for w, theta in (*ends, between)
        )
        assert (middle <= share * first + (1 - share) * second + 1e-9).all()


def surrogate_share(scores, labels, label, theta, sigma):
    return float(np.mean(sigma(scores[labels == label] - theta)))


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
@given(seed=st.integers(0, 1000))
def test_statistical_parity_says_what_the_paper_writes(sigma, seed):
    """(inprocess_pdp_approx): p ≤ mean σ(s − θ_p) ≤ p + κ(β − α) for each group and point."""
    groups, labels, rng = people(seed=seed)
    low, high, kappa, n_points = 0.2, 0.7, 0.1, 5
    block = StatisticalParity((low, high), kappa, n_points=n_points).build(groups, np.ones(N), sigma)
    scores, theta = rng.normal(size=N), rng.normal(size=n_points)
    found = functions_of(block, scores, theta)
    expected = []
    for j in range(n_points):
        p = low + (j + 1) * (1 - kappa) / (n_points + 1) * (high - low)
        for label in "abc":
            mean = surrogate_share(scores, labels, label, theta[j], sigma)
            expected += [p - mean, mean - (p + kappa * (high - low))]
    assert found == pytest.approx(np.array(expected) / (high - low))  # in shares of the interval


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
@given(seed=st.integers(0, 1000))
def test_demographic_parity_says_what_the_paper_writes(sigma, seed):
    """(inprocess_wpdp_approx): clipped surrogate shares of every ordered pair differ by at most κ(β − α)."""
    groups, labels, rng = people(seed=seed)
    low, high, kappa = 0.2, 0.7, 0.1
    scores = rng.normal(size=N)
    means = [surrogate_share(scores, labels, label, 0.3, sigma) for label in "abc"]
    clipped = [min(mean, high) - min(mean, low) for mean in means]
    pairs = [(k, j) for k in range(3) for j in range(3) if k != j]
    for gap_scale, factor in (("interval", 1 / (high - low)), ("absolute", 1.0)):
        constraint = DemographicParity((low, high), kappa, gap_scale, threshold=0.3)
        block = constraint.build(groups, np.ones(N), sigma)
        found = functions_of(block, scores)
        assert found == pytest.approx([factor * (clipped[k] - clipped[j]) - kappa for k, j in pairs])


def passed_at(share, parts):
    """The rank at which a share of some intervals has been passed; the share must not end a part."""
    left = share * sum(high - low for low, high in parts)
    for low, high in parts:
        if left <= high - low:
            return low + left
        left -= high - low
    raise AssertionError


def parts_of(interval, label):
    own = interval[label] if isinstance(interval, dict) else interval
    return own if isinstance(own, list) else [own]


FORMS = [(0.2, 0.7), UNION, BY_GROUP]


@pytest.mark.parametrize("sigma", [Ramp(0.7), RoundedRamp(0.7), Sigmoid(0.7)], ids=str)
@pytest.mark.parametrize("interval", FORMS, ids=["one", "union", "by group"])
@examples(6)
@given(seed=st.integers(0, 1000))
def test_statistical_parity_of_any_intervals(interval, sigma, seed):
    """p_k(u) ≤ mean σ(s − θ_u) ≤ p_k(u + κ) at u = j(1 − κ)/(N + 1), in shares of the interval."""
    groups, labels, rng = people(seed=seed)
    kappa, n_points = 0.13, 6
    block = StatisticalParity(interval, kappa, n_points=n_points).build(
        groups, weights := rng.random(N), sigma
    )
    scores, theta = np.round(rng.normal(size=N), 1), rng.normal(size=n_points)
    expected = []
    for j in range(n_points):
        share = (j + 1) * (1 - kappa) / (n_points + 1)
        for label in "abc":
            inside, parts = labels == label, parts_of(interval, label)
            mean = np.average(sigma(scores[inside] - theta[j]), weights=weights[inside])
            low, high = passed_at(share, parts), passed_at(share + kappa, parts)
            measure = sum(end - start for start, end in parts)
            expected += [(low - mean) / measure, (mean - high) / measure]
    assert functions_of(block, scores, theta) == pytest.approx(expected)


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
@given(seed=st.integers(0, 1000))
def test_statistical_parity_on_the_absolute_scale(sigma, seed):
    """p ≤ mean σ(s − θ_p) ≤ p + κ at the paper's p_j = α + j(β − α)/N, j = 0, ..., N − 1."""
    groups, labels, rng = people(seed=seed)
    low, high, kappa, n_points = 0.2, 0.7, 0.1, 5
    block = StatisticalParity((low, high), kappa, "absolute", n_points=n_points).build(
        groups, weights := rng.random(N), sigma
    )
    scores, theta = rng.normal(size=N), rng.normal(size=n_points)
    expected = []
    for j in range(n_points):
        p = low + j * (high - low) / n_points
        for label in "abc":
            inside = labels == label
            mean = np.average(sigma(scores[inside] - theta[j]), weights=weights[inside])
            expected += [p - mean, mean - (p + kappa)]
    assert functions_of(block, scores, theta) == pytest.approx(expected)


def test_at_a_hole_the_band_of_statistical_parity_holds_all_ranks_of_that_share():
    """All ranks from .3 to .5 have passed 2/5 of the union, so neither bound cuts any of them off."""
    groups, _, _ = people()
    shares = np.array([0.4, 0.3])  # the first begins at the hole, the second ends there
    lows, highs = StatisticalParity(UNION, 0.1, points=tuple(shares / 0.9)).rank_boxes(groups)
    assert lows == pytest.approx(np.tile([[0.3], [0.25]], (1, 3)))
    assert highs == pytest.approx(np.tile([[0.55], [0.5]], (1, 3)))


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_points_are_the_grid_itself(gap_scale):
    """Shares u / (1 − κ), on the absolute scale ranks."""
    groups, _, _ = people()
    points = (0.25, 0.5)
    lows, highs = StatisticalParity((0.2, 0.7), 0.1, gap_scale, points=points).rank_boxes(groups)
    first, width = ([0.3125, 0.425], 0.05) if gap_scale == "interval" else ([0.25, 0.5], 0.1)
    assert lows[:, 0] == pytest.approx(first)
    assert highs - lows == pytest.approx(width)


@pytest.mark.parametrize("interval", [(0.3, 0.6), [(0.05, 0.2), (0.25, 0.4), (0.7, 0.9)]], ids=str)
@given(seed=st.integers(0, 1000))
def test_grids_reach_wherever_the_exact_gap_looks(interval, seed):
    """[max(0, α − κ), β): any rank of a group that is at most κ before another's in the interval."""
    kappa, rng = 0.08, np.random.default_rng(seed)
    points = StatisticalParity(interval, kappa, "absolute").grid.points
    parts = parts_of(interval, "a")
    low, high = parts[rng.integers(len(parts))]
    behind = rng.uniform(low, high)
    ahead = max(behind - rng.uniform(0, kappa), 0.0)
    assert min(points) <= ahead + 1e-9
    assert ahead <= max(points)
    reach = [(max(0.0, start - kappa), end) for start, end in parts]
    for point in points:
        assert any(start - 1e-9 <= point <= end + 1e-9 for start, end in reach)
    assert StatisticalParity((0.3, 0.6), kappa).grid.points == pytest.approx(np.linspace(0, 1, 12))


def test_denser_grids_have_a_point_between_any_two():
    points = np.array(StatisticalParity((0.3, 0.6), 0.1, n_points=3).grid.denser().points)
    assert np.sort(points) == pytest.approx(np.linspace(0, 1, 9))


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("interval", [(0.2, 0.7), UNION], ids=str)
@given(first=st.floats(0, 1), second=st.floats(0, 1))
def test_a_refined_grid_has_a_band_around_the_middle_of_two_ranks(interval, gap_scale, first, second):
    groups, _, _ = people()
    constraint = StatisticalParity(interval, 0.1, gap_scale, points=())
    intervals = constraint.intervals(groups)[:2]
    refined = constraint.grid.refined((first, second), intervals)
    assert refined.refined((first, second), intervals) == refined  # it is there already
    (point,) = constraint.on_grid(refined).points
    start, passed = point, np.array([first, second])
    if gap_scale == "interval":
        start, passed = point * 0.9, intervals[0].passed(passed)
    middle = passed.mean()
    assert start - 1e-9 <= middle <= start + 0.1 + 1e-9
    if 0.05 <= middle <= 0.95:
        assert start + 0.05 == pytest.approx(middle)  # in the middle of it, where there is room


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("interval", FORMS, ids=["one", "union", "by group"])
@examples(6)
@given(seed=st.integers(0, 1000))
def test_demographic_parity_of_any_intervals(interval, gap_scale, sigma, seed):
    """P_k − P_k' ≤ κ, P_k = Σ_parts [min(M_k, β) − min(M_k, α)] / m_k, M_k = A_k − B_k.

    In A and B, means of σ⁺ and σ⁻, each part is max(B, A − α) − max(B, A − β).
    """
    if interval is BY_GROUP and gap_scale == "absolute":
        interval = dict.fromkeys("abc", UNION)
    groups, labels, rng = people(seed=seed)
    weights, scores, kappa, theta = rng.random(N), np.round(rng.normal(size=N), 1), 0.1, 0.2
    shares = []
    for label in "abc":
        inside, parts = labels == label, parts_of(interval, label)
        a, b = (np.average(part, weights=weights[inside]) for part in sigma.parts(scores[inside] - theta))
        clipped = sum(min(a - b, high) - min(a - b, low) for low, high in parts)
        assert clipped == pytest.approx(sum(max(b, a - low) - max(b, a - high) for low, high in parts))
        measure = sum(high - low for low, high in parts)
        shares.append(clipped / (measure if gap_scale == "interval" else 1))
    block = DemographicParity(interval, kappa, gap_scale, theta).build(groups, weights, sigma)
    found = functions_of(block, scores)
    assert found == pytest.approx([p - q - kappa for p, q in permutations(shares, 2)])


@given(seed=st.integers(0, 1000))
def test_demographic_parity_has_a_tighter_linearisation_than_the_papers(seed):
    """(DCexample1_wpdp) writes min(A − B, c) = A + c − max(B + c, A); the A cancel in P_k, and here do so."""
    groups, labels, rng = people(seed=seed)
    low, high, kappa, sigma = 0.2, 0.7, 0.1, Sigmoid(0.5)
    block = DemographicParity((low, high), kappa).build(groups, np.ones(N), sigma)
    system, bank = block.system, block.bank
    x, y = rng.normal(size=N), rng.normal(size=N)
    tangents = system.tangents(atoms_of(block, x))
    rises = np.array([slopes_of(block, row, x).scores @ (y - x) for row in tangents.slopes])
    majorants = system.parts(atoms_of(block, y))[0] - tangents.values - rises

    def means(scores, k):
        return [part.mean() for part in sigma.parts(scores[labels == "abc"[k]])]

    def extra(k):
        """How far the mean of σ⁺ at y lies above its tangent at x: the paper's f⁺ and f⁻ both hold it."""
        unit = np.zeros(bank.n_atoms)
        unit[bank.plus(k, 0)] = 1.0
        along = slopes_of(block, unit, x).scores @ (y - x)
        return means(y, k)[0] - means(x, k)[0] - along

    for (k, j), ours, value in zip(permutations(range(3), 2), majorants, functions_of(block, y), strict=True):
        a, b = means(y, k)
        assert min(a - b, low) == pytest.approx(a + low - max(b + low, a))
        papers = ours + (extra(k) + extra(j)) / (high - low)
        assert value - 1e-12 <= ours <= papers + 1e-12


def test_a_narrow_surrogate_is_the_metric():
    """With a width below the distance of any two scores, feasibility is the exact gap (up to the grid)."""
    groups, labels, rng = people(n=600)
    scores = rng.permutation(600) * 1.0 + 0.3 * (labels == "a")
    sigma, interval = Ramp(1e-3), (0.2, 0.6)
    block = DemographicParity(interval, 0.01, threshold=400.65).build(groups, np.ones(600), sigma)
    exact = partial_demographic_parity_difference(
        None, scores, sensitive_features=labels, threshold=400.65, interval=interval
    )
    assert functions_of(block, scores).max() == pytest.approx(exact - 0.01)

    gap = partial_statistical_parity_difference(None, scores, sensitive_features=labels, interval=interval)
    cuts = np.sort(scores) + 0.05
    for allowed, expected in ((gap + 0.05, True), (gap - 0.05, False)):
        block = StatisticalParity(interval, allowed, n_points=60).build(groups, np.ones(600), sigma)
        n_theta = block.bank.n_theta
        # Each point chooses its own threshold; try every cut for all of them at once.
        tries = np.array([functions_of(block, scores, np.full(n_theta, cut)) for cut in cuts])
        by_point = tries.reshape(len(cuts), n_theta, -1).max(axis=2).min(axis=0)
        assert bool((by_point <= 1e-9).all()) is expected


@pytest.mark.parametrize("sigma", [Ramp(1.0), Sigmoid(2.0)], ids=str)
@pytest.mark.parametrize("constraint", [c for c in STATEMENTS if c.interval is not BY_GROUP], ids=str)
def test_scores_of_zero_are_feasible_at_the_start(constraint, sigma):
    groups, _, _ = people()
    block = constraint.build(groups, np.ones(N), sigma, POSITIVE)
    assert functions_of(block, np.zeros(N), block.thresholds.starts).max() <= 0


def test_the_papers_start_for_the_ramp():
    """θ_p = s(½ − p − κ'/2)."""
    groups, _, _ = people()
    block = StatisticalParity((0.05, 0.30), 0.05, "absolute").build(groups, np.ones(N), Ramp(2.0))
    points = 0.05 + np.arange(10) * 0.025
    assert block.thresholds.starts == pytest.approx(2.0 * (0.5 - points - 0.025))


def test_vacuous_functions_are_dropped():
    groups, _, _ = people()
    block = StatisticalParity((0.0, 1.0), 0.3, "absolute").build(groups, np.ones(N), Ramp(1.0))
    # Points 0, .1, ..., .9 in three groups: no lower bound at 0, no upper bound from .7 on. Without one of
    # the two a threshold beyond all scores would do, so only .1 to .6 ask for anything.
    assert block.system.m == 3 * (6 + 6)
    assert block.bank.n_theta == 6


@pytest.mark.parametrize("sigma", [Ramp(1.0), RoundedRamp(0.7), Sigmoid(0.5)], ids=str)
@pytest.mark.parametrize("constraint", STATEMENTS, ids=str)
def test_weights_count_as_repeated_rows_and_missing_groups_do_not_count(constraint, sigma):
    groups, labels, rng = people()
    # Ties, and weights of 0, which are absent rows.
    weights, scores = rng.integers(0, 4, size=N), np.round(rng.normal(size=N), 1)
    weighted = constraint.build(groups, weights.astype(float), sigma, POSITIVE)
    repeated = constraint.build(
        encode_groups(np.repeat(labels, weights)),
        np.ones(weights.sum()),
        sigma,
        np.repeat(POSITIVE, weights),
    )
    theta = rng.normal(size=weighted.bank.n_theta)
    expected = functions_of(repeated, np.repeat(scores, weights), theta)
    assert functions_of(weighted, scores, theta) == pytest.approx(expected)
    some = encode_groups([None, *labels[1:]], missing="ignore")
    without = constraint.build(encode_groups(labels[1:]), np.ones(N - 1), sigma, POSITIVE[1:])
    ignoring = constraint.build(some, np.ones(N), sigma, POSITIVE)
    assert atoms_of(ignoring, scores, theta) == pytest.approx(atoms_of(without, scores[1:], theta))
    coefficients = rng.random(without.bank.n_atoms)
    slopes = slopes_of(ignoring, coefficients, scores, theta).scores
    assert slopes[0] == 0
    assert slopes[1:] == pytest.approx(slopes_of(without, coefficients, scores[1:], theta).scores)


def test_joined_constraints_are_both():
    groups, _, rng = people()
    blocks = [c.build(groups, np.ones(N), Ramp(1.0)) for c in (STATEMENTS[0], STATEMENTS[4], STATEMENTS[2])]
    both = join(blocks)
    scores, theta = rng.normal(size=N), rng.normal(size=both.bank.n_theta)
    expected, first = [], 0
    for block in blocks:
        last = first + block.bank.n_theta
        expected += functions_of(block, scores, theta[first:last]).tolist()
        first = last
    assert functions_of(both, scores, theta) == pytest.approx(expected)
    check_majorises(both, n_trials=3)


@pytest.mark.parametrize("kind", [one.kind for one in NAMED_CONSTRAINTS.values()])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_gap": 1.5}, "max_gap"),
        ({"max_gap": -0.1}, "max_gap"),
        ({"gap_scale": "relative"}, "gap_scale"),
        ({"interval": (0.5, 0.2)}, "reversed"),
        ({"interval": {"a": (0, 1), "b": (0, 1)}}, "no interval for group 'c'"),
        ({"interval": BY_GROUP, "gap_scale": "absolute"}, "absolute"),
    ],
)
def test_refusals(kind, options, message):
    groups, _, _ = people()
    with pytest.raises(InputError, match=message):
        kind(**options).build(groups, np.ones(N), Ramp(1.0), POSITIVE)


@pytest.mark.parametrize("points", [0.5, "ab", {0.1}])
def test_points_are_listed(points):
    with pytest.raises(InputError, match="points of statistical parity must be a tuple of numbers, not"):
        StatisticalParity(points=points)


def test_points_are_counted():
    with pytest.raises(InputError, match="n_points"):
        StatisticalParity(n_points=0)
