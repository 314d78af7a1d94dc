"""``partialfair reproduce``: every target at toy size, and sweeps that are killed and go on."""

import json
import os
import runpy
import signal
import subprocess
import sys
from html import escape
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from partialfair import __version__
from partialfair.cli import app as command_line
from partialfair.exceptions import InputError
from partialfair_paper import by_the_paper, engine, figures, networks, published, sweep
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.published import CLAIMS
from partialfair_paper.runs import Run
from partialfair_paper.store import Store
from partialfair_paper.target import Scope
from partialfair_paper.targets import TARGETS
from tests.sizes import quick_first

ROOT = Path(__file__).parents[2]
ROWS = 200


@pytest.fixture
def small(monkeypatch):
    """One alpha and the strictest tolerance of each method, and few steps of the paper's trainers."""
    whole = Method.runs

    def fewer(self, question, tolerances=None):
        grid = self.tolerances(question.dataset, question.fairness) if tolerances is None else tolerances
        return [run for run in whole(self, question, tuple(grid)[-1:]) if run.alpha == max(self.alphas)]

    monkeypatch.setattr(Method, "runs", fewer)
    few = {"_TRIED": 2, "_EVERY": 2, "_CHECKPOINTS": 2, "_STEPS_TO_CHOOSE": 20, "_INNER_STEPS": (20,)}
    few |= {"_DIRECT_TO_CHOOSE": 50, "_DIRECT": 100, "_PROJECTIONS": {"law_school": 30}, "_STEPS": (1e-3,)}
    for name, value in few.items():
        monkeypatch.setattr(by_the_paper, name, value)
    monkeypatch.setattr(engine, "_PRICED_GAPS", (0.3, 0.05))


def reproduce(*arguments):
    pytest.importorskip("matplotlib").use("Agg")
    return CliRunner().invoke(command_line.app, ["reproduce", *map(str, arguments)], standalone_mode=False)


def options(data_dir, out):
    return "--data", data_dir, "--out", out, "--seeds", 1, "--rows", ROWS


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("protocol", quick_first(["fast", "paper"]))
def test_every_target_on_law_school(tmp_path, data_dir, protocol):
    own = [name for name, target in TARGETS.items() if "law_school" in target.datasets]
    done = reproduce(
        *own,
        "--dataset",
        "law_school",
        "--protocol",
        protocol,
        *options(data_dir, tmp_path / "r"),
        "--json",
        "--report",
    )
    assert done.exception is None
    record = json.loads(done.stdout)
    assert record["failures"] == 0
    assert all(record["targets"][name] for name in own)
    figures = {path.stem for path in (tmp_path / "r").glob("*.png")}
    assert figures == {
        "fig1",
        "fig2_law_school",
        "fig5",
        "fig8",
        "fig9",
        "fig10_law_school",
        "fig11_law_school",
        # Of IDCA this test's frontiers have one point, which Figure 10 has too.
        *(["fig1_protocols"] if protocol == "fast" else []),
    }
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.count("<img") == len(figures)
    assert all(escape(claim.sentence) in page for claim in CLAIMS)
    text = (tmp_path / "r" / "report.md").read_text()
    assert all(f"]({name}.png)" in text for name in figures)
    assert all(claim.sentence in text for claim in CLAIMS)
    main = runpy.run_path(str(ROOT / "docs" / "make_reproduction.py"))["main"]
    main(tmp_path / "r", tmp_path / "docs")
    assert {path.stem for path in (tmp_path / "docs" / "images" / "reproduction").iterdir()} == figures
    # Nothing is done twice: of all targets no run is left, and the runs of one are not written again.
    keys = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "r" / "runs").iterdir()}
    again = ("--dataset", "law_school", "--protocol", protocol, *options(data_dir, tmp_path / "r"))
    assert ", 0 of them left" in reproduce("all", *again, "--dry-run").stdout
    assert reproduce("table3", *again).exception is None  # which needs no picture
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "r" / "runs").iterdir()} == keys
    # Once both protocols have been run, their frontiers are beside each other.
    other = "paper" if protocol == "fast" else "fast"
    common = ("--dataset", "law_school", *options(data_dir, tmp_path / "r"))
    both = reproduce("fig1", "--protocol", other, *common, "--json")
    assert (tmp_path / "r" / "fig1_protocols.png").exists()
    labels = {row["method"] for row in json.loads(both.stdout)["targets"]["fig1"]}
    assert {METHODS[name].label for name in ("ours", "idca", "penalty", "penalty-descent")} <= labels


