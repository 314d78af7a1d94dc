"""What a training is given, batch by batch: checked, taken apart, and brought to the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from partialfair._checks import shown
from partialfair._typing import ArrayLike
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.torch.batches import Indexed

__all__ = ["Batches", "as_tensor", "check_length", "check_validation", "moved", "unpacked"]


class Batches(Protocol):
    """A loader: batches of (inputs, labels, rows), as many in every pass."""

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


def check_validation(validation: Any) -> None:
    """Refuse, before any work, rows on which no epoch, or only the first, could be judged."""
    if validation is None:
        return
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise InputError("validation must be a pair: batches of rows held out, and their groups")
    batches, groups = validation
    if not isinstance(batches, Iterable):
        raise InputError(f"validation must begin with batches, not {shown(batches)}")
    if isinstance(batches, Iterator):
        raise InputError("validation is gone after one epoch: give a loader or a list, not an iterator")
    check_length(batches, groups, "rows held out")
    if len(labels := encode_groups(groups).labels) < 2:
        raise InputError(f"all rows held out are of group {labels[0]!r}; a gap needs at least two groups")


def check_length(batches: Any, groups: ArrayLike, name: str) -> None:
    """Refuse groups of other rows, where the loader tells how many it has."""
    data, n_groups = getattr(batches, "dataset", None), encode_groups(groups).codes.size
    if isinstance(data, Indexed) and len(data) != n_groups:
        raise InputError(f"there are {len(data)} {name}, and groups of {n_groups}")


def unpacked(batch: Any) -> tuple[Any, Any, Any]:
    """Return inputs, labels and rows of a batch."""
    if not isinstance(batch, list | tuple) or len(batch) != 3:
        raise InputError("batches must be (inputs, labels, rows): wrap the data set in Indexed")
    inputs, y, rows = batch
    return inputs, y, rows


def as_tensor(values: Any, name: str) -> Tensor:
    """Return values of a batch as a tensor, or a complaint that names them."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.empty(())
    if tensor.is_nested or tensor.ndim == 0:
        raise InputError(f"{name} of a batch must be a vector of numbers, not {shown(values)}")
    return tensor


def moved(inputs: Any, device: torch.device) -> Any:
    """Return inputs on the device: a tensor, or tensors in lists, tuples and dicts."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, dict):
        return {name: moved(one, device) for name, one in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(moved(one, device) for one in inputs)
    return inputs
