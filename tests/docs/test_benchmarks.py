"""What is not run rots: the benchmarks at toy size, each in a process of its own."""

import json

import pytest

from tests.docs.scripts import ROOT, run_script, run_smaller

pytestmark = pytest.mark.slow  # two minutes, all together


def test_startup_benchmark_runs(tmp_path):
    printed = run_script("benchmarks/startup.py", "--runs", 1, "--before", ROOT, "--out", tmp_path)
    rows = json.loads((tmp_path / "startup.json").read_text())["rows"]
    assert [row["command"] for row in rows] == ["--version", "--help", "train --help", "predict"]
    assert all(float(row["ratio"]) > 0.2 for row in rows)
    assert "compared with" in printed


def test_same_speed_benchmark_runs(tmp_path):
    options = ("--only", "import", "predict", "--runs", 1, "--before", ROOT, "--out", tmp_path)
    run_script("benchmarks/same_speed.py", *options)
    rows = json.loads((tmp_path / "same_speed.json").read_text())["rows"]
    assert [row["workload"] for row in rows] == ["import", "predict"]
    assert all(float(row["ratio of seconds"]) > 0.2 for row in rows)


def test_coverage_benchmark_runs_and_goes_on(tmp_path):
    small = ("--settings", 0, 1, "--draws", 3, "--out", tmp_path)
    assert "at most" in run_script("benchmarks/bound_coverage.py", *small)
    measured = (tmp_path / "coverage.jsonl").read_text()
    assert len(measured.splitlines()) == 2
    run_script("benchmarks/bound_coverage.py", *small)
    assert (tmp_path / "coverage.jsonl").read_text() == measured


def test_outside_benchmark_runs(tmp_path):
    fewer = "script.ROWS, script.N_TEST = {'admissions': 600}, 300"
    printed = run_smaller(
        "benchmarks/outside.py", fewer, "--only", "admissions", "--splits", 2, "--out", tmp_path
    )
    rows = json.loads((tmp_path / "outside.json").read_text())["rows"]
    assert [row["model"] for row in rows] == ["no constraint", "free", "no_worse"]
    assert all(row["splits"] == 2 for row in rows)
    assert "± " in printed


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


def test_many_groups_benchmark_runs(tmp_path):
    one_audit = "row = script.row('few', [20] * 12); script.row = lambda *_: row"
    printed = run_smaller("benchmarks/many_groups.py", one_audit, "--groups", 12, "--out", tmp_path)
    assert "Audits of 12 groups" in printed
    assert (tmp_path / "many_groups.md").exists()


def test_many_groups_benchmark_runs_on_all_sizes(tmp_path):
    printed = run_script("benchmarks/many_groups.py", "--groups", 12, "--many", 60, "--out", tmp_path)
    assert "20 in each but one" in printed


@pytest.mark.real_data
def test_solvers_benchmark_runs(tmp_path, data_dir):
    smallest_data = (
        "script.fetch_bank = script.fetch_a9a = lambda path, **_: script.fetch_law_school(path=path)"
    )
    few_steps = "script.fast.__defaults__ = (5,)"
    small = ["--outer", 1, "--steps", 2, "--data", data_dir, "--out", tmp_path]
    printed = run_smaller("benchmarks/solvers.py", f"{smallest_data}; {few_steps}", *small)
    assert printed.count("DemographicParity") >= 3
    assert (tmp_path / "solvers.md").exists()


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
def test_quality_of_exact_fits_benchmark_runs(tmp_path, data_dir):
    """A checkout compared with itself is as accurate; what was fitted is not fitted again."""
    small = ["--only", "law_school", "--rows", 1500, "--splits", 2, "--max-gaps", 0.1, 0.2]
    options = ["--before", ROOT, "--data", data_dir, "--out", tmp_path, "--kept", tmp_path / "kept.jsonl"]
    printed = run_script("benchmarks/quality_exact.py", *small, *options)
    assert "paired mean +0.00000, +0.00 standard errors" in printed
    assert "4 of 4 workers" in printed
    assert (tmp_path / "quality_exact.md").read_text().count("| law_school |") == 4
    assert "4 of 4 workers were done before" in run_script("benchmarks/quality_exact.py", *small, *options)


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


