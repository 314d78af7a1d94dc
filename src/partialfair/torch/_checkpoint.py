"""Checkpoints: everything that the next step of a training depends on, in one file that is safe to open."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed

from partialfair._files import write_file
from partialfair.exceptions import InputError
from partialfair.torch._processes import n_processes, rank

__all__ = ["random_state", "read_checkpoint", "set_random_state", "write_checkpoint"]

FORMAT = 1


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all."""
    packed = io.BytesIO()
    torch.save({"format": FORMAT, **content}, packed)
    write_file(path, packed.getvalue())


def read_checkpoint(path: Path, purpose: Mapping[str, str]) -> dict[str, Any]:
    """Return what was written, refusing what is damaged or of another training.

    Parameters
    ----------
    path
        The file; only numbers, texts and tensors are read from it, nothing is run.
    purpose
        What this training is, by name; the file's must be the same.
    """
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        written, stated = content["format"], content["purpose"]
    except Exception as error:
        reason = str(error).splitlines()[0][:120]
        raise InputError(f"{path} is no checkpoint that can be read ({reason})") from None
    if written != FORMAT:
        raise InputError(f"{path} is a checkpoint of format {written}, and this reads format {FORMAT}")
    for name, value in purpose.items():
        if stated.get(name) != value:
            raise InputError(
                f"{path} is of another training: its {name} is {stated.get(name)}, and here it is {value}"
            )
    return content


def random_state(loader: Any) -> list[dict[str, Any]]:
    """Return the state of every generator that training draws from, a state for each process."""
    # Loaders and transforms of users may draw from NumPy's global generator.
    kind, words, *place = np.random.get_state()  # noqa: NPY002
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(words, dtype=np.int64)), *place),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "loader": {name: generator.get_state() for name, generator in _generators(loader).items()},
    }
    if n_processes() == 1:
        return [state]
    states: list[Any] = [None] * n_processes()
    torch.distributed.all_gather_object(states, state)
    return states


def set_random_state(states: list[dict[str, Any]], loader: Any) -> None:
    """Go on where every generator was."""
    if len(states) != n_processes():
        raise InputError(f"the checkpoint is of {len(states)} processes, and these are {n_processes()}")
    state = states[rank()]
    kind, words, *place = state["numpy"]
    random.setstate(state["python"])
    np.random.set_state((kind, words.numpy().astype(np.uint32), *place))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    for name, generator in _generators(loader).items():
        generator.set_state(state["loader"][name])


def _generators(loader: Any) -> dict[str, torch.Generator]:
    """Return the generators of a loader and its samplers, by where they are."""
    owners = {"loader": loader}
    owners |= {name: getattr(loader, name, None) for name in ("sampler", "batch_sampler")}
    owners["inner"] = getattr(owners["batch_sampler"], "sampler", None)
    found = {name: getattr(owner, "generator", None) for name, owner in owners.items()}
    return {name: one for name, one in found.items() if isinstance(one, torch.Generator)}
