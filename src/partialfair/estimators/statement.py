"""From an estimator's parameters to constraints and solver, or to one sentence about what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from partialfair.constraints import Constraint
from partialfair.exceptions import InputError
from partialfair.optimization.solvers import SOLVERS, Newton, Solver, as_solver
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair.training.placing import Automatic
from partialfair.utils.checks import check_choice, check_number, shown

__all__ = ["read_constraints", "read_seed", "read_solver", "seed_of"]


# Parameters of an estimator that a constraint stated by name is made of, and their defaults.
_STATED_BY = {
    "interval": (0.0, 1.0),
    "max_gap": 0.05,
    "gap_scale": "interval",
    "n_points": 10,
    "constraint_threshold": 0.0,
}


def read_constraints(estimator: Any) -> tuple[Constraint, ...]:
    """Return the constraints that an estimator's parameters state; they check themselves.

    A name takes its interval, gap and so on from the estimator's parameters. Objects bring their own; without
    any name those parameters must then be left alone: silence about which holds would be worse.
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
    if not any(isinstance(one, str) for one in listed):
        _refuse_settings_given_twice(estimator)
    return tuple(
        _by_name(estimator, NAMED_CONSTRAINTS[one].kind) if isinstance(one, str) else one for one in listed
    )


def read_solver(estimator: Any, constraints: Sequence[Constraint]) -> Solver:
    """Return the solver of that name, or the one given."""
    wanted, max_iter = estimator.solver, estimator.max_iter
    if not isinstance(wanted, str):
        if isinstance(wanted, type):
            raise InputError(f"solver must be an object, {wanted.__name__}(), not its class")
        if not callable(getattr(wanted, "solve", None)):
            raise InputError(f"solver must be a name or an object with a method solve, not {wanted!r}")
        if max_iter is not None:
            raise InputError("solver is an object with settings of its own, so max_iter must not be given")
        return as_solver(wanted)
    check_choice(wanted, "solver", SOLVERS)
    settings = {} if max_iter is None else {"max_iter": max_iter}
    if not constraints:
        return Newton(**settings)
    if wanted == "auto":
        seed = seed_of(estimator)
        settings |= {"tol": estimator.tol, "n_starts": estimator.n_starts, "seed": seed}
    return SOLVERS[wanted](**settings)


def _refuse_settings_given_twice(estimator: Any) -> None:
    for name, default in _STATED_BY.items():
        given = getattr(estimator, name)
        same = np.array_equal(np.asarray(given, dtype=object), np.asarray(default, dtype=object))
        if given is not None and not same:
            raise InputError(f"constraint is an object with settings of its own, so {name} must not be given")


def _by_name(estimator: Any, kind: type[Constraint]) -> Constraint:
    given = {name: getattr(estimator, name) for name in _STATED_BY}
    if isinstance(given["interval"], str) and given["interval"] == "auto":
        given["interval"] = Automatic((0.0, 1.0))
    given["threshold"] = given.pop("constraint_threshold")
    if any(field.name == "threshold" for field in fields(kind)):
        check_number(given["threshold"], "constraint_threshold")
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})


def seed_of(estimator: Any) -> int:
    """Return the seed of all that is random in a fit; without ``random_state`` it is always the same."""
    return 0 if estimator.random_state is None else read_seed(estimator.random_state)


def read_seed(random_state: Any) -> int:
    """Return a seed drawn from a random state, or a complaint that names it."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"random_state must be None, a whole number of at least 0 or a RandomState, not "
            f"{shown(random_state)}"
        ) from None
