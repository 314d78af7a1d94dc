"""The best model that any method finds, for problems too large for a proof.

Methods: default fits; chains of warm fits in κ, both ways; fits of the surrogate problem with other κ,
widths, grids and surrogates; other solvers; the smoothed gap as a penalty (`_smooth`); steps towards the
unconstrained model, and random steps on the exact metric, in the span of the models seen and along single
coefficients (`_climbing`). Every model is judged for every κ of the setting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _climbing import climb, rescaled, towards
from _design import Design
from _judging import ROUNDING, Case, Model
from _references import References
from _smooth import smooth_descent
from partialfair.surrogates import RoundedRamp

CHAIN = (0.6, 0.45, 0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.02, 0.014)
"""κ of the chains of warm fits."""
SHARE_OF_FITS, SHARE_OF_DESCENTS = 0.35, 0.35
"""Of the seconds; the rest goes to random steps."""
MOST_MODELS = 40
"""How many models span the subspace of random steps."""
MOST_AXES = 400
"""Single coefficients that are tried in one climb."""


@dataclass(eq=False)
class Hunt:
    """One setting: the models seen so far, and the references that they are offered to.

    Attributes
    ----------
    cases
        Problems that differ in κ alone.
    references
        Where better models go.
    free
        The unconstrained model.
    """

    cases: list[Case]
    references: References
    free: Model
    models: list[tuple[float, float, Model]] = field(default_factory=list)

    def consider(self, model: Model, method: str) -> None:
        """Judge a model for every κ, with its best scale."""
        case = self.cases[0]
        if not np.isfinite(model.scores).all():
            return
        better = rescaled(case, model)
        gap = case.gap(better.scores)
        self.models.append((gap, case.objective(better), better))
        for case in self.cases:
            if gap <= case.max_gap + ROUNDING:
                self.references.offer(case, better, method)

    def best(self, case: Case) -> Model | None:
        """Return the model of the reference, or the best one seen that is feasible."""
        known = self.references.model_of(case)
        if known is not None:
            return known
        feasible = [entry for entry in self.models if entry[0] <= case.max_gap + ROUNDING]
        return min(feasible, key=lambda entry: entry[1])[2] if feasible else None

    def span(self, case: Case) -> list[Model]:
        """Return models that are good near κ: the lowest objectives at gaps up to four times as wide."""
        near = [entry for entry in self.models if entry[0] <= max(4 * case.max_gap, 0.3)]
        near.sort(key=lambda entry: entry[1] + max(entry[0] - case.max_gap, 0.0))
        return [self.free, *(model for _, _, model in near[:MOST_MODELS])]


def make_best_known(setting: list[Case], references: References, seconds: float) -> None:
    """Look for better references of one setting."""
    case, end = setting[0], time.perf_counter() + seconds
    rng = np.random.default_rng(int(time.time()))  # other seeds in every call: what is found is kept
    free = case.model_of(case.fitted(constraint=None, tol=1e-8))
    hunt = Hunt(setting, references, free)
    for one in setting:
        references.begin(one, free)
        if (known := references.model_of(one)) is not None:
            hunt.consider(known, "a rescaled reference")
    setting = [one for one in setting if case.gap(free.scores) > one.max_gap]  # the others are solved
    if not setting:
        return
    _fit(hunt, setting, rng, time.perf_counter() + SHARE_OF_FITS * seconds)
    design = Design.of(case)
    _descend(hunt, setting, design, rng, time.perf_counter() + SHARE_OF_DESCENTS * seconds)
    while (left := end - time.perf_counter()) > 0:
        for one in setting:
            _climb(hunt, one, design, rng, left / len(setting))


def _fit(hunt: Hunt, setting: list[Case], rng: np.random.Generator, end: float) -> None:
    """Fit in every way, until time is up."""
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
    """Yield methods with their settings: the likely ones first, then random ones without end."""
    for case in setting:
        yield "a default fit", {"max_gap": case.max_gap}
    yield "chain", {"order": CHAIN}
    yield "chain", {"order": CHAIN[::-1]}
    spread = float(hunt.free.scores.std())
    while True:
        case = setting[int(rng.integers(len(setting)))]
        allowed = case.max_gap * float(rng.choice([0.4, 0.6, 0.75, 0.9, 1.0, 1.15, 1.3, 1.6]))
        width = spread * float(rng.choice([0.05, 0.1, 0.2, 0.3, 0.5]))
        common = {"max_gap": min(allowed, 1.0), "n_points": int(rng.choice([5, 10, 20, 40]))}
        draw = rng.random()
        if draw < 0.5:
            yield "a surrogate fit", {**common, "enforce": "surrogate", "surrogate": RoundedRamp(width)}
        elif draw < 0.7:
            yield (
                "a surrogate fit, sigmoid",
                {
                    **common,
                    "enforce": "surrogate",
                    "surrogate": "sigmoid",
                    "surrogate_width": width,
                },
            )
        elif draw < 0.8:
            yield (
                "an exact fit, other settings",
                {
                    **common,
                    "surrogate_width": width,
                    "n_starts": 4,
                    "random_state": int(rng.integers(1000)),
                },
            )
        elif draw < 0.93:
            yield (
                "augmented Lagrangian",
                {
                    **common,
                    "enforce": "surrogate",
                    "surrogate": RoundedRamp(width),
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
                    "surrogate_width": width,
                    "solver": "idca-switching",
                    "time_limit": 20.0,
                },
            )


def _chain(hunt: Hunt, case: Case, order: tuple[float, ...], end: float) -> None:
    """Fit one κ after another, each from the last solution."""
    clf = case.estimator(warm_start=True)
    for max_gap in order:
        left = end - time.perf_counter()
        if left <= 0:
            return
        clf.set_params(max_gap=max_gap, time_limit=max(left, 1.0))
        clf.fit(case.X, case.y, sensitive_features=case.groups)
        hunt.consider(case.model_of(clf), "a chain of warm fits")


def _descend(hunt: Hunt, setting: list[Case], design: Design, rng: np.random.Generator, end: float) -> None:
    """Minimise with the smoothed gap as a penalty: each κ in turn, from good models and the free one."""
    turn = 0
    while time.perf_counter() < end:
        case = setting[turn % len(setting)]
        best = hunt.best(case)
        fresh = best is None or turn < len(setting) or rng.random() < 0.3
        start = hunt.free if fresh else best
        allowed = case.max_gap * float(rng.uniform(0.75, 1.0))
        for model in smooth_descent(case, design, start, allowed, rounds=6 if fresh else 3):
            hunt.consider(model, "smoothed gap as a penalty")
            if time.perf_counter() > end:
                return
        turn += 1


def _climb(hunt: Hunt, case: Case, design: Design, rng: np.random.Generator, seconds: float) -> None:
    """Step towards the unconstrained model, then at random: in the span, then along coefficients."""
    best = hunt.best(case)
    if best is None:
        return
    best = towards(case, best, hunt.free)
    hunt.consider(best, "a step towards the unconstrained model")
    span = [model.minus(best) for model in hunt.span(case)]
    best = climb(case, best, span, rng, seconds / 2)
    hunt.consider(best, "random steps in the span of models")
    n_vectors, n_features = design.shape
    axes = [(k, j) for k in range(n_vectors) for j in range(n_features)]
    if len(axes) > MOST_AXES:
        axes = [axes[i] for i in rng.choice(len(axes), MOST_AXES, replace=False)]
    best = climb(case, best, [design.axis(k, j) for k, j in axes], rng, seconds / 2)
    hunt.consider(best, "random steps along coefficients")
