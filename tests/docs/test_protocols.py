"""What CONTRIBUTING says of protocols and files is what the code says."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from runpy import run_path

import pytest

import partialfair
from partialfair.optimization.solvers import Solver

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PACKAGES = ("constraints", "optimization")
MOST_MEMBERS = 6


def modules_of_score_space():
    for name in PACKAGES:
        package = importlib.import_module(f"partialfair.{name}")
        yield package
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)


def protocols():
    """Every protocol of score space, where it is defined; private names too."""
    return {
        candidate.__name__: candidate
        for module in modules_of_score_space()
        for candidate in vars(module).values()
        if inspect.isclass(candidate)
        and getattr(candidate, "_is_protocol", False)
        and candidate.__module__ == module.__name__
    }


def members_of(protocol):
    """Public names of a class and of those of partialfair that it inherits from."""
    return {
        name
        for kind in protocol.__mro__
        if kind.__module__.startswith(partialfair.__name__)
        for name in (*vars(kind), *vars(kind).get("__annotations__", ()))
        if not name.startswith("_")
    }


def table_of_protocols():
    """Names and members from the table, whose first two cells are code."""
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", CONTRIBUTING, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", members)) for name, members in rows}


@pytest.mark.parametrize("name", sorted(protocols()))
def test_protocols_are_small(name):
    assert 1 <= len(members_of(protocols()[name])) <= MOST_MEMBERS


def test_kinks_are_no_member_of_banks():
    assert "kinks" not in members_of(protocols()["AtomBank"])


def test_the_table_of_protocols_is_that_of_the_code():
    told = {name: members_of(protocol) for name, protocol in {**protocols(), "Solver": Solver}.items()}
    assert table_of_protocols() == told


SOURCE = Path(partialfair.__file__).parent
GUIDE = CONTRIBUTING[CONTRIBUTING.index("### Two calls, step by step") : CONTRIBUTING.index("## Score space")]


def test_the_guide_names_files_that_exist():
    """Files and folders, each under a path of its own."""
    named = set(re.findall(r"`(\w+(?:/\w+)*(?:\.\w+)?)`", GUIDE))
    paths = {name for name in named if "/" in name or name.endswith(".py")}
    assert len(paths) > 40
    beside = {"sqp.py", "descent.py", "base.py"}  # of a file named in the same sentence
    missing = {name for name in paths - beside if not (SOURCE / name).exists()}
    assert missing <= {"page.html", "page.js", "charts.js", "changes.js"}


@pytest.mark.parametrize(
    ("path", "names"), re.findall(r"`([\w/]+\.py)`(?:,| \() ?((?:`\w+`(?:, | and )?)+)", GUIDE)
)
def test_the_guide_names_functions_that_are_there(path, names):
    source = (SOURCE / path).read_text()
    for name in re.findall(r"`(\w+)`", names):
        assert re.search(rf"(?m)^ *(?:def|class) {name}\b", source), f"{path} has no {name}"


def test_the_drawing_of_the_layers_is_that_of_the_import_contract():
    assert run_path(str(ROOT / "docs" / "make_layers.py"))["draw_layers"]() in CONTRIBUTING
