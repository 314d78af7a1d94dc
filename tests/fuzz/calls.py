"""Calls of the Python interface with drawn arguments, each from one integer, and what may not come of them.

A call is right if it returns regular numbers, or raises an error that was meant: an `InputError`, or a
ValueError or TypeError of a ``raise`` in partialfair or scikit-learn. Whatever else reaches the caller is a
raw exception.
"""

from __future__ import annotations

import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from partialfair import (
    PartialFairClassifier,
    PartialFairRegressor,
    choose_interval,
    constraints,
    fairness_path,
    load_model,
    metrics,
    save_model,
)
from partialfair.exceptions import InputError
from partialfair.metrics.report import FairnessReport
from partialfair.onnx import to_onnx
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair.trees import PartialFairTrees
from tests.fuzz.shapes import draw_column, draw_matrix
from tests.fuzz.tables import HOSTILE_TEXTS, Table, make_table, plain_table

__all__ = ["IRREGULAR", "KINDS", "REFUSED", "Draw", "find_flaws", "perform"]

REFUSED, IRREGULAR = 2, 4
"""Exit codes of a call whose input was refused, and of one whose result is not regular."""
_BAD = 0.08


@dataclass(frozen=True)
class Draw:
    """What arguments are drawn by."""

    rng: Random
    table: Table
    bad: float

    def column(self, role: str) -> Any:
        values = self.table.columns[self.table.of(role)].values
        with warnings.catch_warnings(action="ignore"):
            return draw_column(self.rng, values, self.bad / 2)

    def matrix(self) -> Any:
        n, labels = self.table.n_rows, self.table.columns[self.table.of("label")].values
        skill = [len(str(value)) % 7 / 7 + (value == 1) for value in labels]
        n_columns = self.rng.choices((3, 1, 6), (8, 1, 1))[0]
        with warnings.catch_warnings(action="ignore"):
            return draw_matrix(self.rng, n, skill or [0.0], self.bad / 2, n_columns)

    def options(self, choices: dict[str, tuple[Any, ...]], often: float = 0.2) -> dict[str, Any]:
        """Return some of the options, with values that are rarely out of range."""
        drawn = {}
        for name, good in choices.items():
            if self.rng.random() < often:
                pool = good if self.rng.random() >= self.bad else _BAD_VALUES
                drawn[name] = self.rng.choice(pool)
        return drawn

    def interval(self) -> Any:
        values = self.table.columns[self.table.of("group")].values
        groups = list(dict.fromkeys(value for value in values if isinstance(value, str | int | float)))
        if self.rng.random() < self.bad:
            return self.rng.choice([*_BAD_INTERVALS, *_BAD_VALUES])
        low = self.rng.choice([0, 0, 0.05, 0.2])
        one = (low, round(low + self.rng.choice([0.1, 0.25, 0.5, 0.8]), 2))
        forms: tuple[Callable[[], Any], ...] = (
            lambda: one,
            lambda: one,
            lambda: list(one),
            lambda: np.array(one),
            lambda: (np.float32(one[0]), one[1]),
            lambda: [(0.1, 0.3), (0.5, 0.8)],
            lambda: [(0.1, 0.3), (0.3, 0.8)],
            lambda: {str(group): one for group in groups},
            lambda: {group: [(0.0, 0.2), (0.6, 0.7)] for group in groups},
        )
        return self.rng.choice(forms)()


_BAD_VALUES: tuple[Any, ...] = (
    None,
    float("nan"),
    float("inf"),
    -1,
    0,
    2,
    1.5,
    -0.5,
    "0.5",
    "",
    "auto",
    10**400,
    -(10**400),
    2**63,
    1e-320,
    1e308,
    True,
    (),
    [],
    {},
    [0.5],
    (0.1, 0.2),
    np.array([0.5]),
    np.array(0.5),
    np.float32(0.5),
    np.int64(3),
    3 + 4j,
    b"x",
    object,
    *HOSTILE_TEXTS[:3],
)
_BAD_INTERVALS: tuple[Any, ...] = (
    (0.3, 0.1),
    (0, 0),
    (0, 1e-9),
    (-0.1, 0.5),
    (0.5, 1.5),
    (float("nan"), 1),
    (0.1,),
    (0.1, 0.2, 0.3),
    ("a", "b"),
    [(0.1, 0.3), (0.2, 0.4)],
    [[0.1, 0.2], 0.5],
    {"nobody": (0.1, 0.2)},
    {None: (0.1, 0.2)},
    {"women": (0.1, 0.2)},
    {"women": (0.1, 0.2), "men": {"men": (0.1, 0.2)}},
    np.zeros((2, 2, 2)),
)

