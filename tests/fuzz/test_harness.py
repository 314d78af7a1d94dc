"""The fuzzer itself: a seed is a case, and every rule can be broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from sklearn.utils import check_array

from partialfair.utils.checks import check_number
from tests.fuzz.calls import IRREGULAR, REFUSED, Draw, find_flaws
from tests.fuzz.cases import Case, Earlier, make_case
from tests.fuzz.formats import as_arrow, as_csv, as_parquet
from tests.fuzz.options import Arguments
from tests.fuzz.runner import Outcome
from tests.fuzz.tables import make_table, plain_table
from tests.fuzz.verdicts import broken_by_call, broken_rules

_SCHEMA = {"__loader__": "ListNode", "content": [{"__loader__": "JsonNode", "content": "1"}]}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    """Return the least that cases are made of."""
    array = tmp_path_factory.mktemp("model") / "0.npy"
    np.save(array, np.zeros(30))
    model = dict.fromkeys(("0.npy", "1.npy"), array.read_bytes())
    model |= {"schema.json": json.dumps(_SCHEMA).encode(), "partialfair.json": b"{}"}
    old = {"model.skops": b"", "audit.json": b"{}"}
    return Earlier(model, b"", {"audit": old, "compare": old, "train": old, "path": old})


def test_a_seed_is_a_case(earlier: Earlier) -> None:
    for seed in range(40):
        assert make_case(seed, earlier) == make_case(seed, earlier)


def test_model_files_are_small(earlier: Earlier) -> None:
    for seed in range(100):
        assert len(make_case(seed, earlier).files.get("model.skops", b"")) < 1_000_000


def test_every_table_can_be_written() -> None:
    for seed in range(100):
        table = make_table(Random(seed))
        assert as_csv(table)
        assert as_arrow(table)
        assert as_parquet(table)


def _broken(
    directory: Path,
    code: int = 0,
    out: bytes = b"",
    err: bytes = b"",
    written: dict[str, bytes] | None = None,
    **measured: float,
) -> str:
    """Return the rules, and only their names, that such a run would break."""
    case = Case(0, "audit", Arguments(("audit", "data.csv"), out="out"), {}, ("data.csv",))
    before = {"work/data.csv": "old", "work/old/notes.txt": "old"}
    for name, content in (written or {}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    quantities = {"signal": 0, "cpu_seconds": 1.0, "wall_seconds": 1.0, "peak_bytes": 10**8} | measured
    outcome = Outcome(
        code,
        out=out,
        err=err,
        before=before,
        after=before | dict.fromkeys(written or {}, "new"),
        **quantities,
    )
    return " ".join(rule.partition(":")[0] for rule in broken_rules(case, outcome, directory))


_REFUSED = b"partialfair: error: no\n"


@pytest.mark.parametrize(
    ("run", "rules"),
    [
        ({"out": b"fine\n", "written": {"work/out/metrics.csv": b"a,b\n-1.5,x\n"}}, ""),
        ({"code": 2, "err": _REFUSED}, ""),
        ({"code": 2, "out": b"Usage: partialfair audit\n"}, ""),
        ({"code": 2, "err": b"Usage: partialfair audit\n"}, "message"),
        ({"code": 2, "err": b"no\n"}, "message"),
        ({"code": 2, "err": _REFUSED, "out": b"x"}, "stdout"),
        ({"code": 2, "err": _REFUSED[:-1] + b"x" * 1000}, "length"),
        ({"code": 2, "err": _REFUSED, "written": {"work/out/metrics.csv": b"a\n"}}, "wrote"),
        ({"code": 2, "err": b"partialfair: error: this is a bug\n"}, "bug"),
        ({"code": 1, "err": b"Traceback (most recent call last)\n"}, "traceback"),
        ({"code": 3}, "exit code"),
        ({"code": -1, "signal": 11}, "signal"),
        ({"out": b"\x1b[31m"}, "control"),
        ({"out": "\u202e".encode()}, "control"),
        ({"cpu_seconds": 61.0}, "time"),
        ({"wall_seconds": 61.0}, "time"),
        ({"peak_bytes": 3 << 30}, "memory"),
        ({"written": {"work/data.csv": b"a\n"}}, "input"),
        ({"written": {"work/old/notes.txt": b"a\n"}}, "bystander"),
        ({"written": {"tmp/x.csv": b"a\n"}}, "elsewhere"),
        ({"written": {"work/out/.metrics.csv.1": b"a\n"}}, "temporary"),
        ({"written": {"work/out/metrics.csv": b"a,b\n1,"}}, "partial"),
        ({"written": {"work/out/metrics.csv": b"a,b\n1\n"}}, "partial"),
        ({"written": {"work/out/metrics.csv": b"a,b\n1,=SUM(A1)\n"}}, "partial"),
        ({"written": {"work/out/audit.json": b'{"a": NaN}'}}, "partial"),
        ({"written": {"work/out/audit.json": b'{"a": 1'}}, "partial"),
        ({"written": {"work/out/map.png": b"\x89PNG"}}, "partial"),
        ({"written": {"work/out/page.html": b"<html>"}}, "partial"),
        ({"written": {"work/out/model.skops": b""}}, "partial"),
        ({"written": {"work/out/scores.parquet": b"PAR1"}}, "partial"),
    ],
)
def test_every_rule_can_be_broken(tmp_path: Path, run: dict[str, object], rules: str) -> None:
    assert _broken(tmp_path, **run) == rules


def test_a_seed_is_a_call() -> None:
    table = plain_table(Random(0), 30, ("a", "b"))
    first, second = (Draw(Random(7), table, 0.1) for _ in range(2))
    for _ in range(30):
        assert repr(first.interval()) == repr(second.interval())
        assert np.asarray(first.column("group")).tolist() == np.asarray(second.column("group")).tolist()


@pytest.mark.parametrize(
    ("ending", "rules"),
    [
        ({"code": 0, "out": b"metric: done\n"}, ""),
        ({"code": REFUSED, "out": b"metric: InputError: no\n"}, ""),
        ({"code": IRREGULAR, "out": b"metric: the gap is 2\n"}, "irregular"),
        ({"code": 1, "err": b"Traceback (most recent call last)\nIndexError: 3\n"}, "raw exception"),
        ({"code": -1, "signal": 11}, "signal"),
        ({"cpu_seconds": 61.0}, "time"),
        ({"peak_bytes": 3 << 30}, "memory"),
    ],
)
def test_calls_can_break_every_rule(ending: dict[str, object], rules: str) -> None:
    good = {"code": 0, "signal": 0, "out": b"", "err": b"", "before": {}, "after": {}}
    measured = {"cpu_seconds": 1.0, "wall_seconds": 1.0, "peak_bytes": 10**8}
    outcome = Outcome(**(good | measured | ending))
    assert " ".join(rule.partition(":")[0] for rule in broken_by_call(outcome)) == rules


@pytest.mark.parametrize(
    ("call", "raw"),
    [
        (lambda: check_number("1", "alpha"), False),
        (lambda: check_array([["a"]], dtype=float), True),  # NumPy's complaint, which names no argument
        (lambda: check_array(np.zeros(3)), False),
        (lambda: float("text"), True),
        (lambda: np.zeros(3) + np.zeros(4), True),
    ],
)
def test_raw_exceptions_are_told_from_those_that_were_meant(call: Callable[[], object], raw: bool) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert ("raw exception" in list(find_flaws(caught.value))) is raw
