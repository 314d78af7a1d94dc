"""Facts about the public files, as counted by others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from partialfair.datasets.task import Shares

pytestmark = pytest.mark.real_data


def counts(column) -> dict[object, int]:
    return pd.Series(column).value_counts().to_dict()


def test_a9a(load_real, data_dir):
    data = load_real("a9a")
    assert data.X.shape == (48_842, 123)
    assert set(np.unique(data.X.data)) == {1.0}
    training, test = np.arange(32_561), np.arange(32_561, 48_842)
    assert counts(data.y[training]) == {0: 24_720, 1: 7_841}
    assert counts(data.y[test]) == {0: 12_435, 1: 3_846}
    assert counts(data.sensitive_features.iloc[training]) == {"Female": 10_771, "Male": 21_790}
    assert counts(data.sensitive_features.iloc[test]) == {"Female": 5_421, "Male": 10_860}
    split = data.split(0)
    assert (len(split.train), len(split.validation), len(split.test)) == (29_305, 3_256, 16_281)
    np.testing.assert_array_equal(split.test, test)
    assert data.interval == (0.05, 0.30)
    assert data.max_gaps["statistical_parity"] == (0.01, 0.05, 0.1, 0.2, 0.28)


def test_the_names_of_a9as_columns_have_the_counts_of_uci_adult(load_real, data_dir):
    path = data_dir / "a9a" / "a9a_features.csv"
    if not path.is_file():
        pytest.skip(f"no real data: {path} is not there")
    published = pd.read_csv(path)
    data = load_real("a9a")
    named = published["adult_column"] + "=" + published["value_or_train_range"]
    assert data.feature_names == tuple(named)
    sums = np.asarray(data.X.sum(axis=0)).ravel()
    np.testing.assert_array_equal(sums, published["train_count"] + published["test_count"])


def test_bank(load_real):
    data = load_real("bank")
    assert data.X.shape == (41_188, 52)
    assert counts(data.y) == {0: 36_548, 1: 4_640}
    assert counts(data.sensitive_features) == {"25-60": 39_210, "other": 1_978}
    assert data.X["marital=unknown"].sum() == 80
    assert data.X["education=unknown"].sum() == 1_731
    assert not data.X.isna().any().any()
    assert load_real("bank", duration=True).X.shape == (41_188, 53)
    assert data.shares == Shares(0.6, 0.2, 0.2)
    assert data.interval == (0.0, 0.25)


def test_law_school(load_real):
    data = load_real("law_school")
    assert data.X.shape == (20_798, 10)
    assert counts(data.y) == {0: 2_293, 1: 18_505}
    assert counts(data.sensitive_features) == {"White": 17_491, "Non-White": 3_307}
    rates = pd.Series(data.y).groupby(data.sensitive_features, observed=True).mean()
    assert rates.round(4).to_dict() == {"White": 0.9213, "Non-White": 0.7230}
    split = data.split(0)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [11_699, 3_899, 5_200]
    assert data.interval == (0.70, 1.0)


def test_acs_income(load_real):
    data = load_real("acs_income")
    assert data.X.n_rows == 1_536_724
    assert data.y.mean().round(5) == 0.36686
    assert (data.sensitive_features == "Male").mean().round(5) == 0.52042
    sizes = dict(zip(data.X.names, (len(levels) for levels in data.X.categories), strict=True))
    assert sizes == {
        "AGEP": 80, "COW": 8, "SCHL": 24, "MAR": 6, "OCCP": 529, "POBP": 224, "RELP": 18, "WKHP": 99,
        "RAC1P": 10,
    }  # fmt: skip
    assert data.X.codes.nbytes < 30e6
    married, race = data.X.names.index("MAR"), data.X.names.index("RAC1P")
    assert np.sum(data.X.codes[:, married] == 0) == 63_973
    assert np.sum(data.X.codes[:, race] == 0) == 15_381


def test_states_of_acs_income(load_real):
    data = load_real("acs_income", states=["WY", "VT"])
    assert data.X.n_rows == 3_064 + 3_767
    assert list(data.X.names) == ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "RAC1P"]
