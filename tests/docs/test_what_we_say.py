"""What is not run rots: the code in the README and the docs, and the benchmarks at toy size."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks():
    for page in PAGES:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
            yield pytest.param(code, id=f"{page.stem}-{number}")


@pytest.mark.parametrize("code", list(python_blocks()))
def test_code_runs(code, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    with sklearn.config_context():  # a page may change the configuration
        exec(compile(code, "page", "exec"), {})
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)|src=\"([^\"]+)", page.read_text())
    local = [one or other for one, other in targets if not one.startswith("http")]
    assert all((page.parent / target).exists() for target in local)


def test_options_on_the_page_exist():
    """Every option that the command-line page names is one of the command it is shown with."""
    page = (ROOT / "docs" / "command_line.md").read_text()
    source = (ROOT / "src" / "partialfair" / "cli" / "_app.py").read_text()
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= set(re.findall(r"--[a-z][a-z-]+", source))


def test_benchmark_runs(tmp_path):
    script = ROOT / "benchmarks" / "metrics_speed.py"
    command = [sys.executable, str(script), "--scores", "60000", "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pSP gap" in run.stdout
    assert (tmp_path / "metrics_speed.md").read_text().strip() in run.stdout