_COMMON: dict[str, tuple[Any, ...]] = {
    "higher_is_better": (True, False, np.True_),
    "missing_groups": ("error", "ignore"),
}
_SCALED = _COMMON | {"gap_scale": ("interval", "absolute")}
_LABELED = {"pos_label": (1, 0, "1", True), "rank_within": ("group", "group_and_label")}
_BOUNDED = {
    "confidence": (0.9, 0.95, 0.5),
    "random_state": (0, 1, np.random.default_rng(0)),
    "min_group_size": (1, 2, 10, 30),
    "small_groups": ("list", "merge", "keep"),
}


def _rows(draw: Draw, *, clusters: bool = False) -> dict[str, Any]:
    """Return the groups and, at times, weights and clusters."""
    columns = {"sensitive_features": draw.column("group")}
    if draw.rng.random() < 0.25:
        columns["sample_weight"] = draw.column("weight")
    if clusters and draw.rng.random() < 0.15:
        columns["clusters"] = draw.column(draw.rng.choice(["id", "group", "weight"]))
    return columns


_PARITY_METRICS = ("statistical_parity", "group_auc")
_THRESHOLD_METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")


def _metric(draw: Draw) -> Any:
    """A gap."""
    name = draw.rng.choice([*_PARITY_METRICS, *_THRESHOLD_METRICS])
    function = getattr(metrics, f"partial_{name}_difference")
    options = dict(_COMMON) if name == "group_auc" else dict(_SCALED)
    if name == "group_auc":
        options["ties"] = ("half", "geq")
    if name in _THRESHOLD_METRICS:
        options["threshold"] = (0, 0.5, -0.3, np.float32(0.1))
    if name in ("equal_opportunity", "equalized_odds"):
        options |= _LABELED
    drawn = {"threshold": 0.3} if name in _THRESHOLD_METRICS else {}
    drawn |= draw.options(options)
    labels, scores = draw.column("label"), draw.column("score")
    gap = function(labels, scores, interval=draw.interval(), **_rows(draw), **drawn)
    return _within(gap, 0.5 if name == "group_auc" else 1.0)


def _within(gap: float, most: float) -> float:
    if not (np.isnan(gap) or 0 <= gap <= most + 1e-9):
        raise IrregularResult(f"the gap is {gap}")
    return gap


def _pairwise(draw: Draw) -> Any:
    """A gap of pairs, or calibration."""
    name = draw.rng.choice(
        ["inter_group_pairwise_difference", "intra_group_pairwise_difference", "calibration_by_group"]
    )
    options = {"pos_label": _LABELED["pos_label"], "missing_groups": _COMMON["missing_groups"]}
    options |= {"n_bins": (2, 10)} if name.startswith("cal") else {"ties": ("half", "geq")}
    function = getattr(metrics, name)
    return function(draw.column("label"), draw.column("score"), **_rows(draw), **draw.options(options))


def _membership(draw: Draw) -> Any:
    """Who is in an interval."""
    rows, options, interval = _rows(draw), draw.options(_COMMON), draw.interval()
    if draw.rng.random() < 0.5:
        return metrics.interval_membership(draw.column("score"), interval=interval, **rows, **options)
    before, after = draw.column("score"), draw.column("weight")
    return metrics.interval_changes(before, after, interval=interval, **rows, **options)


def _report(draw: Draw) -> Any:
    """A report."""
    options = _SCALED | _LABELED | _BOUNDED | {"threshold": (0, 0.5, None), "n_resamples": (100, 200)}
    labels = draw.column("label") if draw.rng.random() < 0.7 else None
    drawn = {"n_resamples": 100} | draw.options(options)
    scores, rows = draw.column("score"), _rows(draw, clusters=True)
    return metrics.fairness_report(labels, scores, interval=draw.interval(), **rows, **drawn)


