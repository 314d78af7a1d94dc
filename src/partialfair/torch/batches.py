"""Data sets that return row positions, and batches with a fixed number of rows of every group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_count
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel, Ints


class IndexedDataset(Dataset[tuple[Any, ...]]):
    """A data set whose items ``(inputs, label)`` become ``(inputs, label, row)``, with the position as row.

    Parameters
    ----------
    items : torch.utils.data.Dataset
        A data set with a length, whose items are tuples.

    See Also
    --------
    PartialFairness : The hook that needs the positions.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from partialfair.torch import IndexedDataset
    >>> items = IndexedDataset(TensorDataset(torch.tensor([[0.5], [1.5]]), torch.tensor([0, 1])))
    >>> items[1]
    (tensor([1.5000]), tensor(1), 1)
    """

    def __init__(self, items: Dataset[Any]) -> None:
        if not (
            hasattr(items, "__len__") and hasattr(items, "__getitem__")
        ):  # iterable data sets have neither
            raise InputError("items must be a data set with a length and items by position")
        self.items: Any = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (*self.items[index], index)


class GroupBatchSampler(Sampler[list[int]]):
    """A batch sampler with a fixed number ``q_k`` of rows of each group k in every batch.

    ``q_k`` is proportional to the size of the group, but has a lower limit. Means of a group in a batch then
    always have ``q_k`` terms, instead of a random number that is often 0 for rare groups. Rows of rare groups
    are drawn more often than others; to correct this, pass `shares` to `PartialFairness` as ``batch_shares``,
    and multiply the losses of rows by `loss_weights`. Rows of a group are in random order, and none is
    repeated before all were drawn.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
        The group of every row.
    batch_size : int
        Number of rows of a batch in this process.
    least : int, default=None
        The smallest number of rows of a group in a batch. If None, ``batch_size // (4 * n_groups)``.
    seed : int, default=0
        The seed of the random order, which differs between epochs.
    rank : int, default=0
        The position of this process among all processes, whose batches form one batch.
    n_processes : int, default=1
        The number of processes.

    See Also
    --------
    PartialFairness : The hook that uses the batches.
    IndexedDataset : Items with row positions.

    Examples
    --------
    >>> from partialfair.torch import GroupBatchSampler
    >>> groups = ["a"] * 90 + ["b"] * 10
    >>> sampler = GroupBatchSampler(groups, batch_size=20, least=5)
    >>> len(sampler), [sum(row >= 90 for row in batch) for batch in sampler]
    (5, [5, 5, 5, 5, 5])
    >>> sampler.shares
    {'a': 0.75, 'b': 0.25}
    """

    def __init__(
        self,
        groups: ArrayLike,
        batch_size: int,
        *,
        least: int | None = None,
        seed: int = 0,
        rank: int = 0,
        n_processes: int = 1,
    ) -> None:
        known = encode_groups(groups)
        self.labels = known.labels
        self.members = [np.flatnonzero(known.codes == code) for code in range(len(known.labels))]
        check_count(batch_size, "batch_size", low=1)
        check_count(n_processes, "n_processes")
        check_count(rank, "rank", low=0)
        check_count(seed, "seed", low=0)
        if rank >= n_processes:
            raise InputError(f"rank must be below n_processes, {n_processes}, not {rank}")
        self.n_rows, self.batch_size = known.codes.size, batch_size
        self.seed, self.rank, self.n_processes, self.epoch = seed, rank, n_processes, 0
        if batch_size * n_processes > self.n_rows:
            raise InputError(
                f"there are {self.n_rows} rows, fewer than a batch of {batch_size * n_processes}; lower it"
            )
        if least is None:
            least = batch_size // (4 * len(known.labels))
        check_count(least, "least", low=0)
        if least * len(known.labels) > batch_size:
            raise InputError(
                f"batches of {batch_size} cannot have {least} rows of each of {len(known.labels)} groups"
            )
        sizes = np.array([rows.size for rows in self.members])
        self.quotas = _quotas(sizes / self.n_rows, batch_size, least)
        if (empty := np.flatnonzero(self.quotas == 0)).size:
            raise InputError(
                f"batches of {batch_size} would have no rows of group {self.labels[empty[0]]!r}: use least=1"
            )

    @property
    def shares(self) -> dict[GroupLabel, float]:
        """The proportion of each group in a batch."""
        return {label: float(q) / self.batch_size for label, q in zip(self.labels, self.quotas, strict=True)}

    @property
    def loss_weights(self) -> Tensor:
        """The weight of a row's loss, by the code of its group, which makes batch means unbiased."""
        # Importance weights: the proportion of a group among all rows divided by its proportion in a batch.
        among_all = np.array([rows.size for rows in self.members]) / self.n_rows
        return torch.from_numpy(among_all / (self.quotas / self.batch_size)).float()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the random order."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.n_rows // (self.batch_size * self.n_processes)

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        needed = self.quotas * self.n_processes * len(self)
        streams = []
        for rows, n in zip(self.members, needed, strict=True):
            passes = [rng.permutation(rows) for _ in range(-(-n // rows.size))]  # the last one is truncated
            streams.append(np.concatenate(passes)[:n])
        for batch in range(len(self)):
            # All processes draw the same streams and alternate, so that no row is in two of their batches.
            position = batch * self.n_processes + self.rank
            parts = [
                stream[position * quota : (position + 1) * quota]
                for stream, quota in zip(streams, self.quotas, strict=True)
            ]
            yield np.concatenate(parts).tolist()


def _quotas(shares: Floats, batch_size: int, least: int) -> Ints:
    """Return the rows of each group in a batch: proportional with a lower limit, by largest remainders."""
    quotas: Ints = np.full(shares.size, least, dtype=np.int64)
    free = batch_size - quotas.sum()
    # Rows above the lower limit are distributed by what each group lacks of its proportion.
    lacking = np.maximum(shares * batch_size - least, 0.0)
    wanted = lacking * (free / lacking.sum()) if lacking.sum() > 0 else shares * free
    quotas += np.floor(wanted).astype(np.int64)
    by_remainder = np.argsort(np.floor(wanted) - wanted, kind="stable")
    quotas[by_remainder[: batch_size - quotas.sum()]] += 1
    return quotas
