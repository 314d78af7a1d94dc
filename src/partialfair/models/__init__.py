"""Models as two functions: scores of parameters, and vector-Jacobian products."""

from partialfair.models.linear import GroupTerms, LinearModel, linear_model

__all__ = ["GroupTerms", "LinearModel", "linear_model"]
