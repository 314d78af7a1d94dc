"""What is not run rots: the benchmarks at toy size, each in a process of its own."""

import importlib
import json
import re

import numpy as np
import pytest

from tests.docs.scripts import ROOT, run_script, run_smaller

pytestmark = pytest.mark.slow  # two minutes, all together


def test_page_benchmark_runs(tmp_path):
    printed = run_script("benchmarks/page.py", "--scores", 9000, "--groups", 2, 16, "--out", tmp_path)
    sizes = re.findall(r"\| ([\d.]+) \| 3 MB", printed)
    assert len(sizes) == 2
    assert all(float(size) < 3 for size in sizes)


def test_startup_benchmark_runs(tmp_path):
    printed = run_script("benchmarks/startup.py", "--runs", 1, "--before", ROOT, "--out", tmp_path)
    rows = json.loads((tmp_path / "startup.json").read_text())["rows"]
    assert [row["command"] for row in rows] == ["--version", "--help", "train --help", "predict"]
    assert all(float(row["ratio"]) > 0.2 for row in rows)
    assert "compared with" in printed


def test_coverage_benchmark_runs_and_goes_on(tmp_path):
    small = ("--settings", 0, 1, "--draws", 3, "--out", tmp_path)
    assert "at most" in run_script("benchmarks/bound_coverage.py", *small)
    measured = (tmp_path / "coverage.jsonl").read_text()
    assert len(measured.splitlines()) == 2
    run_script("benchmarks/bound_coverage.py", *small)
    assert (tmp_path / "coverage.jsonl").read_text() == measured


@pytest.mark.real_data
def test_trees_benchmark_runs_and_goes_on(tmp_path, data_dir):
    pytest.importorskip("lightgbm")
    fewer = "script.ROWS, script.MAX_GAPS = {'law_school': 1500}, {'interval': (0.3,)}"
    small = ("--splits", 1, "--leaves", 3, "--only", "law_school", "--data", data_dir, "--out", tmp_path)
    printed = run_smaller("benchmarks/trees.py", fewer, *small)
    assert "| trees − linear | law_school | interval | accuracy | 1 |" in printed
    assert "| trees − trees, LightGBM's settings | law_school | interval | auc | 1 |" in printed
    assert "| trees, alpha chosen − trees | law_school | interval | auc | 1 |" in printed
    assert "| trees − trees, other rows | law_school | interval | auc | 1 |" in printed
    assert "| all | both |" in (tmp_path / "trees_summary.md").read_text()
    measured = (tmp_path / "trees.jsonl").read_text()
    assert len(measured.splitlines()) == 5  # trees are in all rows of the table, and measured once
    run_smaller("benchmarks/trees.py", fewer, *small)
    assert (tmp_path / "trees.jsonl").read_text() == measured
    run_smaller("benchmarks/trees.py", fewer, *small, "--fresh", "--only", "rows law_school")
    again = (tmp_path / "trees.jsonl").read_text().splitlines()
    assert again[0] in measured.splitlines()  # that of linear models was not forgotten
    assert len(again) == 5


@pytest.mark.real_data
def test_tree_peers_benchmark_runs_and_goes_on(tmp_path, data_dir):
    """FairGBM has an environment of its own, which tests do not have."""
    pytest.importorskip("lightgbm")
    pytest.importorskip("fairlearn")
    fewer = (
        "script.ROWS = {'law_school': 1500}; script.MAX_GAPS = {'interval': (0.3,), 'absolute': (0.3,)}\n"
        "script.TREES, script.BOUNDS, script.GRID_LIMITS, script.MAX_ITER = 5, (0.05,), (0.1,), 2"
    )
    small = ("--splits", 1, "--leaves", 3, "--only", "law_school", "--peers", "fairlearn")
    aims = ("--aims", "pSP, interval", "decisions", "--data", data_dir, "--out", tmp_path)
    run_smaller("benchmarks/tree_peers.py", fewer, *small, *aims)
    rows = json.loads((tmp_path / "tree_peers.json").read_text())["rows"]
    what = ["ours", "ours − fairlearn, ExponentiatedGradient", "ours − fairlearn, GridSearch"]
    assert [(row["gap"], row["what"]) for row in rows] == [
        (gap, one) for gap in ("pSP, interval", "decisions") for one in what
    ]
    measured = (tmp_path / "tree_peers.jsonl").read_text()
    assert len(measured.splitlines()) == 4  # ours for both gaps, and each of the peers once
    run_smaller("benchmarks/tree_peers.py", fewer, *small, *aims)
    assert (tmp_path / "tree_peers.jsonl").read_text() == measured


