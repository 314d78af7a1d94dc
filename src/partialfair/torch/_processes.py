"""Several processes that train together, or one alone."""

from __future__ import annotations

import torch.distributed
from torch import Tensor

__all__ = ["is_first", "mean_over_processes", "n_processes", "rank"]


def n_processes() -> int:
    """Return how many processes train together."""
    return torch.distributed.get_world_size() if _are_together() else 1


def rank() -> int:
    """Return which of them this is."""
    return torch.distributed.get_rank() if _are_together() else 0


def is_first() -> bool:
    """Return whether this process writes files and talks."""
    return rank() == 0


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of what all processes have: batches of equal size are then one batch."""
    if n_processes() == 1:
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / n_processes()


def _are_together() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
