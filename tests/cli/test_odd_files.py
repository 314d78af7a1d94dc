"""Pipes, and files that are damaged, packed or typed oddly: read as they should be, or one sentence."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import lzma
import os
import tarfile
import threading
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import feather, parquet

from partialfair.cli.columns import ColumnNames, read_scores
from partialfair.cli.reading import read_frame
from partialfair.exceptions import InputError
from tests.cli.conftest import COLUMNS

OUT = ("--out", "out")
SMALL = pd.DataFrame({"score": [0.25, -1.5, 3.0, 0.125], "sex": ["f", "m", "f", "m"], "w": [1, 2, 3, 4]})


def as_bytes(frame, kind):
    stored = io.BytesIO()
    if kind == "csv":
        return frame.to_csv(index=False).encode()
    frame.to_parquet(stored) if kind == "parquet" else feather.write_feather(frame, stored)
    return stored.getvalue()


def zstd(content):
    return pyarrow.compress(content, "zstd", asbytes=True)


def through_pipe(content, name):
    """Write some bytes to a named pipe, once, when somebody reads it."""
    os.mkfifo(name)
    writer = threading.Thread(target=lambda: name.write_bytes(content), daemon=True)
    writer.start()
    return writer


class TestPipes:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
    @pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
    def test_text_is_read_once_whatever_packs_it(self, tmp_path, pack, name):
        writer = through_pipe(pack(as_bytes(SMALL, "csv")), tmp_path / name)
        frame = read_frame(tmp_path / name, ["score", "sex"], ["sex"])[0]
        writer.join(10)
        pd.testing.assert_frame_equal(frame, SMALL, check_dtype=False)

    @pytest.mark.parametrize("kind", ["parquet", "arrow"])
    def test_the_kind_is_told_from_the_first_bytes(self, tmp_path, kind):
        writer = through_pipe(as_bytes(SMALL, kind), tmp_path / "pipe")
        frame = read_frame(tmp_path / "pipe", ["score", "sex"], ["sex"])[0]
        writer.join(10)
        pd.testing.assert_frame_equal(frame, SMALL[["score", "sex"]], check_dtype=False)

    def test_large_ones(self, tmp_path):
        """A pipe holds 64 KiB at a time."""
        many = pd.concat([SMALL] * 50_000, ignore_index=True)
        writer = through_pipe(as_bytes(many, "csv"), tmp_path / "pipe")
        assert len(read_scores(tmp_path / "pipe", ColumnNames("score", ("sex",))).scores) == len(many)
        writer.join(10)

    def test_an_audit_of_one(self, run, people, tmp_path):
        writer = through_pipe(as_bytes(people, "csv"), tmp_path / "pipe")
        assert run("audit", "pipe", *COLUMNS).code == 0
        writer.join(10)

    def test_standard_input(self, run, people, monkeypatch):
        stdin = io.TextIOWrapper(io.BytesIO(as_bytes(people, "csv")))
        monkeypatch.setattr("sys.stdin", stdin)
        assert run("audit", "-", *COLUMNS).code == 0

    def test_an_empty_one(self, run, tmp_path):
        writer = through_pipe(b"", tmp_path / "pipe")
        run("audit", "pipe", *COLUMNS, *OUT).assert_refused("pipe is empty")
        writer.join(10)

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
    def test_devices_have_no_end_or_no_table(self, run, device):
        run("audit", device, *COLUMNS, *OUT).assert_refused(device, "device")

    def test_a_pipe_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr("partialfair.cli.reading._LARGEST_PIPE", 10)
        writer = through_pipe(b"x" * 11, tmp_path / "pipe")
        with pytest.raises(InputError, match="write the table to a file first"):
            read_frame(tmp_path / "pipe", [], None)
        writer.join(10)


def zipped(*names, content=b"score,sex\n1,f\n2,m\n", compression=zipfile.ZIP_DEFLATED):
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", compression) as archive:
        for name in names:
            archive.writestr(name, b"" if name.endswith("/") else content)
    return stored.getvalue()


def tarred():
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as archive:
        member = tarfile.TarInfo("scores.csv")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"a,b\n"))
    return stored.getvalue()


def encrypted():
    """Set the flag that says a member needs a password, in both places where it stands."""
    content = bytearray(zipped("a.csv"))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def of_unknown_compression():
    content = bytearray(zipped("a.csv"))
    content[8] = content[content.index(b"PK\x01\x02") + 10] = 97
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv.zip", zipped(), ["a.csv.zip", "0 files (none)"]),
        ("a.csv.zip", zipped("folder/"), ["a.csv.zip", "0 files (none)"]),
        ("a.csv.zip", zipped("x.csv", "y.csv"), ["a.csv.zip", "2 files ('x.csv' and 'y.csv')"]),
        ("a.csv.zip", encrypted(), ["a.csv.zip is encrypted"]),
        ("a.csv.zip", of_unknown_compression(), ["a.csv.zip cannot be read as CSV", "compression"]),
        ("a.csv.zip", zipped("a.csv", compression=zipfile.ZIP_BZIP2), ["a.csv.zip", "compression"]),
        (
            "a.csv.bz2",
            bz2.compress(b"a,b\n"),
            ["a.csv.bz2 is compressed by bzip2; unpack it, or use"],
        ),
        ("a.csv.xz", lzma.compress(b"a,b\n"), ["a.csv.xz is compressed by xz; unpack it"]),
        ("a.csv.tar", tarred(), ["a.csv.tar is compressed by tar; unpack it"]),
        ("a.csv.tar.gz", gzip.compress(tarred(), mtime=0), ["a.csv.tar.gz is compressed by tar"]),
        ("a.csv", bz2.compress(b"a,b\n"), ["a.csv is compressed by bzip2"]),
        ("a.csv", tarred(), ["a.csv is not UTF-8 text"]),
        ("utf16.csv", "score,sex\n1,f\n2,m\n".encode("utf-16"), ["utf16.csv", "UTF-16"]),
        ("utf16le.csv", "score,sex\n1,f\n2,m\n".encode("utf-16-le"), ["utf16le.csv", "UTF-16"]),
        ("zero.csv", b"score,sex\n1,f\x00oo\n2,f\x00aa\n3,m\n", ["zero.csv", "zero bytes"]),
        ("late.csv", b"score,sex\n" + b"1,f\n2,m\n" * 90_000 + b"1,\x00\n", ["late.csv", "zero bytes"]),
        ("line.csv", b"a" * (1 << 24), ["line.csv has no line break"]),
        ("bomb.csv.gz", gzip.compress(bytes(1 << 26), mtime=0), ["bomb.csv.gz"]),
        ("bomb.csv.gz", gzip.compress(b"a" * (1 << 26), mtime=0), ["bomb.csv.gz has no line break"]),
        ("quote.csv", b'score,sex\n1,"f\n2,m\n', ["quote.csv cannot be read as CSV"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_are_no_tables(run, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    run("audit", name, *COLUMNS, *OUT).assert_refused(*words)


def test_text_that_unpacks_to_too_much(run, tmp_path, monkeypatch):
    monkeypatch.setattr("partialfair.cli.reading._SMALL_TABLE", 1 << 16)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"score,sex\n" + b"1,f\n2,m\n" * 100_000))
    run("audit", "a.csv.gz", *COLUMNS, *OUT).assert_refused("a.csv.gz unpacks to more than")


def test_one_table_in_a_zip_beside_what_a_mac_adds(tmp_path):
    (tmp_path / "a.csv.zip").write_bytes(zipped("folder/", "folder/a.csv", "__MACOSX/folder/._a.csv"))
    assert read_frame(tmp_path / "a.csv.zip", ["score"], ["sex"])[0]["sex"].tolist() == ["f", "m"]


def test_a_table_without_a_name_in_a_zip(tmp_path):
    (tmp_path / "a.csv.zip").write_bytes(zipped("~").replace(b"~", b"\0"))
    assert len(read_frame(tmp_path / "a.csv.zip", ["score"], ["sex"])[0]) == 2


def test_a_mark_of_byte_order_is_no_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf"score",sex\n1,f\n2,m\n')
    assert read_frame(tmp_path / "a.csv", ["score"], ["sex"])[0]["score"].tolist() == [1, 2]


def test_names_that_are_not_utf8(run, people, tmp_path):
    name = os.fsdecode(b"caf\xe9.csv")
    (tmp_path / name).write_bytes(as_bytes(people, "csv"))
    outcome = run("audit", name, *COLUMNS, "--out", "written", "--report", "a.html")
    assert outcome.code == 0, outcome.err
    assert "caf" in outcome.out
    assert run("compare", name, name, *COLUMNS, "--json").code == 0
    (tmp_path / "latin.csv").write_bytes("score,sexé\n1,f\n".encode("latin-1"))
    run("audit", "latin.csv", *COLUMNS).assert_refused("latin.csv is not UTF-8 text")
    run("audit", name, "--score", os.fsdecode(b"\xff"), "--group", "sex").assert_refused(
        "no column '\\udcff'"
    )


class TestColumnTypes:
    """A column of each type that Arrow knows, in each role: a number, or a sentence that names the column."""

    @pytest.fixture(params=["parquet", "arrow"])
    def audit(self, request, run, tmp_path, people):
        def call(values, *options, type=None):
            array = pyarrow.array(values, type=type)
            frame = people.head(len(values)).assign(w=1.0).drop(columns="score")
            table = pyarrow.Table.from_pandas(frame, preserve_index=False).append_column("x", array)
            name = f"a.{request.param}"
            if request.param == "parquet":
                parquet.write_table(table, tmp_path / name)
            else:
                feather.write_feather(table, tmp_path / name)
            roles = {"--score": "w", "--group": "sex"} | dict(zip(options[::2], options[1::2], strict=True))
            return run("audit", name, *(word for pair in roles.items() for word in pair))

        return call

    ROWS = 80
    DATE = datetime.date(2020, 1, 1)

    @pytest.mark.parametrize(
        ("value", "type", "word"),
        [
            ([1.0, 2.0], None, "ndarray"),
            ({"a": 1}, None, "dict"),
            ([("k", 1)], pyarrow.map_(pyarrow.string(), pyarrow.int64()), "list"),
            (b"\xff", None, "bytes"),
        ],
    )
    @pytest.mark.parametrize("role", ["--score", "--group", "--label", "--weight"])
    def test_nested_ones_and_bytes(self, audit, value, type, word, role):
        outcome = audit([value] * self.ROWS, role, "x", type=type)
        outcome.assert_refused("column 'x' of a.", word)

    @pytest.mark.parametrize(
        "value", [DATE, datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.time(3)]
    )
    @pytest.mark.parametrize("gap", [False, True])
    @pytest.mark.parametrize("role", ["--score", "--label", "--weight"])
    def test_dates_and_times(self, audit, value, gap, role):
        values = [value] * (self.ROWS - gap) + [None] * gap
        audit(values, role, "x").assert_refused("column 'x' of a.", "holds dates or times")

    def test_missing_dates_alone(self, audit):
        values = [None] * self.ROWS
        audit(values, "--score", "x", type=pyarrow.timestamp("ns")).assert_refused("'x'", "dates or times")

    def test_numbers_however_they_are_kept(self, audit):
        numbers = np.arange(self.ROWS)
        for values, type in [
            ([Decimal(int(k)) / 4 for k in numbers], None),
            (numbers, pyarrow.uint8()),
            (numbers.astype(np.float16), pyarrow.float16()),
            (pyarrow.array(numbers.astype(float)).dictionary_encode(), None),
            (numbers % 2 == 0, pyarrow.bool_()),
        ]:
            outcome = audit(values, "--score", "x", type=type)
            assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_flipped_bytes(tmp_path, people, kind):
    """The table, perhaps with other values, or one sentence; unvalidated Arrow files ended the process."""
    rng = np.random.default_rng(0)
    whole = as_bytes(people, kind)
    path = tmp_path / f"scores.{kind}"
    columns = ColumnNames("score", ("sex", "age"), "hired", "weight", "person")
    n_refused = 0
    for _ in range(120):
        damaged = bytearray(whole)
        where = rng.integers(len(whole)) if rng.random() < 0.5 else len(whole) - 1 - rng.integers(2000)
        for place in (where + np.arange(rng.integers(1, 5))) % len(whole):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_scores(path, columns)
        except InputError as error:
            n_refused += 1
            assert str(path) in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
    assert n_refused > 20


def test_row_names_of_pandas_are_columns_like_others(tmp_path, people):
    path = tmp_path / "a.parquet"
    people.set_index("person").to_parquet(path)
    assert (
        read_scores(path, ColumnNames("score", ("sex",), id="person")).ids.tolist()
        == people["person"].tolist()
    )
    people.sample(frac=1.0, random_state=0).to_parquet(path)
    assert list(read_frame(path, [], None)[0].columns) == list(people.columns)


def test_all_missing_columns_are_named_with_what_is_similar(run, scores):
    run("audit", scores, "--score", "Score", "--group", "gender", "--label", "hire", *OUT).assert_refused(
        "no columns 'Score' ('score' is similar), 'gender' and 'hire' ('hired' is similar); it has 'person'"
    )


class TestWeights:
    @pytest.mark.parametrize("weight", ["1e308", "1e-320"])
    def test_extreme_ones_are_named(self, run, people, tmp_path, weight):
        people.assign(weight=[weight] + ["1"] * 599).to_csv(tmp_path / "scores.csv", index=False)
        outcome = run("audit", "scores.csv", *COLUMNS, "--weight", "weight", *OUT)
        outcome.assert_refused("column 'weight' of scores.csv", "in data row 1;", "1e75")


class TestLargeWholeNumbers:
    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    @pytest.mark.parametrize("base", [2**53, 2**63, 10**25])
    def test_those_that_floats_would_tie_are_refused(self, run, people, tmp_path, kind, base):
        values = [base + k for k in range(len(people))]
        if base > 2**64:
            kind, values = "csv", list(map(str, values))
        (tmp_path / f"a.{kind}").write_bytes(as_bytes(people.assign(score=values), kind))
        run("audit", f"a.{kind}", *COLUMNS, *OUT).assert_refused(
            f"column 'score' of a.{kind}", str(base), "are equal as floats"
        )

    def test_others_are_ranked(self, run, people, tmp_path):
        values = [2**53 + 2**40 * k for k in range(len(people))]
        people.assign(score=values).to_csv(tmp_path / "a.csv", index=False)
        assert run("audit", "a.csv", *COLUMNS).code == 0


class TestMissingGroups:
    def test_are_kept_as_missing_where_asked(self, people, tmp_path):
        path = tmp_path / "a.csv"
        people.assign(sex=people["sex"].where(people.index > 2), code=people["code"]).to_csv(
            path, index=False
        )
        columns = ColumnNames("score", ("sex", "code"))
        with pytest.raises(
            InputError, match=r"column 'sex' of .* has an empty cell in data row 1 and 2 more"
        ):
            read_scores(path, columns)
        table = read_scores(path, columns, missing_groups="ignore")
        assert table.groups["sex"].isna().sum() == 3
        assert len(table.groups) == len(people)

    def test_codes_stay_readable(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("score,sex\n1,0\n2,1\n3,\n4,1\n")
        table = read_scores(path, ColumnNames("score", ("sex",)), missing_groups="ignore")
        assert table.groups["sex"].tolist()[:2] == ["sex=0", "sex=1"]
        assert table.groups["sex"].isna().tolist() == [False, False, True, False]

    def test_none_at_all(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("score,sex\n1,\n2,\n")
        with pytest.raises(InputError, match="is empty in every row"):
            read_scores(path, ColumnNames("score", ("sex",)), missing_groups="ignore")


def alike(n_rows):
    """A table of equal rows."""
    sex = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int8()), n_rows), ["f"]
    )
    return pyarrow.table({"score": pyarrow.repeat(0.5, n_rows), "sex": sex})


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_small_files_of_a_hundred_million_rows(run, tmp_path, kind):
    rows, name = alike(10**7), f"a.{kind}"
    if kind == "parquet":
        writer = parquet.ParquetWriter(tmp_path / name, rows.schema, compression="zstd")
    else:
        options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
        writer = pyarrow.ipc.new_file(tmp_path / name, rows.schema, options=options)
    with writer:
        for _ in range(10):
            writer.write_table(rows)
    assert (tmp_path / name).stat().st_size < 1 << 20
    before = pyarrow.total_allocated_bytes()
    run("audit", name, *COLUMNS, *OUT).assert_refused(f"{name} unpacks to more than 256 MiB")
    assert pyarrow.total_allocated_bytes() - before < 1 << 24
