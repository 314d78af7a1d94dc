"""What is to be solved, as data with counted oracles, and the certificate of any point."""

from partialfair.problems.certificate import Certificate, certify
from partialfair.problems.constrained import Evaluation, Problem, Subproblem
from partialfair.problems.domains import Ball, Box, Domain, WholeSpace

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "Domain",
    "Evaluation",
    "Problem",
    "Subproblem",
    "WholeSpace",
    "certify",
]