@pytest.mark.slow
def test_networks_on_300_faces(tmp_path, data_dir, monkeypatch):
    """Two epochs of a ResNet-18, with a constraint and without, from the command to the figure."""
    pytest.importorskip("torch")
    if not (data_dir / "faces").is_dir():
        pytest.skip("the packed faces are not there")
    monkeypatch.setattr(networks, "NETWORK_MAX_GAPS", {(0.2, 0.4): (0.1,), (0.0, 1.0): ()})
    monkeypatch.setattr(
        figures, "NETWORKS", {name: published.NETWORKS[name] for name in list(published.NETWORKS)[:1]}
    )
    common = ("fig12", "--data", data_dir, "--out", tmp_path / "r", "--seeds", 1, "--rows", 300)
    assert "2 runs, 2 of them left" in reproduce(*common, "--dry-run").stdout
    done = reproduce(*common, "--json")
    assert done.exception is None
    record = json.loads(done.stdout)
    assert record["failures"] == 0
    rows = record["targets"]["fig12"]
    assert [row["constraint on"] for row in rows] == ["unconstrained", "ranks 20-40%, 10 points"]
    assert {row["training images"] for row in rows} == {"300"}
    assert (tmp_path / "r" / "fig12.png").exists()
    kept = Store(tmp_path / "r", __version__)
    runs = TARGETS["fig12"].runs(Scope(("celeba",), 1, rows=300))
    free, held = (kept.scores(run)["scores"] for run in runs)
    assert len(free) == 300
    assert not (free == held).all()  # the constraint has joined


