"""Whether a refactoring keeps the numbers: about 60 models and reports, compared with an earlier checkout.

Run ``python benchmarks/same_numbers.py --before DIR | --before-commit COMMIT``. Each checkout computes, in a
process of its own and on one thread, the same cases with public names only; ``RENAMED`` holds names that
differ between the two. Numbers are compared one by one: the largest difference, relative to the size of the
earlier value where that exceeds 1, must not exceed ``--tolerance``. Words (statuses, pairs of groups) must be
equal. The record lists the cases that differ; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import partialfair
from _earlier import ROOT, add_earlier, answer_of, commit_of, earlier_checkout, import_moved
from _record import RESULTS, write
from partialfair import PartialFairClassifier, PartialFairRegressor, fairness_path
from partialfair.constraints import DemographicParity, EqualOpportunity, StatisticalParity
from partialfair.metrics import compare_gaps, fairness_report, unfairness_map
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees

CategoricalCodes = import_moved("CategoricalCodes")
TITLE = "Numbers that differ from those of an earlier checkout"
RENAMED: dict[str, tuple[str, ...]] = {
    "satisfied": ("satisfied", "promise_kept", "kept"),
    "not_evaluated": ("not_evaluated", "not_judged"),
    "validated": ("validated", "certified"),
    "n_validated": ("n_validated", "n_certified"),
    "upper_bound": ("upper_bound", "at_most"),
    "gaps": ("gaps", "values"),
    "not_validated": ("not_validated", "not_certified"),
    "smaller gap": ("smaller gap", "fairer"),
    "larger gap": ("larger gap", "less fair"),
    "inconclusive": ("inconclusive", "not shown"),
}
"""Attributes, statuses and verdicts that some checkouts know by another name, newest first."""
CONSTRAINTS = (
    "statistical_parity",
    "demographic_parity",
    "group_auc",
    "equal_opportunity",
    "equalized_odds",
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
FEW_STEPS = {"search_steps": 20, "n_starts": 1}
QUICK = {"interval": (0.1, 0.6), "max_gap": 0.15, **FEW_STEPS}


def rows(seed: int = 0, n: int = 500, n_groups: int = 2) -> tuple[Any, Any, Any]:
    """Return features, the first of which tells the group, labels and groups."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += codes
    y = X @ [1.0, 1.0, 0.5, 0.0] + rng.logistic(size=n) > 0.5
    return X, y, np.array([f"group {k}" for k in range(n_groups)])[codes]


def attribute(thing: Any, name: str) -> Any:
    """Return an attribute by whichever of its names a checkout knows."""
    return next(getattr(thing, known) for known in RENAMED.get(name, (name,)) if hasattr(thing, known))


def newest(name: str) -> str:
    """Return the newest name of what some checkouts know by another."""
    return next((new for new, names in RENAMED.items() if name in names), name)


def describe(model: Any, X: Any, *groups: Any) -> dict[str, Any]:
    """Return what a fit came back with."""
    result = model.result_
    score = model.decision_function if hasattr(model, "classes_") else model.predict
    return {
        "status": newest(str(result.status)),
        "satisfied": attribute(result, "satisfied"),
        "objective": result.objective,
        "gaps": [gap.value for gap in result.gaps],
        "pairs": [list(map(str, gap.groups)) for gap in result.gaps],
        "scores": np.asarray(score(X, *groups))[:50].tolist(),
    }


def configure(model: Any, **settings: Any) -> Any:
    """Set parameters of an estimator; some checkouts know those of the search as fields of ``options``."""
    known = model.get_params()
    return model.set_params(
        **{name if name in known else f"options__{name}": value for name, value in settings.items()}
    )


def classify(data: tuple[Any, Any, Any], weights: Any = None, **settings: Any) -> dict[str, Any]:
    """Fit a classifier and describe the fit."""
    X, y, groups = data
    model = configure(PartialFairClassifier(), **(QUICK | settings))
    model.fit(X, y, sensitive_features=groups, sample_weight=weights)
    return describe(model, X, groups)


def regress(**settings: Any) -> dict[str, Any]:
    """Fit a regressor to targets in the thousands and describe the fit."""
    X, _, groups = rows(3)
    y = 1000 * X.sum(axis=1) + np.random.default_rng(1).normal(size=len(X))
    model = configure(PartialFairRegressor(), **(QUICK | settings))
    return describe(model.fit(X, y, sensitive_features=groups), X)


def refit(model: Any, **settings: Any) -> dict[str, Any]:
    """Refit trees and describe the fit."""
    X, y, groups = rows(4)
    trees = configure(PartialFairTrees(model), **(QUICK | {"random_state": 0} | settings))
    return describe(trees.fit(X, y, sensitive_features=groups), X)