def _comparison(draw: Draw) -> Any:
    """Two models on the same rows."""
    thresholds = (0, 0.5, None, (0.1, 0.2), [0.1, 0.2])
    options = _SCALED | _LABELED | _BOUNDED | {"threshold": thresholds, "n_resamples": (100, 200)}
    labels = draw.column("label") if draw.rng.random() < 0.7 else None
    drawn = {"n_resamples": 100} | draw.options(options)
    scores, others = draw.column("score"), draw.column(draw.rng.choice(["score", "weight"]))
    rows = _rows(draw, clusters=True)
    return metrics.compare_gaps(labels, scores, others, interval=draw.interval(), **rows, **drawn)


def _map(draw: Draw) -> Any:
    """Gaps of all intervals."""
    drawn = {"n_grid": 6} | draw.options(_SCALED | {"n_grid": (2, 5, 10), "confidence": (0.9, 0.95)})
    return metrics.unfairness_map(draw.column("score"), **_rows(draw), **drawn)


def _curve(draw: Draw) -> Any:
    """Ranks of groups."""
    drawn = draw.options(_COMMON | {"n_points": (2, 10, None)}, often=0.5)
    return metrics.rank_curve(draw.column("score"), **_rows(draw), **drawn)


def _choice(draw: Draw) -> Any:
    """The choice of an interval."""
    options = _COMMON | {"confidence": (0.9, 0.95), "width": (0.1, 0.25, 1.0), "random_state": (0, 1)}
    drawn = {"positive_rate": 0.3} | draw.options(
        options | {"positive_rate": (0.0, 0.5, 1.0, None), "threshold": (0, 0.5)}
    )
    return choose_interval(draw.column("score"), **_rows(draw, clusters=True), **drawn)


def _adjustment(draw: Draw) -> Any:
    """Adjusted scores, also from a file."""
    options = _SCALED | {
        "constraint": ("statistical_parity", "demographic_parity"),
        "constraint_threshold": (0, 0.5, None),
        "score_range": (None, (-10, 10), (0, 1e300)),
        "min_group_size": (1, 2, 10),
        "max_knots": (None, 10, 50),
        "margin": ("auto", 0.0, 0.01),
        "max_gap": (0.0, 0.1, 0.3, 1.0),
    }
    drawn = {"max_gap": 0.4, "constraint_threshold": 0.3} | draw.options(options)
    adjuster = PartialParityAdjuster(draw.interval(), **drawn)
    scores, rows = draw.column("score"), _rows(draw)
    adjusted = adjuster.fit(scores, **rows).transform(scores, rows["sensitive_features"])
    _finite(adjusted)
    return str(adjuster.result_), _stored(adjuster).transform(scores, rows["sensitive_features"])


_FITS: dict[str, tuple[Any, ...]] = {
    **_SCALED,
    "max_gap": (0.0, 0.05, 0.1, 0.3, 1.0),
    "enforce": ("exact", "surrogate", "surrogate", "population"),
    "confidence": (0.5, 0.9),
    "validation": (0.3, 0.5),
    "options__n_points": (2, 5),
    "constraint_threshold": (0.0, 0.5),
    "alpha": (0.0, 1e-4, 1.0),
    "min_group_size": (1, 2, 10),
    "options__surrogate_width": ("auto", 0.1),
    "options__allow_ties": (False, True),
    "warm_start": (False, True),
    "random_state": (0, 1, None),
    "verbose": (0,),
}
_LINEAR_FITS = _FITS | {
    "group_terms": (None, "intercept", "interactions"),
    "fit_intercept": (True, False),
    "sensitive_columns": (None, None, None, 0, [0, 1], "income", [-1]),
}
_QUICK = {
    "time_limit": 0.5,
    "max_iter": 10,
    "options__search_steps": 3,
    "options__n_starts": 1,
    "options__n_points": 3,
}


