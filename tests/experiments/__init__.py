"""Experiments as records."""
