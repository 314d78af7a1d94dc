"""Batches that tell their rows, and batches with a fixed number of members of every group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import EqualOpportunity, StatisticalParity
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from partialfair.torch import GroupBatchSampler, IndexedDataset, PartialFairness, ScoreConstraints  # noqa: E402


def groups_of(sizes):
    return np.repeat(list("abcdefgh")[: len(sizes)], sizes)


def test_items_end_with_their_position():
    X = torch.arange(10.0)
    loader = DataLoader(IndexedDataset(TensorDataset(X, -X)), batch_size=4, shuffle=True)
    for inputs, labels, rows in loader:
        assert torch.equal(X[rows], inputs)
        assert torch.equal(-X[rows], labels)


@given(
    sizes=st.lists(st.integers(20, 200), min_size=2, max_size=5),
    batch_size=st.integers(10, 40),
    seed=st.integers(0, 100),
)
def test_every_batch_has_its_quota(sizes, batch_size, seed):
    groups = groups_of(sizes)
    least = batch_size // (2 * len(sizes))
    batches = GroupBatchSampler(groups, batch_size, least=least, seed=seed)
    quotas = np.array([round(share * batch_size) for share in batches.shares.values()])
    assert quotas.sum() == batch_size
    assert (quotas >= least).all()
    drawn = list(batches)
    assert len(drawn) == len(batches) == len(groups) // batch_size
    for rows in drawn:
        assert [int((groups[rows] == label).sum()) for label in batches.labels] == quotas.tolist()
    for label in batches.labels:  # all of a group before any comes again
        rows = [row for batch in drawn for row in batch if groups[row] == label]
        counts = np.unique(rows, return_counts=True)[1]
        n_members = (groups == label).sum()
        assert counts.size == min(n_members, len(rows))
        assert np.ptp(counts) <= 1 if counts.size else True


def test_without_a_least_batches_are_in_proportion():
    assert GroupBatchSampler(groups_of([60, 30, 10]), 20, least=0).shares == {"a": 0.6, "b": 0.3, "c": 0.1}


def test_passes_differ_and_are_the_same_each_time():
    batches = GroupBatchSampler(groups_of([60, 40]), 10, seed=3)
    first, again = list(batches), list(batches)
    batches.set_epoch(1)
    assert first == again
    assert first != list(batches)


def test_processes_have_parts_of_one_pass():
    groups = groups_of([60, 40])
    parts = [list(GroupBatchSampler(groups, 10, rank=rank, n_processes=2)) for rank in range(2)]
    rows = [row for part in parts for batch in part for row in batch]
    assert len(rows) == len(set(rows)) == 100


@pytest.mark.parametrize(
    "constraint", [StatisticalParity((0.2, 0.6), 0.1), EqualOpportunity((0.0, 1.0), 0.1)]
)
def test_sums_and_losses_are_right_on_average(constraint):
    """Where every member of a group comes equally often, means of batches are those of all rows."""
    groups = groups_of([80, 20])
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100)
    scores, losses = (torch.from_numpy(rng.normal(size=100)) for _ in range(2))
    batches = GroupBatchSampler(groups, 10, least=4)
    assert batches.shares == {"a": 0.6, "b": 0.4}
    # Forty batches: members of a come three times, those of b eight times.
    from_a, from_b = np.tile(np.arange(80), 3).reshape(40, 6), np.tile(np.arange(80, 100), 8).reshape(40, 4)
    drawn = torch.from_numpy(np.hstack([from_a, from_b]))
    options = {"surrogate": "sigmoid", "surrogate_width": 0.5, "dtype": torch.float64}
    everybody = ScoreConstraints(constraint, groups, y, **options)
    weighted = ScoreConstraints(constraint, groups, y, batch_shares=batches.shares, **options)
    codes, labels = everybody.codes(groups), torch.from_numpy(y)
    expected = everybody.at(scores, everybody.weights(codes, labels)).values
    each = [weighted.at(scores[r], weighted.weights(codes[r], labels[r])).values for r in drawn]
    assert torch.stack(each).mean(0).detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-12)
    mean = torch.stack([(losses[r] * batches.loss_weights[codes[r]]).mean() for r in drawn]).mean()
    assert mean.item() == pytest.approx(losses.mean().item(), abs=1e-7)


def trained_on_rare_groups(X, y, groups, constraints, warmup_epochs):
    """Train a small network by batches that hold more members of a rare group than all rows do."""
    batches = GroupBatchSampler(groups, 64)
    loader = DataLoader(IndexedDataset(TensorDataset(X, y)), batch_sampler=batches)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    fair = PartialFairness(
        constraints, groups, y.numpy(), batch_shares=batches.shares, warmup_epochs=warmup_epochs
    )
    optimizer = torch.optim.Adam([*model.parameters(), *fair.parameters()], lr=0.01)
    for epoch in range(20):
        batches.set_epoch(epoch)
        for inputs, labels, rows in loader:
            scores, codes = model(inputs).squeeze(1), fair.row_codes[rows]
            losses = nn.functional.binary_cross_entropy_with_logits(scores, labels.float(), reduction="none")
            loss = fair((batches.loss_weights[codes] * losses).mean(), scores, codes, labels, rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            fair.step()
    with torch.no_grad():
        scores = model(X).squeeze(1).double().numpy()
    gap = partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=(0.2, 0.6))
    return gap, fair.multipliers.max()


def test_a_rare_group_in_batches_of_its_own():
    """Rows are weighted for the loss, and constraints that need labels have them."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 2000, p=[0.97, 0.03])
    X = np.column_stack([rng.normal(size=(2000, 2)), rng.normal(size=2000) + (groups == "a")])
    y = (X.sum(axis=1) + rng.normal(size=2000) > 0.5).astype(np.int64)
    constraints = [StatisticalParity((0.2, 0.6), 0.15, n_points=5), EqualOpportunity((0.0, 1.0), 0.3)]
    rows = torch.from_numpy(X).float(), torch.from_numpy(y), groups
    gap, multiplier = trained_on_rare_groups(*rows, constraints, warmup_epochs=2)
    free_gap, free_multiplier = trained_on_rare_groups(*rows, constraints, warmup_epochs=100)
    assert gap < free_gap / 2
    assert free_multiplier == 0 < multiplier


