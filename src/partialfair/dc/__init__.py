"""Difference-of-convex functions of score vectors and thresholds; sees no data and no model."""

from partialfair.dc.algebra import DC, Affine, DCSystem, Tangents, atom, maximum
from partialfair.dc.atoms import (
    AtomBank,
    AtomKinks,
    Curvature,
    Gradient,
    GroupMeans,
    JoinedBank,
    Moves,
    PullMany,
    flat,
    group_shares,
    pulled_one_by_one,
    without_kinks,
)
from partialfair.dc.checks import CheckFailed, check_convex, check_majorises, check_subgradient
from partialfair.dc.pairs import PairSums
from partialfair.dc.quadratic import QuadraticPairs

__all__ = [
    "DC",
    "Affine",
    "AtomBank",
    "AtomKinks",
    "CheckFailed",
    "Curvature",
    "DCSystem",
    "Gradient",
    "GroupMeans",
    "JoinedBank",
    "Moves",
    "PairSums",
    "PullMany",
    "QuadraticPairs",
    "Tangents",
    "atom",
    "check_convex",
    "check_majorises",
    "check_subgradient",
    "flat",
    "group_shares",
    "maximum",
    "pulled_one_by_one",
    "without_kinks",
]
