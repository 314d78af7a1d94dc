"""AUC and partial AUC losses against their definitions, pair by pair."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from partialfair.exceptions import InputError
from partialfair.optimization.objectives import (
    AUC,
    LOSSES,
    AUCLoss,
    Coupling,
    Difference,
    PartialAUC,
    read_loss,
    tie_loss,
)
from partialfair.optimization.objectives.pairwise import (
    HingePairs,
    LogisticPairs,
    SquaredHingePairs,
    SquaredPairs,
    top_shares,
)
from tests.derivatives import (
    check_convex,
    check_curvature,
    check_slopes,
    convex_parts,
    curvature,
    evaluated,
    matrix,
)

PHI = {
    "squared": lambda x: (1 + x) ** 2 / 2,
    "squared_hinge": lambda x: np.maximum(1 + x, 0) ** 2 / 2,
    "hinge": lambda x: np.maximum(1 + x, 0),
    "logistic": lambda x: np.log1p(np.exp(x)),
}
PARTIAL = [kind for kind in PHI if kind != "squared"]


def draw(seed, n=40, ties=True, weighted=True):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n) * 1.5
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    weights = rng.integers(0, 4, n).astype(float) if weighted else np.ones(n)
    return np.round(scores, 1) if ties else scores, signs, weights


def by_definition(kind, scores, signs, weights, fpr=(0.0, 1.0)):
    """(paucloss) with rows repeated by weight, and sorted negatives of which the ends may cut one in two."""
    repeated = np.repeat(np.arange(scores.size), weights.astype(int))
    s, t = (scores[repeated][signs[repeated] == sign] for sign in (1, -1))
    t = np.sort(t)[::-1]
    ranks = np.arange(t.size + 1) / t.size
    inside = np.clip(np.minimum(ranks[1:], fpr[1]) - np.maximum(ranks[:-1], fpr[0]), 0, None)
    losses = [np.mean(PHI[kind](score - s)) for score in t]
    return inside @ losses / (fpr[1] - fpr[0])


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("kind", PHI)
def test_auc_loss_is_the_mean_over_pairs(kind, ties):
    for seed in range(5):
        scores, signs, weights = draw(seed, ties=ties)
        objective = AUC(kind, rounding=0.0).build(signs, weights, anchored=False)
        value, slopes = evaluated(objective, scores)
        assert value == pytest.approx(by_definition(kind, scores, signs, weights), rel=1e-11)
        assert slopes.sum() == pytest.approx(0, abs=1e-12)  # a constant changes nothing
    check_slopes(objective, scores + 1e-3 * np.random.default_rng(1).normal(size=scores.size))


@pytest.mark.parametrize("fpr", [(0.0, 0.1), (0.0, 1.0), (0.07, 0.31), (0.5, 1.0), (0.2, 0.25)])
@pytest.mark.parametrize("kind", PARTIAL)
def test_partial_auc_loss_is_the_mean_over_pairs_with_ranks_in_the_interval(kind, fpr):
    for seed in range(5):
        scores, signs, weights = draw(seed, ties=seed % 2 == 0)
        objective = PartialAUC(fpr, kind, rounding=0.0).build(signs, weights, anchored=False)
        value = evaluated(objective, scores)[0]
        assert value == pytest.approx(by_definition(kind, scores, signs, weights, fpr), rel=1e-11)
    scores = draw(0, ties=False)[0]
    check_slopes(objective, scores)


@pytest.mark.parametrize("fpr", [(0.0, 0.3), (0.15, 0.6)])
@pytest.mark.parametrize("kind", PARTIAL)
def test_rounded_partial_losses_have_slopes(kind, fpr):
    scores, signs, weights = draw(3, ties=False)
    for rounding in (0.5, 0.05):
        objective = PartialAUC(fpr, kind, rounding).build(signs, weights)
        check_slopes(objective, scores, abs=1e-5)  # second derivatives jump
        sharp = PartialAUC(fpr, kind, 0.0).build(signs, weights)
        for part, sharper in zip(convex_parts(objective), convex_parts(sharp), strict=True):
            excess = evaluated(part, scores)[0] - evaluated(sharper, scores)[0]
            border = rounding / 2 * part.loss.top * (1 - part.loss.top)
            assert -1e-12 <= excess <= part.loss.factor * (border + part.loss.top * rounding / 8) + 1e-12


@pytest.mark.parametrize("rounding", [0.0, 0.2])
@pytest.mark.parametrize("kind", PARTIAL)
def test_both_parts_are_convex(kind, rounding):
    rng = np.random.default_rng(5)
    _, signs, weights = draw(2)
    objective = PartialAUC((0.13, 0.4), kind, rounding).build(signs, weights)
    assert isinstance(objective.loss, Difference)
    for part in convex_parts(objective):
        check_convex(lambda s, part=part: evaluated(part, s)[0], lambda: 2 * rng.normal(size=signs.size))
        check_convex(
            lambda s, part=part: evaluated(part, s)[0],
            lambda: np.round(rng.normal(size=signs.size)),  # segments between ties
        )


@pytest.mark.parametrize("kind", ["squared", "squared_hinge", "logistic"])
def test_curvature(kind):
    scores, signs, weights = draw(4, n=60, ties=False)
    objective = AUC(kind).build(signs, weights)
    if kind == "squared":
        check_curvature(objective, scores)  # by moments, and exact
    second = matrix(objective, scores)
    assert second == pytest.approx(second.T, abs=1e-15)
    assert np.linalg.eigvalsh(second).min() >= -1e-12
    # Averages over cells of few scores each are close.
    step, along = 1e-4, scores - scores.mean()
    up, down = (evaluated(objective, scores + sign * step * along)[1] for sign in (1, -1))
    exact = along @ (up - down) / (2 * step)
    assert along @ second @ along == pytest.approx(exact, rel=0.1)


def test_the_border_of_the_top_share_has_curvature():
    rng = np.random.default_rng(0)
    signs, weights = np.where(np.arange(900) < 300, 1.0, -1.0), np.ones(900)
    scores = rng.normal(size=900) + 0.5 * signs
    objective = PartialAUC((0.0, 0.2), rounding=0.2).build(signs, weights)
    second = curvature(objective, scores)
    assert len(second.couplings) == 3  # pairs, border, anchor
    for along in (scores, rng.normal(size=900)):
        up, down = (evaluated(objective, scores + step * along)[1] for step in (1e-4, -1e-4))
        assert along @ second.product(along) == pytest.approx(along @ (up - down) / 2e-4, rel=0.1)


def test_weight_is_repetition_and_zero_is_absence():
    scores, signs, weights = draw(6)
    repeated = np.repeat(np.arange(scores.size), weights.astype(int))
    settings = PartialAUC((0.1, 0.35), rounding=0.1)
    value, slopes = evaluated(settings.build(signs, weights), scores)
    again, apart = evaluated(settings.build(signs[repeated], np.ones(repeated.size)), scores[repeated])
    assert value == pytest.approx(again, rel=1e-12)
    assert slopes == pytest.approx(np.bincount(repeated, apart, minlength=scores.size), abs=1e-12)


def test_the_anchor_is_the_squared_middle_of_the_classes():
    scores, signs, weights = draw(7)
    free, anchored = (AUC().build(signs, weights, anchored=way) for way in (False, True))
    middle = sum(np.average(scores[signs == sign], weights=weights[signs == sign]) for sign in (1, -1)) / 2
    excess = evaluated(anchored, scores)[0] - evaluated(free, scores)[0]
    assert excess == pytest.approx(middle**2 / 2)
    check_slopes(anchored, scores + 1e-3 * np.random.default_rng(0).normal(size=scores.size))


@pytest.mark.parametrize("kind", PHI)
def test_equal_scores_are_equally_bad(kind):
    _, signs, weights = draw(8)
    for constant in (0.0, 3.0):
        objective = AUC(kind, 0.0).build(signs, weights, anchored=False)
        assert evaluated(objective, np.full(signs.size, constant))[0] == pytest.approx(PHI[kind](0.0))


def test_scores_that_are_not_finite_have_no_loss():
    _, signs, weights = draw(9)
    assert np.isnan(evaluated(AUC().build(signs, weights), np.full(signs.size, np.nan))[0])


def rounded_hinge(x, width):
    """(1 + x)_+ with a parabola of that width in its corner."""
    corner = (1 + x + width / 2) ** 2 / (2 * width)
    return np.where(np.abs(1 + x) < width / 2, corner, np.maximum(1 + x, 0))


PAIR_FUNCTIONS = [
    (SquaredPairs(), PHI["squared"], lambda x: 1 + x),
    (SquaredHingePairs(), PHI["squared_hinge"], lambda x: np.maximum(1 + x, 0)),
    (HingePairs(0.0), PHI["hinge"], lambda x: np.where(1 + x > 1e-9, 1.0, 0.0)),  # at the corner 0
    (HingePairs(0.4), lambda x: rounded_hinge(x, 0.4), lambda x: np.clip((1 + x) / 0.4 + 0.5, 0, 1)),
    (LogisticPairs(), PHI["logistic"], lambda x: 1 / (1 + np.exp(-x))),
]


@pytest.mark.parametrize(
    ("pairs", "phi", "slope"), PAIR_FUNCTIONS, ids=[str(pairs) for pairs, _, _ in PAIR_FUNCTIONS]
)
def test_sums_over_all_starts(pairs, phi, slope):
    """Σ_s weights_s φ(e − s) and Σ_s weights_s φ'(e − s), with ties, pairs on corners and weights of 0."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends, starts = (np.round(2 * rng.normal(size=n), 1) for n in (30, 25))
        weights = rng.integers(0, 3, 25) * rng.random(25)
        x = np.subtract.outer(ends, starts)
        values, slopes = pairs.sums(ends, starts, weights)
        assert values == pytest.approx(phi(x) @ weights, abs=1e-9)
        assert slopes == pytest.approx(slope(x) @ weights, abs=1e-9)
    x = np.linspace(-4, 4, 160)
    assert pairs.slope(x) == pytest.approx(slope(x))


