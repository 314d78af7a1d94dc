"""Fitted tree ensembles of every kind that partialfair.trees reads, on tables with all that is awkward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

N_ROWS = 1_500


@dataclass(frozen=True)
class Grown:
    """A fitted model and rows that it has not seen."""

    model: Any
    fresh: Any


def mixed_table(n_rows: int, seed: int) -> pd.DataFrame:
    """Numbers with holes, whole numbers with ties, and a categorical column with holes."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    table = table.mask(rng.random(table.shape) < 0.1)
    table["d"] = rng.integers(0, 5, n_rows).astype(float)
    words = pd.Series(rng.choice(["red", "green", "blue", "white", "black"], n_rows))
    table["e"] = pd.Categorical(
        words.mask(rng.random(n_rows) < 0.1), ["black", "blue", "green", "red", "white"]
    )
    return table


def numbers_with_holes(n_rows: int, seed: int) -> np.ndarray:
    return mixed_table(n_rows, seed)[["a", "b", "c", "d"]].to_numpy()


def numbers(n_rows: int, seed: int) -> np.ndarray:
    return np.nan_to_num(numbers_with_holes(n_rows, seed), nan=0.3)


def target_of(X: Any, seed: int = 5) -> np.ndarray:
    """Return a target that hangs on numbers, on their being missing and on categories."""
    a, b = (X["a"].to_numpy(), X["b"].to_numpy()) if isinstance(X, pd.DataFrame) else (X[:, 0], X[:, 1])
    kept = np.isin(X["e"].astype(object), ["red", "blue"]) if isinstance(X, pd.DataFrame) else X[:, 3] > 2
    noise = np.random.default_rng(seed).normal(size=len(X))
    return np.nan_to_num(a, nan=1.0) * np.where(kept, 1.0, -0.6) + 0.5 * np.isnan(b) + 0.4 * noise


def answers_of(X: Any) -> np.ndarray:
    return np.where(target_of(X) > 0.3, "yes", "no")


def _grown(make: Callable[[], Any], rows: Callable[[int, int], Any], labels: Callable[[Any], Any]) -> Grown:
    X = rows(N_ROWS, 1)
    return Grown(make().fit(X, labels(X)), rows(10_000, 2))


def _lightgbm(name: str, labels: Callable[[Any], Any], **settings: Any) -> Grown:
    library = pytest.importorskip("lightgbm")
    chosen = {"n_estimators": 25, "num_leaves": 8, "verbose": -1, "n_jobs": 1, "random_state": 0} | settings
    return _grown(lambda: getattr(library, name)(**chosen), mixed_table, labels)


def _lightgbm_booster() -> Grown:
    """A booster that early stopping cut, so that it holds trees which predictions leave out."""
    library = pytest.importorskip("lightgbm")
    X, held_out = mixed_table(N_ROWS, 1), mixed_table(400, 3)
    y, y_held_out = (answers_of(rows) == "yes" for rows in (X, held_out))
    training = library.Dataset(X, y, free_raw_data=False)
    model = library.train(
        {"objective": "binary", "num_leaves": 8, "learning_rate": 0.6, "verbose": -1, "num_threads": 1},
        training,
        60,
        valid_sets=[library.Dataset(held_out, y_held_out, reference=training)],
        callbacks=[library.early_stopping(3, verbose=False)],
        keep_training_booster=True,  # as estimators do; else the trees are dropped
    )
    assert 0 < model.best_iteration < model.num_trees()
    return Grown(model, mixed_table(10_000, 2))


def _xgboost(name: str, labels: Callable[[Any], Any], **settings: Any) -> Grown:
    library = pytest.importorskip("xgboost")
    chosen = {"n_estimators": 25, "max_depth": 3, "n_jobs": 1, "enable_categorical": True} | settings
    return _grown(lambda: getattr(library, name)(**chosen), mixed_table, labels)


def _xgboost_stopped() -> tuple[Any, Any]:
    library = pytest.importorskip("xgboost")
    X, held_out = mixed_table(N_ROWS, 1), mixed_table(400, 3)
    y, y_held_out = (answers_of(rows) == "yes" for rows in (X, held_out))
    model = library.XGBClassifier(
        n_estimators=60,
        max_depth=3,
        learning_rate=0.7,
        n_jobs=1,
        enable_categorical=True,
        early_stopping_rounds=3,
    ).fit(X, y, eval_set=[(held_out, y_held_out)], verbose=False)
    assert 0 < model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model, mixed_table(10_000, 2)


