"""Work on a GPU that is recorded once and replayed: launching small kernels takes longer than they do.

Recorded kernels read and write the same memory each time, so inputs are copied to where they were when they
were recorded, and what is written elsewhere (buffers of modules) must stay where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Work: TypeAlias = Callable[[Sequence[Tensor | None]], tuple[Tensor, ...]]

_MOST = 4
"""Records that are kept: batches have one shape, and another at the end of a pass."""


@dataclass(frozen=True, eq=False)
class _Record:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor | None]
    outputs: tuple[Tensor, ...]


class Replays:
    """CUDA graphs of one function of tensors, one for each shape of its inputs.

    Copies, also those that are pickled, begin without any: graphs belong to the memory of one module.
    """

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}

    def __deepcopy__(self, memo: Any) -> Replays:
        return Replays()

    def __getstate__(self) -> dict[str, Any]:
        return {"_records": {}}

    def __call__(self, work: Work, inputs: Sequence[Tensor | None], place: Hashable) -> tuple[Tensor, ...]:
        """Return what the work returns for some inputs; it is overwritten by the next call.

        Parameters
        ----------
        work
            Kernels only: nothing of it may wait for the device or depend on numbers of the host that change.
        inputs
            On a GPU, without derivatives.
        place
            Where the memory is that the work reads and writes besides; elsewhere it is recorded anew.
        """
        key = (place, *(None if one is None else (one.shape, one.dtype) for one in inputs))
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= _MOST:
                return work(inputs)
            record = self._records[key] = _recorded(work, inputs)
        for held, given in zip(record.inputs, inputs, strict=True):
            if held is not None and given is not None:
                held.copy_(given)
        record.graph.replay()
        return record.outputs


def _recorded(work: Work, inputs: Sequence[Tensor | None]) -> _Record:
    """Record the work; nothing of it is done yet."""
    held = [None if one is None else one.clone() for one in inputs]
    graph = torch.cuda.CUDAGraph()
    # Other threads, such as a loader's, may go on with what they do.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = work(held)
    return _Record(graph, held, outputs)
