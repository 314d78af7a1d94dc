"""What solvers know of a model's parameters w."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from partialfair.utils.typing import Floats

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
    flat : (n,)
        Where all scores are 0: None where that is w = 0, as it is unless scores have an offset.
    level : (n,)
        A direction that raises all scores by 1, where there are no intercepts to do it and one is known.
    """

    n: int
    n_penalised: int
    block_size: int
    flat: Floats | None = field(default=None, compare=False)
    level: Floats | None = field(default=None, compare=False)

    @property
    def at_no_scores(self) -> Floats:
        """Where all scores are 0, to be written to."""
        return np.zeros(self.n) if self.flat is None else self.flat.copy()
