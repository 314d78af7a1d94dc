"""Hessians of a Lagrangian that are computed now and then, or never; steps in between correct them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.models.limited import AbsoluteHessian, LimitedMemory
from partialfair.optimization.problems.constrained import ProblemPoint
from partialfair.optimization.problems.local import Local
from partialfair.utils.typing import Floats

__all__ = ["RememberedHessian"]


@dataclass(eq=False)
class RememberedHessian:
    """What is remembered from one point to the next.

    Parameters
    ----------
    memory
        The Hessian, with the steps that correct it.
    renewed_after
        Steps after which it is computed anew; None if it never is.
    age
        Points looked at so far.
    before
        The last of them, and the problem near it.
    """

    memory: LimitedMemory
    renewed_after: int | None = None
    age: int = 0
    before: tuple[Floats, Local] | None = None

    def elsewhere(self) -> RememberedHessian:
        """Return what is worth remembering at a point of another problem like the last one."""
        return replace(self, age=0, before=None)

    def expand(self, at: ProblemPoint, multipliers: Floats) -> Local:
        """Return the problem near the next point, with a Hessian that knows of the step that led there."""
        if self.renewed_after is not None and self.age % self.renewed_after == 0:
            local = at.expand_net(multipliers)
            assert isinstance(local.convex, ArrowMatrix)
            self.memory = LimitedMemory.start(AbsoluteHessian.of(local.convex), at.x.size)
        else:
            local = at.expand_first(self.memory)
            if self.before is not None:
                x, earlier = self.before
                changes = multipliers @ (local.jacobian - earlier.jacobian)
                self.memory = self.memory.updated(at.x - x, local.gradient - earlier.gradient + changes)
        self.age += 1
        self.before = at.x, local
        return replace(local, convex=self.memory)