def test_tangents_of_all_rows_are_those_without_group_batches():
    """Batches hold more of the rare group than all rows do; a refresh looks at all rows."""
    groups = groups_of([270, 30])
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=300)).float()
    constraint = StatisticalParity((0.2, 0.6), 0.15, n_points=5)
    plain = PartialFairness(constraint, groups)
    batched = PartialFairness(constraint, groups, batch_shares=GroupBatchSampler(groups, 40, least=16).shares)
    for fair in (plain, batched):
        fair.functions.place_thresholds(scores, fair.codes(groups))
        fair.refresh(scores)
    assert torch.equal(plain.tangent_values, batched.tangent_values)
    assert torch.equal(plain.running, batched.running)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: GroupBatchSampler(groups_of([50, 50]), 10, least=6),
            "cannot have 6 rows of each of 2 groups",
        ),
        (lambda: GroupBatchSampler(groups_of([999, 1]), 10, least=0), "would have no rows of group 'b'"),
        (lambda: GroupBatchSampler(groups_of([5, 5]), 0), "batch_size must be"),
        (lambda: GroupBatchSampler(groups_of([5, 5]), 20), "there are 10 rows, fewer than a batch of 20"),
        (
            lambda: ScoreConstraints(
                StatisticalParity((0.2, 0.6), 0.1), groups_of([5, 5]), batch_shares={"a": 1.0}
            ),
            "batch_shares must have exactly the groups",
        ),
        (
            lambda: ScoreConstraints(
                StatisticalParity((0.2, 0.6), 0.1), groups_of([5, 5]), batch_shares={"a": 0.5, "b": 0.7}
            ),
            "must be positive and add up to 1",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, match):
    with pytest.raises(InputError, match=match):
        make()
