"""What is to be solved, as questions to rows; certificates of points and the theory's constants."""

from partialfair.problems.certificate import Certificate, certify
from partialfair.problems.constants import ProblemConstants, estimate_constants
from partialfair.problems.constrained import Evaluation, Problem, ProblemPoint
from partialfair.problems.domains import Ball, Box, Domain, WholeSpace
from partialfair.problems.ranks import Counts, People, SortedRanks
from partialfair.problems.rows import (
    Ask,
    Gives,
    InMemoryData,
    InMemoryRows,
    Rows,
    ScoredRows,
    Shard,
    ShardRows,
    TrainingData,
)
from partialfair.problems.subproblem import Subproblem

__all__ = [
    "Ask",
    "Ball",
    "Box",
    "Certificate",
    "Counts",
    "Domain",
    "Evaluation",
    "Gives",
    "InMemoryData",
    "InMemoryRows",
    "People",
    "Problem",
    "ProblemConstants",
    "ProblemPoint",
    "Rows",
    "ScoredRows",
    "Shard",
    "ShardRows",
    "SortedRanks",
    "Subproblem",
    "TrainingData",
    "WholeSpace",
    "certify",
    "estimate_constants",
]
