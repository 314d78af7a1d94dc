"""Every scalar parameter of the public interface × bad values: a clear error that names the parameter."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from partialfair import (
    FitOptions,
    PartialFairClassifier,
    PartialFairRegressor,
    choose_interval,
    fairness_path,
    metrics,
    theory,
)
from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.datasets import make_admissions
from partialfair.optimization.objectives import AUC, Hinge, PartialAUC
from partialfair.optimization.problems import Ball
from partialfair.optimization.solvers import IDCA, SQP, MultiStartSQP
from partialfair.plotting import plot_score_densities
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.theory.deviations import members_needed
from partialfair_paper.quadratic import QuadraticGroupAUC

RNG = np.random.default_rng(0)
N = 80
X, GROUPS = RNG.normal(size=(N, 2)), np.arange(N) % 2
SCORES = X[:, 0] + 0.2 * GROUPS
Y = (SCORES > 0).astype(int)
GIVEN = {"sensitive_features": GROUPS}

NUMBERS = ["0.5", np.nan, np.inf, -np.inf, 10**400, -(10**400), True, [0.5], {}, 1j, object]
COUNTS = [*NUMBERS, 1.5, -3]
FLAGS = ["yes", 2, 0.5, None, np.nan, [True]]
SEEDS = ["0", 0.5, np.nan, -1, {}, object]


def named(value):
    return f"{type(value).__name__}-{str(value)[:8]}"


def metric(function, *given, **more):
    return lambda **bad: function(*given, **{**GIVEN, **more, **bad})


def fit(kind, target, **more):
    return lambda **bad: kind(**{"constraint": None, **more, **bad}).fit(X, target, **GIVEN)


AT = {"threshold": 0.0}
SOLVES = {"constraint": "demographic_parity", "interval": (0, 1), "max_gap": 0.3, "max_iter": 5}
TABLE = [
    (metric(metrics.partial_statistical_parity_difference, None, SCORES), {"higher_is_better": FLAGS}),
    (
        metric(metrics.partial_demographic_parity_difference, None, SCORES),
        {"threshold": [*NUMBERS[:2], None, 10**400, True, [0.5], 1j]},
    ),
    (
        metric(metrics.partial_equal_opportunity_difference, Y, SCORES),
        {"threshold": [*NUMBERS[:2], None, 10**400, True]},
    ),
    (metric(metrics.partial_group_auc_difference, None, SCORES), {"higher_is_better": FLAGS}),
    (
        metric(metrics.fairness_report, Y, SCORES, n_resamples=100),
        {
            "confidence": [*NUMBERS, None, 0, 1, -1],
            "n_resamples": [*COUNTS, None, 0],
            "min_group_size": [*COUNTS, None],
            "max_groups": [*COUNTS, None],
            "higher_is_better": FLAGS,
            "threshold": [*NUMBERS[:2], 10**400, True],
            "random_state": SEEDS,
        },
    ),
    (
        metric(metrics.compare_gaps, Y, SCORES, -SCORES, n_resamples=100),
        {
            "confidence": [*NUMBERS, None, 0, 1],
            "n_resamples": [*COUNTS, None],
            "min_group_size": COUNTS,
            "random_state": SEEDS,
        },
    ),
    (metric(metrics.calibration_by_group, Y, SCORES), {"n_bins": [*COUNTS, None, 0]}),
    (
        metric(choose_interval, SCORES, positive_rate=0.3),
        {
            "positive_rate": [*NUMBERS, -1, 2],
            "width": [*NUMBERS, None, 0, 2],
            "confidence": [*NUMBERS, None, 0, 1],
            "higher_is_better": FLAGS,
            "random_state": SEEDS,
        },
    ),
    (metric(metrics.rank_curve, SCORES), {"n_points": [*COUNTS, 0], "higher_is_better": FLAGS}),
    (
        metric(metrics.unfairness_map, SCORES),
        {"n_grid": [*COUNTS, None, 0], "confidence": [*NUMBERS, None, 0, 1]},
    ),
    (
        metric(plot_score_densities, SCORES),
        {"threshold": ["0.5", np.nan, 10**400, True], "higher_is_better": FLAGS},
    ),
    (
        lambda **bad: theory.dkw_bound(**{"n_effective": 100.0, **bad}),
        {
            "n_effective": [*NUMBERS, None, 0],
            "confidence": [*NUMBERS, None, 0, 1],
            "n_comparisons": [*COUNTS, None],
        },
    ),
    (
        lambda **bad: metrics.sample_size(**{"max_gap": 0.1, **bad}),
        {
            "max_gap": [*NUMBERS, None, 0],
            "true_gap": [*NUMBERS, None],
            "confidence": [*NUMBERS, None],
            "power": [*NUMBERS, None],
        },
    ),
    (
        lambda **bad: metrics.detectable_gap(**{"n": 100, **bad}),
        {"n": [*NUMBERS, None, 0], "confidence": [*NUMBERS, None], "power": [*NUMBERS, None]},
    ),
    (
        lambda **bad: members_needed(
            **{"deviation": 0.1, "vc_dimension": 3, "n_points": 10, "n_groups": 2, **bad}
        ),
        {
            "deviation": [*NUMBERS, 0],
            "vc_dimension": COUNTS,
            "n_points": COUNTS,
            "n_groups": COUNTS,
            "confidence": NUMBERS,
        },
    ),
    (
        lambda **bad: theory.uniform_deviation_bound(
            **{"n": 100, "vc_dimension": 3, "n_points": 10, "n_groups": 2, **bad}
        ),
        {
            "n": [*COUNTS, 0],
            "vc_dimension": COUNTS,
            "n_points": COUNTS,
            "n_groups": COUNTS,
            "confidence": NUMBERS,
        },
    ),
    (
        lambda **bad: theory.objective_bound(**{"n": 100, "coef_norm": 1.0, "feature_norm": 1.0, **bad}),
        {
            "n": [*COUNTS, 0],
            "coef_norm": [*NUMBERS, -1],
            "feature_norm": [*NUMBERS, -1],
            "lipschitz": NUMBERS,
            "loss_at_zero": NUMBERS,
            "n_points": COUNTS,
            "n_groups": COUNTS,
            "confidence": NUMBERS,
        },
    ),
    (
        lambda **bad: theory.idca_budget(
            **{"lipschitz": 1.0, "mu": 1.0, "nu": 1.0, "epsilon": 0.1, "decrease": 1.0, **bad}
        ),
        {name: [*NUMBERS, 0, -1] for name in ("lipschitz", "mu", "nu", "epsilon", "decrease")},
    ),
    (Ball, {"radius": [*NUMBERS, 0, -1]}),
    (
        lambda **bad: PartialParityAdjuster((0, 1), **{"max_gap": 0.1, **bad}).fit(SCORES, **GIVEN),
        {
            "max_gap": [*NUMBERS, None, -1, 2],
            "min_group_size": COUNTS[:8],
            "max_knots": COUNTS,
            "margin": NUMBERS,
            "higher_is_better": FLAGS,
            "score_range": ["0.5", (0, 10**400), (np.nan, 1), (1,), 3],
        },
    ),
    (
        lambda **bad: PartialParityAdjuster((0, 1), 0.1, constraint="demographic_parity", **bad).fit(
            SCORES, **GIVEN
        ),
        {"constraint_threshold": [*NUMBERS, None]},
    ),
    *[
        (kind, {"max_gap": [*NUMBERS, None, -1]})
        for kind in (
            StatisticalParity,
            DemographicParity,
            GroupAUC,
            EqualOpportunity,
            EqualizedOdds,
            QuadraticGroupAUC,
        )
    ],
    (StatisticalParity, {"n_points": [*COUNTS, None, 0], "points": [(10**400,), ("a",), (np.nan,), 3]}),
    (DemographicParity, {"threshold": [*NUMBERS, None]}),
    (QuadraticGroupAUC, {"margin": [*NUMBERS, None, 0]}),
    *[(kind, {"width": [*NUMBERS, None, 0, -1]}) for kind in (Ramp, RoundedRamp, Sigmoid)],
    *[(kind, {"rounding": [*NUMBERS, None, -1]}) for kind in (AUC, Hinge)],
    (PartialAUC, {"fpr": [(0, 10**400), ("a", 1), (np.nan, 1), 3, "ab"]}),
    *[
        (
            fit(kind, target),
            {
                "alpha": [*NUMBERS, -1],
                "tol": [*NUMBERS, 0],
                "max_iter": [*COUNTS, 0],
                "time_limit": [*NUMBERS, -1],
                "fit_intercept": FLAGS,
                "warm_start": FLAGS,
                "verbose": ["1", np.nan, 10**400, [1], 0.5],
                "random_state": SEEDS,
                "higher_is_better": FLAGS,
            },
        )
        for kind, target in ((PartialFairClassifier, Y), (PartialFairRegressor, SCORES))
    ],
    (
        fit(PartialFairClassifier, Y, **SOLVES),
        {
            "max_gap": [*NUMBERS, None, -1],
            "confidence": [*NUMBERS, 0, 1],
            "constraint_threshold": [*NUMBERS, None],
            "min_group_size": COUNTS,
            "validation": ["0.5", np.nan, 10**400, 0, 1, True],
        },
    ),
    *[(kind, {"max_iter": [*COUNTS, None, 0]}) for kind in (IDCA, SQP, MultiStartSQP)],
    *[(kind, {"tol": [*NUMBERS, None]}) for kind in (SQP, MultiStartSQP)],
    (
        FitOptions,
        {
            "n_points": [*COUNTS, 0],
            "surrogate_width": [*NUMBERS, 0],
            "n_starts": [*COUNTS, 0],
            "surrogate_halvings": [*COUNTS, -1],
            "search_steps": [*COUNTS, -1],
            "allow_ties": FLAGS,
        },
    ),
    (lambda **bad: make_admissions(**bad), {"n": [*COUNTS, None, 0], "seed": SEEDS}),
    (
        lambda **bad: fairness_path(
            PartialFairClassifier(interval=(0, 1), max_iter=3), X, Y, **{"max_gaps": [0.3], **GIVEN, **bad}
        ),
        {
            "max_gaps": ["0.5", [np.nan], [10**400], ["a"], [True], 10**400, []],
            "alphas": [["a"], [10**400], [np.nan], "x"],
            "validation": ["0.5", np.nan, 10**400, 0, 1],
            "cv": ["a", 0.5, 10**400, 1],
            "min_group_size": COUNTS,
            "n_jobs": ["a", 0.5, 10**400],
            "random_state": SEEDS,
        },
    ),
]
CASES = [
    pytest.param(call, name, value, id=f"{k}-{name}-{named(value)}")
    for k, (call, parameters) in enumerate(TABLE)
    for name, values in parameters.items()
    for value in values
]


@pytest.mark.parametrize(("call", "name", "value"), CASES)
def test_bad_values_raise_an_error_that_names_the_parameter(call, name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError)) as caught:
            call(**{name: value})
    assert name in str(caught.value).replace(" ", "_")
    assert len(str(caught.value)) < 400