def _constraint(draw: Draw, *, labels: bool) -> dict[str, Any]:
    """Return settings: a name, nothing, or objects whose limits may be 0 and 1."""
    form = draw.rng.choices(("name", "objects", "none", "bad"), (6, 2, 1, draw.bad))[0]
    if form == "bad":
        return {"constraint": draw.rng.choice(_BAD_VALUES)}
    if form == "none":
        return {"constraint": None}
    known = [name for name in NAMED_CONSTRAINTS if labels or not name.startswith("equal")]
    if form == "name":
        named = {"constraint": draw.rng.choice(known), "interval": draw.interval()}
        return named if labels else named | {"constraint_threshold": 0.3}
    kinds: dict[Any, dict[str, Any]] = {
        constraints.StatisticalParity: {},
        constraints.GroupAUC: {},
        constraints.DemographicParity: {"threshold": 0.1},
    }
    if labels:
        kinds |= {
            constraints.EqualOpportunity: {"threshold": 0.1},
            constraints.EqualizedOdds: {"threshold": 0},
        }
    stated = []
    for _ in range(draw.rng.choice([1, 2, 3])):
        kind = draw.rng.choice(list(kinds))
        limit = draw.rng.choice([0.0, 0.1, 0.2, 1.0])
        stated.append(kind(interval=draw.interval(), max_gap=limit, **kinds[kind]))
    return {"constraint": stated}


def _fit(draw: Draw, estimator: Any, target: str) -> Any:
    """Fit, then predict the same rows, or others, and those from a file."""
    X, rows = draw.matrix(), _rows(draw, clusters=estimator.enforce == "population")
    estimator.fit(X, draw.column(target), **rows)
    str(estimator.result_)
    again = X if draw.rng.random() < 0.6 else draw.matrix()
    groups = rows["sensitive_features"] if draw.rng.random() < 0.7 else draw.column("group")
    outputs = [estimator.predict(again, sensitive_features=groups)]
    if hasattr(estimator, "predict_proba"):
        outputs.append(estimator.predict_proba(again, sensitive_features=groups))
        _finite(estimator.decision_function(again, sensitive_features=groups))
    if draw.rng.random() < 0.3:
        loaded = _stored(estimator).predict(again, sensitive_features=groups)
        if not np.array_equal(loaded, outputs[0]):
            raise IrregularResult("a model from a file predicts something else")
    if draw.rng.random() < 0.2:
        to_onnx(estimator)
    return outputs


def _settings(draw: Draw, options: dict[str, tuple[Any, ...]], *, labels: bool) -> dict[str, Any]:
    """Return the constraint and other settings; objects have an interval and a limit of their own."""
    constraint = _constraint(draw, labels=labels)
    settings = _QUICK | constraint | draw.options(options, often=0.12)
    if isinstance(constraint["constraint"], list):
        settings = {name: value for name, value in settings.items() if name not in _OF_OBJECTS}
    return settings


_OF_OBJECTS = ("max_gap", "gap_scale", "constraint_threshold", "enforce", "options__n_points")


def _classifier(draw: Draw) -> Any:
    """A linear classifier."""
    options = _LINEAR_FITS | {
        "loss": ("logistic", "squared_hinge", "squared"),
        "class_weight": (None, "balanced", {0: 1.0, 1: 2.0}, {"0": 1}),
    }
    settings = _settings(draw, options, labels=True)
    return _fit(draw, PartialFairClassifier().set_params(**settings), "label")


def _regressor(draw: Draw) -> Any:
    """A linear regressor, whose target may be at the ends of the floats."""
    return _fit(
        draw, PartialFairRegressor().set_params(**_settings(draw, _LINEAR_FITS, labels=False)), "score"
    )


def _trees(draw: Draw) -> Any:
    """Trees."""
    kind = draw.rng.choice(["histograms", "forest", "numbers", "LightGBM", "XGBoost"])
    options = _FITS | {"alpha": ("auto", 1e-2, 0.0), "validation_fraction": (None, 0.15, 0.5)}
    estimator = PartialFairTrees(_tree_model(kind))
    estimator.set_params(**_settings(draw, options, labels=kind != "numbers"))
    return _fit(draw, estimator, "score" if kind == "numbers" else "label")


def _tree_model(kind: str) -> Any:
    if kind == "LightGBM":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=3, num_leaves=4, n_jobs=1, verbose=-1)
    if kind == "XGBoost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1)
    if kind == "histograms":
        return HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4)
    return (RandomForestRegressor if kind == "numbers" else RandomForestClassifier)(3, max_depth=3)


