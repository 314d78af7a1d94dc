"""Lists the methods that are compared; a new one is one class and one line, and it is in every figure."""

from __future__ import annotations

from partialfair_paper.beyond import BEYOND_METHODS
from partialfair_paper.by_the_paper import PAPER_METHODS
from partialfair_paper.engine import ENGINE_METHODS
from partialfair_paper.method import Method
from partialfair_paper.networks import NETWORK_METHODS
from partialfair_paper.others import OTHER_METHODS

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *ENGINE_METHODS,
        *PAPER_METHODS,
        *OTHER_METHODS,
        *BEYOND_METHODS,
        *NETWORK_METHODS,
    )
}
"""By name."""


def method_of(protocol: str, name: str) -> Method:
    """Return who solves a method's problem in a protocol: itself, where the paper has no trainer for it."""
    trainers = (one for one in METHODS.values() if one.protocol == protocol and one.solves == name)
    return next(trainers, METHODS[name])