def _catboost(name: str, labels: Callable[[Any], Any]) -> Grown:
    library = pytest.importorskip("catboost")
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return _grown(
        lambda: getattr(library, name)(iterations=25, depth=3, cat_features=["e"], **quiet),
        words_for_holes,
        labels,
    )


def words_for_holes(n_rows: int, seed: int) -> pd.DataFrame:
    """Return the table with a word of its own for a missing category, since CatBoost takes no holes there."""
    table = mixed_table(n_rows, seed)
    return table.assign(e=table["e"].cat.add_categories(["unknown"]).fillna("unknown"))


def _scikit_learn(
    name: str, rows: Callable[[int, int], Any], labels: Callable[[Any], Any], **settings: Any
) -> Grown:
    from sklearn import ensemble

    return _grown(lambda: getattr(ensemble, name)(random_state=0, **settings), rows, labels)


def _yes(X: Any) -> np.ndarray:
    return (answers_of(X) == "yes").astype(int)


def _histograms(name: str, labels: Callable[[Any], Any]) -> Grown:
    settings = {"max_iter": 25, "max_leaf_nodes": 8, "categorical_features": "from_dtype"}
    return _scikit_learn(name, mixed_table, labels, **settings)


GROW: dict[str, Callable[[], Grown]] = {
    "LGBMClassifier": lambda: _lightgbm("LGBMClassifier", answers_of),
    "LGBMRegressor": lambda: _lightgbm("LGBMRegressor", target_of),
    "lightgbm.Booster": _lightgbm_booster,
    "XGBClassifier": lambda: _xgboost("XGBClassifier", _yes),
    "XGBClassifier stopped": lambda: Grown(*_xgboost_stopped()),
    "XGBRegressor": lambda: _xgboost("XGBRegressor", target_of),
    "XGBRFClassifier": lambda: _xgboost("XGBRFClassifier", _yes, n_estimators=12),
    "xgboost.Booster": lambda: Grown(_xgboost_stopped()[0].get_booster(), _xgboost_stopped()[1]),
    "CatBoostClassifier": lambda: _catboost("CatBoostClassifier", answers_of),
    "CatBoostRegressor": lambda: _catboost("CatBoostRegressor", target_of),
    "HistGradientBoostingClassifier": lambda: _histograms("HistGradientBoostingClassifier", answers_of),
    "HistGradientBoostingRegressor": lambda: _histograms("HistGradientBoostingRegressor", target_of),
    "GradientBoostingClassifier": lambda: _scikit_learn(
        "GradientBoostingClassifier", numbers, answers_of, n_estimators=25
    ),
    "GradientBoostingRegressor": lambda: _scikit_learn(
        "GradientBoostingRegressor", numbers, target_of, n_estimators=25
    ),
    "RandomForestClassifier": lambda: _scikit_learn(
        "RandomForestClassifier", numbers_with_holes, answers_of, n_estimators=7, max_depth=6
    ),
    "RandomForestRegressor": lambda: _scikit_learn(
        "RandomForestRegressor", numbers_with_holes, target_of, n_estimators=7, max_depth=6
    ),
    "ExtraTreesClassifier": lambda: _scikit_learn(
        "ExtraTreesClassifier", numbers_with_holes, answers_of, n_estimators=7, max_depth=6
    ),
    "ExtraTreesRegressor": lambda: _scikit_learn(
        "ExtraTreesRegressor", numbers_with_holes, target_of, n_estimators=7, max_depth=6
    ),
}
"""By name: what grows the model."""


@cache
def grown(name: str) -> Grown:
    """Return the model of that name, fitted once a process; it must not be changed."""
    return GROW[name]()


def rounded(ensemble: Any, values: np.ndarray) -> np.ndarray:
    """The nearest values that a library can hold and adds up without rounding."""
    return ensemble.summands(values) / ensemble.divisor


def scores_with(ensemble: Any, values: np.ndarray, leaves: Any) -> np.ndarray:
    """What a copy with these values scores rows with these leaves, tree after tree."""
    by_tree = np.split(ensemble.summands(values), np.cumsum(ensemble.n_leaves)[:-1])
    sums = np.zeros(leaves.n_rows)
    for tree, codes in zip(by_tree, leaves.codes.T, strict=True):
        sums += tree[codes]
    return sums / ensemble.divisor
