"""From prepared rows to fitted models: a path of limits, which has a single limit in ``train``.

The first model of a path has no constraint; ``train`` compares the model that it saves with this one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from partialfair.cli.intervals import AUTO
from partialfair.cli.options import Models
from partialfair.cli.output import as_options, step
from partialfair.cli.prepare import HELD_OUT, TRAINING, Prepared
from partialfair.cli.settings import TableFitSettings, TrainSettings
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.held_out import HeldOut, OutOfFold
from partialfair.estimators.inputs import adopt_samples
from partialfair.estimators.path import FairnessPath, PathPoint
from partialfair.estimators.path_fits import VariedConstraint, fit_points
from partialfair.exceptions import SmallSampleGapWarning
from partialfair.optimization.solvers import Record, Status
from partialfair.training.named_constraints import record_of
from partialfair.utils.extras import require
from partialfair.utils.typing import SmallGroups

_TREES, _LEAVES, _LEARNING_RATE = 500, 8, 0.1
"""Early stopping on held-out rows reduces the number of trees. Many leaf values fit the noise of the rows: on
a9a at a training gap of 0.1, test accuracy was 0.827 with 60 trees of 8 leaves, and 0.818 with 300 of 31."""


def build_estimator(settings: TableFitSettings) -> PartialFairEstimator:
    """Return the estimator of ``--model`` with the constraint; interval and limit may be set later.

    With ``--constraint none`` the estimator has the constraint by which the model is evaluated, and only its
    unconstrained model is fitted.
    """
    stated: dict[str, Any] = {
        "interval": settings.interval,
        "gap_scale": settings.gap_scale,
        "enforce": settings.enforcement,
        "outside": settings.outside,
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
        from partialfair.estimators.classifier import PartialFairClassifier

        estimator: PartialFairEstimator = PartialFairClassifier(
            constraint, group_terms=settings.group_terms, **stated
        )
    else:
        from partialfair.trees import PartialFairTrees

        estimator = PartialFairTrees(_base_estimator(settings.model, settings.seed), constraint, **stated)
    return estimator


def _base_estimator(name: str, seed: int) -> Any:
    """Return the base estimator of a library of trees."""
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
    # The number of leaves is limited and the depth is not, as in LightGBM.
    return library.XGBClassifier(max_depth=0, tree_method="hist", **shared)


@dataclass
class Notes:
    """The library's warnings as notes that name command-line options, each once.

    Attributes
    ----------
    general, fits, overfitted
        General notes, notes on fits that did not converge, and notes on training gaps of small samples.
    caught
        Warnings that are not sorted yet.
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
        """Sort the warnings that were caught so far by their category."""
        for warning in self.caught:
            notes = self.general
            if issubclass(warning.category, ConvergenceWarning):
                notes = self.fits
            elif issubclass(warning.category, SmallSampleGapWarning) and not prefix:
                notes = self.overfitted
            note = prefix + as_options(str(warning.message))
            # Several models may issue the same warning.
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
    """Fit a model without constraint, and one for every limit; all of it for every penalty. Show progress.

    Where notes are to name their model, every warning of a fit begins with it.
    """
    train, folds = adopt_samples(estimator, prepared.parts[TRAINING]), prepared.folds
    if folds is not None:
        parts: HeldOut | OutOfFold = OutOfFold(train, folds)
    elif HELD_OUT in prepared.parts:
        parts = HeldOut(train, adopt_samples(estimator, prepared.parts[HELD_OUT], reset=False))
    else:
        # Without rows held out the training rows stand for them; their scores are then not called unseen.
        parts = HeldOut(train, train)
    # Repeated limits and penalties are fitted once.
    gaps = sorted(set(settings.max_gaps), reverse=True)
    alphas = [None] if AUTO in settings.alphas else sorted({float(alpha) for alpha in settings.alphas})
    record = record_of(prepared.constraint)
    assert record is not None  # constraints of the command line have names
    varied = VariedConstraint(prepared.constraint, record, record.bounded)
    with _progress((len(gaps) + 1) * len(alphas), train, settings) as (show, finish):

        def report(point: PathPoint) -> None:
            finish(point)
            if name_models:
                # Models in folds are all fitted before any is scored: a warning may be of any of them.
                name = f"{point.allowed}, alpha {point.alpha:g}: " if settings.cv is None else ""
                notes.sort(name)

        estimator.set_params(callback=show)
        points = fit_points(parts, estimator, gaps, alphas, scoring, varied, None, report)
    # What shows progress is a function of this process.
    _forget_callbacks([point.model for point in points])
    size = settings.min_group_size
    # The same resamples as `train` and `audit` draw, so that the same scores have the same intervals.
    return FairnessPath(
        tuple(points), scoring, parts.evaluated, size, small_groups, record, settings.seed, folds
    )


def fit_population(
    prepared: Prepared, settings: TrainSettings, estimator: PartialFairEstimator
) -> tuple[Any, Any]:
    """Fit the unconstrained model, and the model that is validated and chosen on the held-out rows."""
    rows, unseen = prepared.parts[TRAINING], prepared.parts[HELD_OUT]
    validation = (unseen.X, unseen.y, unseen.groups, unseen.weights, unseen.clusters)
    # Cloned before the estimator gets the held-out rows, which only the choice may use.
    unconstrained: Any = clone(estimator).set_params(constraint=None, enforce="exact")
    constrained: Any = estimator.set_params(
        max_gap=settings.max_gap, validation=validation, confidence=settings.confidence
    )
    with _progress(2, rows, settings) as (show, _):
        for model in (unconstrained, constrained):
            model.set_params(callback=show)
            model.fit(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
            # A fit that was stopped returns its best point so far, which was not requested.
            if model.result_.status is Status.STOPPED:
                raise KeyboardInterrupt
    _forget_callbacks([unconstrained, constrained])
    constrained.set_params(validation=unconstrained.validation)  # model files hold no rows
    return unconstrained, constrained


def tuned_threshold_note(model: Any) -> str:
    """Return a note on the tuned decision threshold of a model."""
    rows = "training rows that no tree was trained on" if model.takes_tables else "the training rows"
    return f"decisions are positive above the score {model.decision_threshold_:.4g}, tuned on {rows}"


def chosen_alpha_note(model: Any) -> str:
    """Return a note on the penalty that was chosen for a model."""
    return (
        f"alpha {model.alpha_:g} was chosen by loss and gap on training rows that the base estimator was not "
        "trained on"
    )


@contextmanager
def _progress(
    n_models: int, rows: Samples, settings: TableFitSettings
) -> Iterator[tuple[Callable[[Record], None], Callable[[PathPoint], None]]]:
    """Show progress; yield functions to call with every step and with every finished model."""
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
                raise KeyboardInterrupt  # the path ends, and nothing is saved
            n_done += 1

        yield show, finish


def _forget_callbacks(models: Sequence[Any]) -> None:
    """Remove the callbacks of models, which files cannot hold."""
    for model in models:
        model.set_params(callback=None, warm_start=False)
