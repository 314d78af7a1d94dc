"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["as_options"]

_OPTIONS = (
    (r"\bmin_group_size=(\d+)", r"--min-group \1"),
    (r"\bmin_group_size\b", "--min-group"),
    (r"\bsmall_groups='(\w+)'", r"--small-groups \1"),
    (r"\bmissing_groups='(\w+)'", r"--missing-groups \1"),
    (r"\bgroup_terms='(\w+)'", r"--group-terms \1"),
    (r"\bgap_scale='(\w+)'", r"--gap-scale \1"),
    (r"\bmax_gap=([\d.e-]+)", r"a gap of \1"),
    (r"\bmax_gap (must lie in|\d)", r"--max-gap \1"),
    (r"\bmax_knots\b", "--max-knots"),
    (r"\bscore_range\b", "--score-range"),
    (r"\bconstraint_threshold\b", "--threshold"),
    (r"\braise max_gap, widen\b", "allow a wider gap, widen"),
    (r"\braise time_limit\b", "raise --time-limit"),
    (r"\badd smaller max_gaps\b", "add smaller --max-gaps"),
)
"""Parameters as the library's messages write them, and the options that set them."""


def as_options(message: str) -> str:
    """Return a message that names options where the library names parameters."""
    for parameter, option in _OPTIONS:
        message = re.sub(parameter, option, message)
    return message
