"""What makes the package easy to read: plain words, class names that occur once, and private modules."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "partialfair"
PAPER = ROOT.parents[1] / "paper" / "src" / "partialfair_paper"
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def test_a_class_name_occurs_once():
    homes = defaultdict(list)
    for path, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_private_modules_are_imported_by_their_own_package_only():
    found = []
    for path, tree in MODULES.items():
        package = path.relative_to(ROOT).parts[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("partialfair."):
                home, *inner = node.module.split(".")[1:]
                if home != package and any(part.startswith("_") for part in inner):
                    found.append(f"{path.relative_to(ROOT)} imports {node.module}")
    assert found == []


# Words of an earlier private language; the terms that the docs use say the same.
BANNED = {
    *("told", "asked", "asks", "judged", "judge", "judging", "kept", "beside", "people", "everybody"),
    *("strangers", "unhurried", "grown", "climb", "blur", "moment"),
}


def banned_identifiers(path):
    """Yield the names of a module that have a banned word between underscores or capitals."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string).lower().split("_")
            if BANNED & {*words}:
                yield f"{path.name}:{token.start[0]}: {token.string}"


@pytest.mark.parametrize("root", [ROOT, PAPER], ids=lambda root: root.name)
def test_identifiers_have_plain_words(root):
    found = [name for path in sorted(root.rglob("*.py")) for name in banned_identifiers(path)]
    assert found == []


def test_names_with_banned_words_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('kept = "told"\nclass AskedTwice: ...\nmomentum = _JUDGED_AT = 1  # beside\n')
    assert [line.rpartition(" ")[2] for line in banned_identifiers(path)] == [
        "kept",
        "AskedTwice",
        "_JUDGED_AT",
    ]


SPACED = re.compile(r"(?:[0-9}]|&nbsp;) %(?![a-z(])(?! *[(0-9a-z_]+\W)")
"""A number, a blank and the sign of percents; not the remainder of a division."""


def test_percents_are_written_without_a_blank():
    top = ROOT.parents[1]
    files = [*ROOT.rglob("*.py"), *ROOT.rglob("*.js"), *ROOT.rglob("*.html"), *top.glob("*.md")]
    files += [*(top / "docs").glob("*.md"), *PAPER.rglob("*.py")]
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if SPACED.search(line)
    ]
    assert found == []
