"""Difference-of-convex functions of score vectors and thresholds: formulas without rows or models."""

from partialfair.constraints.dc.algebra import DC, Affine, DCSystem, Slopes, atom, maximum
from partialfair.constraints.dc.bank import (
    AtomBank,
    AtomKinks,
    BankMembers,
    Bending,
    Gradient,
    Interacting,
    Interaction,
    JoinedBank,
)
from partialfair.constraints.dc.checks import (
    CheckFailed,
    check_additive,
    check_columns,
    check_convex,
    check_majorises,
    check_subgradient,
)
from partialfair.constraints.dc.group_means import GroupMeans
from partialfair.constraints.dc.pairs import PairSums
from partialfair.constraints.dc.row_columns import RowColumns

__all__ = [
    "DC",
    "Affine",
    "AtomBank",
    "AtomKinks",
    "BankMembers",
    "Bending",
    "CheckFailed",
    "DCSystem",
    "Gradient",
    "GroupMeans",
    "Interacting",
    "Interaction",
    "JoinedBank",
    "PairSums",
    "RowColumns",
    "Slopes",
    "atom",
    "check_additive",
    "check_columns",
    "check_convex",
    "check_majorises",
    "check_subgradient",
    "maximum",
]
