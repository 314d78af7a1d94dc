"""Records of benchmarks state what made them, and the index lists every script."""

import importlib
import json
import re
import subprocess
import sys

import pytest

from tests.docs.scripts import ROOT

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = {path.stem for path in BENCHMARKS.glob("[a-z]*.py")}
RECORDS = sorted((BENCHMARKS / "results").glob("*.json"))


@pytest.fixture
def record(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("_record")


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_states_its_commit_and_packages(path):
    content = json.loads(path.read_text())
    if path.stem == "references":  # models, each with its method, which a test evaluates again
        assert all(entry["method"] for entry in content.values() if entry["objective"] is not None)
        return
    assert re.match(r"[0-9a-f]{7,}", content["commit"])
    assert content["machine"]
    assert content["packages"]
    page = path.with_suffix(".md").read_text()
    assert f"- Commit: {content['commit']}\n" in page
    assert not re.search(r"(^|[ =])/", content.get("command", ""))  # no directory of a machine


@pytest.mark.parametrize("name", ["celeba", "celeba_search"])
def test_recorded_networks_state_their_commit(name):
    lines = (BENCHMARKS / "results" / f"{name}.jsonl").read_text().splitlines()
    assert all(re.match(r"[0-9a-f]{7}", json.loads(line)["commit"]) for line in lines)


def test_the_index_lists_every_script():
    page = (BENCHMARKS / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == SCRIPTS
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert all((BENCHMARKS / target).exists() for target in targets)


def test_the_command_names_no_directory_of_the_machine(record, monkeypatch):
    script = str(BENCHMARKS / "price.py")
    words = ["--data", "/srv/secret/data", "--out=/srv/out", "--only", "a9a, sparse", "--before", str(ROOT)]
    monkeypatch.setattr(sys, "argv", [script, *words])
    assert record.command_line() == (
        "python benchmarks/price.py --data data --out=out --only 'a9a, sparse' --before ."
    )


def test_what_is_written_states_what_made_it(record, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "price.py")])
    monkeypatch.setattr(record, "COMMIT", "1234567")
    record.write("made", "A title", [{"a": 1, "b": "x"}], tmp_path, seeds="0", further=2)
    content = json.loads((tmp_path / "made.json").read_text())
    assert list(content)[:4] == ["title", "commit", "command", "seeds"]
    assert (content["commit"], content["command"]) == ("1234567", "python benchmarks/price.py")
    assert content["rows"] == [{"a": 1, "b": "x"}]
    assert content["further"] == 2
    assert "numpy" in content["packages"]
    page = (tmp_path / "made.md").read_text()
    assert page in capsys.readouterr().out
    assert "- Command: python benchmarks/price.py\n- Seeds: 0\n- Machine: cpu " in page


def test_changes_that_are_not_committed_are_stated(record, tmp_path):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    commit_of = importlib.import_module("_earlier").commit_of
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    code, kept = tmp_path / "code.py", tmp_path / "benchmarks" / "results" / "a.json"
    code.write_text("1\n")
    kept.write_text("1\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    commit = commit_of(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{7,}", commit)
    kept.write_text("2\n")
    assert commit_of(tmp_path) == commit  # a run writes records
    code.write_text("2\n")
    assert commit_of(tmp_path) == f"{commit}+changes"
