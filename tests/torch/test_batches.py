"""Batches that tell their rows, and batches with a fixed number of members of every group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import EqualOpportunity, StatisticalParity
from partialfair.exceptions import InputError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from partialfair.torch import GroupBatches, Indexed, ScoreConstraints  # noqa: E402


def groups_of(sizes):
    return np.repeat(list("abcdefgh")[: len(sizes)], sizes)


def test_items_end_with_their_position():
    X = torch.arange(10.0)
    loader = DataLoader(Indexed(TensorDataset(X, -X)), batch_size=4, shuffle=True)
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
    batches = GroupBatches(groups, batch_size, least=least, seed=seed)
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
    assert GroupBatches(groups_of([60, 30, 10]), 20, least=0).shares == {"a": 0.6, "b": 0.3, "c": 0.1}


def test_passes_differ_and_are_the_same_each_time():
    batches = GroupBatches(groups_of([60, 40]), 10, seed=3)
    first, again = list(batches), list(batches)
    batches.set_epoch(1)
    assert first == again
    assert first != list(batches)


def test_processes_have_parts_of_one_pass():
    groups = groups_of([60, 40])
    parts = [list(GroupBatches(groups, 10, rank=rank, n_processes=2)) for rank in range(2)]
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
    batches = GroupBatches(groups, 10, least=4)
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


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: GroupBatches(groups_of([50, 50]), 10, least=6), "cannot hold 6 members of each of 2 groups"),
        (lambda: GroupBatches(groups_of([999, 1]), 10, least=0), "would never hold group 'b'"),
        (lambda: GroupBatches(groups_of([5, 5]), 0), "batch_size must be"),
        (lambda: GroupBatches(groups_of([5, 5]), 20), "there are 10 rows, fewer than a batch of 20"),
        (
            lambda: ScoreConstraints(
                StatisticalParity((0.2, 0.6), 0.1), groups_of([5, 5]), batch_shares={"a": 1.0}
            ),
            "batch_shares must be given for the groups",
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
