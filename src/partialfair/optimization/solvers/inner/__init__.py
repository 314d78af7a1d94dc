"""Solvers of IDCA's convex subproblem."""
