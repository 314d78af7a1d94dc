"""Constraints on tensors beside the same constraints in NumPy: values, subgradients and tangents."""

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
from partialfair.constraints.surrogates import SURROGATES
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair_paper.quadratic import QuadraticGroupAUC

torch = pytest.importorskip("torch")

from partialfair.torch import ScoreConstraints  # noqa: E402

N = 40
UNION = [(0.1, 0.3), (0.5, 0.8)]
BY_GROUP = {"a": (0.1, 0.4), "b": (0.2, 0.5), "c": (0.0, 0.6)}
CONSTRAINTS = {
    "pSP": StatisticalParity((0.2, 0.6), 0.1),
    "pSP absolute": StatisticalParity((0.2, 0.6), 0.1, "absolute", n_points=4),
    "pSP union": StatisticalParity(UNION, 0.1),
    "pSP by group": StatisticalParity(BY_GROUP, 0.1),
    "pDP": DemographicParity((0.1, 0.7), 0.05, threshold=0.3),
    "pDP union": DemographicParity(UNION, 0.05),
    "pEOP": EqualOpportunity((0.1, 0.7), 0.05),
    "pEOD by group": EqualizedOdds(BY_GROUP, 0.05, threshold=-0.2),
    "pGAUC": GroupAUC((0.1, 0.6), 0.05),
    "pGAUC union": GroupAUC(UNION, 0.05),
}


def people(seed, n=N):
    rng = np.random.default_rng(seed)
    groups = np.concatenate([["a", "b", "c", "a", "b", "c"], rng.choice(["a", "b", "c"], n - 6)])
    y = np.concatenate([[0, 0, 0, 1, 1, 1], rng.integers(0, 2, n - 6)])
    scores = np.round(rng.normal(size=n), rng.integers(1, 6))  # some are tied
    return groups, y, scores, rng


def both(constraint, groups, y, kind, width):
    """A constraint in NumPy and on tensors."""
    block = join([constraint.build(encode_groups(groups), np.ones(len(y)), SURROGATES[kind](width), y == 1)])
    options = {"surrogate": kind, "surrogate_width": width, "dtype": torch.float64}
    return block, ScoreConstraints(constraint, groups, y, reaching=False, **options)


@pytest.mark.parametrize("name", CONSTRAINTS)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(SURROGATES)), width=st.floats(0.2, 3.0))
def test_values_and_subgradients_are_those_of_numpy(name, seed, kind, width):
    groups, y, scores, rng = people(seed)
    block, functions = both(CONSTRAINTS[name], groups, y, kind, width)
    theta = rng.normal(size=block.bank.n_theta)
    with torch.no_grad():
        functions.theta.copy_(torch.from_numpy(theta))
    on_tensors = torch.from_numpy(scores).requires_grad_()
    codes, labels = functions.codes(groups), torch.from_numpy(y)
    values = functions(on_tensors, codes, labels)
    atoms = block.bank.values(scores, block.members, theta)
    own_atoms = functions.at(on_tensors, functions.weights(codes, labels)).values.detach().numpy()
    assert functions.names == block.names
    assert values.detach().numpy() == pytest.approx(block.system.values(atoms), abs=1e-12)
    multipliers = rng.random(block.system.m)
    (torch.from_numpy(multipliers) @ values).backward()
    plus, minus = block.system.combined(atoms, multipliers)
    gradient = block.bank.by_score(1, plus - minus, scores, block.members, theta)
    if not _near_kink(block, scores, theta) and not _nearly_tied(functions, atoms, own_atoms):
        assert on_tensors.grad.numpy() == pytest.approx(gradient.scores, abs=1e-10)
        if theta.size:
            assert functions.theta.grad.numpy() == pytest.approx(gradient.theta, abs=1e-10)


def _near_kink(block, scores, theta):
    """Whether some difference is so close to a kink that rounding decides on which side it lies."""
    for bank in block.joined_bank.banks:
        thresholds = np.concatenate([theta, getattr(bank, "fixed", ())]) if hasattr(bank, "fixed") else scores
        differences = (scores[:, None] - thresholds) / bank.surrogate.width
        if any((np.abs(differences - kink.at) < 1e-9).any() for kink in bank.surrogate.kinks):
            return True
    return False