@pytest.mark.real_data
def test_engine_benchmark_runs(tmp_path, data_dir):
    small = ["--only", "law_school", "--methods", "ours", "LogisticRegression"]
    run_script("benchmarks/engine.py", *small, "--data", data_dir, "--out", tmp_path)
    rows = json.loads((tmp_path / "engine.json").read_text())["rows"]
    assert [(row["constraint"], row["method"]) for row in rows] == [
        ("pSP", "ours"),
        ("pSP", "LogisticRegression"),
        ("pDP", "ours"),
    ]
    assert all(float(row["accuracy"]) > 0.8 for row in rows)


@pytest.mark.real_data
def test_path_benchmark_runs(tmp_path, data_dir):
    pytest.importorskip("fairlearn")
    fewer = "script.MAX_GAPS = script.MAX_GAPS[:2]"
    small = ["--rows", 1500, "--splits", 1, "--data", data_dir, "--out", tmp_path]
    printed = run_smaller("benchmarks/path.py", fewer, *small)
    assert printed.count("law school, 1 splits in thirds") == 2


@pytest.mark.real_data
def test_price_benchmark_runs_and_keeps_other_rows(tmp_path, data_dir):
    """Rows of a data set that is not measured again keep their commit."""
    fewer = (
        "import json, types\n"
        "whole, name = script.TABLES['a9a, sparse'], 'a9a, sparse'\n"
        "def few(folder):\n"
        "    table = whole(folder)\n"
        "    return script.Table(table.rows.few(), table.interval, table.settings)\n"
        "script.TABLES[name], script.ROUNDS = few, 1\n"
        f"answer = json.dumps(script.measured(name, script.Path({str(data_dir)!r})))\n"
        "script.subprocess.run = lambda *_, **__: types.SimpleNamespace(stdout=answer)"
    )
    small = ["--only", "a9a, sparse", "--out", tmp_path]
    run_smaller("benchmarks/price.py", fewer, *small)
    record = json.loads((tmp_path / "price.json").read_text())
    kept = {**record["rows"][0], "table": "text, 1 × 1", "commit": "earlier"}
    (tmp_path / "price.json").write_text(json.dumps({**record, "rows": [*record["rows"], kept]}))
    run_smaller("benchmarks/price.py", fewer, *small)
    rows = json.loads((tmp_path / "price.json").read_text())["rows"]
    assert [row["commit"] for row in rows] == [record["commit"]] * (len(rows) - 1) + ["earlier"]
    assert len(rows) == len(record["rows"]) + 1


def test_paired_and_chosen_benchmark_runs(tmp_path):
    few = ["--draws", 2, "--paired-draws", 2, "--power-draws", 2]
    fewer = "script.N_POPULATION = 2000; script.PAIRS = dict([next(iter(script.PAIRS.items()))])"
    run_smaller("benchmarks/paired_and_chosen.py", fewer, *few, "--out", tmp_path)
    assert {path.stem for path in tmp_path.glob("*.json")} == {
        "chosen_interval",
        "paired_gaps",
        "paired_gaps_equal",
        "paired_gaps_few",
        "paired_gaps_power",
        "paired_gaps_summary",
    }


def test_torch_step_benchmark_runs(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    fewer = "script.N_ROWS, script.BLOCK, script.BLOCKS, script.EPOCHS = 1024, 2, 1, 1"
    run_smaller("benchmarks/torch_step.py", fewer, "--out", tmp_path)
    assert [row["batch"] for row in json.loads((tmp_path / "torch_step.json").read_text())["rows"]] == [
        64,
        256,
        512,
    ]
