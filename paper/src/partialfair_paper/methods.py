"""Lists the methods of all comparisons; a new method is one class and one line, and is in every figure."""

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
"""Methods by name."""


def method_of(protocol: str, name: str) -> Method:
    """Return the method of a protocol that solves the problem of ``name``, by default ``name`` itself."""
    trainers = (one for one in METHODS.values() if one.protocol == protocol and one.solves == name)
    return next(trainers, METHODS[name])
