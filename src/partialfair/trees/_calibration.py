"""Calibration by group with one set of leaf values after the other, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from partialfair.metrics.calibration import calibration_by_group
from partialfair.trees.refitting import LeafValues
from partialfair.utils.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["calibrations"]


def calibrations(values: Mapping[str, LeafValues], X: Any, y: ArrayLike, **settings: Any) -> pd.DataFrame:
    """Return `calibration_by_group` of each one's probabilities, with its name behind those of the columns.

    Parameters
    ----------
    values
        Leaf values by name.
    X, y, settings
        Rows, and what else `calibration_by_group` takes.
    """
    tables = {
        name: calibration_by_group(y, own.probabilities(own.scores(X)), **settings).to_frame()
        for name, own in values.items()
    }
    first = next(iter(tables.values()))
    return first[[]].assign(**{f"{what}_{name}": tables[name][what] for what in first for name in tables})