def test_a_coupling_is_the_matrix_it_says():
    """Σ_cd core[c, d] a_c a_dᵀ, where a_c holds the weights of the rows of cell c."""
    rng = np.random.default_rng(0)
    cells, weights, core = rng.integers(-1, 3, size=12), rng.normal(size=12), rng.normal(size=(3, 3))
    core = core + core.T
    a = np.array([np.where(cells == c, weights, 0.0) for c in range(3)])
    expected = sum(core[c, d] * np.outer(a[c], a[d]) for c in range(3) for d in range(3))
    coupling = Coupling(cells, weights, core)
    assert np.stack([coupling.product(unit) for unit in np.eye(12)]) == pytest.approx(expected)


@pytest.mark.parametrize("rounding", [0.0, 0.7])
def test_the_whole_share_is_everybody_and_none_is_nobody(rounding):
    values, q = np.array([3.0, 1.0, 1.0]), np.array([0.2, 0.5, 0.3])
    assert top_shares(values, q, 1.0, rounding) == pytest.approx(q)
    assert top_shares(values, q, 0.0, rounding) == pytest.approx(0 * q)


@pytest.mark.parametrize("top", [0.02, 0.13, 0.5, 0.97])
def test_top_shares_are_what_they_say(top):
    """r_j = q_j clip((v_j − λ)/rounding + ½, 0, 1) with the λ at which they sum to the top share.

    Without rounding those above λ are in it, those below are not, and those at λ are in part, by weight.
    """
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values, q = np.round(rng.normal(size=20), 1), rng.random(20) + 0.01
        q /= q.sum()
        sharp = top_shares(values, q, top, 0.0)
        above = np.array([q[values > value].sum() for value in values])
        tied = np.array([q[values == value].sum() for value in values])
        assert sharp == pytest.approx(q * np.clip((top - above) / tied, 0, 1), abs=1e-12)
        for rounding in (0.05, 0.7):

            def shares(border, rounding=rounding, values=values, q=q):
                return q * np.clip((values - border) / rounding + 0.5, 0, 1)

            border = brentq(
                lambda at, shares=shares: shares(at).sum() - top, values.min() - 1, values.max() + 1
            )
            r = top_shares(values, q, top, rounding)
            assert r == pytest.approx(shares(border), abs=1e-10)
            excess = r @ values + rounding / 2 * np.sum(r * (1 - r / q)) - sharp @ values
            assert -1e-12 <= excess <= rounding / 2 * top * (1 - top) + 1e-12


