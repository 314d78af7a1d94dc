"""A trained model as plain data for JSON: result of the fit, and coefficients or size of the trees."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from partialfair.cli.intervals import interval_record
from partialfair.data.groups import group_name
from partialfair.data.intervals import require_interval
from partialfair.tables import TableModel
from partialfair.training.result import FitResult, Population


def model_record(model: TableModel) -> dict[str, Any]:
    """Return the result of the fit of a model, and its parameters."""
    result = model.classifier.result_
    fit = {
        "status": result.status.value,
        "satisfied": result.satisfied,
        "objective": result.objective,
        "max_violation": result.max_violation,
        "training_gap": result.gap,
        "infeasibility": result.infeasibility,
        "outside": outside_record(result),
        "population": None if result.population is None else _population_record(result.population),
        "decision_threshold": model.classifier.decision_threshold_,
        "steps": result.history[-1].step,
        "passes": result.history[-1].passes,
        "seconds": result.history[-1].seconds,
        "tol": result.tol,
        "kkt_certificate": {
            "mu": result.kkt.mu,
            "distance": result.kkt.distance,
            "stationarity": result.kkt.stationarity,
            "feasibility": result.kkt.feasibility,
            "complementarity": result.kkt.complementarity,
        },
    }
    return {"fit": fit, **_parameters_record(model)}


def _parameters_record(model: TableModel) -> dict[str, Any]:
    """Return intercepts and coefficients by group, or the size of the trees."""
    classifier: Any = model.classifier
    if classifier.takes_tables:
        from partialfair.trees.ensembles import ensemble_of

        n_leaves = ensemble_of(classifier.estimator_).n_leaves
        kind = type(classifier.estimator_).__name__
        size = {"n_trees": len(n_leaves), "n_leaves": sum(n_leaves)}
        return {"trees": {"kind": kind, **size, "alpha": classifier.alpha_}}
    # With group terms there is one row of coefficients for each group.
    blocks = classifier.groups_.tolist() if len(classifier.intercept_) > 1 else ["all"]
    # Intercepts may differ by group where coefficients do not.
    shape = (max(len(blocks), len(classifier.coef_)), classifier.coef_.shape[1])
    coefficients = np.broadcast_to(classifier.coef_, shape)
    return {
        "intercepts": {
            group_name(block): float(value)
            for block, value in zip(blocks, classifier.intercept_, strict=True)
        },
        "coefficients": {
            group_name(block): dict(zip(model.feature_names, row.tolist(), strict=True))
            for block, row in zip(blocks, coefficients, strict=True)
        },
    }


def outside_record(result: FitResult) -> list[dict[str, Any]]:
    """Return the limits next to the interval, and the training gaps there."""
    return [
        {
            "interval": interval_record(require_interval(constraint.interval)),
            "limit": constraint.max_gap,
            "gap": gap.value,
            "worst_pair": [group_name(label) for label in gap.groups],
        }
        for constraint, gap in zip(result.outside, result.outside_gaps, strict=True)
    ]


def _population_record(population: Population) -> dict[str, Any]:
    """Return plain data for JSON; the limit of an unconstrained model is null."""
    record = asdict(population)
    record["trained_max_gap"] = None if np.isinf(population.trained_max_gap) else population.trained_max_gap
    record["not_evaluated"] = [group_name(label) for label in population.not_evaluated]
    return record
