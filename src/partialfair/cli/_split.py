"""Rows to train on and rows to judge by, and whether either part can do what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from partialfair.cli._intervals import AUTO, AskedInterval
from partialfair.cli._judging import ANYWHERE, Judging, on_judged
from partialfair.constraints import Constraint
from partialfair.data.groups import Groups
from partialfair.data.samples import draw_folds, draw_rows, strata_of
from partialfair.estimators.base import PartialFairEstimator
from partialfair.exceptions import InputError
from partialfair.metrics.evaluation import check_comparable
from partialfair.optimization.problems import Cells
from partialfair.training.placing import Automatic
from partialfair.training.promise import check_promises, promised
from partialfair.utils.typing import Floats, Ints

__all__ = ["OUT_OF_FOLD", "Everybody", "HoldOut", "split_rows"]


OUT_OF_FOLD: Literal["out of fold"] = "out of fold"
"""The part of the rows that is judged with ``--cv``: all of them."""


CHOSEN_ON_ALL_ROWS = (
    "the interval was chosen for its wide gap on all rows, those that models are judged on among them: the "
    "gap without a constraint looks a little too wide there"
)
"""What ``--interval auto`` means for gaps out of fold."""


@dataclass(frozen=True)
class HoldOut:
    """Share of the rows to hold out and the option that asks for it, or the number of folds."""

    option: str
    share: float
    seed: int
    n_folds: int | None = None

    @classmethod
    def asked(cls, option: str, share: float, seed: int, cv: int | None) -> HoldOut:
        """Hold out a share of the rows, or with ``--cv`` all of them in turn."""
        return cls(option, share, seed) if cv is None else cls("--cv", 0.0, seed, cv)

    def fold_of_rows(
        self, groups: Groups, positive: npt.NDArray[np.bool_], clusters: Ints | None
    ) -> Ints | None:
        """Return the fold of every row, each with the same share of every group's positives and negatives."""
        if self.n_folds is None:
            return None
        return draw_folds(
            strata_of(groups.codes, positive.astype(np.int64)), self.n_folds, self.seed, clusters
        )


def split_rows(
    groups: Groups, positive: npt.NDArray[np.bool_], hold_out: HoldOut, clusters: Ints | None
) -> dict[str, Ints]:
    """Hold out the same share of every group's positives and negatives, or nobody where there are folds."""
    everybody = np.arange(positive.size)
    if hold_out.n_folds is not None:
        return {"training": everybody, OUT_OF_FOLD: everybody}
    if hold_out.share == 0:
        return {"training": everybody}
    held_out = draw_rows(
        strata_of(groups.codes, positive.astype(np.int64)), hold_out.share, hold_out.seed, clusters
    )
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
    clusters: Ints | None
    folds: Ints | None

    @property
    def judged(self) -> str | None:
        """The part on which models are judged that have not seen it; None if there is none."""
        return next((part for part in self.split if part != "training"), None)

    @property
    def trained_on(self) -> list[Ints]:
        """Rows that a model is trained on: once, and again without every fold."""
        everybody = self.counted("training")
        if self.folds is None:
            return [everybody]
        without = [everybody[self.folds[everybody] != fold] for fold in np.unique(self.folds)]
        return [everybody, *without]

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
        self._check_folds()
        if self.judged is None:
            return
        self._check_judged(interval, metric, settings)
        if group_terms:
            self._check_known()

    def _check_folds(self) -> None:
        """Refuse folds without which fewer than two groups or labels are left."""
        for rows in self.trained_on[1:]:
            n_groups, n_labels = len(self.groups.take(rows).labels), len(np.unique(self.positive[rows]))
            if min(n_groups, n_labels) < 2:
                lacking = "groups" if n_groups < 2 else "labels"
                raise InputError(
                    f"--cv {self.hold_out.n_folds} leaves fewer than two {lacking} to train on without some "
                    "fold; hold rows out instead"
                )

    def _too_few(self, part: str, lacking: str, where: str) -> str:
        """Say what leaves fewer than two groups or labels: weights, or the split."""
        if self.counted(part).size < self.split[part].size:
            return f"column {self.weight_name!r} gives weight to fewer than two {lacking} in the {where}"
        option = f"{self.hold_out.option} {self.hold_out.share:g}"
        return f"{option} leaves fewer than two {lacking} in the {where}; change it"

    def check_promise(self, classifier: PartialFairEstimator) -> None:
        """Refuse, before any fit, rows for training that the constraints cannot be tied to."""
        least = classifier.min_group_size
        for rows in self.trained_on:
            weights = np.ones(rows.size) if self.weights is None else self.weights[rows]
            groups, positive = self.groups.take(rows), self.positive[rows]
            check_promises(
                [
                    promised(stated, groups, Cells(weights, groups.codes, positive), least)
                    for stated in map(_somewhere, classifier._read_constraints())
                ]
            )

    def _check_judged(self, interval: AskedInterval, metric: str, settings: Judging) -> None:
        """Refuse rows held out among which fewer than two groups could be judged."""
        if settings.small_groups == "keep" or self.judged is None:
            return
        rows = self.counted(self.judged)
        groups = self.groups.take(rows)
        try:
            check_comparable(
                groups,
                ANYWHERE if interval == AUTO else on_judged(interval, groups),
                metric=metric,
                positive=self.positive[rows],
                sample_weight=None if self.weights is None else self.weights[rows],
                clusters=None if self.clusters is None else self.clusters[rows],
                min_group_size=settings.min_group_size,
                missing_groups=settings.missing_groups,
            )
        except InputError as error:
            more = f"; or raise {self.hold_out.option}" if self.folds is None else ""
            raise InputError(f"of the {rows.size:,} rows {self.judged}: {error}{more}") from error

    def _check_known(self) -> None:
        """Refuse groups that a model with a term for each group could not score."""
        groups = self.groups.take(self.split[self.judged]) if self.judged else self.groups
        for rows in self.trained_on:
            known = self.groups.take(rows).labels
            for label, name in zip(groups.labels, groups.names, strict=True):
                if label not in known:
                    fewer = f"lower {self.hold_out.option}" if self.folds is None else "leave --cv out"
                    raise InputError(
                        f"no row of group {name!r} is left for training, and --group-terms needs some; "
                        f"{fewer}"
                    )
