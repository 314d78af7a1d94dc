"""Makes batches that name their rows, and batches with a fixed number of members of every group."""

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
    """A data set whose items ``(inputs, label)`` become ``(inputs, label, row)``, row being the position."""

    def __init__(self, items: Dataset[Any]) -> None:
        if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):  # data sets may be mere streams
            raise InputError("the data set must have a length and items by position")
        self.items: Any = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (*self.items[index], index)


class GroupBatchSampler(Sampler[list[int]]):
    """Every batch has ``q_k`` members of group k: its share of all rows, but no fewer than some.

    Means of a group in a batch then have ``q_k`` terms each time, instead of a random number that is often 0
    where a group is rare. Members of rare groups come more often than others, for which `shares` and
    `loss_weights` make up: give the former to `PartialFairness` as ``batch_shares``, and multiply the losses
    of rows by the latter. Members of a group come in random order, all of them before any comes again.

    Parameters
    ----------
    groups
        The group of every row.
    batch_size
        Rows of a batch, in this process.
    least
        Members of every group in a batch, at least; by default ``batch_size // (4 n_groups)``.
    seed
        Of the random order, which is another in every pass.
    rank, n_processes
        Which of several processes this is: their batches are parts of one.
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
                f"there are {self.n_rows} rows, fewer than a batch of {batch_size * n_processes}"
            )
        if least is None:
            least = batch_size // (4 * len(known.labels))
        check_count(least, "least", low=0)
        if least * len(known.labels) > batch_size:
            raise InputError(
                f"batches of {batch_size} cannot hold {least} members of each of {len(known.labels)} groups"
            )
        sizes = np.array([rows.size for rows in self.members])
        self.quotas = _quotas(sizes / self.n_rows, batch_size, least)
        if (empty := np.flatnonzero(self.quotas == 0)).size:
            raise InputError(
                f"batches of {batch_size} would never hold group {self.labels[empty[0]]!r}: give least=1"
            )

    @property
    def shares(self) -> dict[GroupLabel, float]:
        """The share of each group in a batch."""
        return {label: float(q) / self.batch_size for label, q in zip(self.labels, self.quotas, strict=True)}

    @property
    def loss_weights(self) -> Tensor:
        """By how much the loss of a row counts, by its group's position: batch means are then right."""
        # Importance weights: the share of a group among all rows over that in a batch.
        among_all = np.array([rows.size for rows in self.members]) / self.n_rows
        return torch.from_numpy(among_all / (self.quotas / self.batch_size)).float()

    def set_epoch(self, epoch: int) -> None:
        """Choose the random order of a pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.n_rows // (self.batch_size * self.n_processes)

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        needed = self.quotas * self.n_processes * len(self)
        streams = []
        for rows, n in zip(self.members, needed, strict=True):
            passes = [rng.permutation(rows) for _ in range(-(-n // rows.size))]  # the last one is cut
            streams.append(np.concatenate(passes)[:n])
        for batch in range(len(self)):
            # Processes draw the same streams and take turns, so that no row is in two of their batches.
            position = batch * self.n_processes + self.rank
            parts = [
                stream[position * quota : (position + 1) * quota]
                for stream, quota in zip(streams, self.quotas, strict=True)
            ]
            yield np.concatenate(parts).tolist()


def _quotas(shares: Floats, batch_size: int, least: int) -> Ints:
    """Return members of each group in a batch: in proportion, but at least so many (largest remainders)."""
    quotas: Ints = np.full(shares.size, least, dtype=np.int64)
    free = batch_size - quotas.sum()
    # What is above the least is shared out by what each group lacks of its proportion.
    lacking = np.maximum(shares * batch_size - least, 0.0)
    wanted = lacking * (free / lacking.sum()) if lacking.sum() > 0 else shares * free
    quotas += np.floor(wanted).astype(np.int64)
    by_remainder = np.argsort(np.floor(wanted) - wanted, kind="stable")
    quotas[by_remainder[: batch_size - quotas.sum()]] += 1
    return quotas