def _nearly_tied(functions, *both_atoms):
    """Whether pieces of a maximum are so close, in either world, that rounding decides which is largest."""
    maxima = functions.maxima
    for atoms in both_atoms:
        heights = (maxima.matrix @ torch.from_numpy(atoms) + maxima.offsets).view(maxima.shape)
        behind = heights.amax(dim=1, keepdim=True) - heights
        if ((behind > 0) & (behind < 1e-12)).any():
            return True
    return False


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_changes_of_atoms_are_their_tangents(name):
    groups, y, scores, rng = people(3)
    block, functions = both(CONSTRAINTS[name], groups, y, "rounded_ramp", 0.7)
    theta, moves = rng.normal(size=block.bank.n_theta), rng.normal(size=N)
    theta_moves = rng.normal(size=theta.size)
    at, to = torch.from_numpy(scores), torch.from_numpy(moves)
    weights = functions.weights(functions.codes(groups), torch.from_numpy(y))
    atoms_at = functions.at(at, weights, torch.from_numpy(theta))
    changes = atoms_at.changes(to, torch.from_numpy(theta_moves))
    for position in range(block.bank.n_atoms):
        one = np.eye(1, block.bank.n_atoms, position)[0]
        gradient = block.bank.by_score(1, one, scores, block.members, theta)
        expected = gradient.scores @ moves + gradient.theta @ theta_moves
        assert changes[position].item() == pytest.approx(expected, abs=1e-10)
        by_score, by_theta = atoms_at.combine(torch.from_numpy(one))
        assert by_score.numpy() == pytest.approx(gradient.scores, abs=1e-10)
        assert by_theta.numpy() == pytest.approx(gradient.theta, abs=1e-10)
    atoms = block.bank.values(scores, block.members, theta)
    maxima = functions.maxima
    plus, minus, pieces = maxima.parts_and_pieces(torch.from_numpy(atoms))
    assert (plus - minus).numpy() == pytest.approx(block.system.values(atoms), abs=1e-12)
    for table, slopes in zip((maxima.plus, maxima.minus), block.system.slopes(atoms), strict=True):
        assert (table @ pieces).numpy() == pytest.approx(slopes, abs=1e-12)


@pytest.mark.parametrize("name", ["pSP", "pSP absolute", "pEOP"])
def test_batches_are_unbiased_where_functions_are_linear_in_means(name):
    """The mean of all batches of a partition is the value of all rows."""
    groups, y, scores, rng = people(5)
    _, functions = both(CONSTRAINTS[name], groups, y, "sigmoid", 0.5)
    codes, labels, on_tensors = functions.codes(groups), torch.from_numpy(y), torch.from_numpy(scores)
    everybody = functions.at(on_tensors, functions.weights(codes, labels)).values
    batches = torch.from_numpy(rng.permutation(N)).split(10)
    each = [
        functions.at(on_tensors[rows], functions.weights(codes[rows], labels[rows])).values
        for rows in batches
    ]
    assert torch.stack(each).mean(0).detach().numpy() == pytest.approx(everybody.detach().numpy(), abs=1e-12)


def test_thresholds_are_placed_where_groups_have_their_ranks():
    groups, _, scores, _ = people(7)
    functions = ScoreConstraints(StatisticalParity((0.2, 0.6), 0.3), groups, surrogate_width=1e-3)
    assert functions.theta.dtype == torch.float32
    functions.place_thresholds(torch.from_numpy(scores).float(), functions.codes(groups))
    theta = functions.theta.detach().numpy()
    assert (np.diff(theta) <= 0).all()
    assert theta.min() >= scores.min()
    assert theta.max() <= scores.max()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda g, y: ScoreConstraints(QuadraticGroupAUC(1.0), g), "QuadraticPairs are not known"),
        (lambda g, y: ScoreConstraints(EqualOpportunity((0, 1), 0.1), g), "needs labels"),
        (lambda g, y: ScoreConstraints(EqualOpportunity((0, 1), 0.1), g, y[:-1]), "y has shape"),
        (lambda g, y: ScoreConstraints(EqualOpportunity((0, 1), 0.1), g, y + 1), "y must be 0 or 1"),
        (
            lambda g, y: ScoreConstraints(GroupAUC((0, 1), 0.1), g).codes(["z"]),
            "group 'z' is not a group of the training set",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, match):
    groups, y, _, _ = people(1)
    with pytest.raises(InputError, match=match):
        make(groups, y)


