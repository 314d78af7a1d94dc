"""What an adjustment achieved, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from partialfair.data.groups import group_name
from partialfair.data.intervals import RANK_TOLERANCE
from partialfair.metrics.calibration import CalibrationByGroup
from partialfair.metrics.partial import WorstGap
from partialfair.utils.text import listed
from partialfair.utils.typing import GroupLabel

__all__ = ["Adjustment"]

_NOTICED = 0.005
"""By how much calibration must suffer to be told: less is within what labels of some thousands can show."""


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What fitting a `PartialParityAdjuster` achieved, on the rows that it was fitted on.

    Attributes
    ----------
    constraint, max_gap, gap_scale
        What was asked for.
    worst, worst_before
        The exact gap of the new scores and of the old ones, with the pair of groups, and the score and ranks
        at which they differ, as `partialfair.metrics` measures them.
    floor
        ``max ½ (b_k + b_j)`` over pairs of groups, b being the largest share of a group's interval on one
        score: the gap that scores without new ties can always reach. A sufficient condition: on discrete
        scores ``gap`` may be smaller. 0 for demographic parity.
    mean_squared_change
        ``Σ w (s' − s)² / Σ w`` over everybody.
    largest_change
        The largest ``|s' − s|``.
    moved_share
        Share of the weight whose scores moved by more than 1e-6 of the spread of all scores.
    n_moved_outside
        Rows outside the interval that moved so far, because the order forces them to.
    n_knots
        Rows of the table.
    is_exact
        Whether no change of scores that keeps the promise is smaller. False where ``max_knots`` is fewer than
        a group's distinct scores: then none among maps with about so many knots, up to a knot's share.
    small_groups
        Groups with too few members in the interval: their scores stay, and nothing is promised of them.
    calibration, calibration_before
        What scores mean in each group, after and before; None unless y was given and has two classes.
    """

    constraint: str
    max_gap: float
    gap_scale: str
    worst: WorstGap
    worst_before: WorstGap
    floor: float
    mean_squared_change: float
    largest_change: float
    moved_share: float
    n_moved_outside: int
    n_knots: int
    is_exact: bool
    small_groups: tuple[GroupLabel, ...] = ()
    calibration: CalibrationByGroup | None = None
    calibration_before: CalibrationByGroup | None = None

    @property
    def gap(self) -> float:
        """The exact gap of the new scores."""
        return self.worst.value

    @property
    def gap_before(self) -> float:
        """The exact gap of the old scores."""
        return self.worst_before.value

    @property
    def satisfied(self) -> bool:
        """Whether the gap is at most ``max_gap``."""
        return self.gap <= self.max_gap + RANK_TOLERANCE

    @property
    def calibration_sentence(self) -> str:
        """Whom calibration suffers for most, in words; empty without labels."""
        if self.calibration is None or self.calibration_before is None:
            return ""
        pairs = list(zip(self.calibration_before.groups, self.calibration.groups, strict=True))
        probabilities = all(old.error == old.error and new.error == new.error for old, new in pairs)
        what = "error" if probabilities else "difference"
        kind = "calibration error" if probabilities else "distance from what scores mean in all groups"
        old, new = max(pairs, key=lambda pair: getattr(pair[1], what) - getattr(pair[0], what))
        before, after = getattr(old, what), getattr(new, what)
        if after - before <= _NOTICED:
            return f"calibration does not suffer: no group's {kind} grows by more than {_NOTICED:g}"
        return (
            f"calibration suffers: the {kind} of group {group_name(new.group)!r} grows from {before:.3f} to "
            f"{after:.3f}"
        )

    def __str__(self) -> str:
        pair = " and ".join(map(group_name, self.worst.groups))
        lines = [
            f"{self.constraint}: exact gap {self.gap_before:.4g} before and {self.gap:.4g} after (max_gap "
            f"{self.max_gap:g}, always attainable {self.floor:.2g}), between {pair}",
            f"mean squared change {self.mean_squared_change:.4g}, largest change {self.largest_change:.4g}; "
            f"{100 * self.moved_share:.1f} % moved, {self.n_moved_outside:,} of them outside the interval",
            "new scores depend on the group: scoring needs it, which may be unlawful where you are",
        ]
        if self.calibration_sentence:
            lines.append(self.calibration_sentence)
        if self.small_groups:
            lines.append(f"too few to judge, and left: {listed([group_name(x) for x in self.small_groups])}")
        return "\n".join(lines)
