"""Data files that are not the user's, and the real ones, as in the tests of other data sets."""

from tests.unit.datasets.conftest import cache, load_real

__all__ = ["cache", "load_real"]