def walk(**settings: Any) -> dict[str, Any]:
    """Fit a path and return its frame."""
    X, y, groups = rows(5)
    path = fairness_path(
        configure(PartialFairClassifier(interval=(0.1, 0.6)), **FEW_STEPS),
        X,
        y,
        sensitive_features=groups,
        max_gaps=[0.3, 0.15],
        random_state=0,
        **settings,
    )
    frame = path.to_frame().drop(columns="seconds")
    return {"frame": frame.astype(str).to_numpy().tolist(), "scores": path.points[-1].scores[:50].tolist()}


def promise(**settings: Any) -> dict[str, Any]:
    """Fit for the population, and return what held-out rows say."""
    X, y, groups = rows(6)
    settings = QUICK | {"enforce": "population", "max_gap": 0.5, "random_state": 0} | settings
    model = configure(PartialFairClassifier(), **settings).fit(X, y, sensitive_features=groups)
    return {
        **describe(model, X),
        "population": {newest(k): str(v) for k, v in vars(model.result_.population).items()},
    }


def report(**settings: Any) -> dict[str, Any]:
    """Return a report of scores as plain data."""
    X, y, groups = rows(7, n_groups=3)
    asked = {"interval": (0.1, 0.4), "threshold": 0.5, "random_state": 0, "n_resamples": 100} | settings
    frame = fairness_report(y, X.sum(axis=1), sensitive_features=groups, **asked).to_frame()
    return {"frame": frame.astype(str).to_numpy().tolist()}


def compare() -> dict[str, Any]:
    """Return the comparison of two models as plain data."""
    X, y, groups = rows(8)
    found = compare_gaps(
        y,
        X[:, 0],
        X[:, 1],
        sensitive_features=groups,
        interval=(0.1, 0.5),
        threshold=0.3,
        n_resamples=100,
        random_state=0,
    )
    frame = found.to_frame().astype(str).to_numpy().tolist()
    return {"frame": [[newest(cell) for cell in line] for line in frame]}


def adjust(**settings: Any) -> dict[str, Any]:
    """Return adjusted scores."""
    X, _, groups = rows(9)
    adjuster = PartialParityAdjuster(interval=(0.1, 0.5), max_gap=0.1, **settings)
    return {"scores": adjuster.fit(X[:, 0], sensitive_features=groups).transform(X[:, 0], groups).tolist()}


def codes(seed: int = 10) -> tuple[Any, Any, Any]:
    """Return rows whose features are codes of categories."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 3, size=(500, 3)).astype(np.uint16)
    y = levels.sum(axis=1) + rng.normal(size=500) > 3
    groups = np.where(levels[:, 0] + rng.integers(0, 2, 500) > 1, "a", "b")
    return CategoricalCodes(levels, (np.arange(3),) * 3, ("x", "y", "z")), y, groups


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield names and what computes them."""
    X, y, groups = data = rows()
    frame = (pd.DataFrame(X, columns=[*"abcd"]), y, groups)
    weights = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    for constraint in CONSTRAINTS:
        yield f"linear, {constraint}", partial(classify, data, constraint=constraint)
        yield (
            f"linear, {constraint}, three groups",
            partial(classify, rows(1, n_groups=3), constraint=constraint),
        )
        yield f"surrogate, {constraint}", partial(classify, data, constraint=constraint, enforce="surrogate")
        if constraint != "group_auc":
            yield (
                f"absolute, {constraint}",
                partial(classify, data, constraint=constraint, gap_scale="absolute"),
            )
        yield f"weights, {constraint}", partial(classify, data, weights, constraint=constraint)
    yield "unconstrained", partial(classify, data, constraint=None)
    yield "frame", partial(classify, frame)
    yield "sparse", partial(classify, (sparse.csr_matrix(X), y, groups))
    yield "codes", partial(classify, codes())
    for terms in ("intercept", "interactions"):
        yield f"group terms, {terms}", partial(classify, data, group_terms=terms)
    for loss in ("hinge", "squared", "auc"):
        yield f"loss, {loss}", partial(classify, data, loss=loss)
    yield "low scores are good", partial(classify, data, higher_is_better=False)
    yield "balanced", partial(classify, data, class_weight="balanced")
    yield "automatic interval", partial(classify, data, interval="auto")
    yield "union of intervals", partial(classify, data, interval=[(0.0, 0.2), (0.5, 0.7)])
    yield "rank by rank", partial(classify, data, surrogate_halvings=2)
    yield "out of steps", partial(classify, data, max_gap=0.02)
    objects = [StatisticalParity((0.1, 0.5), 0.2), DemographicParity((0.0, 0.5), 0.2, threshold=0.3)]
    by_name = {name: PartialFairClassifier().get_params()[name] for name in ("interval", "max_gap")}
    yield "two constraints", partial(classify, data, constraint=objects, **by_name)
    one = EqualOpportunity((0.0, 0.8), 0.2, threshold=0.2)
    yield "an object", partial(classify, data, constraint=one, **by_name)
    for solver in ("idca", "augmented-lagrangian"):
        yield f"solver, {solver}", partial(classify, data, solver=solver, enforce="surrogate")
    yield "regressor", regress
    yield (
        "regressor, a threshold",
        partial(regress, constraint="demographic_parity", constraint_threshold=500.0),
    )
    yield "path", walk
    yield "path, two alphas", partial(walk, alphas=[1e-4, 1e-2])
    yield "path, three folds", partial(walk, cv=3)
    yield "population", promise
    yield "population, low scores", partial(promise, higher_is_better=False)
    yield from trees()
    yield "report", report
    yield "report, absolute", partial(report, gap_scale="absolute")
    yield "report, lowest first", partial(report, higher_is_better=False, threshold=-0.5)
    yield "comparison", compare
    yield (
        "map",
        lambda: {
            "gaps": np.nan_to_num(
                attribute(unfairness_map(X[:, 0], sensitive_features=groups, n_grid=10), "gaps")
            ).tolist()
        },
    )
    yield "adjuster", adjust
    yield "adjuster, a threshold", partial(adjust, constraint="demographic_parity", constraint_threshold=0.5)


