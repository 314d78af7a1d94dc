"""A constraint and a metric that the library does not know: demographic parity, counted in percents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar
from unittest.mock import patch

from partialfair.constraints import DemographicParity
from partialfair.metrics.catalogue import METRICS, Metric
from partialfair.metrics.differences import demographic_parity
from partialfair.metrics.partial import demographic_parity_gap
from partialfair.training.named_constraints import NAMED_CONSTRAINTS, NamedConstraint, register_constraint

__all__ = ["NAME", "TITLE", "PercentParity", "registered"]

NAME, TITLE = "percent_parity", "difference of percents selected"


@dataclass(frozen=True)
class PercentParity(DemographicParity):
    """``100 pDP ≤ max_gap``."""

    largest_gap: ClassVar[float] = float("inf")

    def build(self, groups, weights, surrogate, positive=None):
        as_share = DemographicParity(self.interval, self.max_gap / 100, self.gap_scale, self.threshold)
        return as_share.build(groups, weights, surrogate, positive)


def gap(scored, setting):
    as_share = demographic_parity_gap(scored, setting)
    return replace(as_share, value=100 * as_share.value)


def differences(resamples, setting):
    as_shares = demographic_parity(resamples, setting)

    def fill(chosen, block):
        starts = as_shares.fill(chosen, block)
        block *= 100
        return starts

    return replace(as_shares, fill=fill)


METRIC = Metric(TITLE, gap, differences, needs_threshold=True, largest=float("inf"))
RECORD = NamedConstraint(NAME, PercentParity, metric=NAME)


@contextmanager
def registered() -> Iterator[None]:
    """Register both, as a user of the library does, and forget them again."""
    with patch.dict(METRICS, {NAME: METRIC}), patch.dict(NAMED_CONSTRAINTS):
        register_constraint(RECORD)
        yield
