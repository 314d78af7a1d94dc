"""The frontier between accuracy and fairness: one model for every limit, evaluated on held-out rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from partialfair.constraints.base import Constraint
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.fitted_path import FairnessPath
from partialfair.estimators.held_out import HeldOut, OutOfFold, check_group_sizes, hold_out, read_folds
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.parameters import is_rows, read_seed
from partialfair.estimators.path_fits import SCORINGS, PathPoint, VariedConstraint, fit_points, with_gap
from partialfair.exceptions import InputError
from partialfair.training.adjoining import check_outside
from partialfair.training.named_constraints import record_of
from partialfair.utils.checks import check_choice, check_count, check_number, refuse_lazy, shown
from partialfair.utils.typing import ArrayLike, SmallGroups

__all__ = ["FairnessPath", "PathPoint", "fairness_path"]

_HELD_OUT = 0.2


def fairness_path(
    estimator: PartialFairEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    max_gaps: Sequence[float],
    alphas: Sequence[float] | None = None,
    validation: float | tuple[Any, ...] = _HELD_OUT,
    cv: Any = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    scoring: str = "accuracy",
    min_group_size: int = 10,
    small_groups: SmallGroups = "list",
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Callable[[PathPoint], None] | None = None,
    verbose: int = 0,
) -> FairnessPath:
    """Fit a model without constraint, then one for every ``max_gap``, each from the solution of the last.

    Every fit knows the models before it. Where a stricter model turns out to cost less than a looser one, the
    looser is fitted again with all of them in view, so that objectives never fall as more is asked for.

    An interrupt (Ctrl-C) ends the path with KeyboardInterrupt: half a path would say less than it seems to.
    ``callback`` has seen the models that were finished.

    Parameters
    ----------
    estimator
        A `PartialFairClassifier` or `PartialFairRegressor` with one constraint; its ``max_gap`` is varied.
    X, y, sensitive_features, sample_weight
        As in ``fit``.
    max_gaps
        Limits, in any order; models are fitted from the loosest on.
    alphas
        Penalties to try with each of them; that of the estimator by default, chosen once if it is "auto".
    validation
        Share of the rows to hold out, drawn within groups and classes, or the rows themselves:
        ``(X, y, sensitive_features)``, or with ``sample_weight`` as a fourth and ``clusters`` as a fifth.
    cv
        Instead of ``validation``: the number of folds, or a splitter of scikit-learn that holds out every row
        once. Models are then evaluated on out-of-fold scores of all rows, and those that are returned are
        fitted on all rows. What that estimates, and why `best` refuses it: see `FairnessPath`. Folds are
        drawn within groups and classes; it takes about as many times longer as there are folds.
    clusters
        Which rows belong together, as several of one person do: a cluster is never on both sides of a split,
        and confidence is that of so many clusters. Splitters get them as ``groups``.
    scoring
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, or for regressors ``"r2"``.
    min_group_size, small_groups
        Which groups are evaluated on the validation rows, as in `fairness_report`; the estimator's
        ``min_group_size`` says which ones are constrained.
    n_jobs
        Processes; every ``alpha`` is one job, with ``cv`` every fold of it.
    random_state
        For the rows held out and the confidence intervals.
    callback
        Called with every model once it is evaluated, in the process that fits it; with ``cv`` at the end.
    verbose
        1 writes a line to standard error for every model.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, fairness_path
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 2000)
    >>> X = rng.normal(size=(2000, 2)) + np.outer(groups == "a", [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.6))
    >>> path = fairness_path(
    ...     clf, X, y, sensitive_features=groups, max_gaps=[0.1, 0.2, 0.4], random_state=0
    ... )
    >>> path.to_frame()["max_gap"].tolist()  # the first has no constraint
    [inf, 0.4, 0.2, 0.1]
    >>> path.to_frame()["training_gap"].is_monotonic_decreasing
    True
    >>> path.best(max_gap=0.6).max_gap  # on 400 new people the gap of the loosest may be larger
    0.2
    """
    _check_estimator(estimator, scoring)
    refuse_lazy(X, "X")
    refuse_lazy(y, "y")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of one PathPoint, not {shown(callback)}")
    gaps = _read_numbers(max_gaps, "max_gaps")[::-1]
    # All limits are checked before any fit; the largest comes last.
    for gap in gaps[::-1]:
        (stated,) = copy(estimator).set_params(**with_gap(estimator, gap))._read_constraints()
    if estimator.outside == "no_worse":
        check_outside([stated])
    record = record_of(stated)
    if record is None:
        raise InputError(
            f"fairness_path judges models by the metric that their constraint bounds, and "
            f"{type(stated).__name__} bounds none"
        )
    if alphas is not None and isinstance(estimator.alpha, str):
        raise InputError("alphas are penalties to try, and alpha='auto' chooses one; leave one of them out")
    penalties = [None] if alphas is None else _read_numbers(alphas, "alphas")
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", low=-1000)
    # One draw, for the split and the bootstrap of all reports.
    seed = read_seed(random_state)
    reader = estimator._copy_unfitted().set_params(callback=estimator.callback)  # it learns the columns of X
    reader._check_settings()
    samples = read_samples(reader, X, y, sensitive_features, sample_weight, clusters)
    parts: HeldOut | OutOfFold
    if cv is None:
        parts = hold_out(reader, samples, validation, clusters, seed)
    elif is_rows(validation) or validation != _HELD_OUT:
        raise InputError("cv judges models on all rows out of fold, so validation must not be given")
    else:
        parts = OutOfFold(samples, read_folds(cv, samples, seed))
    # All that can be refused is refused before the first fit.
    parts.check(reader, scoring)
    rows = parts.evaluated
    check_group_sizes(reader, stated, record.metric, samples, rows, min_group_size, small_groups)

    def say(point: PathPoint) -> None:
        if verbose:
            sys.stderr.write(
                f"alpha {point.alpha:g}, {point.allowed}: {point.model.result_.status} in "
                f"{point.seconds:.1f} s, {scoring} {point.score:.4f}\n"
            )
        if callback is not None:
            callback(point)

    varied = VariedConstraint(stated, record, record.bounded)
    points = fit_points(parts, reader, gaps, penalties, scoring, varied, n_jobs, say)
    return FairnessPath(tuple(points), scoring, rows, min_group_size, small_groups, record, seed, parts.folds)


def _read_numbers(given: Sequence[float], name: str) -> list[float]:
    """Return increasing numbers, refusing what is not one."""
    listed = list(given) if np.ndim(given) == 1 else []
    if not listed:
        raise InputError(f"{name} must be a list of numbers, not {shown(given)}")
    for one in listed:
        check_number(one, f"a number in {name}", low=0.0)
    return sorted({float(one) for one in listed})


def _check_estimator(estimator: Any, scoring: str) -> None:
    """Refuse estimators whose gap cannot be varied, and scorings that do not suit them."""
    if not isinstance(estimator, PartialFairEstimator):
        raise InputError(f"fairness_path varies estimators of partialfair, not {type(estimator).__name__}")
    if not isinstance(estimator.constraint, str | Constraint):
        raise InputError("fairness_path needs an estimator with one constraint, whose max_gap it varies")
    if estimator.enforce == "population":
        raise InputError(
            "fairness_path holds rows out itself, and its best is a promise about new people: give it an "
            "estimator with enforce='exact'"
        )
    check_choice(scoring, "scoring", SCORINGS)
    if is_regressor(estimator) != (scoring == "r2"):
        raise InputError(f"scoring={scoring!r} does not suit {type(estimator).__name__}")
