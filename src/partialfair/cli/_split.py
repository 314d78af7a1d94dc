"""Rows to train on and rows to judge by, and whether either part can do what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partialfair._typing import Floats, Ints
from partialfair.cli._intervals import AUTO, AskedInterval
from partialfair.cli._judging import ANYWHERE, Judging, on_judged
from partialfair.constraints import Constraint
from partialfair.estimators._base import PartialFairEstimator
from partialfair.estimators._promise import check_promises, promised
from partialfair.estimators._statement import Automatic
from partialfair.exceptions import InputError
from partialfair.groups import Groups
from partialfair.metrics.catalogue import check_judgeable

__all__ = ["Everybody", "HoldOut", "split_rows"]


@dataclass(frozen=True)
class HoldOut:
    """Share of the rows to hold out, and the option that asks for it."""

    option: str
    share: float
    seed: int


def split_rows(groups: Groups, positive: npt.NDArray[np.bool_], hold_out: HoldOut) -> dict[str, Ints]:
    """Hold out the same share of every group's positives and negatives."""
    if hold_out.share == 0:
        return {"training": np.arange(positive.size)}
    strata = 2 * groups.codes.astype(np.int64) + positive
    shuffled = np.random.default_rng(hold_out.seed).permutation(positive.size)
    held_out = np.zeros(positive.size, dtype=bool)
    for stratum in np.unique(strata):
        members = shuffled[strata[shuffled] == stratum]
        held_out[members[: round(hold_out.share * members.size)]] = True
    return {"training": np.flatnonzero(~held_out), "held out": np.flatnonzero(held_out)}


def _somewhere(stated: Constraint) -> Constraint:
    """Return the constraint with some interval of the width that "auto" chooses: sizes depend on no more."""
    return replace(stated, interval=ANYWHERE) if isinstance(stated.interval, Automatic) else stated


@dataclass(frozen=True, eq=False)
class Everybody:
    """All rows of a table as far as the split is concerned: groups, labels, weights, and who is where."""

    groups: Groups
    positive: npt.NDArray[np.bool_]
    weights: Floats | None
    weight_name: str | None
    split: dict[str, Ints]
    hold_out: HoldOut

    def counted(self, part: str) -> Ints:
        """Return the rows of a part that have weight."""
        rows = self.split[part]
        return rows if self.weights is None else rows[self.weights[rows] > 0]

    def check(self, interval: AskedInterval, metric: str, settings: Judging, *, group_terms: bool) -> None:
        """Refuse, before any fit, parts on which no model could be trained or no gap measured."""
        for part in self.split:
            rows = self.counted(part)
            groups = self.groups.take(rows)
            n_labels = len(np.unique(self.positive[rows]))
            if len(groups.labels) < 2 or n_labels < 2:
                lacking = "groups" if len(groups.labels) < 2 else "labels"
                where = f"{self.split[part].size:,} rows {'for training' if part == 'training' else part}"
                raise InputError(self._too_few(part, lacking, where))
        if "held out" not in self.split:
            return
        self._check_judged(interval, metric, settings)
        if group_terms:
            self._check_known()

    def _too_few(self, part: str, lacking: str, where: str) -> str:
        """Say what leaves fewer than two groups or labels: weights, or the split."""
        if self.counted(part).size < self.split[part].size:
            return f"column {self.weight_name!r} gives weight to fewer than two {lacking} in the {where}"
        option = f"{self.hold_out.option} {self.hold_out.share:g}"
        return f"{option} leaves fewer than two {lacking} in the {where}; change it"

    def check_promise(self, classifier: PartialFairEstimator) -> None:
        """Refuse, before any fit, rows for training that the constraints cannot be tied to."""
        rows = self.counted("training")
        weights = np.ones(rows.size) if self.weights is None else self.weights[rows]
        groups, positive = self.groups.take(rows), self.positive[rows]
        least = classifier.min_group_size
        check_promises(
            [
                promised(stated, groups, weights, positive, least)
                for stated in map(_somewhere, classifier._read_constraints())
            ]
        )

    def _check_judged(self, interval: AskedInterval, metric: str, settings: Judging) -> None:
        """Refuse rows held out among which fewer than two groups could be judged."""
        if settings.small_groups == "keep":
            return
        rows = self.counted("held out")
        groups = self.groups.take(rows)
        try:
            check_judgeable(
                groups,
                ANYWHERE if interval == AUTO else on_judged(interval, groups),
                metric=metric,
                positive=self.positive[rows],
                sample_weight=None if self.weights is None else self.weights[rows],
                min_group_size=settings.min_group_size,
                missing_groups=settings.missing_groups,
            )
        except InputError as error:
            raise InputError(
                f"of the {rows.size:,} rows held out: {error}; or raise {self.hold_out.option}"
            ) from error

    def _check_known(self) -> None:
        """Refuse groups that a model with a term for each group could not score."""
        known = self.groups.take(self.counted("training")).labels
        groups = self.groups.take(self.split["held out"])
        for label, name in zip(groups.labels, groups.names, strict=True):
            if label not in known:
                raise InputError(
                    f"no row of group {name!r} is left for training, and --group-terms needs some; lower "
                    f"{self.hold_out.option}"
                )