@pytest.mark.parametrize("call", ["forward", "place_thresholds"])
@pytest.mark.parametrize(
    ("name", "wrong", "match"),
    [
        ("scores", torch.Tensor.double, "scores are torch.float64 and the constraints are torch.float32"),
        ("scores", torch.Tensor.int, "scores must be a tensor of floating-point numbers, not torch.int32"),
        ("scores", torch.Tensor.bool, "scores must be a tensor of floating-point numbers"),
        ("scores", lambda s: s.to(torch.complex64), "scores must be a tensor of floating-point numbers"),
        ("scores", torch.Tensor.to_sparse, "scores must be .*, not a sparse or nested tensor"),
        ("scores", torch.Tensor.numpy, "scores must be a tensor of floating-point numbers, not ndarray"),
        ("scores", lambda s: s[0], r"scores must be a vector, not of shape \(\)"),
        ("scores", lambda s: s[:0], "the batch is empty"),
        ("scores", lambda s: s.to("meta"), "scores are on meta and the constraints on cpu"),
        ("groups", lambda g: g + 2, "groups must be from 0 to"),
        ("groups", torch.Tensor.float, "groups must be a tensor of whole numbers"),
        ("groups", torch.Tensor.to_sparse, "groups must be .*, not a sparse or nested tensor"),
        ("groups", lambda g: g[:-1], "groups has shape"),
        ("groups", lambda g: g.to("meta"), "groups is on meta, and the scores on cpu"),
        ("y", lambda y: y.tolist(), "y must be a tensor of numbers, not list"),
        ("y", lambda y: y[:, None], "y has shape"),
        ("y", lambda y: y - 0.5, "y must be 0 or 1 everywhere"),
        ("y", lambda y: y.to("meta"), "y is on meta, and groups on cpu"),
    ],
)
def test_bad_tensors_are_named(call, name, wrong, match):
    groups, y, scores, _ = people(1)
    functions = ScoreConstraints(EqualOpportunity((0.1, 0.6), 0.1), groups, y)
    given = {
        "scores": torch.from_numpy(scores).float(),
        "groups": functions.codes(groups),
        "y": torch.as_tensor(np.asarray(y, dtype=np.int64)),
    }
    given[name] = wrong(given[name])
    with pytest.raises(InputError, match=match):
        getattr(functions, call)(**given)


def test_thresholds_are_not_placed_at_what_is_not_finite():
    groups, _, scores, _ = people(1)
    functions = ScoreConstraints(StatisticalParity((0.1, 0.6), 0.1), groups)
    with pytest.raises(InputError, match="scores must be finite"):
        functions.place_thresholds(torch.from_numpy(scores).float() / 0, functions.codes(groups))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dtype": torch.int32}, "dtype must be torch.float32 or torch.float64, not torch.int32"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or"),
        ({"dtype": "float32"}, "dtype must be torch.float32 or"),
        ({"reaching": torch.ones(3)}, "reaching must be True or False"),
        ({"batch_shares": 0}, "batch_shares must map groups to shares"),
        ({"batch_shares": {"a": "x", "b": 1.0}}, r"batch_shares\['a'\] must be a"),
    ],
)
def test_bad_settings_are_named(options, match):
    with pytest.raises(InputError, match=match):
        ScoreConstraints(StatisticalParity((0.1, 0.6), 0.1), ["a", "b"] * 20, **options)


@pytest.mark.parametrize("wrong", [3, None, float("nan"), "statistical_parity", {}, torch.ones(2)])
def test_bad_constraints_are_named(wrong):
    with pytest.raises(InputError, match="constraints must be one of"):
        ScoreConstraints(wrong, ["a", "b"] * 20)
