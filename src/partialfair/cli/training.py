"""From prepared rows to fitted models: a path of limits, of which ``train`` has one.

The first model of a path has no constraint, so that ``train`` compares with it whatever it saves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit

from partialfair.cli.intervals import AUTO
from partialfair.cli.options import Models
from partialfair.cli.output import as_options, step
from partialfair.cli.prepare import HELD_OUT, TRAINING, Prepared
from partialfair.cli.settings import TableFitSettings, TrainSettings
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.held_out import HeldOut, OutOfFold
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.path import FairnessPath, PathPoint, fairness_path
from partialfair.estimators.path_fits import fit_points
from partialfair.exceptions import OverfittedGapWarning
from partialfair.optimization.solvers import Record, Status
from partialfair.training import NAMED_CONSTRAINTS
from partialfair.utils.extras import require
from partialfair.utils.typing import SmallGroups

_TREES, _LEAVES, _LEARNING_RATE = 500, 8, 0.1
"""Early stopping cuts the trees to what rows held out ask for. Many leaf values fit the noise of the rows: on
a9a at a training gap of .1, 60 trees of 8 leaves had a test accuracy of .827, 300 of 31 one of .818."""


def build_estimator(settings: TableFitSettings) -> PartialFairEstimator:
    """Return the estimator of ``--model`` with the constraint; interval and limit may be set later.

    Without a constraint it states the one that the model is evaluated by; only its unconstrained model is
    fitted.
    """
    stated: dict[str, Any] = {
        "interval": settings.interval,
        "gap_scale": settings.gap_scale,
        "enforce": settings.enforcement,
        "higher_is_better": settings.higher_is_better,
        "min_group_size": settings.constrained_size,
        "missing_groups": settings.missing_groups,
        "time_limit": settings.time_limit,
        "alpha": settings.alphas[0],
        "decision_threshold": settings.decision_threshold,
        "random_state": settings.seed,
    }
    constraint = settings.constraint if settings.is_constrained else "statistical_parity"
    if settings.model == Models.linear:
        from partialfair.estimators import PartialFairClassifier

        estimator: PartialFairEstimator = PartialFairClassifier(
            constraint, group_terms=settings.group_terms, **stated
        )
    else:
        from partialfair.trees import PartialFairTrees

        estimator = PartialFairTrees(_base_estimator(settings.model, settings.seed), constraint, **stated)
    return estimator


def _base_estimator(name: str, seed: int) -> Any:
    """Return the library's trees that are to be trained."""
    shared: dict[str, Any] = {"learning_rate": _LEARNING_RATE, "random_state": seed}
    if name == Models.hist:
        from sklearn.ensemble import HistGradientBoostingClassifier

        shared |= {"max_iter": _TREES, "max_leaf_nodes": _LEAVES, "categorical_features": "from_dtype"}
        return HistGradientBoostingClassifier(**shared)
    library = require(name, extra="boosting", purpose=f"--model {name}")
    shared |= {"n_estimators": _TREES}
    if name == Models.lightgbm:
        return library.LGBMClassifier(num_leaves=_LEAVES, verbose=-1, **shared)
    shared |= {"max_leaves": _LEAVES, "grow_policy": "lossguide", "enable_categorical": True}
    # No limit on depth but on leaves, as in LightGBM.
    return library.XGBClassifier(max_depth=0, tree_method="hist", **shared)


