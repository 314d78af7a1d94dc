"""Whether a gap is asked for that the training rows are too few to tell from 0.

Features enough bring a training gap below anything: what it then fits is who happens to be in the smallest
group. Beside 1,500 others, with 20 features, at ranks 5–30 % and with ``max_gap=0.05``, models had these gaps
among new people (three draws each; .55 without a constraint):

    members in the interval     15           30           60           125          250
    gap among new people        .1 to .5     .2 to .4     .2 to .4     .1 to .3     .2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partialfair._checks import shown
from partialfair.estimators._promise import Promise
from partialfair.exceptions import OverfittedGapWarning
from partialfair.groups import members_text
from partialfair.metrics.catalogue import METRICS
from partialfair.named_constraints import record_of
from partialfair.problems import Cells
from partialfair.theory import required_size, smallest_gap

__all__ = ["TOO_FEW_SHARE", "overfitted_gap_warning"]

TOO_FEW_SHARE = 1 / 200
"""A ``max_gap`` is far below what people can show who are less than this share of those it would take.

The default of .05 then asks for 48 members at ranks 5–30 %; with fewer, models in the table above have gaps
up to that of the model without a constraint. A model without any gap in truth never shows one so small in so
small a sample, so whatever reaches it has fitted the sample. With more people a promise may still be stricter
than they can show, and users may well want that: it says the less of new people the stricter it is.
"""


def overfitted_gap_warning(promises: Sequence[Promise], cells: Cells) -> OverfittedGapWarning | None:
    """Name the first promise that is far narrower than its smallest group can show; None if there is none."""
    for promise in promises:
        constraint, groups = promise.constraint, promise.groups
        record = record_of(constraint)
        # The formula is about shares of people; means over pairs, with gaps up to ½, are known better.
        if record is None or METRICS[record.metric].largest != 1 or constraint.largest_gap != 1:
            continue
        members = constraint.effective_members(groups, cells.weights, cells.positive, cells.squares)
        fewest = int(np.argmin(members))
        part = constraint.intervals(groups)[fewest]
        n = float(members[fewest]) / part.measure
        where: dict[str, Any] = {"interval": part.parts, "gap_scale": constraint.gap_scale}
        if n < TOO_FEW_SHARE * required_size(constraint.kappa, **where):
            gap = smallest_gap(n, **where)
            return OverfittedGapWarning(
                f"max_gap={constraint.max_gap:g} is far below {gap:.2g}, the smallest gap that the "
                f"{members_text(float(members[fewest]))} effective {constraint.counted} of group "
                f"{shown(groups.names[fewest], 60)} in the interval can tell from 0: expect a much wider gap "
                "among new people; raise max_gap, widen the interval or add rows, and look at rows held out"
            )
    return None
