"""What a training of a network tells: a record for every epoch, and which of them the network is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partialfair._typing import ArrayLike, Floats
from partialfair.constraints import Constraint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ending", "EpochRecord", "Measures", "Training", "better", "measured"]

Ending = Literal["epochs", "patience", "callback", "nonfinite"]
"""All epochs were done; none got better for a while; the callback said so; the loss was no number."""

_SAME = 1e-9
"""By how much an exact gap may exceed what is allowed, for rounding."""


@dataclass(frozen=True)
class Measures:
    """A network on some rows.

    Attributes
    ----------
    loss, accuracy
        Means; who scores above 0 is selected.
    majority
        The accuracy of a constant.
    gaps
        The exact gap of each constraint, nan for one that bounds no metric, or where it is not defined.
    excess
        The most by which a gap exceeds what its constraint allows; nan if one is not defined.
    """

    loss: float
    accuracy: float
    majority: float
    gaps: tuple[float, ...]
    excess: float

    @property
    def kept(self) -> bool:
        """Whether all gaps are at most what their constraints allow; one that is not defined is not known."""
        return self.excess <= _SAME


def measured(
    scores: Floats, y: ArrayLike, groups: ArrayLike, constraints: Sequence[Constraint], loss: float
) -> Measures:
    """Judge scores by the exact metrics, as estimators are judged."""
    from partialfair.metrics._inputs import scored_groups
    from partialfair.named_constraints import record_of

    positive = np.asarray(y) == 1
    gaps = []
    for constraint in constraints:
        if (record := record_of(constraint)) is None:
            gaps.append(float("nan"))
            continue
        labels = positive if record.bounded.needs_labels else None
        scored = scored_groups(scores, groups, constraint.interval, positive=labels)
        gaps.append(record.gap(scored, constraint).value)
    judged = [(gap, one) for gap, one in zip(gaps, constraints, strict=True) if record_of(one) is not None]
    share = float(positive.mean())
    return Measures(
        loss,
        float(((scores > 0) == positive).mean()),
        max(share, 1 - share),
        tuple(gaps),
        float(np.max([gap - constraint.max_gap for gap, constraint in judged], initial=-np.inf)),
    )


@dataclass(frozen=True)
class EpochRecord:
    """One pass over the training rows.

    Attributes
    ----------
    epoch
        1, 2, ...
    seconds
        Since training began, earlier sessions of a resumed training included.
    loss
        Mean of f_0 over the pass.
    violation, multiplier
        The largest violation of a constraint's majorant, in shares of a group, and the largest multiplier.
    validation
        The network afterwards on rows held out, if there are any.
    """

    epoch: int
    seconds: float
    loss: float
    violation: float
    multiplier: float
    validation: Measures | None = None

    def flat(self) -> dict[str, float]:
        """Return it as one row of a table."""
        row = asdict(replace(self, validation=None))
        del row["validation"]
        if (held_out := self.validation) is not None:
            row |= {"validation_loss": held_out.loss, "validation_accuracy": held_out.accuracy}
            row |= {f"validation_gap_{k}": gap for k, gap in enumerate(held_out.gaps, start=1)}
            row["validation_kept"] = held_out.kept
        return row

    def __str__(self) -> str:
        """Say it in a line."""
        text = (
            f"epoch {self.epoch:>3}  {self.seconds:7.1f} s  loss {self.loss:.4f}  "
            f"violation {self.violation:+.3f}  multiplier {self.multiplier:.2f}"
        )
        if (held_out := self.validation) is not None:
            gaps = ", ".join(f"{gap:.3f}" for gap in held_out.gaps)
            text += f"  held out: accuracy {held_out.accuracy:.4f}, gap {gaps}"
        return text


@dataclass(frozen=True)
class Training:
    """How a training went.

    Attributes
    ----------
    history
        A record for every epoch.
    best
        The epoch whose weights the network has now: the last one, or with rows held out the most accurate of
        those that keep the constraints there; if none does, the one with the smallest gap.
    ended
        Why it ended.
    """

    history: tuple[EpochRecord, ...]
    best: EpochRecord
    ended: Ending

    @property
    def kept(self) -> bool | None:
        """Whether the network keeps its constraints on the rows held out; None if there are none."""
        return None if self.best.validation is None else self.best.validation.kept

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a table."""
        import pandas as pd

        return pd.DataFrame([record.flat() for record in self.history])

    def __str__(self) -> str:
        """Say what came of it, and what is wrong with it."""
        lines = [f"{len(self.history)} epochs ({self.ended}); the network is that of epoch {self.best.epoch}"]
        lines.append(str(self.best))
        if (held_out := self.best.validation) is not None:
            if not held_out.kept:
                lines.append("no epoch kept the constraints on the rows held out; this one is nearest")
            elif held_out.accuracy <= held_out.majority:
                lines.append("it is no more accurate than a constant: its scores may have collapsed")
        return "\n".join(lines)


def better(one: EpochRecord, other: EpochRecord | None) -> bool:
    """Return whether an epoch is better than another: kept before not, then accuracy, or the smallest gap."""
    return other is None or _rank(one) > _rank(other)


def _rank(record: EpochRecord) -> tuple[Any, ...]:
    held_out = record.validation
    if held_out is None:
        return (record.epoch,)
    excess = np.nan_to_num(held_out.excess, nan=np.inf)
    return (held_out.kept, held_out.accuracy if held_out.kept else -excess, -held_out.loss)
