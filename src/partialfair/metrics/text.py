"""Numbers as people read them: terminal and page write them alike (`fixed` in numbers.js has these rules)."""

from __future__ import annotations

__all__ = ["fixed", "percent"]

_SURE_DECIMALS = 12
"""The page computes gaps in another order, so that later digits may differ: they must not decide."""


def fixed(value: float, digits: int = 3) -> str:
    """Write a number with so many decimals; 0.4065 is 0.4065 whichever way it was computed."""
    return f"{round(float(value), _SURE_DECIMALS) + 0.0:.{digits}f}"  # + 0.0: no minus before zero


def percent(share: float, digits: int = 1) -> str:
    """Write a share in percents."""
    return f"{fixed(100 * share, digits)} %"
