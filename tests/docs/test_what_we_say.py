"""What is not run rots: the code in the README and the docs, and what makes the pictures."""

import pkgutil
import re
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import sklearn

from partialfair.constraints.surrogates import SURROGATES
from partialfair.estimators import population
from partialfair.metrics.catalogue import METRICS
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair_paper.methods import METHODS
from tests.docs.scripts import ROOT, run_smaller

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_of(page):
    """The blocks of a page run one after the other, as its reader would run them."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=lambda page: page.stem)
def test_code_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(population, "_TIGHTER", population._TIGHTER[::3])  # a third of the models
    if "import torch" in code_of(page):
        pytest.importorskip("torch").set_num_threads(1)  # tests run beside each other
    if "lightning_fabric" in code_of(page):
        pytest.importorskip("lightning_fabric")
    if "import onnx" in code_of(page) or "onnxruntime" in code_of(page):
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    # A page may change the configuration and register things.
    registered = (SURROGATES, METRICS, NAMED_CONSTRAINTS, METHODS)
    with sklearn.config_context(), ExitStack() as restored:
        for names in registered:
            restored.enter_context(patch.dict(names))
        # A named module, which dataclasses with postponed annotations look up.
        exec(compile(code_of(page), page.name, "exec"), {"__name__": "page"})
    pyplot.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)|src=\"([^\"]+)", page.read_text())
    local = [one or other for one, other in targets if not one.startswith("http")]
    assert all((page.parent / target).exists() for target in local)


def is_there(name):
    """Whether a dotted name is a module, or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_of_the_package_are_there(page):
    """Dotted names in the text; a name before a slash is a schema, and groups of entry points are none."""
    for optional in ("torch", "onnx"):
        pytest.importorskip(optional)
    named = set(re.findall(r"`(partialfair(?:_paper)?(?:\.\w+)+)(?![\w/.])", page.read_text()))
    entry_points = {"partialfair.commands", "partialfair.extensions"}
    assert [name for name in sorted(named - entry_points) if not is_there(name)] == []


def sections_of(page):
    """Anchors of a page's headings, as GitHub makes them: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_sections_lead_somewhere(page):
    for target, section in re.findall(r"\]\(([^)#\s]*\.md)?#([^)]+)\)", page.read_text()):
        assert section in sections_of(page.parent / target if target else page), section


def test_options_on_the_page_exist():
    """Every option that the command-line page names is an option of some command."""
    page = (ROOT / "docs" / "command_line.md").read_text()
    files = [
        *(ROOT / "src" / "partialfair" / "cli").glob("*.py"),
        ROOT / "paper/src/partialfair_paper/command.py",
    ]
    source = "".join(path.read_text() for path in files)
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= set(re.findall(r"--[a-z][a-z-]+", source))


def test_every_option_is_on_the_page():
    """Every option of every command is named on the command-line page."""
    typer = pytest.importorskip("typer")
    from partialfair.cli.app import app
    from partialfair_paper import command

    page = (ROOT / "docs" / "command_line.md").read_text()
    told = set(re.findall(r"--[a-z][a-z-]+", page))
    commands = {**typer.main.get_command(app).commands, "reproduce": typer.main.get_command(command.app)}
    for name, one in commands.items():
        options = {word for option in one.params for word in option.opts if word.startswith("--")}
        assert options - {"--help"} <= told, name


def test_the_images_can_be_drawn(tmp_path):
    fewer = "script.MAX_GAPS = (0.3,)"
    run_smaller("docs/make_images.py", fewer, call=f"script.main(script.Path({str(tmp_path)!r}))")
    for name in ("before_and_after.png", "frontier.png", "score_space.png"):
        assert (tmp_path / name).stat().st_size > 10_000
