"""Runs on disk: found again by what they are, never mixed, never half there."""

import json
from dataclasses import replace

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair_paper.runs import Outcome, Run
from partialfair_paper.store import Store

RUN = Run("law_school", 0, "ours", 0.1, "pSP", (0.7, 1.0), 10, 1e-4)
MEASURES = {"accuracy": 0.9}
DONE = Outcome(None, 1.5, {"status": "converged"}, MEASURES, MEASURES, history={"step": [0, 1]})


def test_a_run_is_found_by_what_it_is(tmp_path):
    store = Store(tmp_path / "results", "1.0")
    assert store.of(RUN) is None
    store.save(RUN, DONE, {"scores": np.arange(3.0)})
    again = Store(tmp_path / "results", "1.0")
    assert again.of(replace(RUN)) == DONE
    assert again.scores(RUN)["scores"].tolist() == [0, 1, 2]
    assert list(again.all()) == [(RUN, DONE)]


def test_keys_differ_in_every_field():
    changes = {
        "dataset": "bank",
        "seed": 1,
        "method": "penalty",
        "tolerance": 0.2,
        "fairness": "pDP",
        "interval": (0.6, 1.0),
        "n_points": 20,
        "alpha": 1e-3,
        "protocol": "paper",
        "rows": 100,
    }
    others = [replace(RUN, **{name: value}) for name, value in changes.items()]
    assert len({run.key for run in (RUN, *others)}) == len(changes) + 1
    assert set(changes) == set(RUN.__dataclass_fields__)


def test_failures_are_kept_shown_and_tried_again(tmp_path):
    store = Store(tmp_path / "results", "1.0")
    store.save(RUN, Outcome("ValueError: no"))
    assert store.of(RUN).failed
    assert store.left([RUN, RUN]) == [RUN]
    assert store.to_frame()["error"].tolist() == ["ValueError: no"]
    store.save(RUN, DONE)
    assert store.left([RUN]) == []


def test_results_of_another_version_are_refused_and_left_alone(tmp_path):
    Store(tmp_path / "results", "1.0").save(RUN, DONE)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    with pytest.raises(
        InputError, match=r"results of partialfair 1\.0 .* this is 2\.0 .* nothing was changed"
    ):
        Store(tmp_path / "results", "2.0")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


@pytest.mark.parametrize("content", ["{", "[]", '{"error": null, "colour": 1}', "{}", '{"test": 3}'])
def test_a_damaged_outcome_is_named(tmp_path, content):
    store = Store(tmp_path / "results", "1.0")
    store.save(RUN, DONE)
    (path,) = tmp_path.rglob("outcome.json")
    path.write_text(content)
    with pytest.raises(InputError, match=r"outcome\.json is damaged \(.*\): remove .* to run it again"):
        store.of(RUN)


def test_damaged_scores_are_named(tmp_path):
    store = Store(tmp_path / "results", "1.0")
    store.save(RUN, DONE, {"scores": np.arange(3.0)})
    (path,) = tmp_path.rglob("scores.npz")
    for content in (b"", b"junk", path.read_bytes()[:40]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"scores\.npz is damaged \(it holds no arrays\): remove"):
            store.scores(RUN)
    path.unlink()
    with pytest.raises(InputError, match=r"scores\.npz is damaged \(the file is missing\): remove"):
        store.scores(RUN)


def test_a_run_in_the_wrong_place_is_named(tmp_path):
    store = Store(tmp_path / "results", "1.0")
    store.save(RUN, DONE)
    (path,) = tmp_path.rglob("run.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 7}))
    with pytest.raises(InputError, match="is not the run of its directory"):
        list(store.all())
    path.write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match="its format is 99, not 1"):
        list(store.all())


def test_other_directories_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="holds other files and no results"):
        Store(tmp_path, "1.0")
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(InputError, match=r"store\.json is damaged"):
        Store(tmp_path, "1.0")
    with pytest.raises(InputError, match="is a file"):
        Store(tmp_path / "thesis.tex", "1.0")


def test_what_a_killed_process_left_is_no_run(tmp_path):
    store = Store(tmp_path / "results", "1.0")
    store.save(RUN, DONE)
    (tmp_path / "results" / "runs" / ".partialfair-0-1-2").mkdir()
    assert list(store.all()) == [(RUN, DONE)]
    assert len(store.to_frame()) == 1