def _path(draw: Draw) -> Any:
    """A path of models."""
    estimator = PartialFairClassifier(interval=draw.interval()).set_params(**_QUICK)
    options = {
        "max_gaps": ([0.1, 0.3], [0.2], (0.0, 1.0), np.array([0.2, 0.4])),
        "alphas": (None, [1e-4], [1e-3, 1e-2]),
        "validation": (0.2, 0.5),
        "cv": (None, 2),
        "scoring": ("accuracy", "balanced_accuracy", "roc_auc"),
        "min_group_size": (1, 2, 10),
        "small_groups": ("list", "merge", "keep"),
        "random_state": (0, 1),
    }
    drawn = {"max_gaps": [0.1, 0.3], "min_group_size": 2} | draw.options(options)
    path = fairness_path(
        estimator, draw.matrix(), draw.column("label"), **_rows(draw, clusters=True), **drawn
    )
    path.to_frame()
    return str(path)


def _wrong_files(draw: Draw) -> Any:
    """Models that are none, and places where no file can be."""
    models = (None, 3, "text", PartialFairClassifier, PartialFairClassifier(), LogisticRegression(), [], {})
    places = ("m.skops", "", "missing/m.skops", ".", "\u05e9.skops")
    model, place = draw.rng.choice(models), draw.rng.choice(places)
    act = draw.rng.randrange(3)
    if act == 0:
        save_model(model, place)
        return load_model(place)
    return load_model(place) if act == 1 else to_onnx(model)


def _stored(estimator: Any) -> Any:
    path = Path("model-\u05de\u05d5\u05d3\u05dc.skops")
    save_model(estimator, path)
    return load_model(path)


KINDS: dict[Callable[[Draw], Any], float] = {
    _metric: 16,
    _pairwise: 5,
    _membership: 5,
    _report: 8,
    _comparison: 6,
    _map: 5,
    _curve: 5,
    _choice: 6,
    _adjustment: 9,
    _classifier: 12,
    _regressor: 7,
    _trees: 8,
    _path: 3,
    _wrong_files: 2,
}
"""What is called, and how often."""


class IrregularResult(Exception):
    """A call returned numbers that cannot be right."""


def _finite(values: Any) -> None:
    if not np.isfinite(np.asarray(values, dtype=float)).all():
        raise IrregularResult("scores are not finite")


def _check_regular(value: Any) -> None:
    """Refuse infinite numbers and empty texts; read what results can show."""
    for part in value if isinstance(value, list | tuple) else (value,):
        if isinstance(part, float | np.ndarray) and np.asarray(part).dtype.kind == "f":
            if np.isinf(part).any():
                raise IrregularResult("a result is infinite")
            continue
        for name in ("to_frame", "bins_frame"):
            if not isinstance(part, pd.Series | pd.DataFrame) and hasattr(part, name):
                getattr(part, name)()
        if isinstance(part, FairnessReport):
            part.to_frame(by="pair")
            part.to_frame(by="group")
        str(part)


def perform(seed: int) -> int:
    """Make and run the call of a seed; return an exit code, with an explanation on the standard streams."""
    rng = Random(f"call {seed}")
    larger = 2 if rng.random() < 0.2 else 1
    table = make_table(rng, larger) if rng.random() < 0.6 else plain_table(rng, 120, ("women", "men"))
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    sys.stdout.write(f"{kind.__name__[1:]}: ")
    sys.stdout.flush()
    draw = Draw(rng, table, rng.choice([0.0, 0.0, _BAD, 3 * _BAD]))
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", category=RuntimeWarning, module=r"partialfair\b")
    try:
        _check_regular(kind(draw))
    except IrregularResult as error:
        sys.stdout.write(f"{error}\n")
        return IRREGULAR
    except (ValueError, TypeError) as error:
        flaws = list(find_flaws(error))
        if not flaws:
            sys.stdout.write(f"{type(error).__name__}: {error}\n")
            return REFUSED
        traceback.print_exc()
        sys.stdout.write("; ".join(flaws) + "\n")
        return 1
    sys.stdout.write("done\n")
    return 0


def find_flaws(error: Exception) -> Iterator[str]:
    """Say why an error is none that tells a caller what to change."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    file = frame.f_code.co_filename
    meant = linecache.getline(file, line).lstrip().startswith("raise")
    if not isinstance(error, InputError) and not (meant and ("/partialfair/" in file or "/sklearn/" in file)):
        yield "raw exception"
    message = str(error)
    if isinstance(error, InputError) and ("\n" in message or len(message) >= 1000 or not message):
        yield f"a message of {len(message):,} characters or of several lines"