@dataclass
class Notes:
    """What warnings of the library say, in the words of the command line, each sentence once.

    Attributes
    ----------
    general, fits, overfitted
        What may surprise, how fits ended that did not converge, and why a training gap says little.
    """

    general: list[str] = field(default_factory=list)
    fits: list[str] = field(default_factory=list)
    overfitted: list[str] = field(default_factory=list)
    caught: list[warnings.WarningMessage] = field(default_factory=list)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Turn warnings into notes."""
        with warnings.catch_warnings(record=True) as self.caught:
            warnings.simplefilter("always")
            yield
        self.sort()

    def sort(self, prefix: str = "") -> None:
        """Sort the warnings until now by what they are about."""
        for warning in self.caught:
            notes = self.general
            if issubclass(warning.category, ConvergenceWarning):
                notes = self.fits
            elif issubclass(warning.category, OverfittedGapWarning) and not prefix:
                notes = self.overfitted
            note = prefix + as_options(str(warning.message))
            # Several models may have the same remark.
            if note not in notes:
                notes.append(note)
        self.caught.clear()


def fit_path(
    prepared: Prepared,
    settings: TableFitSettings,
    estimator: PartialFairEstimator,
    notes: Notes,
    *,
    scoring: str = "accuracy",
    small_groups: SmallGroups,
    name_models: bool = False,
) -> FairnessPath:
    """Fit a model for every limit and penalty, showing progress.

    Where notes are to name their model, every warning of a fit begins with it.
    """
    rows, unseen = prepared.parts[TRAINING], prepared.parts.get(HELD_OUT)
    alphas = [alpha for alpha in settings.alphas if alpha != AUTO]
    # Repeated limits and penalties are fitted once; one model more has no constraint.
    n_models = (len({*settings.max_gaps}) + 1) * len({*settings.alphas})
    if settings.cv is not None:
        # The folds were drawn with the split, so that their checks came before any fit.
        evaluated_on: dict[str, Any] = {"cv": PredefinedSplit(prepared.folds)}
    else:
        # Without rows held out the training rows stand for them; their scores are then not called unseen.
        scored = rows if unseen is None else unseen
        clusters = None if unseen is None else unseen.clusters
        evaluated_on = {"validation": (scored.X, scored.y, scored.groups, scored.weights, clusters)}
    with _progress(n_models, rows, settings) as (show, finish):

        def report(point: PathPoint) -> None:
            finish(point)
            if name_models:
                # Models in folds are all fitted before any is scored: a warning may be of any of them.
                name = f"{point.allowed}, alpha {point.alpha:g}: " if settings.cv is None else ""
                notes.sort(name)

        path = fairness_path(
            estimator.set_params(callback=show),
            rows.X,
            rows.y,
            sensitive_features=rows.groups,
            sample_weight=rows.weights,
            max_gaps=settings.max_gaps,
            alphas=alphas or None,
            clusters=None if unseen is None and settings.cv is None else rows.clusters,
            scoring=scoring,
            random_state=settings.seed,
            min_group_size=settings.min_group_size,
            small_groups=small_groups,
            callback=report,
            **evaluated_on,
        )
    # What shows progress is a function of this process.
    _forget_callbacks([point.model for point in path.points])
    return path


def fit_unconstrained(
    prepared: Prepared, settings: TrainSettings, estimator: PartialFairEstimator
) -> PathPoint:
    """Fit the first model of a path alone."""
    rows = prepared.parts[TRAINING]
    # It also learns the columns of X, as `fairness_path` has it.
    samples = read_samples(estimator, rows.X, rows.y, rows.groups, rows.weights)
    folds = prepared.folds
    parts = HeldOut(samples, samples) if folds is None else OutOfFold(samples, folds)
    # Without a constraint models are evaluated by statistical parity, which has the metric's name.
    record = NAMED_CONSTRAINTS[settings.metric]
    with _progress(1, rows, settings) as (show, finish):
        estimator.set_params(callback=show)
        alphas = [None] if settings.alphas[0] == AUTO else [float(settings.alphas[0])]
        known = (record, record.bounded)
        (point,) = fit_points(parts, estimator, (), alphas, "accuracy", known, None, finish)
    _forget_callbacks([point.model])
    return point


def fit_population(
    prepared: Prepared, settings: TrainSettings, estimator: PartialFairEstimator
) -> tuple[Any, Any]:
    """Fit the model without a constraint, and the one that is chosen for its gap on the rows held out."""
    rows, unseen = prepared.parts[TRAINING], prepared.parts[HELD_OUT]
    validation = (unseen.X, unseen.y, unseen.groups, unseen.weights, unseen.clusters)
    # Cloned before it gets the rows held out, which only the choice may see.
    unconstrained: Any = clone(estimator).set_params(constraint=None, enforce="exact")
    constrained: Any = estimator.set_params(
        max_gap=settings.max_gap, validation=validation, confidence=settings.confidence
    )
    with _progress(2, rows, settings) as (show, _):
        for model in (unconstrained, constrained):
            model.set_params(callback=show)
            model.fit(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
            # A stopped fit has its best point until then, which is not what was requested.
            if model.result_.status is Status.STOPPED:
                raise KeyboardInterrupt
    _forget_callbacks([unconstrained, constrained])
    constrained.set_params(validation=unconstrained.validation)  # no file holds rows
    return unconstrained, constrained


@contextmanager
def _progress(
    n_models: int, rows: Samples, settings: TableFitSettings
) -> Iterator[tuple[Callable[[Record], None], Callable[[PathPoint], None]]]:
    """Show which model is being fitted; yield what to call with every step and every finished model."""
    n_done = 0
    again = "" if settings.cv is None else f", and again without each of {settings.cv} folds"
    what = "a model" if n_models == 1 else f"{n_models} models"
    with step(f"training {what} on {rows.n:,} rows{again}") as say:

        def show(line: Record) -> None:
            say(
                f"model {n_done + 1}, step {line.step}, objective {line.objective:.4g}, violation "
                f"{line.violation:.1e}"
            )

        def finish(point: PathPoint) -> None:
            nonlocal n_done
            if point.model.result_.status is Status.STOPPED:
                raise KeyboardInterrupt  # it ends the path, and what was reached so far is not saved
            n_done += 1

        yield show, finish


def _forget_callbacks(models: Sequence[Any]) -> None:
    """Leave in models only what they would have been fitted with by hand: files hold no functions."""
    for model in models:
        model.set_params(callback=None, warm_start=False)