def trees() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield names of refits of trees and what computes them."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    boosted = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=6)
    yield "trees, histograms", partial(refit, boosted)
    yield "trees, unconstrained", partial(refit, boosted, constraint=None)
    yield "trees, alpha chosen", partial(refit, boosted, alpha="auto")
    yield "trees, a forest", partial(refit, RandomForestClassifier(5, max_depth=3, random_state=0))
    small = {"n_estimators": 10, "num_leaves": 6, "n_jobs": 1, "verbose": -1}
    yield "trees, LightGBM", partial(refit, LGBMClassifier(**small))
    yield "trees, LightGBM's regressor", partial(refit, LGBMRegressor(**small))


def measure(prefix: str) -> dict[str, Any]:
    """Compute cases with the package at hand; one that raises is recorded by its message."""
    warnings.simplefilter("ignore")
    answers: dict[str, Any] = {}
    for name, compute in cases():
        if not name.startswith(prefix):
            continue
        try:
            answers[name] = compute()
        except Exception as error:  # it must be the same in both checkouts
            answers[name] = {"raised": f"{type(error).__name__}: {error}"}
    return {"package": str(Path(partialfair.__file__).resolve()), "cases": answers}


def difference(before: Any, now: Any) -> float:
    """Return the largest relative difference of two answers; infinite if they differ otherwise."""
    if isinstance(before, dict) and isinstance(now, dict):
        pairs = (
            [(before[key], now[key]) for key in before] if before.keys() == now.keys() else [(0.0, np.inf)]
        )
        return max((difference(*pair) for pair in pairs), default=0.0)
    if isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            return float("inf")
        return max((difference(*pair) for pair in zip(before, now, strict=True)), default=0.0)
    try:
        one, other = float(before), float(now)
    except (TypeError, ValueError):
        return 0.0 if before == now else float("inf")
    if one == other or (np.isnan(one) and np.isnan(other)):
        return 0.0
    return abs(other - one) / max(1.0, abs(one))


def main() -> None:
    """Compare this checkout with an earlier one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    add_earlier(parser, "--measure", "cases to compute with the package at hand: names that begin like this")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure)))
        return
    with earlier_checkout(arguments) as before:
        old, new = (
            answer_of(__file__, ["--measure", ""], checkout, "the cases", ONE_THREAD)["cases"]
            for checkout in (before, ROOT)
        )
        commit = commit_of(before)
    found = {name: difference(old.get(name), new.get(name)) for name in {**old, **new}}
    differing = {name: size for name, size in found.items() if not size <= arguments.tolerance}
    table = [{"case": name, "difference": f"{size:.1e}"} for name, size in differing.items()]
    summary = {"case": f"{len(found) - len(differing)} of {len(found)} cases are equal", "difference": ""}
    title = f"{TITLE} ({commit}) by more than {arguments.tolerance:g}"
    write("same_numbers", title, [*table, summary], arguments.out)
    raise SystemExit(bool(differing))


if __name__ == "__main__":
    main()
