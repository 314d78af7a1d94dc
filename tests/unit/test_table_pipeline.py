"""Tables from Python: what `partialfair train` makes of a table, as a pipeline of scikit-learn."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from partialfair import PartialFairClassifier, load_model, make_table_pipeline, save_model
from partialfair.datasets import make_admissions
from partialfair.exceptions import InputError
from partialfair.metrics import partial_equal_opportunity_difference, partial_statistical_parity_difference
from partialfair.tables import TableEncoder, encode, read_columns
from partialfair.trees import PartialFairTrees

INTERVAL = (0.15, 0.40)
DATA = make_admissions(800)
HIRED = np.where(DATA.y == 1, "yes", "no")
GROUPS = DATA.sensitive_features


def linear(**settings):
    return PartialFairClassifier(interval=INTERVAL, max_gap=0.3, **settings)


def test_text_missing_values_and_text_labels():
    table = DATA.X
    assert table.isna().any().any()
    assert not all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes)
    pipe = make_table_pipeline(linear())
    pipe.fit(table, HIRED, partialfairclassifier__sensitive_features=GROUPS)
    scores = pipe.decision_function(table)
    gap = partial_statistical_parity_difference(None, scores, sensitive_features=GROUPS, interval=INTERVAL)
    assert gap == pytest.approx(pipe[-1].result_.gap, abs=1e-12)
    assert gap <= 0.3
    np.testing.assert_array_equal(pipe.predict(table), np.where(scores > 0, "yes", "no"))


def test_features_are_those_of_the_command_line():
    encoder = TableEncoder().fit(DATA.X)
    columns, _ = read_columns(DATA.X, list(DATA.X), np.arange(800))
    assert encoder.columns_ == columns
    np.testing.assert_array_equal(encoder.transform(DATA.X), encode(columns, DATA.X))
    names = [name for column in columns for name in column.feature_names]
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.transform(DATA.X).shape[1] == len(names)


def test_trees_get_numbers_and_categories():
    boosted = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    pipe = make_table_pipeline(PartialFairTrees(boosted, interval=INTERVAL, max_gap=0.4))
    pipe.fit(DATA.X, HIRED, partialfairtrees__sensitive_features=GROUPS)
    features = pipe[0].transform(DATA.X)
    assert {str(dtype) for dtype in features.dtypes} == {"float64", "category"}
    assert features.isna().any().any()
    assert features.index.equals(DATA.X.index)
    assert pipe[0].transform(DATA.X[5:9]).index.tolist() == [5, 6, 7, 8]
    assert set(pipe.predict(DATA.X)) == {"yes", "no"}


def test_groups_at_prediction():
    pipe = make_table_pipeline(linear(group_terms="intercept"))
    pipe.fit(DATA.X, HIRED, partialfairclassifier__sensitive_features=GROUPS)
    assert set(pipe.predict(DATA.X, sensitive_features=GROUPS)) == {"yes", "no"}


def test_metadata_routing_needs_no_prefix():
    with config_context(enable_metadata_routing=True):
        pipe = make_table_pipeline(linear()).fit(DATA.X, HIRED, sensitive_features=GROUPS)
    assert pipe[-1].result_.gap <= 0.3


def test_saved_with_its_columns(tmp_path):
    pipe = make_table_pipeline(linear(), drop=["residence"])
    pipe.fit(DATA.X, HIRED, partialfairclassifier__sensitive_features=GROUPS)
    save_model(pipe, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(DATA.X), pipe.decision_function(DATA.X))
    assert again[0].columns_ == pipe[0].columns_


def test_other_frames_and_other_orders():
    polars = pytest.importorskip("polars")
    encoder = TableEncoder().fit(DATA.X)
    expected = encoder.transform(DATA.X)
    frame = DATA.X.astype(dict.fromkeys(DATA.X.select_dtypes("category"), object))
    of_polars = polars.from_pandas(frame)
    np.testing.assert_array_equal(TableEncoder().fit(of_polars).transform(of_polars), expected)
    turned = DATA.X[DATA.X.columns[::-1]].assign(other=1)
    np.testing.assert_array_equal(encoder.transform(turned), expected)


def test_levels_that_training_did_not_see_count_as_none():
    encoder = TableEncoder(drop=[name for name in DATA.X if name != "residence"]).fit(DATA.X)
    new = pd.DataFrame({"residence": ["city", "moon"]})
    features = encoder.transform(new)
    dense = features.toarray() if sparse.issparse(features) else features
    assert dense.sum(axis=1).tolist() == [1.0, 0.0]


def test_it_is_cloned_unfitted():
    pipe = make_table_pipeline(linear(), categories=["n_activities"], drop=["gpa"])
    again = clone(pipe)
    assert again[0].get_params() == pipe[0].get_params()


@pytest.mark.parametrize(
    ("X", "settings", "words"),
    [
        (DATA.X.to_numpy(), {}, "a table with named columns (pandas, polars, pyarrow), not ndarray"),
        (DATA.X, {"drop": ["residnce"]}, "drop has column 'residnce' ('residence' is similar)"),
        (DATA.X, {"drop": "gpa"}, "drop must be a list of columns, not 'gpa'; write ['gpa']"),
        (DATA.X, {"categories": ["x"]}, "categories has column 'x'"),
        (DATA.X.assign(day=pd.Timestamp("2020-01-01")), {}, "leave such columns out with drop=['day']"),
        (DATA.X[:0], {}, "X has no rows"),
        (pd.concat([DATA.X, DATA.X[["gpa"]]], axis=1), {}, "X has several columns named 'gpa'"),
    ],
)
def test_tables_that_cannot_be_read(X, settings, words):
    with pytest.raises(InputError, match=re.escape(words)):
        TableEncoder(**settings).fit(X)


def test_a_table_that_lacks_a_column():
    encoder = TableEncoder().fit(DATA.X)
    with pytest.raises(InputError, match=re.escape("X has no column 'gpa' ('GPA' is similar)")):
        encoder.transform(DATA.X.rename(columns={"gpa": "GPA"}))


def test_columns_that_look_like_names_of_rows_are_named():
    table = DATA.X.assign(id=np.random.default_rng(0).permutation(10_000)[:800])
    with pytest.warns(UserWarning, match=r"'id' has 800 different whole numbers .* leave it out by drop"):
        TableEncoder().fit(table)


def test_other_estimators_are_refused():
    with pytest.raises(InputError, match="needs an estimator of partialfair"):
        make_table_pipeline(HistGradientBoostingClassifier())


@pytest.mark.parametrize("trees", [False, True])
def test_labels_whose_larger_reads_as_the_negative(trees):
    X = np.random.default_rng(0).normal(size=(400, 2))
    groups = np.repeat(["a", "b"], 200)
    y = np.where(X[:, 0] > 0, "approved", "denied")
    model = linear()
    if trees:
        model = PartialFairTrees(HistGradientBoostingClassifier(max_iter=3), interval=INTERVAL, max_gap=0.3)
    with pytest.raises(InputError, match=r"by name 'approved' is positive.*fit y == 'approved'"):
        model.fit(X, y, sensitive_features=groups)
    # Both remedies mean the same ranks.
    low = clone(model).set_params(higher_is_better=False).fit(X, y, sensitive_features=groups)
    high = clone(model).fit(X, y == "approved", sensitive_features=groups)
    assert low.result_.gap == pytest.approx(high.result_.gap, abs=0.05)
    assert low.predict(X)[0] in ("approved", "denied")
    clone(model).set_params(constraint=None).fit(X, y)


@pytest.mark.parametrize(
    ("labels", "suggested"),
    [(["no", "yes"], "yes"), (["approved", "denied"], "approved"), (["a", "b"], "b")],
)
def test_metrics_suggest_a_positive_label_by_name(labels, suggested):
    with pytest.raises(InputError, match=f"give pos_label='{suggested}'"):
        partial_equal_opportunity_difference(
            labels * 10, np.arange(20.0), sensitive_features=["x", "x", "y", "y"] * 5, threshold=5.0
        )
