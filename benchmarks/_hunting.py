"""Searches the best model of any method, for problems too large for a proof.

Methods: default fits; chains of warm-started fits in κ, in both directions; fits of the surrogate problem
with other κ, widths, grids and surrogates; other solvers; the smoothed gap as a penalty (`_smooth`); steps
towards the unconstrained model; and random steps on the exact metric, in the span of earlier models and along
single coefficients (`_climbing`). Every model is evaluated for every κ of the setting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from _climbing import climb, rescaled, towards
from _design import Design
from _judging import ROUNDING, Case, Model, Ties
from _references import References
from _smooth import smooth_descent
from partialfair.constraints.surrogates import RoundedRamp

CHAIN = (0.6, 0.45, 0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.02, 0.014)
"""κ of the chains of warm-started fits."""
SHARE_OF_FITS, SHARE_OF_DESCENTS = 0.35, 0.35
"""Fraction of the time for fits; the rest is for random steps."""
MOST_MODELS = 40
"""Number of models that span the subspace of random steps."""
MOST_KEPT = 150
"""Number of stored models, temporarily twice as many."""
N_CLIMBS = 4
"""Searches per κ: every second one starts at the best model, the others at another admissible model."""
N_GOALS = 12
"""Number of models towards which steps are tried."""
MOST_AXES = 400
"""Number of single coefficients that one search tries."""


@dataclass(eq=False)
class Hunt:
    """The search for one setting.

    Attributes
    ----------
    cases
        Problems that differ only in κ.
    references
        Receives better models.
    free
        The unconstrained model.
    """

    cases: list[Case]
    references: References
    free: Model
    models: list[tuple[float, float, Model]] = field(default_factory=list)

    def consider(self, model: Model, method: str) -> None:
        """Evaluate a model for every κ, with its best scale."""
        case = self.cases[0]
        if not np.isfinite(model.scores).all():
            return
        better = rescaled(case, model)
        gap = case.gap(better.scores)
        self.models.append((gap, case.objective(better), better))
        if len(self.models) > 2 * MOST_KEPT:  # keep only the lowest objectives at each gap
            self.models.sort(key=lambda entry: entry[1] + entry[0] * self.price_of_gap)
            del self.models[MOST_KEPT:]
        for case in self.cases:
            if gap <= case.max_gap + ROUNDING:
                self.references.offer(case, better, method)

    @cached_property
    def price_of_gap(self) -> float:
        """Approximate increase of the objective per unit of gap, up to the constant model."""
        case = self.cases[0]
        share = float((case.signs > 0).mean())
        constant = -share * np.log(share) - (1 - share) * np.log(1 - share)
        return (constant - case.objective(self.free)) / max(case.gap(self.free.scores), 1e-9)

    @cached_property
    def free_ties(self) -> Ties:
        """Proportions of tied rows under the unconstrained model."""
        return self.cases[0].ties(self.free.scores)

    def span(self, case: Case) -> list[Model]:
        """Return models that are good near κ: the lowest objectives at gaps up to four times as large."""
        near = [entry for entry in self.models if entry[0] <= max(4 * case.max_gap, 0.3)]
        near.sort(key=lambda entry: entry[1] + max(entry[0] - case.max_gap, 0.0))
        return [self.free, *(model for _, _, model in near[:MOST_MODELS])]


def make_best_known(setting: list[Case], references: References, seconds: float) -> None:
    """Search for better references of one setting."""
    case, end = setting[0], time.perf_counter() + seconds
    rng = np.random.default_rng(int(time.time()))  # other seeds in every call, since results are stored
    free = case.model_of(case.fitted(constraint=None, tol=1e-8))
    hunt = Hunt(setting, references, free)
    for one in setting:
        references.begin(one, free)
        if (known := references.model_of(one)) is not None:
            hunt.consider(known, "a rescaled reference")
    setting = [one for one in setting if case.gap(free.scores) > one.max_gap]  # the others have proven optima
    if not setting:
        return
    _fit(hunt, setting, rng, time.perf_counter() + SHARE_OF_FITS * seconds)
    design = Design.of(case)
    _descend(hunt, setting, design, rng, time.perf_counter() + SHARE_OF_DESCENTS * seconds)
    # Fits and descents may exceed their time; random steps still get theirs.
    left = max(end - time.perf_counter(), (1 - SHARE_OF_FITS - SHARE_OF_DESCENTS) * seconds)
    for turn in range(N_CLIMBS):
        for one in setting:
            _climb(hunt, one, design, rng, left / (N_CLIMBS * len(setting)), from_best=turn % 2 == 0)


def _fit(hunt: Hunt, setting: list[Case], rng: np.random.Generator, end: float) -> None:
    """Fit with all methods until the time is up."""
    for method, settings in _ways(setting, hunt, rng):
        left = end - time.perf_counter()
        if left <= 0:
            return
        if method == "chain":
            _chain(hunt, setting[0], settings["order"], end)
            continue
        clf = setting[0].fitted(**{"time_limit": max(left, 1.0), **settings})
        hunt.consider(setting[0].model_of(clf), method)


def _ways(setting: list[Case], hunt: Hunt, rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield methods with their settings: the most promising first, then random ones without end."""
    for case in setting:
        yield "a default fit", {"max_gap": case.max_gap}
    yield "chain", {"order": CHAIN}
    yield "chain", {"order": CHAIN[::-1]}
    spread = float(hunt.free.scores.std())
    while True:
        case = setting[int(rng.integers(len(setting)))]
        allowed = case.max_gap * float(rng.choice([0.4, 0.6, 0.75, 0.9, 1.0, 1.15, 1.3, 1.6]))
        width = spread * float(rng.choice([0.05, 0.1, 0.2, 0.3, 0.5]))
        common = {"max_gap": min(allowed, 1.0), "options__n_points": int(rng.choice([5, 10, 20, 40]))}
        draw = rng.random()
        if draw < 0.5:
            settings = common | {"enforce": "surrogate", "options__surrogate": RoundedRamp(width)}
            yield "a surrogate fit", settings
        elif draw < 0.7:
            yield (
                "a surrogate fit, sigmoid",
                {
                    **common,
                    "enforce": "surrogate",
                    "options__surrogate": "sigmoid",
                    "options__surrogate_width": width,
                },
            )
        elif draw < 0.8:
            yield (
                "an exact fit, other settings",
                {
                    **common,
                    "options__surrogate_width": width,
                    "options__n_starts": 4,
                    "random_state": int(rng.integers(1000)),
                },
            )
        elif draw < 0.93:
            yield (
                "augmented Lagrangian",
                {
                    **common,
                    "enforce": "surrogate",
                    "options__surrogate": RoundedRamp(width),
                    "solver": "augmented-lagrangian",
                    "time_limit": 60.0,
                },
            )
        else:
            yield (
                "IDCA, switching",
                {
                    **common,
                    "enforce": "surrogate",
                    "options__surrogate_width": width,
                    "solver": "idca-switching",
                    "time_limit": 20.0,
                },
            )


