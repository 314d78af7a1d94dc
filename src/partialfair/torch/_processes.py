"""Several processes that train together, or one alone."""

from __future__ import annotations

import torch.distributed
from torch import Tensor


def n_processes() -> int:
    """Return how many processes train together."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of what all processes have: batches of equal size are then one batch."""
    if n_processes() == 1:
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / n_processes()
