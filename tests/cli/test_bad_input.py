"""Every mistake: exit code 2, one sentence that names the culprit, nothing written."""

from __future__ import annotations

import gzip
import os
import sys

import numpy as np
import pytest

from tests.cli.conftest import COLUMNS

OUT = ("--out", "out")
NOISE = np.random.default_rng(0).bytes(3000)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.csv", None, ["no file absent.csv"]),
        ("empty.csv", b"", ["empty.csv is empty"]),
        ("empty.parquet", b"", ["empty.parquet is empty"]),
        ("blank.csv", b"\n\n", ["blank.csv", "cannot be read as CSV"]),
        ("header.csv", b"score,sex\n", ["header.csv has column names but no rows"]),
        ("noise.csv", NOISE, ["noise.csv is not UTF-8 text"]),
        ("latin.csv", "score,sex\n1,é\n".encode("latin-1"), ["latin.csv is not UTF-8 text"]),
        ("zeros.csv", bytes(100), ["zeros.csv"]),
        ("ragged.csv", b"score,sex\n1,f\n2,m,3,4,5\n", ["ragged.csv", "line 3"]),
        ("row_names.csv", b"score,sex\n1,0.5,f\n2,0.6,m\n", ["row_names.csv", "more cells than its header"]),
        ("noise.parquet", NOISE, ["noise.parquet cannot be read as Parquet"]),
        ("noise.arrow", NOISE, ["noise.arrow cannot be read as Arrow"]),
        ("noise.feather", NOISE, ["noise.feather cannot be read as Arrow"]),
        ("noise.csv.gz", NOISE, ["noise.csv.gz cannot be read as CSV"]),
        ("noise.csv.zst", NOISE, ["noise.csv.zst cannot be read as CSV"]),
        ("noise.csv.zip", NOISE, ["noise.csv.zip cannot be read as CSV"]),
        ("short.csv.gz", gzip.compress(NOISE, mtime=0)[:-20], ["short.csv.gz"]),
        ("scores.xlsx", b"PK", ["scores.xlsx", ".csv", ".parquet"]),
        ("scores", b"score,sex\n", ["scores has an unknown kind"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files(run, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    run("audit", name, *COLUMNS, *OUT).assert_refused(*words)


def test_a_directory(run, tmp_path):
    (tmp_path / "scores.csv").mkdir()
    run("audit", "scores.csv", *COLUMNS, *OUT).assert_refused("scores.csv is a directory")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("role", ["score", "group", "label", "weight", "id"])
def test_missing_columns(run, people, tmp_path, suffix, role):
    path = tmp_path / f"scores.{suffix}"
    people.to_csv(path, index=False) if suffix == "csv" else getattr(people, f"to_{suffix}")(path)
    command = ["compare", path, path] if role == "id" else ["audit", path]
    outcome = run(*command, *COLUMNS, f"--{role}", "nonsense", *OUT)
    outcome.assert_refused(f"{path} has no column 'nonsense'; it has 'person', 'score', 'sex'")


def with_value(column, value, row=4):
    """Change one cell of a column; the table is text from then on."""

    def change(frame):
        cells = frame[column].astype(str).tolist()
        cells[row] = value
        return frame.assign(**{column: cells})

    return change


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.assign(sex="f"), [], ["'sex'", "only one group ('f')"]),
        (with_value("score", "abc"), [], ["'score'", "'abc'", "data row 5"]),
        (with_value("score", ""), [], ["'score'", "an empty cell", "data row 5"]),
        (with_value("score", "nan"), [], ["'score'", "'nan'", "data row 5"]),
        (with_value("score", "NaN"), [], ["'score'", "'NaN'", "data row 5"]),
        (with_value("score", "inf"), [], ["'score'", "'inf'", "data row 5"]),
        (with_value("score", "-inf"), [], ["'score'", "'-inf'", "data row 5"]),
        (with_value("score", "0,25"), [], ["'0,25'", "decimals need a point"]),
        (lambda f: f.assign(score=""), [], ["'score'", "data row 1 and 599 more rows"]),
        (with_value("sex", ""), [], ["'sex'", "an empty cell", "data row 5; --missing-groups ignore"]),
        (with_value("hired", ""), ["--label", "hired"], ["'hired'", "an empty cell", "data row 5"]),
        (with_value("weight", "-1"), ["--weight", "weight"], ["'weight'", "negative weight", "data row 5\n"]),
        (with_value("weight", "x"), ["--weight", "weight"], ["'weight'", "'x'", "data row 5"]),
        (with_value("weight", "inf"), ["--weight", "weight"], ["'weight'", "'inf'", "data row 5"]),
        (lambda f: f.assign(weight=0), ["--weight", "weight"], ["'weight'", "fewer than two groups"]),
        (
            lambda f: f.assign(weight=(f["sex"] == "f") * 1),
            ["--weight", "weight"],
            ["'weight'", "fewer than two groups"],
        ),
        (
            with_value("hired", "maybe"),
            ["--label", "hired"],
            ["'hired'", "3 classes (maybe, no, yes)", "need two"],
        ),
        (
            lambda f: f.assign(hired=0),
            ["--label", "hired"],
            ["'hired'", "only one class (0)", "need two"],
        ),
        (
            lambda f: f.assign(sex=np.arange(600)),
            [],
            ["'sex'", "600 different values", "at most", "--max-groups"],
        ),
    ],
)
def test_cells(run, people, tmp_path, change, options, words):
    change(people).to_csv(tmp_path / "scores.csv", index=False)
    outcome = run("audit", "scores.csv", *COLUMNS, *options, *OUT)
    outcome.assert_refused(*words)
    assert "scores.csv" in outcome.err or "interval" in outcome.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", -0.1, 0.5], ["interval (-0.1, 0.5)", "[0, 1]"]),
        (["--interval", 5, 30], ["interval (5, 30)", "30% is written 0.30"]),
        (["--interval", 0.3, 0.05], ["interval (0.3, 0.05)", "reversed"]),
        (["--interval", 0.3, 0.3], ["interval (0.3, 0.3)", "empty"]),
        (["--interval", "nan", 0.5], ["interval (nan, 0.5)"]),
        (["--interval", 0, 0.001], ["none of 2 groups has at least 10 effective members", "'f' (0 "]),
        (["--label", "hired", "--pos-label", "Yes"], ["--pos-label Yes", "'hired'", "no, yes"]),
        (["--threshold", "nan"], ["--threshold", "nan"]),
        (["--threshold", "inf"], ["--threshold", "inf"]),
        (["--confidence", 0], ["--confidence", "not 0"]),
        (["--confidence", 1], ["--confidence", "not 1"]),
        (["--confidence", 1.5], ["--confidence", "1.5"]),
        (["--confidence", 0.999], ["--confidence must be at most 0.995, not 0.999"]),
        (["--confidence", "nan"], ["--confidence", "nan"]),
        (["--fail-above", 2], ["--fail-above", "not 2"]),
        (["--fail-above", -0.1], ["--fail-above", "-0.1"]),
        (["--fail-above", "nan"], ["--fail-above", "nan"]),
        (["--fail-above", 0.1, "--fail-metric", "parity"], ["--fail-metric", "parity", "statistical_parity"]),
        (
            ["--fail-above", 0.1, "--fail-metric", "demographic_parity"],
            ["--fail-metric demographic_parity needs a threshold"],
        ),
        (
            ["--fail-above", 0.1, "--fail-metric", "equal_opportunity"],
            ["--fail-metric equal_opportunity needs labels and a threshold"],
        ),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_options(run, scores, options, words):
    run("audit", scores, *COLUMNS, *options, *OUT).assert_refused(*words)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["audit"], "missing argument"),
        (["audit", "scores.csv", "--group", "sex"], "--score"),
        (["audit", "scores.csv", *COLUMNS, "--interval", "low", "high"], "interval"),
        (["audit", "scores.csv", *COLUMNS, "--interval", "0.5"], "--interval"),
        (["audit", "scores.csv", *COLUMNS, "--gap-scale", "relative"], "relative"),
        (["audit", "scores.csv", *COLUMNS, "--seed", "-1"], "--seed"),
        (["audit", "scores.csv", *COLUMNS, "--seed", "9" * 20], "--seed"),
        (["audit", "scores.csv", *COLUMNS, "--nonsense"], "--nonsense"),
        (["audit", "scores.csv", *COLUMNS, "--min-group-size", "few"], "--min-group-size"),
        (["audit", "scores.csv", *COLUMNS, "--interval"], "--interval"),
        (["audit", "scores.csv", *COLUMNS, "more.csv"], "more.csv"),
        (["audit", "scores.csv", *COLUMNS, "--\x1b[31mred"], "--\\x1b[31mred"),
        (["audit", "scores.csv", *COLUMNS, "--gap-scale", "caf\udce9\n\u202e"], "--gap-scale"),
        (["audit", "scores.csv", *COLUMNS, f"--{'x' * 100_000}"], "--xxx"),
        (["predict", "m.skops", "scores.csv", *("\x1b" * 100,) * 100], "\\x1b\\x1b"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value[-2:])[:30],
)
def test_usage(run, scores, arguments, word):
    outcome = run(*arguments)
    outcome.assert_refused(word)
    assert len(outcome.err) <= 1000
    assert outcome.err[:-1].isprintable()