def test_networks_need_torch_and_nothing_else_does(tmp_path, data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = reproduce("fig12", "--out", tmp_path / "r", "--data", data_dir)
    assert str(done.exception) == (
        "a network needs torch, which is not installed; run: pip install 'partialfair[torch]'"
    )
    assert not (tmp_path / "r").exists()
    other = reproduce("table1", "--dataset", "law_school", "--out", tmp_path / "r", "--data", data_dir)
    assert other.exception is None
    assert "needs torch" not in other.output


def test_the_recorded_networks_are_those_of_the_figure(tmp_path, monkeypatch):
    """Figure 12 is drawn anywhere from what a GPU has recorded."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    celeba = runpy.run_path(str(ROOT / "benchmarks" / "celeba.py"))
    celeba["put_into_store"](tmp_path / "r")
    done = reproduce("fig12", "--out", tmp_path / "r", "--report", "--dry-run")
    assert "85 runs, 0 of them left" in done.stdout


@pytest.mark.usefixtures("small")
def test_exports_costs_and_lists(tmp_path, data_dir):
    common = ("table4", "--dataset", "law_school", *options(data_dir, tmp_path / "r"))
    dry = reproduce(*common, "--dry-run")
    assert "3 runs, 3 of them left" in dry.stdout
    assert not (tmp_path / "r").exists()
    assert reproduce(*common, "--export", tmp_path / "all.parquet").exception is None
    frame = pd.read_parquet(tmp_path / "all.parquet")
    assert len(frame) == 3
    assert frame["test accuracy"].between(0.5, 1).all()
    assert "3 runs, 0 of them left" in reproduce(*common, "--dry-run").stdout
    cost = json.loads(reproduce(*common, "--dry-run", "--json").stdout)
    assert (cost["runs"], cost["left"], cost["minutes"]) == (3, 0, 0)
    listed = reproduce("list").stdout
    assert all(name in listed for name in TARGETS)
    known = json.loads(reproduce("list", "--json").stdout)
    assert list(known["known"]) == list(TARGETS)
    assert {"ours", "trees", "adjuster", "idca"} <= set(known["methods"])
    assert not known["methods"]["trees"]["in_the_paper"]
    assert known["methods"]["adjuster"]["group_at_prediction"]
    assert all(name in listed for name in known["methods"])


@pytest.mark.usefixtures("small")
def test_a_table_without_runs_may_come_first(tmp_path, data_dir):
    common = ("--dataset", "law_school", *options(data_dir, tmp_path / "r"))
    for target in ("table1", "table1", "table4"):
        assert reproduce(target, *common).exception is None
    assert {path.stem for path in (tmp_path / "r").glob("*.csv")} == {"table1", "table4"}


@pytest.mark.usefixtures("small")
def test_a_quick_look_says_that_it_is_one(tmp_path, data_dir):
    common = ("--dataset", "law_school", *options(data_dir, tmp_path / "r"))
    assert reproduce("table3", "table4", *common, "--report").exception is None
    text = (tmp_path / "r" / "report.md").read_text()
    assert "This is a quick look: its verdicts are mostly chance." in text
    assert "nan" not in text
    assert "bank is compared" not in text
    assert "Claims on other data sets, not evaluated here:" in text


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("fig99",), "there is no target 'fig99'; choose among fig1, fig2"),
        (("fig2", "--method", "trees"), "--method is for fig1, which is not among these targets"),
        (
            ("fig1", "--method", "forest"),
            "--method forest is not in fig1, whose fast protocol has unconstrained, ours",
        ),
        (
            ("fig1", "--method", "trees", "--protocol", "paper"),
            "whose paper protocol has unconstrained, idca",
        ),
        (
            ("fig3", "--dataset", "bank"),
            "--dataset bank is in none of these targets, whose data sets are a9a",
        ),
        (("fig1", "--dataset", "law_school", "--export", "nowhere/runs.parquet"), "there is no directory"),
        (("fig1", "--dataset", "law_school", "--data", "nowhere", "--jobs", "1"), "nowhere"),
        (("fig1", "--dataset", "law_school", "--data", "nowhere", "--jobs", "2"), "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, arguments, match):
    done = reproduce(*arguments, "--out", tmp_path / "r")
    assert isinstance(done.exception, InputError)
    assert match in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "r").exists()


@pytest.mark.usefixtures("small")
def test_some_methods_of_figure_1(tmp_path, data_dir):
    """Trees and the adjuster beside what all start from; both in the table, and neither the paper's."""
    common = ("--dataset", "law_school", *options(data_dir, tmp_path / "r"))
    asked = ("fig1", "--method", "trees", "--method", "adjuster", *common)
    done = reproduce(*asked, "--json", "--report")
    assert done.exception is None
    record = json.loads(done.stdout)
    assert record["failures"] == 0
    assert record["methods"] == ["trees", "adjuster"]
    told = {row["method"]: row["in the paper"] for row in record["targets"]["fig1"]}
    labels = {name: METHODS[name].label for name in ("unconstrained", "trees", "adjuster")}
    assert told == {labels["unconstrained"]: "yes", labels["trees"]: "no", labels["adjuster"]: "no"}
    page = (tmp_path / "r" / "report.html").read_text()
    assert all(escape(label) in page for label in labels.values())
    # The same runs are those of the whole figure.
    assert "5 runs, 0 of them left" in reproduce(*asked, "--dry-run").stdout
    left = json.loads(reproduce("fig1", *common, "--dry-run", "--json").stdout)
    assert left["runs"] - left["left"] == len(list((tmp_path / "r" / "runs").iterdir()))


def test_a_method_that_is_asked_for_and_not_installed_is_refused(tmp_path, monkeypatch):
    sentence = "fairlearn GridSearch needs fairlearn; run: pip install 'partialfair[comparison]'"
    monkeypatch.setattr(type(METHODS["grid-search"]), "missing", lambda self: sentence)
    done = reproduce("fig1", "--method", "grid-search", "--out", tmp_path / "r")
    assert str(done.exception) == sentence
    assert not (tmp_path / "r").exists()


def test_a_run_that_fails_is_kept_and_said(tmp_path, data_dir, monkeypatch):
    def failing(self, run, parts):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(type(METHODS["unconstrained"]), "fit", failing)
    store = Store(tmp_path / "r", __version__)
    run = Run("law_school", 0, "unconstrained", alpha=1e-4, rows=ROWS)
    told = []
    assert sweep.sweep([run], store, folder=data_dir, say=told.append) == 1
    assert store.of(run).error == "ZeroDivisionError: on purpose"
    assert told[0].error == "ZeroDivisionError: on purpose"
    monkeypatch.undo()
    assert sweep.sweep([run], store, folder=data_dir) == 0
    assert not store.of(run).failed


def few_runs():
    question = Question("law_school", "pSP", (0.7, 1.0), seeds=(0,), rows=300)
    names = ("unconstrained", "group-auc", "quantile-matching")
    return [run for name in names for run in METHODS[name].runs(question)]


SWEEP = """
import os, signal, sys
from pathlib import Path
from partialfair_paper.store import Store
from partialfair_paper.sweep import sweep
from tests.paper.test_reproduce import few_runs

told = []

def say(outcome):
    told.append(outcome)
    if len(told) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)  # the workers find out for themselves

if __name__ == "__main__":
    sweep(few_runs(), Store(Path(sys.argv[1]), "1"), folder=Path(sys.argv[2]), jobs=2, say=say)
"""


def _kill_and_compare(tmp_path, data_dir, moments):
    """Kill a sweep after so many of its runs, let it end, and hold it against one that nobody disturbed."""
    whole, disturbed = (Store(tmp_path / name, "1") for name in ("whole", "killed"))
    assert sweep.sweep(few_runs(), whole, folder=data_dir) == 0
    (tmp_path / "script.py").write_text(SWEEP)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "killed"), str(data_dir)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "paper" / "src")])
    for n_done in moments:
        done = subprocess.run([*command, str(n_done)], env={**os.environ, "PYTHONPATH": path}, check=False)
        assert done.returncode == -signal.SIGKILL
    assert disturbed.left(few_runs())
    assert sweep.sweep(few_runs(), disturbed, folder=data_dir) == 0
    first, second = (
        {run.key: outcome.without_timings() for run, outcome in store.all()} for store in (whole, disturbed)
    )
    assert second == first


def test_a_sweep_that_is_killed_goes_on(tmp_path, data_dir):
    _kill_and_compare(tmp_path, data_dir, [1])


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_goes_on(tmp_path, data_dir):
    _kill_and_compare(tmp_path, data_dir, [1, 1, 2, 1, 3, 1])


def test_scopes_ask_for_the_papers_splits():
    assert {run.seed for run in TARGETS["fig1"].runs(Scope(("law_school",)))} == set(range(5))
