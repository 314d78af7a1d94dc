"""Read and check the parameters of an estimator: constraints, solver and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import check_random_state

from partialfair.constraints.base import Constraint
from partialfair.data.intervals import require_interval
from partialfair.estimators.decisions import check_decision_threshold
from partialfair.exceptions import InputError
from partialfair.optimization.models import GroupTerms
from partialfair.optimization.objectives import AUC, LossSettings, PartialAUC, Squared, read_loss
from partialfair.optimization.solvers import SOLVERS, Newton, Solver
from partialfair.training.adjoining import check_outside
from partialfair.training.named_constraints import NAMED_CONSTRAINTS, Automatic, NamedConstraint, record_of
from partialfair.training.options import FitOptions
from partialfair.training.settings import FitSettings
from partialfair.utils.checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    is_finite_number,
    refuse_lazy,
    shown,
)
from partialfair.utils.clock import deadline_in
from partialfair.utils.typing import IntervalLike

# Parameters that apply only to constraints stated by name, and their defaults.
_STATED_BY: dict[str, Any] = {"max_gap": 0.05, "gap_scale": "interval", "constraint_threshold": 0.0}


@dataclass(frozen=True)
class FitTask:
    """The problem that a fit solves, and the solver.

    Attributes
    ----------
    constraints, loss, solver
        As the parameters of an estimator state them.
    """

    constraints: tuple[Constraint, ...]
    loss: LossSettings
    solver: Solver

    def uses_groups(self, group_terms: GroupTerms) -> bool:
        """Whether the fit needs the groups of rows."""
        return bool(self.constraints) or group_terms is not None


def read_task(estimator: Any, constraints: tuple[Constraint, ...] | None = None) -> FitTask:
    """Return the problem that the parameters state; ``constraints`` may have been read before."""
    if constraints is None:
        constraints = () if estimator.constraint is None else estimator._read_constraints()
    if estimator.outside == "no_worse":
        check_outside(constraints)
    loss = read_loss(estimator.loss)
    if is_regressor(estimator) and not isinstance(
        loss, Squared
    ):  # the squared loss alone can be solved in other units of y
        raise InputError(f"loss={estimator.loss!r} is a loss for two classes; a regressor needs 'squared'")
    return FitTask(constraints, loss, read_solver(estimator, constraints))


def read_settings(estimator: Any, solver: Solver) -> FitSettings:
    """Return the settings of a fit from the parameters of the estimator."""
    # Fields of the settings with the same name as a parameter.
    same = (
        *("alpha", "fit_intercept", "group_terms", "higher_is_better", "max_iter", "enforce", "outside"),
        *("min_group_size", "tol", "callback", "verbose"),
    )
    return FitSettings(
        solver=solver,
        solver_name=estimator.solver if isinstance(estimator.solver, str) else None,
        options=read_options(estimator),
        seed=seed_of(estimator),
        **{name: getattr(estimator, name) for name in same},
    )


def read_options(estimator: Any) -> FitOptions:
    """Return the checked options of a fit; the defaults if there are none."""
    options = FitOptions() if estimator.options is None else estimator.options
    if not isinstance(options, FitOptions):
        raise InputError(
            f"options must be a FitOptions, such as FitOptions(n_points=30), not {shown(options)}"
        )
    return options


def read_deadline(estimator: Any) -> float:
    """Return the time at which a fit that begins now has to end; settings are checked later."""
    limit = estimator.time_limit
    return deadline_in(float(limit) if limit is not None and is_finite_number(limit) else None)


def check_parameters(estimator: Any) -> None:
    """Raise `InputError` for settings that are invalid for any data."""
    check_flag(getattr(estimator, "fit_intercept", True), "fit_intercept")  # trees have no such parameter
    check_number(estimator.tol, "tol", above=0.0)
    if estimator.time_limit is not None:
        check_number(estimator.time_limit, "time_limit", above=0.0)
    if estimator.max_iter is not None:
        check_count(estimator.max_iter, "max_iter")
    check_count(estimator.min_group_size, "min_group_size")
    read_options(estimator)
    for name in ("higher_is_better", "warm_start"):
        check_flag(getattr(estimator, name), name)
    if not isinstance(estimator.verbose, bool):
        check_count(estimator.verbose, "verbose", low=0)
    if not isinstance(estimator.random_state, np.random.RandomState):  # the check would draw from it
        seed_of(estimator)
    check_number(estimator.confidence, "confidence", above=0.0, high=1.0)
    if estimator.confidence == 1:
        raise InputError("confidence must lie between 0 and 1, not 1: no sample gives certainty")
    check_validation(estimator.validation)
    check_choice(estimator.outside, "outside", ("free", "no_worse"))
    if estimator.outside == "no_worse" and estimator.enforce != "exact":
        raise InputError(
            "outside='no_worse' limits exact training gaps, so it needs enforce='exact', not "
            f"{estimator.enforce!r}"
        )
    if estimator.callback is not None and not callable(estimator.callback):
        raise InputError(f"callback must be a function of one record, not {estimator.callback!r}")
    if hasattr(estimator, "decision_threshold"):
        check_decision_threshold(estimator)


def is_rows(validation: Any) -> bool:
    """Whether ``validation`` holds rows rather than a fraction."""
    return isinstance(validation, tuple | list)


def check_validation(validation: Any) -> None:
    """Raise `InputError` unless ``validation`` is a valid fraction or three to five arrays."""
    if not is_rows(validation):
        check_number(validation, "validation", above=0.0, high=0.9)
        return
    if not 3 <= len(validation) <= 5:
        raise InputError(
            "validation must be a fraction of the rows, or (X, y, sensitive_features) with optional "
            f"sample_weight and clusters, so three to five arrays, not {len(validation)}"
        )
    names = ("X", "y", "sensitive_features", "sample_weight", "clusters")
    for values, name in zip(validation, names, strict=False):
        refuse_lazy(values, f"{name} of validation")


def read_constraints(estimator: Any) -> tuple[Constraint, ...]:
    """Return the constraints that the parameters of an estimator state.

    A constraint given by name uses the estimator's interval, limit and so on. Constraint objects have their
    own settings, but objects without an interval use the estimator's. A parameter that no constraint uses
    raises `InputError`, because ignoring it silently would mislead.
    """
    stated = estimator.constraint
    if stated is None:
        return ()
    check_choice(estimator.enforce, "enforce", ("exact", "surrogate", "population"))
    listed = list(stated) if isinstance(stated, list | tuple) else [stated]
    for one in listed or [stated]:
        if one not in NAMED_CONSTRAINTS if isinstance(one, str) else not isinstance(one, Constraint):
            names = ", ".join(map(repr, NAMED_CONSTRAINTS))
            raise InputError(
                f"constraint must be {names}, None, a constraint object, or a list of those, not {one!r}"
            )
    # Constraint objects only: they would ignore these parameters of the estimator.
    if not any(isinstance(one, str) for one in listed):
        given = {name: getattr(estimator, name) for name in _STATED_BY}
        ignored = [
            name
            for name, value in given.items()
            if value is not None and not np.array_equal(value, _STATED_BY[name])
        ]
        if read_options(estimator).n_points != FitOptions.n_points:
            ignored.append("options.n_points")
        if estimator.interval is not None and all(one.interval is not None for one in listed):
            ignored.append("interval")
        if ignored:
            raise InputError(
                f"constraint is an object with its own settings, so {ignored[0]} must not be given"
            )
    interval = estimator.interval
    if isinstance(interval, str) and interval == "auto":
        interval = Automatic((0.0, 1.0))  # chosen when the unconstrained scores are known
    constraints = [
        _build_constraint(estimator, NAMED_CONSTRAINTS[one].kind, interval) if isinstance(one, str) else one
        for one in listed
    ]
    return tuple(
        one if one.interval is not None else replace(one, interval=require_interval(interval))
        for one in constraints
    )


def _build_constraint(estimator: Any, kind: type[Constraint], interval: IntervalLike | None) -> Constraint:
    given = {name: getattr(estimator, name) for name in ("max_gap", "gap_scale")}
    given["n_points"] = read_options(estimator).n_points
    given["threshold"] = estimator.constraint_threshold
    if interval is not None:  # some classes have a default interval
        given["interval"] = interval
    names = {field.name for field in fields(kind)}
    if "threshold" in names:
        check_number(given["threshold"], "constraint_threshold")
    return kind(**{name: value for name, value in given.items() if name in names})


def read_bounded_constraint(estimator: Any) -> tuple[Constraint, NamedConstraint]:
    """Return the constraint and its record; raise `InputError` if no population guarantee is possible."""
    if estimator.constraint is None:
        raise InputError("enforce='population' limits the gap in the population, so it needs a constraint")
    constraints = estimator._read_constraints()
    if len(constraints) != 1:
        raise InputError(f"enforce='population' needs exactly one constraint, not {len(constraints)}")
    (stated,) = constraints
    record = record_of(stated)
    if record is None:
        raise InputError(
            f"enforce='population' limits an exact metric in the population, and {type(stated).__name__} has "
            "no exact metric; use a constraint that has one, such as 'statistical_parity'"
        )
    return stated, record


def refuse_for_regression(estimator: Any) -> None:
    """Raise `InputError` for constraints that need labels or decisions, which a regressor does not have."""
    stated = (
        estimator.constraint if isinstance(estimator.constraint, list | tuple) else [estimator.constraint]
    )
    automatic = isinstance(estimator.interval, str) and estimator.interval == "auto"
    for one in stated:
        if automatic and getattr(one, "interval", None) is None:
            raise InputError(
                "interval='auto' needs a rate of positive decisions, which a regressor does not have: pass "
                "interval=choose_interval(predictions, positive_rate=...)"
            )
        if not isinstance(one, str):
            continue
        metric = NAMED_CONSTRAINTS[one].bounded if one in NAMED_CONSTRAINTS else None
        if metric is not None and metric.needs_labels:
            raise InputError(f"constraint={one!r} compares rows of one label, and a regressor has no labels")
        if metric is not None and metric.needs_threshold and estimator.constraint_threshold is None:
            raise InputError(
                f"constraint={one!r} needs constraint_threshold, the prediction at which groups are compared"
            )


def read_solver(estimator: Any, constraints: Sequence[Constraint]) -> Solver:
    """Return the solver of that name, or the solver object."""
    wanted, max_iter = estimator.solver, estimator.max_iter
    if not isinstance(wanted, str):
        if isinstance(wanted, type):
            raise InputError(f"solver must be an object, {wanted.__name__}(), not its class")
        if not isinstance(wanted, Solver):
            raise InputError(
                f"solver must be a name or a Solver of partialfair.optimization.solvers, not {wanted!r}"
            )
        if max_iter is not None:
            raise InputError("solver is an object with its own settings, so max_iter must not be given")
        return wanted
    check_choice(wanted, "solver", SOLVERS)
    settings = {} if max_iter is None else {"max_iter": max_iter}
    # Convex and smooth problems use Newton's method, whatever the solver for constraints.
    if not constraints:
        return Newton(**settings)
    if wanted == "auto":
        seed = seed_of(estimator)
        settings |= {"tol": estimator.tol, "n_starts": read_options(estimator).n_starts, "seed": seed}
    return SOLVERS[wanted](**settings)


def choose_scoring(estimator: Any) -> str:
    """Return the score by which validated models are compared; it suits the loss."""
    if is_regressor(estimator):
        return "r2"
    if isinstance(read_loss(estimator.loss), AUC | PartialAUC):
        return "roc_auc"
    balanced = isinstance(estimator.class_weight, str) and estimator.class_weight == "balanced"
    return "balanced_accuracy" if balanced else "accuracy"


def seed_of(estimator: Any) -> int:
    """Return the seed of a fit; without ``random_state`` it is always the same."""
    return 0 if estimator.random_state is None else read_seed(estimator.random_state)


def read_seed(random_state: Any) -> int:
    """Return a seed drawn from a random state; raise `InputError` if it is not one."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"random_state must be None, a whole number of at least 0 or a RandomState, not "
            f"{shown(random_state)}"
        ) from None
