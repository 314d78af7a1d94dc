"""Problems as reductions over rows of data; KKT certificates of points, and the constants of Theorem 6.5."""

from partialfair.optimization.problems.certificate import Certificate, certify
from partialfair.optimization.problems.constants import ProblemConstants, estimate_constants
from partialfair.optimization.problems.constrained import PointValues, Problem, ProblemPoint
from partialfair.optimization.problems.domains import EVERYWHERE, Ball, Box, Domain
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
from partialfair.optimization.problems.subproblem import Subproblem

__all__ = [
    "EVERYWHERE",
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
    "certify",
    "estimate_constants",
]