@pytest.mark.real_data
@pytest.mark.alone
def test_trees_benchmark_measures_costs(tmp_path, data_dir):
    pytest.importorskip("lightgbm")
    fewer = (
        "from dataclasses import replace\n"
        "small = replace(script.COSTS['speed'], table='law_school', rows=1500, trees=5, leaves=3)\n"
        "script.COSTS = {'speed': small, 'memory': replace(small, what='memory')}"
    )
    nothing_else = ("--splits", 0, "--data", data_dir, "--out", tmp_path)
    run_smaller("benchmarks/trees.py", fewer, *nothing_else)
    rows = json.loads((tmp_path / "trees_costs.json").read_text())["rows"]
    assert [row["bar"] for row in rows] == ["seconds of the refit ≤ 30: yes", "peak GiB ≤ 3: yes"]


@pytest.mark.real_data
def test_growing_benchmark_runs(tmp_path, data_dir):
    pytest.importorskip("lightgbm")
    fewer = "script.TABLES, script.MAX_GAPS = ('law_school',), {'interval': (0.3,)}"
    small = ("--splits", 1, "--rows", 1500, "--more", 3, "--leaves", 3, "--data", data_dir, "--out", tmp_path)
    printed = run_smaller("benchmarks/growing.py", fewer, *small)
    assert "| for the constraint − for the loss | law_school | interval | auc | 1 |" in printed
    rows = json.loads((tmp_path / "growing_summary.json").read_text())["rows"]
    assert [row["beside"] for row in rows] == ["refit", "for the loss"]


def test_map_band_benchmark_runs(tmp_path):
    one_of_each = "script.CASES = [script.CASES[k] for k in (0, 5, 9, 12)]; script.POPULATION = 500"
    printed = run_smaller("benchmarks/map_band.py", one_of_each, "--draws", 3, "--out", tmp_path)
    ratios = [float(ratio) for ratio in re.findall(r"([\d.]+) \| [\d.]+ \|$", printed, re.MULTILINE)]
    assert len(ratios) == 8
    assert max(ratios) < 0.8
    assert (tmp_path / "map_band.md").exists()


def test_out_of_fold_benchmark_runs(tmp_path):
    fewer = "script.N_NEW = 3000; script.SIZES = ((100, 200),)"
    printed = run_smaller("benchmarks/out_of_fold.py", fewer, "--draws", 2, "--out", tmp_path)
    assert "| decisions evened | 100 and 200 |" in printed
    assert (tmp_path / "out_of_fold.md").exists()


def test_many_groups_benchmark_runs(tmp_path):
    one_audit = "row = script.row('few', [20] * 12); script.row = lambda *_: row"
    printed = run_smaller("benchmarks/many_groups.py", one_audit, "--groups", 12, "--out", tmp_path)
    assert "Audits of 12 groups" in printed
    assert (tmp_path / "many_groups.md").exists()


def test_many_groups_benchmark_runs_on_all_sizes(tmp_path):
    printed = run_script("benchmarks/many_groups.py", "--groups", 12, "--many", 60, "--out", tmp_path)
    assert "20 in each but one" in printed


def test_speed_benchmark_runs(tmp_path):
    once = "script.import_seconds.__defaults__ = (1,)"
    printed = run_smaller("benchmarks/metrics_speed.py", once, "--scores", 60_000, "--out", tmp_path)
    assert "pSP gap" in printed
    assert (tmp_path / "metrics_speed.md").read_text().strip() in printed


