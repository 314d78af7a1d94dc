"""The frontier between accuracy and gap: one model for every limit, evaluated on held-out rows."""

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
    """Fit an unconstrained model and one model for every limit, and evaluate them on held-out rows.

    Limits are fitted in decreasing order, each warm-started with all earlier models. If a stricter limit
    leads to a lower objective than a looser one, the looser one is fitted again, so objectives never decrease
    as limits decrease.

    Parameters
    ----------
    estimator : PartialFairClassifier, PartialFairRegressor or PartialFairTrees
        Estimator with one constraint and ``enforce="exact"`` or ``"surrogate"``; the path varies its
        ``max_gap``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features, as in ``fit``.
    y : array-like of shape (n_samples,)
        Target, as in ``fit``.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row, as in ``fit``.
    max_gaps : sequence of float
        Limits, in any order.
    alphas : sequence of float, default=None
        Penalties to combine with each limit; None uses the ``alpha`` of the estimator, and ``"auto"`` is
        chosen once.
    validation : float or tuple, default=0.2
        Fraction of the rows to hold out, drawn within groups and classes; or the held-out rows, as
        ``(X, y, sensitive_features)`` with optional ``sample_weight`` and ``clusters``.
    cv : int or splitter, default=None
        Number of folds, or a scikit-learn splitter that holds out every row once; replaces ``validation``.
        Models are then evaluated by out-of-fold scores of all rows, and the returned models are fitted on all
        rows; `FairnessPath` states what this estimates. Folds are drawn within groups and classes. The run
        time grows in proportion to the number of folds.
    sample_weight : array-like of shape (n_samples,), default=None
        Row weights, as in ``fit``.
    clusters : array-like of shape (n_samples,), default=None
        Cluster of each row, for example the person that it describes. A cluster is never split, and
        confidence bounds treat clusters as independent, not rows. Splitters receive them as ``groups``.
    scoring : {"accuracy", "balanced_accuracy", "roc_auc", "r2"}, default="accuracy"
        Score by which models are compared; ``"r2"`` is for regressors and the only choice for them.
    min_group_size : int, default=10
        Smallest group that is evaluated on the validation rows, as in `fairness_report`. The parameter of the
        estimator applies to the constraint.
    small_groups : str, default="list"
        How smaller groups are treated, as in `fairness_report`.
    n_jobs : int, default=None
        Number of processes; each ``alpha``, and with ``cv`` each fold, is one job.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows and of the confidence intervals.
    callback : callable, default=None
        Function that is called with every `PathPoint` once it is evaluated, in the process that fits it; with
        ``cv`` at the end.
    verbose : int, default=0
        1 writes a line to standard error for every model.

    Returns
    -------
    FairnessPath
        The models with their scores and gaps.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; ``callback`` received the models that were finished.

    See Also
    --------
    FairnessPath.best : The best model whose gap in the population is at most a limit.
    FairnessPath.to_frame : A table of the models.
    PartialFairClassifier : With ``enforce="population"``, a path and its best validated model in one fit.

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
    >>> path.to_frame()["max_gap"].tolist()  # the first model is unconstrained
    [inf, 0.4, 0.2, 0.1]
    >>> path.to_frame()["training_gap"].is_monotonic_decreasing
    True
    >>> path.best(max_gap=0.6).max_gap  # the loosest model that 400 held-out rows validate
    0.2
    """
    _check_estimator(estimator, scoring)
    refuse_lazy(X, "X")
    refuse_lazy(y, "y")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of one PathPoint, not {shown(callback)}")
    gaps = _read_numbers(max_gaps, "max_gaps")[::-1]
    # All limits are checked before any fit, the largest last.
    for gap in gaps[::-1]:
        (stated,) = copy(estimator).set_params(**with_gap(estimator, gap))._read_constraints()
    if estimator.outside == "no_worse":
        check_outside([stated])
    record = record_of(stated)
    if record is None:
        raise InputError(
            f"fairness_path compares models by the exact metric of their constraint, and "
            f"{type(stated).__name__} has none; use a constraint that has one, such as 'statistical_parity'"
        )
    if alphas is not None and isinstance(estimator.alpha, str):
        raise InputError("alpha='auto' chooses a penalty and alphas lists penalties; omit one of them")
    penalties = [None] if alphas is None else _read_numbers(alphas, "alphas")
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", low=-1000)
    # One seed for the split and for the bootstrap of all reports.
    seed = read_seed(random_state)
    reader = estimator._copy_unfitted().set_params(callback=estimator.callback)  # stores the columns of X
    reader._check_settings()
    samples = read_samples(reader, X, y, sensitive_features, sample_weight, clusters)
    parts: HeldOut | OutOfFold
    if cv is None:
        parts = hold_out(reader, samples, validation, clusters, seed)
    elif is_rows(validation) or validation != _HELD_OUT:
        raise InputError("cv evaluates models out of fold on all rows, so validation must not be given")
    else:
        parts = OutOfFold(samples, read_folds(cv, samples, seed))
    # All checks come before the first fit.
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
    """Return the numbers in increasing order; raise `InputError` for anything else."""
    listed = list(given) if np.ndim(given) == 1 else []
    if not listed:
        raise InputError(f"{name} must be a list of numbers, not {shown(given)}")
    for one in listed:
        check_number(one, f"a number in {name}", low=0.0)
    return sorted({float(one) for one in listed})


def _check_estimator(estimator: Any, scoring: str) -> None:
    """Raise `InputError` for estimators whose limit cannot be varied and for scorings that do not apply."""
    if not isinstance(estimator, PartialFairEstimator):
        raise InputError(f"fairness_path needs an estimator of partialfair, not {type(estimator).__name__}")
    if not isinstance(estimator.constraint, str | Constraint):
        raise InputError("fairness_path needs an estimator with one constraint, whose max_gap it varies")
    if estimator.enforce == "population":
        raise InputError(
            "fairness_path holds rows out itself, and its best has a population guarantee: pass an estimator "
            "with enforce='exact'"
        )
    check_choice(scoring, "scoring", SCORINGS)
    if is_regressor(estimator) != (scoring == "r2"):
        raise InputError(f"scoring={scoring!r} does not apply to {type(estimator).__name__}")
