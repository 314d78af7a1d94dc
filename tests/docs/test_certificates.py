"""No text calls a model certified: "KKT certificate" is about the solver, "validated" about held-out rows."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
SOURCES = [
    path
    for folder in ("src", "paper/src")
    for kind in ("*.py", "*.pyi", "*.js", "*.html")
    for path in sorted((ROOT / folder).rglob(kind))
]


def texts_of(path):
    """The prose of a file: all of a page but its code, and comments and strings with blanks of a source."""
    source = path.read_text()
    if path.suffix == ".md":
        block = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
        comments = [
            comment
            for language, code in block.findall(source)
            if language == "python"
            for comment in re.findall(r"#.*", code)
        ]
        return [block.sub("", source), *comments]
    if path.suffix not in {".py", ".pyi"}:
        return [source]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    strings = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [" ".join(comment[1:].strip() for comment in comments), *(s for s in strings if is_prose(s))]


def is_prose(value):
    """Whether a constant is a text and no key or name."""
    return isinstance(value, str) and bool(re.search(r"\s", value.strip()))


def violations_of(text):
    """The words of a text that stand without "KKT", each with what is around it."""
    text = re.sub(r"``.+?``|`[^`]+`", " ", text, flags=re.DOTALL)  # identifiers
    text = re.sub(r"\]\([^)]*\)", "]", text)  # addresses of links
    text = re.sub(r"(?m)^ *\w+(, \w+)*$", "", text)  # names of parameters and attributes in docstrings
    text = " ".join(text.split())
    return [
        text[max(0, found.start() - 60) : found.end() + 40]
        for found in re.finditer(r"(?i)\b(?:un)?certif\w*|\bcertification\b", text)
        if not text[: found.start()].rstrip('*"').endswith("KKT ") or not found[0].startswith("certificate")
    ]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_only_kkt_certificates_are_certificates(path):
    assert [words for text in texts_of(path) for words in violations_of(text)] == []


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("The model is certified.", 1),
        ("Certified models; a certificate holds.", 2),
        ("the KKT certificate holds, and KKT certificates are witnesses", 0),
        ("the KKT\ncertificate, a **KKT certificate**", 0),
        ("of the KKT certified point", 1),  # "validated" or "with a KKT certificate" says which
        ("`path.validated(max_gap)` and ``Status.NOT_VALIDATED``", 0),
        ("Attributes\n----------\ncertified\n    Whether it is shown.", 0),
    ],
)
def test_the_rule_finds_what_it_is_for(text, n):
    assert len(violations_of(text)) == n