def _chain(hunt: Hunt, case: Case, order: tuple[float, ...], end: float) -> None:
    """Fit one κ after another, warm-started."""
    clf = case.estimator(warm_start=True)
    for max_gap in order:
        left = end - time.perf_counter()
        if left <= 0:
            return
        clf.set_params(max_gap=max_gap, time_limit=max(left, 1.0))
        clf.fit(case.X, case.y, sensitive_features=case.groups)
        hunt.consider(case.model_of(clf), "a chain of warm fits")


def _descend(hunt: Hunt, setting: list[Case], design: Design, rng: np.random.Generator, end: float) -> None:
    """Minimize with the smoothed gap as a penalty: along a chain of κ, then from random good models."""
    model = hunt.free
    for allowed in [gap for gap in CHAIN if gap > setting[-1].max_gap]:
        model = _aimed(hunt, setting[-1], design, model, allowed, 1, end)
    for case in setting[::-1]:
        model = _aimed(hunt, case, design, model, case.max_gap, 4, end)
    while time.perf_counter() < end:
        case = setting[int(rng.integers(len(setting)))]
        near = hunt.span(case)
        start = near[int(rng.integers(len(near)) * rng.random())]
        _aimed(hunt, case, design, start, case.max_gap * float(rng.uniform(0.8, 1.1)), 3, end)


def _aimed(
    hunt: Hunt, case: Case, design: Design, model: Model, aim: float, n_shots: int, end: float
) -> Model:
    """Descend several times, and correct the limit by the distance of the exact gap from κ."""
    allowed = aim
    for shot in range(n_shots):
        for descended in smooth_descent(case, design, model, allowed, rounds=3 if shot == 0 else 2):
            model = descended
            hunt.consider(model, "smoothed gap as a penalty")
            if time.perf_counter() > end:
                return model
        allowed = min(max(allowed + 0.8 * (aim - case.gap(model.scores)), 0.2 * aim), 1.5 * aim)
    return model


def _climb(
    hunt: Hunt,
    case: Case,
    design: Design,
    rng: np.random.Generator,
    seconds: float,
    from_best: bool,
) -> None:
    """Step towards other models, the unconstrained one first; then at random in the span and along axes."""
    best = hunt.references.model_of(case)
    if best is None:
        return
    near = hunt.span(case)
    if not from_best:
        others = [model for model in near if case.admits(model.scores, hunt.free_ties)]
        best = others[int(rng.integers(len(others)))] if others else best
    for goal in near[:N_GOALS]:
        best = towards(case, best, goal, hunt.free_ties)
    hunt.consider(best, "steps towards better models that violate the constraint")
    span = [model.minus(best) for model in near]
    best = climb(case, best, span, hunt.free_ties, rng, seconds / 2)
    hunt.consider(best, "random steps in the span of models")
    n_vectors, n_features = design.shape
    axes = [(k, j) for k in range(n_vectors) for j in range(n_features)]
    if len(axes) > MOST_AXES:
        axes = [axes[i] for i in rng.choice(len(axes), MOST_AXES, replace=False)]
    best = climb(case, best, [design.axis(k, j) for k, j in axes], hunt.free_ties, rng, seconds / 2)
    hunt.consider(best, "random steps along coefficients")
