"""Tables and options that no model can be made of are refused before anything is fitted or written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import BAND, TRAIN


class TestTrainRefuses:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--max-gap", 2], ["--max-gap", "2"]),
            (["--max-gap", "nan"], ["--max-gap"]),
            (["--alpha", -1], ["--alpha"]),
            (["--test-size", 1], ["--test-size"]),
            (["--test-size", 0.999], ["--test-size 0.999", "rows for training"]),
            (["--test-size", 0.0001], ["--test-size 0.0001", "0 rows held out"]),
            (["--confidence", 1], ["--confidence"]),
            (["--confidence", 0.999], ["--confidence must be at most 0.995, not 0.999"]),
            (["--alpha", "inf"], ["--alpha must be a finite number of at least 0, not inf"]),
            (
                ["--constraint", "group_auc", "--gap-scale", "absolute"],
                ["--gap-scale absolute has no meaning"],
            ),
            (["--constraint", "nonsense"], ["--constraint", "statistical_parity", "none"]),
            (["--interval", 0.5, 0.1], ["interval", "reversed"]),
            (["--time-limit", 0], ["--time-limit"]),
            (["--fail-above", 2], ["--fail-above"]),
            (["--fail-above", 0.1, "--fail-metric", "x"], ["--fail-metric"]),
            (["--target", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--group", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--drop", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--drop", "sex"], ["'sex'", "--group", "--drop"]),
            (["--target", "sex"], ["'sex'", "--target", "--group"]),
            (["--target", "school"], ["'school'", "an empty cell"]),
            (["--target", "years", "--drop", "hired"], ["'years'", "an empty cell"]),
            (["--target", "test", "--drop", "hired"], ["'test'", "classes", "labels need two"]),
            (["--group", "school"], ["'school'", "an empty cell"]),
            (["--group", "test"], ["different values"]),
            (["--pos-label", "maybe"], ["--pos-label maybe", "no, yes"]),
            (["--weight", "school"], ["'school'", "where a finite number is needed"]),
            (["--interval", "auto"], ["--interval auto chooses"]),
            (["--interval", "f=0.1", 0.3], ["both for all groups and for group 'f'"]),
            (["--interval", 0.7], ["--interval must be two numbers LOW HIGH", "'0.7'"]),
            (["--interval", 0.7, "x"], ["--interval must be two numbers LOW HIGH", "'0.7 x'"]),
            (["--interval", 0.6, 0.7, "--report", "r.html"], ["--report shows one interval"]),
            (["--min-group-size", 0], ["--min-group-size"]),
            (["--group-terms", "intercept", "--small-groups", "merge"], ["--small-groups merge"]),
            (["--group-terms", "intercept", "--missing-groups", "ignore"], ["--missing-groups"]),
        ],
        ids=str,
    )
    def test_options(self, run, file, options, words, no_fits):
        run(*TRAIN, "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                ["--interval", 0, 0.001],
                ["rows held out", "too small to evaluate", "--test-size", "--min-group-size"],
            ),
            (["--interval", 0, 0.001, "--test-size", 0], ["no group is large enough", "--min-group-size 10"]),
            (
                ["--interval", "x=0.1", 0.2, "--interval", "f=0.1", 0.2],
                ["group 'x'", "not in the data", "'f', 'm'"],
            ),
            (["--interval", "f=0.1", 0.2], ["missing for group 'm'"]),
            (
                ["--interval", "f=0.1", 0.2, "--interval", "m=0.1", 0.2, "--gap-scale", "absolute"],
                ["absolute"],
            ),
        ],
        ids=str,
    )
    def test_intervals(self, run, file, options, words, no_fits):
        run(*(word for word in TRAIN if word not in BAND), "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("change", "options", "words"),
        [
            (
                lambda f: {"sex": np.where(f.index < 3, "f", "m")},
                ["--test-size", 0],
                ["only group 'm' is large enough", "'f' has 1 effective", "--min-group-size 10"],
            ),
            (
                lambda f: {"hired": np.where((f["sex"] == "f") & (f.index > 9), "no", f["hired"])},
                ["--constraint", "equal_opportunity"],
                ["of the 160 rows held out", "at least 10 effective positives", "only 1 has enough"],
            ),
            (
                lambda f: {"weight": (f["hired"] == "yes") * 1},
                ["--weight", "weight"],
                ["column 'weight' gives weight to fewer than two labels", "for training"],
            ),
            (
                lambda f: {"sex": np.where(f.index < 1, "x", f["sex"])},
                ["--test-size", 0.6, "--group-terms", "intercept"],
                ["no row of group 'x' is left for training", "--group-terms", "lower --test-size"],
            ),
        ],
        ids=["thin", "thin among positives", "one label", "no group to train on"],
    )
    def test_rows_that_no_model_could_be_fitted_to(self, run, file, table, no_fits, change, options, words):
        table.assign(**change(table)).to_csv(file, index=False)
        run(*TRAIN, "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ({"name": [f"n{k}" for k in range(800)]}, ["'name' has 800 different texts", "--drop name"]),
            (
                {"born": pd.date_range("1980-01-01", periods=800).astype(str)},
                ["'born' holds dates", "1980-01-01"],
            ),
            ({"at": ["12/31/1999", "1/2/2003"] * 400}, ["'at' holds dates"]),
            (
                {"income": [f"{k},5" for k in range(800)]},
                ["'income' holds numbers with decimal commas", "need a point"],
            ),
            ({"row": range(1, 801)}, ["'row' numbers the rows", "--drop row"]),
            ({"blank": [None] * 800}, ["'blank' is empty"]),
            ({"big": [1.0, float("inf")] * 400}, ["'big'", "'inf'", "data row 2"]),
            ({"a b": [None] * 800, "row": range(800)}, ["'a b' is empty", "--drop 'a b' --drop row"]),
        ],
        ids=str,
    )
    def test_columns(self, run, file, table, column, words):
        table.assign(**column).to_csv(file, index=False)
        run(*TRAIN, "--out", "out").assert_refused(*words)

    def test_columns_of_parquet_files(self, run, table, tmp_path):
        for column, words in [
            ({"born": pd.date_range("1980-01-01", periods=800)}, ["'born' holds dates or times"]),
            ({"tags": [["a", "b"]] * 800}, ["'tags' holds values of type"]),
        ]:
            table.assign(**column).to_parquet(tmp_path / "table.parquet")
            run("train", "table.parquet", *TRAIN[2:], "--out", "out").assert_refused(*words)

    def test_nothing_left(self, run, file):
        names = ["age", "test", "years", "school", "licence", "weight"]
        dropped = [option for name in names for option in ("--drop", name)]
        run(*TRAIN, *dropped, "--out", "out").assert_refused("no column left to make features of")
        run(*TRAIN, *dropped[:-2], "--weight", "weight", "--out", "out").assert_refused("no column left")

    def test_two_columns_of_one_name(self, run, file):
        file.write_text(file.read_text().replace("years", "test", 1))
        run(*TRAIN, "--out", "out").assert_refused("2 columns called 'test'")

    def test_out(self, run, file, tmp_path):
        (tmp_path / "taken").touch()
        run(*TRAIN, "--out", "taken").assert_refused("--out taken")
        run(*TRAIN, "--out", "taken/model.skops").assert_refused("--out taken")
