"""Problems, as reductions over rows of data; certificates of points and the theory's constants."""

from partialfair.problems.certificate import Certificate, certify
from partialfair.problems.constants import ProblemConstants, estimate_constants
from partialfair.problems.constrained import Evaluation, Problem, ProblemPoint
from partialfair.problems.domains import Ball, Box, Domain, WholeSpace
from partialfair.problems.ranks import Cells, Counts, SortedRanks, WeightedScores
from partialfair.problems.rows import (
    Capability,
    InMemoryData,
    InMemoryRows,
    Reduction,
    Rows,
    ScoredRows,
    Shard,
    ShardRows,
    TrainingData,
)
from partialfair.problems.subproblem import Subproblem

__all__ = [
    "Ball",
    "Box",
    "Capability",
    "Cells",
    "Certificate",
    "Counts",
    "Domain",
    "Evaluation",
    "InMemoryData",
    "InMemoryRows",
    "Problem",
    "ProblemConstants",
    "ProblemPoint",
    "Reduction",
    "Rows",
    "ScoredRows",
    "Shard",
    "ShardRows",
    "SortedRanks",
    "Subproblem",
    "TrainingData",
    "WeightedScores",
    "WholeSpace",
    "certify",
    "estimate_constants",
]