@pytest.mark.real_data
def test_solvers_benchmark_runs(tmp_path, data_dir):
    smallest_data = "script.load_bank = script.load_a9a = lambda path, **_: script.load_law_school(path=path)"
    few_steps = "script.fast.__defaults__ = (5,)"
    small = ["--outer", 1, "--steps", 2, "--data", data_dir, "--out", tmp_path]
    printed = run_smaller("benchmarks/solvers.py", f"{smallest_data}; {few_steps}", *small)
    assert printed.count("DemographicParity") >= 3
    assert (tmp_path / "solvers.md").exists()


@pytest.mark.real_data
def test_switching_benchmark_runs(tmp_path, data_dir):
    small = ["--outer", 50, "--steps", 2, "--epsilons", 0.002]
    printed = run_script("benchmarks/paper_switching.py", *small, "--data", data_dir, "--out", tmp_path)
    assert "law_school" in printed
    assert (tmp_path / "switching_step.md").exists()


@pytest.mark.real_data
def test_a_row_of_the_peers_benchmark_runs(data_dir):
    row = ["--one", "law_school", "pSP", "ours, ramp", 200]
    assert json.loads(run_script("benchmarks/peers.py", *row, "--data", data_dir))["method"] == "ours, ramp"


@pytest.mark.real_data
def test_peers_benchmark_runs(tmp_path, data_dir):
    """Peers that are not installed are named in their rows; those that are may not finish."""
    small = ["--rungs", 200, "--only", "--minutes", 0.5]
    printed = run_script("benchmarks/peers.py", *small, "--data", data_dir, "--out", tmp_path)
    assert "| ours, ramp |" in printed
    assert "| dccp |" in printed
    assert (tmp_path / "peers.md").exists()


@pytest.mark.real_data
def test_exact_benchmark_runs(tmp_path, data_dir):
    small = ["--only", "law_school", "--rows", 1500, "--data", data_dir, "--out", tmp_path]
    printed = run_smaller("benchmarks/exact.py", "script.MAX_GAPS = script.MAX_GAPS[:1]", *small)
    assert "of 4 fits converged, 0 of them broke the promise" in printed


@pytest.mark.real_data
def test_before_and_after_benchmark_runs(tmp_path, data_dir):
    """A checkout compared with itself differs in nothing but seconds."""
    small = ["--only", "engine", "--data-sets", "law_school", "--rows", 1500, "--runs", 1]
    options = ["--before", ROOT, "--data", data_dir, "--out", tmp_path]
    printed = run_script("benchmarks/before_after.py", *small, *options)
    assert "statuses that differ: none" in printed
    assert "passes that rose: none" in printed
    assert (tmp_path / "before_after.md").read_text().count("| engine | law_school |") == 3


@pytest.mark.real_data
def test_quality_of_exact_fits_benchmark_runs(tmp_path, data_dir):
    """A checkout compared with itself is as accurate; what was fitted is not fitted again."""
    small = ["--only", "law_school", "--rows", 1500, "--splits", 2, "--max-gaps", 0.1, 0.2]
    options = ["--before", ROOT, "--data", data_dir, "--out", tmp_path, "--kept", tmp_path / "kept.jsonl"]
    printed = run_script("benchmarks/quality_exact.py", *small, *options)
    assert "paired mean +0.00000, +0.00 standard errors" in printed
    assert "4 of 4 workers" in printed
    assert (tmp_path / "quality_exact.md").read_text().count("| law_school |") == 4
    assert "4 of 4 workers were done before" in run_script("benchmarks/quality_exact.py", *small, *options)


def test_search_steps_benchmark_runs(tmp_path):
    """More steps of the same search never cost more: the lowest objective is what is kept."""
    fewer = "script.STEPS = (0, 100)"
    small = ["--only", "tiny", "--problems", "tiny/1[24]", "--out", tmp_path]
    printed = run_smaller("benchmarks/search_steps.py", fewer, *small)
    assert "by search_steps; at the default of 100" in printed
    rows = json.loads((tmp_path / "search_steps.json").read_text())["rows"]
    assert [row["search_steps"] for row in rows] == [0, 100] * 2
    assert float(rows[1]["largest"]) <= float(rows[0]["largest"])
    assert (tmp_path / "search_steps.png").stat().st_size > 10_000