@pytest.mark.parametrize("kind", PHI)
def test_the_anchor_costs_nothing(kind):
    """With an intercept the optimum has m = 0, and the value of the loss without an anchor."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    signs = np.where(X[:, 0] + rng.normal(size=60) > 0.4, 1.0, -1.0)
    weights = rng.random(60)

    def least(anchored):
        objective = AUC(kind, 0.1).build(signs, weights, anchored=anchored)

        def value(w):
            loss, slopes = evaluated(objective, X @ w)
            return loss, X.T @ slopes

        return minimize(value, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-9})

    free, anchored = least(False), least(True)
    assert anchored.fun == pytest.approx(free.fun, abs=1e-7)
    means = [np.average((X @ anchored.x)[signs == sign], weights=weights[signs == sign]) for sign in (1, -1)]
    assert sum(means) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("fpr", [(0.0, 0.3), (0.1, 0.5)])
def test_top_shares_maximise(fpr):
    """r is a maximiser: no generic optimiser finds a better one."""
    scores, signs, weights = draw(10, n=24, ties=False)
    objective = tie_loss(AUCLoss("hinge", top=fpr[1], rounding=0.3), signs, weights)
    q = weights[signs < 0] / weights[signs < 0].sum()
    t, s, p = scores[signs < 0], scores[signs > 0], weights[signs > 0] / weights[signs > 0].sum()
    q, t = q[q > 0], t[q > 0]
    hinge = lambda x: np.clip(1 + x + 0.15, 0, 0.3) ** 2 / 0.6 + np.maximum(1 + x - 0.15, 0)  # noqa: E731
    v = np.array([p @ hinge(one - s) for one in t])
    best = minimize(
        lambda r: -(r @ v + 0.15 * np.sum(r * (1 - r / q))),
        fpr[1] * q,
        bounds=[(0, one) for one in q],
        constraints={"type": "eq", "fun": lambda r: r.sum() - fpr[1]},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert evaluated(objective, scores)[0] == pytest.approx(-best.fun, abs=1e-8)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: PartialAUC(kind="squared"),
            r"no weakly convex partial AUC; use kind='squared_hinge'",
        ),
        (lambda: PartialAUC(kind="cubic"), r"kind of PartialAUC must be one of 'squared_hinge', 'hinge', "),
        (
            lambda: PartialAUC(fpr=0.1),
            r"fpr of PartialAUC must be a tuple of two rates such as \(0.0, 0.1\), not 0.1",
        ),
        (lambda: PartialAUC(fpr=(0.1, 1.1)), r"each rate of fpr must lie in \[0, 1\], not 1.1"),
        (lambda: PartialAUC(fpr=(0.3, 0.3)), r"fpr of PartialAUC must increase, unlike \(0.3, 0.3\)"),
        (lambda: PartialAUC(rounding=-1), r"rounding of PartialAUC must be at least 0, not -1"),
        (lambda: AUC("cubic"), r"kind of AUC must be one of 'squared', 'squared_hinge', 'hinge', 'logistic'"),
        (lambda: AUCLoss("squared", top=0.5), r"needs top = 1"),
        (lambda: AUC().build(np.ones(3), np.ones(3)), r"no negative row has weight"),
        (lambda: read_loss("zero-one"), r"loss must be 'logistic', .*PartialAUC\(.*\), not 'zero-one'"),
        (lambda: read_loss(PartialAUC), r"loss must be an object, PartialAUC\(\), not its class"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(InputError, match=match) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_names():
    assert set(LOSSES) == {"logistic", "squared", "hinge", "auc"}
    assert read_loss("auc") == AUC("squared_hinge")
