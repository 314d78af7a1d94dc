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
            elif issubclass(warning.category, SmallSampleGapWarning) and not prefix:
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


def tuned_threshold_note(model: Any) -> str:
    """Say where a model decides whose threshold was tuned."""
    rows = "training rows that no tree was trained on" if model.takes_tables else "the training rows"
    return f"decisions are positive above the score {model.decision_threshold_:.4g}, tuned on {rows}"


def chosen_alpha_note(model: Any) -> str:
    """Say which penalty was chosen for a model."""
    return f"alpha {model.alpha_:g} was chosen, by loss and gap on training rows that no leaf was grown on"


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
