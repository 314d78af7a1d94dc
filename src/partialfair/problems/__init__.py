"""What is to be solved, as data with counted oracles; certificates of points and the theory's constants."""

from partialfair.problems.certificate import Certificate, certify
from partialfair.problems.constants import ProblemConstants, estimate_constants
from partialfair.problems.constrained import Evaluation, Problem, Subproblem
from partialfair.problems.domains import Ball, Box, Domain, WholeSpace

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "Domain",
    "Evaluation",
    "Problem",
    "ProblemConstants",
    "Subproblem",
    "WholeSpace",
    "certify",
    "estimate_constants",
]
