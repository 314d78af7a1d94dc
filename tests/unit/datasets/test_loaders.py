"""The loaders on made-up files, so that they are tested where the real ones are not to be had."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from partialfair.datasets import _tables, fetch_a9a, fetch_bank, fetch_law_school

BANK_HEADER = (
    "age;job;marital;education;default;housing;loan;contact;month;day_of_week;duration;campaign;pdays;previous;"
    "poutcome;emp.var.rate;cons.price.idx;cons.conf.idx;euribor3m;nr.employed;y"
)
BANK_ROWS = [
    f"{age};{job};single;high.school;no;no;no;cellular;may;mon;261;1;999;0;failure;1.1;93.9;-36.4;4.8;5191;{y}"
    for age, job, y in (
        (24, "admin.", "no"),
        (25, "student", "yes"),
        (60, "retired", "no"),
        (61, "admin.", "yes"),
    )
]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write made-up contents for a loader's files, and let the loader take them for the real ones."""

    def write(constant: str, *contents: str) -> Path:
        files = []
        for file, content in zip(getattr(_tables, constant), contents, strict=True):
            target = tmp_path / file.name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content.encode())
            sha = hashlib.sha256(content.encode()).hexdigest()
            files.append(dataclasses.replace(file, raw_sha256=sha))
        monkeypatch.setattr(_tables, constant, tuple(files))
        return tmp_path

    return write


class TestA9a:
    @pytest.fixture
    def path(self, stage):
        return stage("_A9A_FILES", "-1 3:1 72:1 \n+1 5:1 73:1 123:1 \n-1 1:1 73:1 \n", "+1 2:1 72:1 \n")

    def test_the_test_file_comes_last_with_all_columns(self, path):
        data = fetch_a9a(path=path)
        assert data.X.shape == (4, 123)
        assert data.y.tolist() == [0, 1, 0, 1]
        assert data.sensitive_features.tolist() == ["Female", "Male", "Male", "Female"]
        assert data.official_partition.tolist() == [0, 0, 0, 2]
        assert data.split(0).test.tolist() == [3]
        assert [data.feature_names[j] for j in data.X[1].indices] == [
            "age=50..90",
            "sex=Male",
            "native-country=Holand-Netherlands",
        ]

    def test_the_columns_of_sex_can_be_dropped(self, path):
        data = fetch_a9a(path=path, drop_sensitive=True)
        assert data.X.shape == (4, 121)
        assert len(data.feature_names) == 121
        assert not any(name.startswith("sex=") for name in data.feature_names)
        # Two of the three entries of row 1 are left, the last of them in the last column.
        assert data.X[1].indices.tolist() == [4, 120]


class TestBank:
    @pytest.fixture
    def path(self, stage):
        return stage("_BANK_FILES", "\n".join([BANK_HEADER, *BANK_ROWS]) + "\n")

    def test_ages_25_and_60_are_inside(self, path):
        data = fetch_bank(path=path)
        assert data.sensitive_features.tolist() == ["other", "25-60", "25-60", "other"]
        assert data.y.tolist() == [0, 1, 0, 1]

    def test_the_first_category_has_no_column(self, path):
        X = fetch_bank(path=path).X
        assert "job=admin." not in X
        assert X["job=student"].tolist() == [0.0, 1.0, 0.0, 0.0]
        assert X["age"].tolist() == [24.0, 25.0, 60.0, 61.0]
        assert set(X.dtypes) == {np.dtype(np.float64)}

    def test_duration_is_left_out_unless_asked_for(self, path):
        assert "duration" not in fetch_bank(path=path).feature_names
        assert "duration" in fetch_bank(path=path, duration=True).feature_names


def test_law_school_keeps_race_out_of_the_features(stage):
    header = "decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,male,tier,race,pass_bar"
    rows = ["10,10,44,3.5,1.33,1.88,1,5,0,4,White,1", "5,4,29,3.5,-0.11,-0.57,1,4,0,2,Non-White,0"]
    data = fetch_law_school(path=stage("_LAW_SCHOOL_FILES", "\n".join([header, *rows])))
    assert data.feature_names == tuple(header.split(",")[:10])
    assert data.sensitive_features.tolist() == ["White", "Non-White"]
    assert data.y.tolist() == [1, 0]
