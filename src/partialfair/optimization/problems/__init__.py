"""Problems, as reductions over rows of data; KKT certificates of points and the theory's constants."""

from partialfair.optimization.problems.certificate import Certificate, certify
from partialfair.optimization.problems.constrained import PointValues, Problem, ProblemPoint
from partialfair.optimization.problems.domains import Ball, Box, Domain, WholeSpace
from partialfair.optimization.problems.ranks import Cells, Counts, SortedRanks, WeightedScores
from partialfair.optimization.problems.rows import (
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
from partialfair.optimization.problems.subproblem import ProblemConstants, Subproblem, estimate_constants

__all__ = [
    "Ball",
    "Box",
    "Capability",
    "Cells",
    "Certificate",
    "Counts",
    "Domain",
    "InMemoryData",
    "InMemoryRows",
    "PointValues",
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