@pytest.mark.parametrize("where", ["taken", "taken/deeper/out"])
def test_an_out_that_is_a_file(run, scores, tmp_path, where):
    (tmp_path / "taken").write_text("mine")
    run("audit", scores, *COLUMNS, "--out", where).assert_refused(f"--out {where}", "taken is not one")
    assert (tmp_path / "taken").read_text() == "mine"


def test_what_cannot_be_written_is_named(run, scores, tmp_path):
    (tmp_path / "full" / "audit.json").mkdir(parents=True)
    outcome = run("audit", scores, *COLUMNS, "--out", "full")
    outcome.assert_refused("full/audit.json cannot be written", "a directory")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write all")
class TestPermissions:
    def test_unreadable_file(self, run, scores):
        scores.chmod(0)
        run("audit", scores, *COLUMNS, *OUT).assert_refused(str(scores), "Permission denied")

    def test_unreadable_directory(self, run, scores, tmp_path):
        (tmp_path / "closed").mkdir(mode=0)
        run("audit", "closed/scores.csv", *COLUMNS, *OUT).assert_refused("closed", "Permission denied")

    def test_unwritable_directory(self, run, scores, tmp_path):
        (tmp_path / "closed").mkdir(mode=0o500)
        outcome = run("audit", scores, *COLUMNS, "--out", "closed/out")
        outcome.assert_refused("closed/out", "Permission denied")


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("typer", ["--version"]),
        ("rich", ["--version"]),
        ("matplotlib", ["audit", "scores.csv", *COLUMNS, *OUT]),
        ("matplotlib", ["compare", "scores.csv", "scores.csv", *COLUMNS, *OUT]),
        ("matplotlib", ["demo", *OUT]),
        ("pyarrow", ["audit", "scores.parquet", *COLUMNS, *OUT]),
        ("pyarrow", ["audit", "scores.feather", *COLUMNS, *OUT]),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    run, people, scores, tmp_path, monkeypatch, package, arguments
):
    people.to_parquet(tmp_path / "scores.parquet")
    people.to_feather(tmp_path / "scores.feather")
    monkeypatch.setitem(sys.modules, package, None)
    run(*arguments).assert_refused(f"needs {package}, ", "pip install 'partialfair[cli]'")


def test_without_matplotlib_the_numbers_are_still_printed(run, scores, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("audit", scores, *COLUMNS).code == 0


def test_a_bug_is_owned_up_to_and_can_be_traced(run, scores, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("wires crossed")

    monkeypatch.setattr("partialfair.cli.evaluation.fairness_report", broken)
    outcome = run("audit", scores, *COLUMNS, *OUT)
    assert outcome.code == 2
    assert "unexpected RuntimeError: wires crossed; this is a bug in partialfair" in outcome.err
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("PARTIALFAIR_DEBUG", "1")
    with pytest.raises(RuntimeError, match="wires crossed"):
        run("audit", scores, *COLUMNS, *OUT)


def test_two_columns_of_one_name_are_refused(run, tmp_path):
    (tmp_path / "twice.csv").write_text("score,sex,sex\n1,a,b\n2,b,a\n")
    run("audit", "twice.csv", *COLUMNS, "--out", "out").assert_refused("2 columns called 'sex'")
