"""The distribution partialfair-paper: what it covers, what it imports, and how the command line finds it."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from partialfair import extension
from partialfair.cli import app as command_line
from partialfair.exceptions import MissingExtraError
from partialfair.utils import extras
from partialfair_paper.published import CLAIMS
from partialfair_paper.targets import TARGETS
from tests.docs.scripts import ROOT
from tests.install.test_imports import NUMERICAL, modules_of_command

PACKAGE = ROOT / "paper" / "src" / "partialfair_paper"

# Modules that pages for users describe, whose names the paper's package may use beside `extension`.
DOCUMENTED = {
    f"partialfair{module}"
    for module in (
        "",
        ".constraints",
        ".datasets",
        ".exceptions",
        ".extension",
        ".metrics",
        ".plotting",
        ".postprocessing",
        ".optimization.solvers",
        ".torch",
        ".trees",
    )
}

# Every figure and table of the paper's experiments, and the claims that `partialfair reproduce NAME` checks.
CLAIMS_OF = {
    "fig1": ["frontier-psp", "frontier-pdp-law", "frontier-pdp-others"],
    "fig2": ["rank-curves"],
    **{f"fig{number}": ["densities"] for number in range(3, 9)},
    "fig9": ["robust"],
    "fig10": ["idca-psp"],
    "fig11": ["idca-pdp"],
    "fig12": ["networks-partial", "networks-points"],
    "table1": [],
    "table2": ["acs"],
    "table3": ["partial-full"],
    "table4": ["points"],
}


def test_every_figure_table_and_claim_has_its_command():
    assert list(TARGETS) == list(CLAIMS_OF)
    where = {claim.name: claim.where for claim in CLAIMS}
    assert {claim for claims in CLAIMS_OF.values() for claim in claims} == set(where)
    for target, claims in CLAIMS_OF.items():
        kind, number = re.fullmatch(r"(fig|table)(\d+)", target).groups()
        for claim in claims:
            label, first, last = re.search(r"(Figure|Table)s? (\d+)(?: to (\d+))?$", where[claim]).groups()
            assert label.lower().startswith(kind)
            assert int(first) <= int(number) <= int(last or first)


@pytest.mark.parametrize("target", CLAIMS_OF)
def test_every_command_knows_its_runs(target, tmp_path):
    words = ["reproduce", target, "--dry-run", "--out", str(tmp_path / "r")]
    done = CliRunner().invoke(command_line.app, words, standalone_mode=False)
    assert done.exception is None
    n_runs = int(done.stdout.split()[0].replace(",", ""))
    assert (n_runs > 0) == (target != "table1")  # which describes data


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_only_documented_modules_are_imported(path):
    for module, name in imports_of(path):
        if module.partition(".")[0] == "partialfair":
            assert module in DOCUMENTED
            assert name is None or not name.startswith("_")


def test_extension_offers_what_it_lists():
    assert extension.__all__ == dir(extension)
    assert {"ConstraintBlock", "register_dataset", "write_files"} <= set(extension.__all__)
    assert all(getattr(extension, name) is not None for name in extension.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = extension.nonsense


def test_the_core_knows_nothing_of_the_paper():
    sources = (ROOT / "src" / "partialfair").rglob("*.py")
    assert not [path for path in sources for module, _ in imports_of(path) if "partialfair_paper" in module]


def test_the_entry_points_are_declared():
    content = tomllib.loads((ROOT / "paper" / "pyproject.toml").read_text())
    declared = content["project"]["entry-points"]
    assert set(declared["partialfair.commands"]) == set(extras.PAPER_COMMANDS)
    assert content["project"]["name"].replace("-", "_") == extras.PAPER_PACKAGE


@pytest.mark.parametrize("words", [("--help",), ("audit", "--help"), ("--version",)])
def test_the_help_lists_the_command_without_importing_it(words):
    loaded = modules_of_command(*words)
    assert not [name for name in loaded if name.startswith("partialfair_paper")]
    if words == ("--help",):
        done = CliRunner().invoke(command_line.app, list(words))
        assert "reproduce" in done.output
        assert "Make the paper's figures and tables" in done.output


def test_the_help_of_the_command_waits_for_no_package_of_numbers():
    loaded = modules_of_command("reproduce", "--help")
    assert "partialfair_paper.command" in loaded
    assert not {*loaded} & NUMERICAL


def test_without_the_package_the_command_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(command_line, "command_plugins", dict)
    done = CliRunner().invoke(command_line.app, ["reproduce", "fig1"], standalone_mode=False)
    assert isinstance(done.exception, MissingExtraError)
    assert str(done.exception) == (
        "partialfair reproduce needs partialfair-paper, which is not installed; "
        "run: pip install partialfair-paper"
    )
    assert "reproduce" not in CliRunner().invoke(command_line.app, ["--help"]).output


def test_without_the_package_the_exit_code_is_2():
    code = "from partialfair.cli import app, command; app.command_plugins = dict; command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "reproduce", "fig1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("partialfair: error: partialfair reproduce needs partialfair-paper")
    assert done.stderr.count("\n") == 1