@pytest.mark.real_data
def test_network_benchmark_runs(tmp_path, data_dir):
    """Every method trains a network given by two functions; what needs more is refused in one sentence."""
    small = ["--rows", 1500, "--share", 0.2, "--seeds", 1]
    printed = run_script("benchmarks/network.py", *small, "--data", data_dir, "--out", tmp_path)
    record = json.loads((tmp_path / "network.json").read_text())
    by_model = {row["model"]: row for row in record["rows"]}
    for method in ("augmented Lagrangian", "direct switching", "IDCA, switching"):
        row = by_model[f"network, {method}"]
        assert float(row["exact gap"]) < 0.6 * float(by_model["network, unconstrained"]["exact gap"])
        assert row["status"] != "converged"  # without a certificate nobody may say so
    for question in ("SQP", "a certificate"):
        answer = by_model[f"network, asked for {question}"]["status"]
        assert answer.startswith(f"{question} needs ")
        assert "scores that are linear in the parameters, which this model does not give" in answer
    assert "Largest exact gap" in printed


def test_estimators_benchmark_runs(tmp_path, data_dir):
    pytest.importorskip("torch")
    fewer = "script.CASES, script.EPOCHS = script.CASES[2:4], 3"
    options = ("--seeds", 2, "--data", data_dir, "--out", tmp_path)
    run_smaller("benchmarks/torch_estimators.py", fewer, *options)
    rows = json.loads((tmp_path / "torch_estimators.json").read_text())["rows"]
    assert [row["batches"] for row in rows] == ["at random", "by group"]


def test_heads_of_the_benchmark_are_refitted_with_a_promise(monkeypatch):
    """On made features, of which the network's own head is the sum."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = importlib.import_module("refit_faces")
    monkeypatch.setattr(script, "MAX_GAPS", (0.3, 0.1))
    monkeypatch.setattr(script, "ALPHAS", (1e-2,))
    rng, arrays = np.random.default_rng(0), {}
    for part, n in (("unseen", 600), ("validation", 300), ("test", 300)):
        groups = rng.integers(0, 2, n)
        features = rng.normal(size=(n, 6)) + 0.4 * groups[:, None]
        y = features.sum(axis=1) + rng.normal(size=n) > 1
        arrays |= {f"{part}_features": features.astype(np.float16), f"{part}_groups": groups}
        arrays |= {f"{part}_y": y.astype(np.int8), f"{part}_scores": features.sum(axis=1) - 1}
    row = script.compared(arrays)
    assert row["promises kept by the layer in float32"] == "2 of 2"
    assert float(row["fairness"]) < float(row["refitted fairness"].split(" to ")[1])


def test_the_network_of_the_benchmark_pulls_back_its_derivatives(monkeypatch):
    """``J(w)ᵀ v`` is the gradient of ``v · s(w)``, by central differences."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from network import Network

    rng = np.random.default_rng(0)
    network = Network(rng.standard_normal((30, 4)), n_hidden=5)
    w, v, step = rng.standard_normal(network.n_parameters), rng.standard_normal(30), 1e-5
    moves = step * np.eye(w.size)
    differences = [v @ (network.score(w + move) - network.score(w - move)) / (2 * step) for move in moves]
    np.testing.assert_allclose(network.pull_back(w, v), differences, atol=1e-8)


@pytest.mark.real_data
def test_population_benchmark_runs(tmp_path, data_dir):
    """Parts that are measured one by one end up in one table."""
    small = "script.SIZES, script.N_RESAMPLES, script.N_GAPS = (200, 200), 100, 1"
    for only in ("sequences", "law"):
        options = ["--draws", 2, "--splits", 1, "--only", only, "--data", data_dir, "--out", tmp_path]
        printed = run_smaller("benchmarks/population.py", small, *options)
    assert printed.count("| sequences |") == 8
    assert printed.count("| law |") == 1


def test_adjuster_benchmark_runs(tmp_path):
    printed = run_script("benchmarks/adjuster.py", "--data", "--sizes", 3000, "--out", tmp_path)
    gaps = [float(line.split("|")[4]) for line in printed.splitlines() if line.startswith("| 3,000")]
    assert len(gaps) == 2
    assert max(gaps) <= 0.05
