"""Difference-of-convex functions of score vectors and thresholds; sees no data and no model."""

from partialfair.dc.algebra import DC, Affine, DCSystem, Tangents, atom, maximum
from partialfair.dc.atoms import AtomBank, Gradient, GroupMeans, JoinedBank, PullMany, pulled_one_by_one
from partialfair.dc.checks import CheckFailed, check_convex, check_majorises, check_subgradient

__all__ = [
    "DC",
    "Affine",
    "AtomBank",
    "CheckFailed",
    "DCSystem",
    "Gradient",
    "GroupMeans",
    "JoinedBank",
    "PullMany",
    "Tangents",
    "atom",
    "check_convex",
    "check_majorises",
    "check_subgradient",
    "maximum",
    "pulled_one_by_one",
]
