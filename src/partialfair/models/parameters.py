"""What solvers know of a model's parameters w."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Parameters"]


@dataclass(frozen=True)
class Parameters:
    """How long w is, and how it is divided.

    Attributes
    ----------
    n
        Length of w.
    n_penalised
        Leading entries that the ℓ2 penalty acts on; the rest are intercepts.
    block_size
        Size of the largest block of a Hessian: what factoring one costs.
    """

    n: int
    n_penalised: int
    block_size: int
