"""Partial fairness for PyTorch: the constraints on tensors, and a hook for any training loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partialfair.utils.extras import require

if TYPE_CHECKING:
    from partialfair.torch.batches import GroupBatchSampler, IndexedDataset
    from partialfair.torch.fairness import PartialFairness
    from partialfair.torch.functions import ScoreConstraints
    from partialfair.torch.head import refit_head

__all__ = [
    "GroupBatchSampler",
    "IndexedDataset",
    "PartialFairness",
    "ScoreConstraints",
    "refit_head",
]

_HOME_OF = {
    "GroupBatchSampler": "batches",
    "IndexedDataset": "batches",
    "PartialFairness": "fairness",
    "ScoreConstraints": "functions",
    "refit_head": "head",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'partialfair.torch' has no attribute {name!r}")
    require("torch", extra="torch", purpose="partialfair.torch")  # otherwise the error would name a submodule
    return getattr(importlib.import_module(f"partialfair.torch.{_HOME_OF[name]}"), name)
