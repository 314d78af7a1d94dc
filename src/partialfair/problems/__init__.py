"""What is to be solved, as data with counted oracles."""

from partialfair.problems.constrained import Evaluation, Problem, Subproblem
from partialfair.problems.domains import Ball, Box, Domain, WholeSpace

__all__ = ["Ball", "Box", "Domain", "Evaluation", "Problem", "Subproblem", "WholeSpace"]
