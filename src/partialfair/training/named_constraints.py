"""One record per constraint that has a name: its class, and the metric that it bounds.

Everything else follows from the record: what estimators and the command line call the constraint, by which
exact gap a promise and a path are judged, whether it needs labels or a threshold (the metric knows), and
which classes of constraints a saved model may hold. This is the one room that sees both player
(`partialfair.constraints`) and referee (`partialfair.metrics`) before the estimators do.

Constraints without a record, such as those of other packages, bound no exact metric: they are given to
estimators as objects, and their gap is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from partialfair.constraints import (
    Constraint,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.exceptions import InputError
from partialfair.metrics.catalogue import METRICS, Metric
from partialfair.metrics.inputs import ScoredGroups, Setting
from partialfair.metrics.partial import WorstGap

__all__ = [
    "NAMED_CONSTRAINTS",
    "NO_CONSTRAINT",
    "NamedConstraint",
    "make_known",
    "record_of",
    "register",
    "setting_of",
]

NO_CONSTRAINT = "none"
"""What the command line calls a model without a constraint, and therefore no constraint's name."""


@dataclass(frozen=True)
class NamedConstraint:
    """What is known of a constraint beyond its formulas.

    Attributes
    ----------
    name
        What estimators, files and the command line call it.
    kind
        Its class. Fields that are parameters of estimators (``interval``, ``max_gap``, ``gap_scale``,
        ``n_points``, ``threshold``) are taken from there, others keep their defaults.
    metric
        Name in `METRICS` of the gap that it bounds, by which promises, paths and pages judge it.
    """

    name: str
    kind: type[Constraint]
    metric: str

    @property
    def bounded(self) -> Metric:
        """The metric: what it is called, and what it needs."""
        return METRICS[self.metric]

    def gap(self, scored: ScoredGroups, constraint: Constraint) -> WorstGap:
        """Return the exact gap that a constraint of this kind is about."""
        return self.bounded.gap(scored, setting_of(constraint))


NAMED_CONSTRAINTS: dict[str, NamedConstraint] = {}
"""Records by name; `register` adds one."""


def register(record: NamedConstraint) -> None:
    """Give a constraint its name and its metric, refusing what could not be trained or judged by it.

    A class that was defined again, as cells of a notebook do, takes the place of the former.
    """
    kind = record.kind
    if not (isinstance(kind, type) and issubclass(kind, Constraint)):
        raise InputError(f"a named constraint needs a subclass of Constraint, not {kind!r}")
    if not record.name.isidentifier() or record.name == NO_CONSTRAINT:
        raise InputError(f"{record.name!r} cannot be a constraint's name; take a word such as 'mean_scores'")
    if record.metric not in METRICS:
        raise InputError(
            f"{record.name!r} bounds {record.metric!r}, which is no metric; add an entry to METRICS first"
        )
    if record.bounded.needs_threshold and "threshold" not in {field.name for field in fields(kind)}:
        raise InputError(f"{record.metric!r} needs a threshold, and {kind.__name__} has no such field")
    for other in NAMED_CONSTRAINTS.values():
        if (other.name == record.name) != (_path_of(other.kind) == _path_of(kind)):
            raise InputError(
                f"{other.name!r} is the name of {other.kind.__name__}, so {record.name!r} cannot be that of "
                f"{kind.__name__}: a name has one class, and a class has one name"
            )
    NAMED_CONSTRAINTS[record.name] = record


def make_known(record: NamedConstraint, metric: Metric) -> None:
    """Take over what another process registered; here it may be unknown, or an older class of that name."""
    METRICS[record.metric] = metric
    NAMED_CONSTRAINTS[record.name] = record


def record_of(constraint: Constraint) -> NamedConstraint | None:
    """Return the record of a constraint's class itself; subclasses may bound something else."""
    return next((one for one in NAMED_CONSTRAINTS.values() if one.kind is type(constraint)), None)


def setting_of(constraint: Constraint) -> Setting:
    """Return where and how a metric has to look: where the constraint does.

    Constraints that compare people with the same label count ranks among those people.
    """
    return Setting(constraint.gap_scale, getattr(constraint, "threshold", None), "group_and_label")


def _path_of(kind: type[Constraint]) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


register(NamedConstraint("statistical_parity", StatisticalParity, metric="statistical_parity"))
register(NamedConstraint("demographic_parity", DemographicParity, metric="demographic_parity"))
register(NamedConstraint("group_auc", GroupAUC, metric="group_auc"))
register(NamedConstraint("equal_opportunity", EqualOpportunity, metric="equal_opportunity"))
register(NamedConstraint("equalized_odds", EqualizedOdds, metric="equalized_odds"))
