"""JSON that commands wrote and somebody changed: it is read, or refused with a clear error."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from partialfair.cli.predict import find_model
from partialfair.exceptions import InputError
from partialfair.persistence import load_model
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.utils.files import digests
from partialfair_paper.costs import Costs
from partialfair_paper.runs import Outcome, Run
from partialfair_paper.store import Store

N_CHANGES = 150

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        3,
        10**400,
        -(10**400),
        2**63,
        1e308,
        -1e308,
        0.5,
        math.nan,
        math.inf,
        -math.inf,
    ),
    *("", ".", "..", "../x", "/etc/passwd", "x\0y", "\ud800", "x" * 5000, "a/b", "caf\u00e9", "nan", "0.5"),
    *([], {}, [[]], [1, 2], {"a": 1}, [[1, [2, [3]]]], [None], ["a", "a"], [{}]),
)

TEXTS: tuple[bytes, ...] = (
    *(b"", b"{", b"null", b"[]", b"3", b'"x"', b"NaN", b"Infinity", b"{}", b"\xff\xfe", b"\xff", b"\x00"),
    *(
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 5000,
        b"\xef\xbb\xbf{}",
        b"{}x",
        b'{"schema": 1, "schema": 2}',
    ),
    *(b'{"files": {"a": "b"}, "files": []}', b"\x80\x04\x95", '{"model": "x"}'.encode("utf-16")),
)


def changes(content: bytes) -> Iterator[bytes]:
    """Yield other texts, the same behind a mark of its encoding, and texts with one value or key changed."""
    yield from TEXTS
    yield b"\xef\xbb\xbf" + content
    yield content.replace(b"{", b'{"files": 3, "schema": 3,', 1)
    for seed in range(N_CHANGES):
        rng = Random(seed)
        tree = json.loads(content)
        places = list(_places(tree))
        part, key = rng.choice(places)
        other, other_key = rng.choice(places)
        if (choice := rng.randrange(5)) == 0 and isinstance(part, dict):
            del part[key]
        elif choice == 1:
            part[key] = json.loads(json.dumps(other[other_key]))
        elif choice == 2 and isinstance(part, dict):
            part[rng.choice([value for value in VALUES if isinstance(value, str)])] = part.pop(key)
        else:
            part[key] = rng.choice(VALUES)
        yield json.dumps(tree).encode()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every value as the container and its key there."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        for key in keys:
            yield part, key
            waiting.append(part[key])


def read_all(path: Path, read: Callable[[], Any]) -> tuple[int, int]:
    """Read every change of a file; return how many were read and how many refused."""
    content, n_read, n_refused = path.read_bytes(), 0, 0
    for changed in changes(content):
        path.write_bytes(changed)
        try:
            read()
            n_read += 1
        except InputError as error:
            n_refused += 1
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
    path.write_bytes(content)
    read()  # as it was
    return n_read, n_refused


@pytest.mark.parametrize("name", ["train.json", "path.json"])
def test_records_of_sets(tmp_path, name):
    members = {"metrics.csv": b"a\n1\n", "model.skops": b"no model"}
    for member, content in members.items():
        (tmp_path / member).write_bytes(content)
    record = {"schema": "x", "model": "model.skops", "rows": 3, "files": digests(members)}
    (tmp_path / name).write_text(json.dumps(record))

    def read() -> None:
        model, *others = find_model(tmp_path)
        for path in (model, *others):
            assert path.parent == tmp_path
            path.resolve()
        with pytest.raises(InputError):
            load_model(model)

    n_read, n_refused = read_all(tmp_path / name, read)
    assert n_read > 10
    assert n_refused > 50


@pytest.mark.filterwarnings("error")
def test_maps_of_adjusters(tmp_path):
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=60), np.repeat(["a", "b"], 30)
    fitted = PartialParityAdjuster(interval=(0, 1), max_gap=0.5).fit(scores, sensitive_features=groups)
    fitted.to_json(tmp_path / "map.json")

    def read() -> None:
        adjuster = PartialParityAdjuster.from_json(tmp_path / "map.json")
        adjuster.table()
        moved = adjuster.transform(scores, sensitive_features=groups)
        assert np.isfinite(moved).all()

    n_read, n_refused = read_all(tmp_path / "map.json", read)
    assert n_read > 10
    assert n_refused > 50


@pytest.mark.parametrize("name", ["run.json", "outcome.json", "store.json"])
def test_stores_of_runs(tmp_path, name):
    run = Run("law_school", 0, "ours", 0.1, "pSP", (0.7, 1.0), 10, 1e-4)
    measures = {"accuracy": 0.9, "AUC": math.nan}
    done = Outcome(
        None, 1.5, {"status": "converged", "steps": 3}, measures, measures, history={"step": [0, 1]}
    )
    Store(tmp_path / "results", "1.0").save(run, done)
    (path,) = (tmp_path / "results").rglob(name)

    def read() -> None:
        store = Store(tmp_path / "results", "1.0")
        store.left([run])
        assert len(store.to_frame()) == 1
        Costs(store).seconds([run])

    n_read, n_refused = read_all(path, read)
    assert n_refused > 20
    assert n_read > 0
