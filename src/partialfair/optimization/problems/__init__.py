"""Problems, as reductions over rows of data; and KKT certificates of points."""

from partialfair.optimization.problems.certificate import Certificate, certify
from partialfair.optimization.problems.constrained import PointValues, Problem, ProblemPoint
from partialfair.optimization.problems.domains import EVERYWHERE, Box
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
    "Box",
    "Capability",
    "Cells",
    "Certificate",
    "Counts",
    "InMemoryData",
    "InMemoryRows",
    "PointValues",
    "Problem",
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
]
