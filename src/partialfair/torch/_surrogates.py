"""Surrogates as torch functions: σ⁺ and σ⁻ of those of `constraints.surrogates`, and their slopes.

Both come as one tensor with a first axis of two, so that what is done to both is done once. Slopes at kinks
are those of the compiled loops, from below, so that both worlds take the same subgradient. Each operation is
a kernel that a GPU has to be told of, and at small batches telling takes longer than doing: formulas are
written with few of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid, Surrogate
from partialfair.exceptions import InputError


class Parts(nn.Module, ABC):
    """σ⁺ and σ⁻ as functions of ``u = shift + x / scale``, one shift for each.

    Constants stay on the device as a buffer: sending them would make every step wait.
    """

    shifts: Tensor

    def __init__(self, shifts: tuple[float, float], scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("shifts", torch.tensor(shifts, dtype=torch.float64)[:, None, None])

    def moved(self, x: Tensor) -> Tensor:
        """Return u of differences x, (2, *x.shape)."""
        return torch.add(self.shifts, x, alpha=1 / self.scale)

    @abstractmethod
    def values(self, u: Tensor) -> Tensor:
        """Return σ⁺ and σ⁻."""

    @abstractmethod
    def slopes(self, u: Tensor) -> Tensor:
        """Return subgradients of σ⁺ and σ⁻ in x."""


class _Ramp(Parts):
    """One hinge, ``max(u, 0)``, with kinks at −½ and ½."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__((0.5, -0.5), surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        return torch.relu(u)

    def slopes(self, u: Tensor) -> Tensor:
        return (u > 0).to(u.dtype) / self.scale


class _RoundedRamp(Parts):
    """``r t (2u − t)`` with ``t = clip(u, 0, 1)``: 0 up to u = 0, then r u², and ``r (2u − 1)`` from u = 1.

    The hinges at −½ and ½, each rounded over ±r, with ``u = (x / width ± ½ + r) / 2r``.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        self.rounding = RoundedRamp.rounding
        half = 0.5 / (2 * self.rounding)
        super().__init__((0.5 + half, 0.5 - half), 2 * self.rounding * surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        t = u.clamp(0, 1)
        return torch.sub(u, t, alpha=0.5) * t * (2 * self.rounding)

    def slopes(self, u: Tensor) -> Tensor:
        return u.clamp(0, 1) * (2 * self.rounding / self.scale)


class _Sigmoid(Parts):
    """``σ⁺ = σ`` up to 0 and its tangent ``½ + u/4`` beyond; ``σ⁻ = σ⁺ − σ``."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__((0.0, 0.0), surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        value = torch.sigmoid(u[0])
        plus = torch.where(u[0] > 0, 0.5 + u[0] / 4, value)
        return torch.stack([plus, plus - value])

    def slopes(self, u: Tensor) -> Tensor:
        value = torch.sigmoid(u[0])
        slope = value * (1 - value)
        plus = torch.where(u[0] > 0, torch.full_like(slope, 0.25), slope)
        return torch.stack([plus, plus - slope]) / self.scale


_KINDS: dict[type[Surrogate], type[_Ramp | _RoundedRamp | _Sigmoid]] = {
    Ramp: _Ramp,
    RoundedRamp: _RoundedRamp,
    Sigmoid: _Sigmoid,
}
"""A new surrogate is one class and one line."""


def parts_of(surrogate: Surrogate) -> Parts:
    """Return a surrogate's parts as torch functions."""
    if type(surrogate) not in _KINDS:
        names = ", ".join(kind.__name__ for kind in _KINDS)
        raise InputError(f"{type(surrogate).__name__} is not known to partialfair.torch, which has {names}")
    return _KINDS[type(surrogate)](surrogate)
