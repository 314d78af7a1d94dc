from __future__ import annotations

import dataclasses
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets import _acs_income, fetch_acs_income
from partialfair.datasets._acs_income import ACS_COLUMNS, STATE_ROWS, CensusFile, select_rows
from partialfair.datasets.source import read_all, sha256
from partialfair.exceptions import DataFetchError, InputError

ADULT = {
    "AGEP": 40, "COW": 1, "SCHL": 21, "MAR": 1, "OCCP": 4720, "POBP": 6, "RELP": 0, "WKHP": 40.0, "SEX": 2,
    "RAC1P": 1, "PINCP": 60_000.0, "PWGTP": 10,
}  # fmt: skip


def persons(*changes: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame([{**ADULT, **change} for change in changes])


def state_zip(table: pd.DataFrame, *names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("ACS2018_PUMS_README.pdf", b"")
        for name in names or ("psam_p01.csv",):
            archive.writestr(name, table.assign(SERIALNO="2018HU0000001").to_csv(index=False))
    return buffer.getvalue()


ALABAMA = persons({}, {"SEX": 1, "PINCP": 20_000, "OCCP": 10}, {"AGEP": 12, "PINCP": np.nan, "WKHP": np.nan})
PUERTO_RICO = persons({"MAR": 5, "POBP": 72})


@pytest.fixture
def table(server, cache) -> CensusFile:
    server.serve("csv_pal.zip", state_zip(ALABAMA))
    server.serve("csv_ppr.zip", state_zip(PUERTO_RICO, "psam_p72.csv"))
    return CensusFile("toy", "toy/toy.parquet", "0" * 64, server.url, {"AL": 2, "PR": 1})


class TestFilter:
    @pytest.mark.parametrize(
        ("column", "out", "kept"),
        [("AGEP", 16, 17), ("PINCP", 100, 101), ("WKHP", 0, 1), ("WKHP", np.nan, 1), ("PWGTP", 0, 1)],
    )
    def test_each_bound_is_folktables(self, column, out, kept):
        rows = select_rows(persons({column: out}, {column: kept}))
        assert len(rows) == 1
        if column in rows:
            assert rows[column].tolist() == [kept]

    def test_the_label_is_an_income_above_50000(self):
        assert select_rows(persons({"PINCP": 50_000}, {"PINCP": 50_001}))["label"].tolist() == [0, 1]

    def test_a_missing_code_becomes_zero(self):
        assert select_rows(persons({"OCCP": np.nan}))["OCCP"].tolist() == [0]

    def test_types_are_small_and_hold_the_codes(self):
        rows = select_rows(persons({"OCCP": 9920, "POBP": 554, "AGEP": 99, "WKHP": 99}))
        assert rows[["OCCP", "POBP", "AGEP", "WKHP"]].to_numpy().tolist() == [[9920, 554, 99, 99]]
        assert rows[list(ACS_COLUMNS)].dtypes.to_dict() == {c: np.dtype(t) for c, t in ACS_COLUMNS.items()}


class TestBuilding:
    def test_states_are_stacked_in_order_with_nothing_left_beside(self, table, cache):
        (raw,) = read_all([table])
        built = pd.read_parquet(io.BytesIO(raw))
        assert built["ST"].tolist() == ["AL", "AL", "PR"]
        assert built["OCCP"].tolist() == [4720, 10, 4720]
        assert built["SEX"].tolist() == [2, 1, 2]
        assert built["label"].tolist() == [1, 0, 1]
        assert [path.name for path in cache.rglob("*")] == ["toy", "toy.parquet"]

    def test_after_a_failure_finished_states_are_not_fetched_again(self, table, server, cache):
        puerto_rico = server.replies.pop("/csv_ppr.zip")
        with pytest.raises(DataFetchError, match=r"csv_ppr\.zip \(the server answered 404") as caught:
            read_all([table])
        assert "`partialfair data fetch toy`" in str(caught.value)
        assert not (cache / table.name).exists()
        server.replies["/csv_ppr.zip"] = puerto_rico
        read_all([table])
        assert server.requests == ["/csv_pal.zip", "/csv_ppr.zip", "/csv_ppr.zip"]

    def test_a_kept_state_with_the_wrong_number_of_rows_is_fetched_again(self, table, server, cache):
        server.replies.pop("/csv_ppr.zip")
        with pytest.raises(DataFetchError):
            read_all([table])
        part = cache / "toy" / "census_states" / "AL.parquet"
        pd.read_parquet(part).iloc[:1].to_parquet(part)
        with pytest.raises(DataFetchError):
            read_all([table])
        assert server.requests == ["/csv_pal.zip", "/csv_ppr.zip"] * 2

    def test_a_state_must_have_folktables_number_of_rows(self, table, server, cache):
        server.serve("csv_ppr.zip", state_zip(persons({}, {})))
        with pytest.raises(DataFetchError, match="gives 2 rows where folktables has 1"):
            read_all([table])
        assert not (cache / table.name).exists()

    @pytest.mark.parametrize(
        "reply",
        [
            b"not a zip",
            state_zip(PUERTO_RICO, "readme.csv"),
            state_zip(PUERTO_RICO, "psam_p72.csv", "psam_p73.csv"),
            state_zip(PUERTO_RICO.drop(columns="SEX")),
        ],
        ids=["not a zip", "no person file", "two person files", "a column less"],
    )
    def test_an_unexpected_archive_is_one_sentence_with_its_address(self, table, server, reply):
        url = server.serve("csv_ppr.zip", reply)
        with pytest.raises(DataFetchError, match="not the expected archive") as caught:
            read_all([table])
        assert url in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_directory_that_cannot_be_written_is_named(self, table, cache):
        cache.write_bytes(b"a file where the directory should be")
        with pytest.raises(DataFetchError, match="could not fetch"):
            table.obtain(cache)

    def test_a_target_that_cannot_be_replaced_is_named(self, table, cache):
        (cache / table.name).mkdir(parents=True)
        with pytest.raises(InputError, match=r"cannot be written: .* a directory") as caught:
            read_all([table])
        assert str(cache / table.name) in str(caught.value)


class TestRecognition:
    def test_an_incomplete_table_is_known_by_its_hash(self, table, cache, monkeypatch):
        path = cache / "incomplete.parquet"
        cache.mkdir()
        rows = select_rows(ALABAMA).assign(ST="AL")
        rows.to_parquet(path)
        incomplete = dataclasses.replace(
            table, accepted_sha256=sha256(path.read_bytes()), state_rows={"AL": 9}
        )
        monkeypatch.setattr(_acs_income, "_FILES", (incomplete,))
        assert fetch_acs_income(path=path).y.tolist() == [1, 0]

    def test_a_table_that_lost_a_row_is_refused(self, table, cache):
        read_all([table])
        path = cache / table.name
        pd.read_parquet(path).iloc[1:].to_parquet(path)
        with pytest.raises(DataFetchError, match="1 rows of AL where there are 2"):
            read_all([table])

    def test_a_table_with_a_foreign_state_is_refused(self, table, cache):
        read_all([table])
        path = cache / table.name
        built = pd.read_parquet(path).astype({"ST": str})
        pd.concat([built, built.iloc[:1].assign(ST="DC")]).to_parquet(path)
        with pytest.raises(DataFetchError, match="1 rows of DC where there are 0"):
            read_all([table])

    def test_a_table_without_a_column_is_refused(self, table, cache):
        read_all([table])
        path = cache / table.name
        pd.read_parquet(path).drop(columns="SCHL").to_parquet(path)
        with pytest.raises(DataFetchError, match="no column SCHL"):
            read_all([table])

    def test_what_is_not_parquet_is_refused(self, table, tmp_path):
        path = tmp_path / "toy.parquet"
        path.write_bytes(b"not parquet")
        with pytest.raises(DataFetchError, match=r"toy\.parquet is not the expected"):
            read_all([table], path)


class TestLoading:
    @pytest.fixture(autouse=True)
    def _use_the_toy_table(self, table, monkeypatch):
        monkeypatch.setattr(_acs_income, "_FILES", (table,))

    def test_codes_leave_out_the_sex(self):
        data = fetch_acs_income()
        assert isinstance(data.X, CategoricalCodes)
        assert data.X.names == ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "RAC1P")
        assert data.sensitive_features.tolist() == ["Female", "Male", "Female"]
        assert data.y.tolist() == [1, 0, 1]
        assert data.interval == (0.20, 0.40)

    def test_states_keep_the_columns_of_the_whole_table(self):
        whole, part = fetch_acs_income(), fetch_acs_income(states="PR")
        assert part.feature_names == whole.feature_names
        assert part.y.tolist() == [1]
        np.testing.assert_array_equal(part.X.codes, whole.X.codes[2:])

    def test_unknown_states_are_refused(self):
        with pytest.raises(InputError, match="no state 'DC'"):
            fetch_acs_income(states=["AL", "DC"])


def test_the_counts_are_folktables():
    assert len(STATE_ROWS) == 51
    assert sum(STATE_ROWS.values()) == 1_664_500


@pytest.mark.real_data
def test_the_counts_agree_with_the_published_ones(data_dir):
    path = data_dir / "acs_income" / "acs_income_2018_state_counts.csv"
    if not path.is_file():
        pytest.skip(f"no real data: {path} is not there")
    published = pd.read_csv(path).set_index("ST")["n_full"].to_dict()
    assert list(published.items()) == list(STATE_ROWS.items())
