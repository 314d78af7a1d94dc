"""Difference-of-convex functions of score vectors and thresholds: formulas that own no rows and no model."""

from partialfair._row_columns import RowColumns
from partialfair.dc.algebra import DC, Affine, DCSystem, Tangents, Ties, atom, maximum
from partialfair.dc.bank import (
    AtomBank,
    AtomKinks,
    BankMembers,
    Bending,
    Gradient,
    Interacting,
    Interaction,
    Moves,
)
from partialfair.dc.checks import (
    CheckFailed,
    check_additive,
    check_columns,
    check_convex,
    check_majorises,
    check_subgradient,
)
from partialfair.dc.group_means import GroupMeans
from partialfair.dc.joined import JoinedBank
from partialfair.dc.pairs import PairSums

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
    "Moves",
    "PairSums",
    "RowColumns",
    "Tangents",
    "Ties",
    "atom",
    "check_additive",
    "check_columns",
    "check_convex",
    "check_majorises",
    "check_subgradient",
    "maximum",
]
