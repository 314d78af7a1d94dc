"""Surrogates as torch functions: σ⁺ and σ⁻ of those of `partialfair.surrogates`, and their slopes.

Slopes at kinks are those of the compiled loops, from below, so that both worlds take the same subgradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from partialfair.exceptions import InputError
from partialfair.surrogates import Ramp, RoundedRamp, Sigmoid, Surrogate

__all__ = ["parts_of", "slopes_of"]

Both: TypeAlias = tuple[Tensor, Tensor]
"""Of σ⁺ and of σ⁻."""


def parts_of(surrogate: Surrogate, x: Tensor) -> Both:
    """Return ``σ⁺(x)`` and ``σ⁻(x)``."""
    return _forms(surrogate)[0](x / surrogate.width)


def slopes_of(surrogate: Surrogate, x: Tensor) -> Both:
    """Return subgradients of σ⁺ and σ⁻ at x."""
    up, down = _forms(surrogate)[1](x / surrogate.width)
    return up / surrogate.width, down / surrogate.width


def _forms(surrogate: Surrogate) -> tuple[Callable[[Tensor], Both], Callable[[Tensor], Both]]:
    for kind, forms in _FORMS.items():
        if type(surrogate) is kind:
            return forms
    names = ", ".join(kind.__name__ for kind in _FORMS)
    raise InputError(f"{type(surrogate).__name__} is not known to partialfair.torch, which has {names}")


def _ramp(x: Tensor) -> Both:
    return torch.relu(x + 0.5), torch.relu(x - 0.5)


def _ramp_slopes(x: Tensor) -> Both:
    return (x > -0.5).to(x.dtype), (x > 0.5).to(x.dtype)


def _rounded_ramp(x: Tensor) -> Both:
    return _rounded_hinge(x + 0.5), _rounded_hinge(x - 0.5)


def _rounded_hinge(x: Tensor) -> Tensor:
    """``(x + r)² / 4r`` between −r and r: the integral of a slope that is clipped to [0, 1]."""
    r = RoundedRamp.rounding
    inside = x.clamp(-r, r)
    return (inside + r).square() / (4 * r) + torch.relu(x - r)


def _rounded_slopes(x: Tensor) -> Both:
    r = RoundedRamp.rounding
    up, down = (((x + shift + r) / (2 * r)).clamp(0, 1) for shift in (0.5, -0.5))
    return up, down


def _sigmoid(x: Tensor) -> Both:
    """``σ⁺ = σ`` up to 0 and its tangent ``½ + x/4`` beyond."""
    value = torch.sigmoid(x)
    plus = torch.where(x > 0, 0.5 + x / 4, value)
    return plus, plus - value


def _sigmoid_slopes(x: Tensor) -> Both:
    value = torch.sigmoid(x)
    slope = value * (1 - value)
    up = torch.where(x > 0, torch.full_like(x, 0.25), slope)
    return up, up - slope


_FORMS: dict[type[Surrogate], tuple[Callable[[Tensor], Both], Callable[[Tensor], Both]]] = {
    Ramp: (_ramp, _ramp_slopes),
    RoundedRamp: (_rounded_ramp, _rounded_slopes),
    Sigmoid: (_sigmoid, _sigmoid_slopes),
}
"""Values and slopes for width 1; a new surrogate is one line."""
