"""What makes the package easy to read: a class name occurs once, and private modules are private."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "partialfair"
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
