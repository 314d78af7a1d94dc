"""Text in written CSV files: no formula for a spreadsheet, and the same text when it is read back."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.cli.output import csv_text, escape_formula, restore_texts
from partialfair.cli.reading import read_frame
from tests.cli.conftest import COLUMNS
from tests.sizes import examples

STARTS = tuple("=+-@\t\r")
NAMES = [
    "=1+1",
    "+49 30",
    "-x",
    "@sum",
    "\tx",
    "'=1",
    "''-x",
    "'",
    "'plain",
    "O'Brien",
    "-5",
    "+3.5e2",
    "plain",
    "-",
]


def cells(text):
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def is_number(text):
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


@given(st.text(alphabet="'=+-@\t\r\n5.e x", max_size=6))
def test_any_text_is_safe_and_comes_back(text):
    written = escape_formula(text)
    assert not written.startswith(STARTS) or is_number(written)
    assert restore_texts([written]) == {written: text}


@given(st.lists(st.text(alphabet="'=-5x", max_size=4), unique=True))
def test_texts_from_elsewhere_stay_different(texts):
    assert len(set(restore_texts(texts).values())) == len(texts)


@examples(15)
@given(
    names=st.lists(
        st.text(alphabet="'=+-@\t\r\n5x,\"", min_size=1, max_size=5), min_size=3, max_size=6, unique=True
    )
)
def test_tables_come_back(names, tmp_path_factory):
    """Cells and names of columns; columns of text are read as written."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    frame = pd.DataFrame({name: np.roll(names, k) for k, name in enumerate(names)})
    path.write_text(csv_text(frame), newline="")
    if any(not name.strip() for name in names):
        return  # a name of blanks alone is no name
    pd.testing.assert_frame_equal(read_frame(path, names, None)[0], frame, check_dtype=False)


def test_numbers_stay_numbers():
    broken = pd.DataFrame({"a": [-1.5, np.nan], "b": ["x\ry", None]})
    assert csv_text(broken) == '"a","b"\n-1.5,"x\ry"\n"",""\n'
    frame = pd.DataFrame({"a": [-1.5, 2.0], "b": [-1, 3], "c": ["-7", "=x"], "d": [True, False]})
    assert csv_text(frame) == "a,b,c,d\n-1.5,-1,-7,True\n2.0,3,'=x,False\n"


def test_row_names_and_gaps():
    frame = pd.DataFrame({"=a": [None, "x"]}, index=pd.Index(["@b", "c"], name="+d"))
    assert csv_text(frame, index=True) == "'+d,'=a\n'@b,\nc,x\n"
    categories = pd.DataFrame({"a": pd.Categorical(["=x", "y"])})
    assert csv_text(categories) == "a\n'=x\ny\n"


def test_what_commands_write_and_read(run, people, tmp_path):
    """Groups, ids and columns with such names, out of compare and into audit."""
    names = [name for name in NAMES if name.strip()]
    frame = people.assign(sex=np.resize(names, len(people)), person=[f"={k}" for k in range(len(people))])
    frame = frame.rename(columns={"sex": "@sex"})
    (tmp_path / "a.csv").write_text(csv_text(frame), newline="")
    columns = ("--score", "score", "--group", "@sex")
    record = run("audit", "a.csv", *columns, "--json").json
    assert {group["group"] for group in record["groups"]} == set(names)
    frame["score"] = np.roll(frame["score"], 1)
    (tmp_path / "b.csv").write_text(csv_text(frame), newline="")
    outcome = run(
        "compare", "a.csv", "b.csv", *columns, "--id", "person", "--interval", 0.1, 0.5, "--out", "out"
    )
    assert outcome.code == 0, outcome.err
    written = (tmp_path / "out" / "movers.csv").read_bytes().decode()
    assert not [cell for cell in cells(written) if cell.startswith(STARTS) and not is_number(cell)]
    again = read_frame(tmp_path / "out" / "movers.csv", ["person", "@sex"], None)[0]
    assert set(again["@sex"]) <= set(names)
    assert set(again["person"]) <= set(frame["person"])


@pytest.mark.parametrize("name", ["=g", "'=g", "''=g", "g"])
@pytest.mark.parametrize("header", [str, escape_formula])
def test_groups_are_read_as_written_whatever_their_column_is_called(tmp_path, name, header):
    written = header(name)
    (tmp_path / "a.csv").write_text(f"score,{written}\n1,01\n2,1\n")
    names = restore_texts(["score", written])
    assert read_frame(tmp_path / "a.csv", [names[written]], [names[written]])[0].iloc[:, 1].tolist() == [
        "01",
        "1",
    ]


def test_files_of_others_are_read_as_written(run, people, tmp_path):
    groups = np.resize(["=a", "'=a"], len(people))
    people.assign(sex=groups).to_csv(tmp_path / "a.csv", index=False)
    record = run("audit", "a.csv", *COLUMNS, "--json").json
    assert {group["group"] for group in record["groups"]} == {"=a", "'=a"}


@pytest.mark.parametrize("out", [(), ("--out", "scores.csv")])
def test_predictions(run, people, tmp_path, out):
    table = people[["score", "sex", "hired"]].rename(columns={"score": "x"})
    table["sex"] = table["sex"].map({"f": "=f()", "m": "-m"})
    table.to_csv(tmp_path / "a.csv", index=False)
    trained = run(
        "train", "a.csv", "--target", "hired", "--group", "sex", "--constraint", "none", "--out", "m"
    )
    assert trained.code == 0, trained.err
    outcome = run("predict", "m/model.skops", "a.csv", *out)
    written = (tmp_path / "scores.csv").read_text() if out else outcome.out
    assert {"'=f()", "'-m"} <= set(cells(written))
    (tmp_path / "again.csv").write_text(written)
    frame = read_frame(tmp_path / "again.csv", ["sex"], ["sex"])[0]
    assert frame["sex"].tolist() == table["sex"].tolist()
    assert (frame["score"] < 0).any()
