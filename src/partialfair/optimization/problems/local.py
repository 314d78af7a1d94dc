"""A problem near a point: what one step of a solver is made of."""

from __future__ import annotations

from dataclasses import dataclass

from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.models.limited import LimitedMemory
from partialfair.utils.typing import Floats

__all__ = ["Local"]


@dataclass(frozen=True, eq=False)
class Local:
    """A problem near a point, to first order, and its Lagrangian to second.

    Attributes
    ----------
    gradient : (n,)
        ``∇f_0(x)``.
    jacobian : (m, n)
        Elements of all ``∂f⁺_i(x) − ∂f⁻_i(x)``.
    convex, concave
        Hessians of ``f⁺_0 + Σ λ_i f⁺_i`` and of ``f⁻_0 + Σ λ_i f⁻_i``, smoothed over kinks; None if the
        latter is 0. A remembered Hessian, of their difference, stands in the place of the first.
    """

    gradient: Floats
    jacobian: Floats
    convex: ArrowMatrix | LimitedMemory
    concave: ArrowMatrix | None
