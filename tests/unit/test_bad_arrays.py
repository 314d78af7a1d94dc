"""Arrays that hold no values yet, are nested or too large: a clear error that names the argument."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from partialfair import PartialFairClassifier, PartialFairRegressor, fairness_path, metrics
from partialfair.constraints.surrogates import Ramp
from partialfair.exceptions import InputError
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.theory import near_thresholds
from partialfair.trees import PartialFairTrees

N = 60
RNG = np.random.default_rng(0)
X, GROUPS = RNG.normal(size=(N, 2)), np.arange(N) % 2
SCORES, WEIGHTS = X[:, 0], RNG.random(N)
Y = (SCORES > 0).astype(int)


class DaskArray(np.ndarray):
    """Gathered silently by NumPy, as collections of Dask are."""

    def __dask_graph__(self):
        return {}


def dask(values):
    return np.asarray(values).view(DaskArray)


def lazy_polars(values):
    import polars as pl

    values = np.asarray(values)
    columns = {"a": values} if values.ndim == 1 else {f"c{j}": values[:, j] for j in range(values.shape[1])}
    return pl.DataFrame(columns).lazy()


LAZY = {dask: "compute", lazy_polars: "collect"}


def measure(**given):
    given = {"y_score": SCORES, "sensitive_features": GROUPS, "threshold": 0.0, "y_true": Y, **given}
    return metrics.partial_equal_opportunity_difference(**given)


def classify(**given):
    given = {"X": X, "y": Y, "sensitive_features": GROUPS, **given}
    return PartialFairClassifier(interval=(0, 1), max_gap=1.0).fit(**given)


def regress(**given):
    given = {"X": X, "y": SCORES, "sensitive_features": GROUPS, **given}
    return PartialFairRegressor(constraint=None).fit(**given)


def grow(**given):
    given = {"X": X, "y": Y, "sensitive_features": GROUPS, **given}
    return PartialFairTrees(HistGradientBoostingClassifier(max_iter=1), constraint=None).fit(**given)


def follow(**given):
    given = {"X": X, "y": Y, "sensitive_features": GROUPS, "max_gaps": [0.5], **given}
    return fairness_path(PartialFairClassifier(interval=(0, 1), max_iter=3), **given)


def adjust(scores=SCORES, **given):
    return PartialParityAdjuster(interval=(0, 1), max_gap=0.5).fit(
        scores, **{"sensitive_features": GROUPS, **given}
    )


def near(scores=SCORES, thresholds=(0.0,)):
    return near_thresholds(scores, thresholds, sensitive_features=GROUPS, surrogate=Ramp(1.0))


def follow_on(**given):
    rows = {"X": X, "y": Y, "sensitive_features": GROUPS, **given}
    estimator = PartialFairClassifier(interval=(0, 1), max_iter=3)
    return fairness_path(
        estimator, X, Y, sensitive_features=GROUPS, max_gaps=[0.5], validation=tuple(rows.values())
    )


def compare(**given):
    given = {"score_a": SCORES, "score_b": SCORES, **given}
    return metrics.compare_gaps(Y, sensitive_features=GROUPS, **given)


def changes(**given):
    given = {"before": SCORES, "after": SCORES, **given}
    return metrics.interval_changes(sensitive_features=GROUPS, interval=(0.0, 0.5), **given)


def score(y):
    return classify().score(X, y)


def score_regressor(y):
    return regress().score(X, y)


def score_trees(y):
    return grow().score(X, y)


CALLS = {
    follow_on: {"X": X, "y": Y, "sensitive_features": GROUPS},
    compare: {"score_a": SCORES, "score_b": SCORES},
    changes: {"before": SCORES, "after": SCORES},
    score: {"y": Y},
    score_regressor: {"y": SCORES},
    score_trees: {"y": Y},
    measure: {"y_score": SCORES, "sensitive_features": GROUPS, "sample_weight": WEIGHTS, "y_true": Y},
    classify: {"X": X, "y": Y, "sensitive_features": GROUPS, "sample_weight": WEIGHTS},
    regress: {"X": X, "y": SCORES},
    grow: {"X": X, "y": Y, "sample_weight": WEIGHTS},
    follow: {"X": X, "y": Y, "sensitive_features": GROUPS, "sample_weight": WEIGHTS},
    adjust: {"scores": SCORES, "sensitive_features": GROUPS, "sample_weight": WEIGHTS},
    near: {"scores": SCORES, "thresholds": np.zeros(1)},
}


@pytest.mark.parametrize("make", LAZY, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("call", "name"), [(call, name) for call, given in CALLS.items() for name in given])
def test_lazy_values_are_refused_with_the_way_to_gather_them(call, name, make):
    with pytest.raises(InputError, match=rf"^{name}( of validation)? is lazy .*\.{LAZY[make]}\(\)"):
        call(**{name: make(CALLS[call][name])})


@pytest.mark.parametrize("name", ["y_score", "sensitive_features", "sample_weight", "y_true"])
@pytest.mark.parametrize(
    ("module", "kind", "gathered"),
    [
        ("pyspark.sql.dataframe", "DataFrame", "toPandas"),
        ("ibis.expr.types", "Table", "execute"),
        ("_duckdb", "DuckDBPyRelation", "df"),
        ("duckdb.duckdb", "DuckDBPyRelation", "df"),
    ],
)
def test_queries_are_known_by_their_package(name, module, kind, gathered):
    query = type(kind, (), {"__module__": module, "columns": ["a"]})()
    with pytest.raises(InputError, match=rf"^{name} is lazy \(a {kind} of .*\.{gathered}\(\)$"):
        measure(**{name: query})


def test_lazy_features_are_refused_in_predict_and_by_column():
    model = classify()
    for make in (dask, lazy_polars):
        with pytest.raises(InputError, match="X is lazy"):
            model.predict(make(X))
        with pytest.raises(InputError, match="scores is lazy"):
            adjust().transform(make(SCORES), GROUPS)
    with pytest.raises(InputError, match="column 'a' is lazy"):
        measure(sensitive_features={"a": dask(GROUPS)})


def deep(depth=3000):
    values = [1.0]
    for _ in range(depth):
        values = [values]
    return values


DEEP = "nested lists"  # made in the test: no message can show them
HOSTILE = [
    (regress, "y", 1e308 * np.sign(SCORES)),
    (regress, "y", [10**400] * N),
    (regress, "y", 1e200 * SCORES),
    (classify, "y", np.c_[Y, Y]),
    (classify, "X", [[10**400, 1.0]] * N),
    (classify, "X", DEEP),
    (classify, "y", DEEP),
    (measure, "y_score", DEEP),
    (measure, "y_score", [{"a": {"b": 1}}] * N),
    (measure, "y_score", [10**400] * N),
    (measure, "sample_weight", [10**400] * N),
    (measure, "sensitive_features", [{"a": {"b": 1}}] * N),
    (measure, "sensitive_features", DEEP),
    (measure, "y_true", DEEP),
]


@pytest.mark.parametrize(("call", "name", "value"), HOSTILE, ids=lambda one: str(one)[:24])
def test_nested_and_huge_values_are_refused_by_name(call, name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=name):
            call(**{name: [deep()] * N if value is DEEP else value})


def test_a_table_of_arrow_with_one_column_is_a_column():
    import pyarrow as pa

    assert measure(y_score=pa.table({"s": SCORES}), y_true=pa.table({"y": Y})) == measure()
    np.testing.assert_array_equal(classify(y=pa.table({"y": Y})).coef_, classify().coef_)
    for call, name in ((classify, "y"), (measure, "y_score")):
        with pytest.raises(InputError, match=f"{name} must have one column, not 2"):
            call(**{name: pa.table({"a": Y, "b": Y})})


def test_torch_names_the_argument():
    torch = pytest.importorskip("torch")
    from partialfair.constraints import GroupAUC, StatisticalParity
    from partialfair.torch import GroupBatchSampler, ScoreConstraints

    for constraint in (StatisticalParity((0, 1)), GroupAUC((0, 1))):
        functions = ScoreConstraints(constraint, GROUPS)
        with pytest.raises(InputError, match=r"scores are torch\.float64 .*torch\.float32"):
            functions(torch.zeros(N, dtype=torch.float64), functions.codes(GROUPS))
    bad = {"n_processes": 0, "rank": 1, "seed": -1, "batch_size": 10**400, "least": np.nan}
    for name, value in bad.items():
        with pytest.raises(InputError, match=name):
            GroupBatchSampler(GROUPS, **{"batch_size": 8, name: value})
