"""Equal opportunity and equalized odds: parity of selected shares among people with the same label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from partialfair.constraints.base import Positive
from partialfair.constraints.block import ConstraintBlock, join
from partialfair.constraints.parity import AtThreshold
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import LABEL_KINDS, Groups
from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

__all__ = ["EqualOpportunity", "EqualizedOdds"]


@dataclass(frozen=True)
class _ByLabel(AtThreshold):
    """Parity of the shares selected at a threshold, among the members with some labels, label by label."""

    labels: ClassVar[tuple[bool, ...]]

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return the rows of each label that counts."""
        if positive is None:
            raise InputError(f"{self.called} compares members with the same label, so it needs labels")
        return tuple(positive == label for label in self.labels)

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """One function per ordered pair of groups and label."""
        return join(
            [
                self.bound(groups, np.where(rows, weights, 0.0), surrogate, f" {LABEL_KINDS[label]}")
                for label, rows in zip(self.labels, self.compared(positive), strict=True)
            ]
        )


@dataclass(frozen=True)
class EqualOpportunity(_ByLabel):
    """Partial equal opportunity (pEOP) at one threshold (inprocess_peop_approx).

    `DemographicParity` among the positives: ``P_k − P_k' ≤ κ`` with M_k the mean of σ over the positives of
    group k. Ranks are thus counted within the positives of each group, as in
    ``partial_equal_opportunity_difference(..., rank_within="group_and_label")``, and not within the whole
    group as in the definition of the metric.

    Parameters
    ----------
    interval, max_gap, gap_scale, threshold
        As in `DemographicParity`.
    """

    called: ClassVar[str] = "equal opportunity"
    counted: ClassVar[str] = "positives"
    labels: ClassVar[tuple[bool, ...]] = (True,)


@dataclass(frozen=True)
class EqualizedOdds(_ByLabel):
    """Partial equalized odds (pEOD) at one threshold (inprocess_peod_approx).

    `EqualOpportunity` among the positives and likewise among the negatives. The paper's maximum over the two
    labels is at most κ if and only if both are: here they are functions of their own, each with its own
    linearisation.

    Parameters
    ----------
    interval, max_gap, gap_scale, threshold
        As in `DemographicParity`.
    """

    called: ClassVar[str] = "equalized odds"
    counted: ClassVar[str] = "positives or negatives"
    labels: ClassVar[tuple[bool, ...]] = (True, False)
