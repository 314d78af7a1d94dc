"""The sample of UCI Adult that ships with the package."""

from __future__ import annotations

import gzip
import importlib.util
import io
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import partialfair
from partialfair.datasets import load_adult
from partialfair.metrics import partial_statistical_parity_difference

SCRIPT = Path(__file__).resolve().parents[3] / "docs" / "make_adult_sample.py"


def stored():
    """The bytes of the file in the package."""
    return resources.files("partialfair.datasets").joinpath("adult_sample.csv.gz").read_bytes()


def table_of(text):
    return pd.read_csv(io.StringIO(text), comment="#")


def test_rows_and_columns():
    data = load_adult()
    assert data.X.shape == (5000, 11)
    assert data.feature_names == tuple(data.X.columns)
    assert {"sex", "income", "score", "fnlwgt"}.isdisjoint(data.X.columns)
    assert set(data.sensitive_features) == {"Female", "Male"}
    missing = data.X.isna().sum()
    assert set(missing[missing > 0].index) == {"workclass", "occupation", "native-country"}
    assert not (data.X == "?").any(axis=None)


def test_the_score_predicts_the_label_and_its_groups_differ_in_the_interval():
    data = load_adult()
    assert 0.85 < roc_auc_score(data.y, data.historical_score) < 0.95
    assert abs(data.historical_score.mean() - data.y.mean()) < 0.01
    gap = partial_statistical_parity_difference(
        None, data.historical_score, sensitive_features=data.sensitive_features, interval=data.interval
    )
    assert gap > 0.5


def test_the_file_names_its_authors_its_licence_and_what_was_changed():
    notice = [line for line in gzip.decompress(stored()).decode().splitlines() if line.startswith("#")]
    for words in ("Becker", "Kohavi", "CC BY 4.0", "creativecommons.org", "doi.org", "Changes:"):
        assert words in "\n".join(notice)


def test_it_is_small_and_the_only_data_file_of_the_package():
    assert len(stored()) < 100_000
    package = Path(partialfair.__file__).parent
    data = [
        path.name for path in package.rglob("*") if path.suffix in {".csv", ".gz", ".npz", ".parquet", ".zip"}
    ]
    assert data == ["adult_sample.csv.gz"]


@pytest.mark.real_data
def test_the_script_draws_these_rows_from_the_published_files(data_dir):
    directory = data_dir / "adult"
    if not directory.is_dir():
        pytest.skip(f"no real data: {directory} is not there")
    spec = importlib.util.spec_from_file_location("make_adult_sample", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = gzip.decompress(stored()).decode()
    assert text.startswith(script.NOTICE)
    sample, drawn = table_of(text), table_of(script.sample_text(directory))
    pd.testing.assert_frame_equal(sample.drop(columns="score"), drawn.drop(columns="score"))
    # Versions of scikit-learn solve the logistic regression to different digits.
    np.testing.assert_allclose(sample["score"], drawn["score"], atol=2e-3)
