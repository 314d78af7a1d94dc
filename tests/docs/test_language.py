"""Texts use the field's words: no page, docstring, comment, message, asset or help has the phrases below."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from partialfair.cli.app import app
from partialfair_paper.command import app as paper_app
from tests.docs.scripts import ROOT

PHRASES = {
    r"made (data|people|rows|tables?)": "synthetic data",
    r"(people|rows) not seen|who was held out|people whom the model has not seen": "test set, held-out rows",
    r"(new|unseen|held-out|fewer|more) people": "new data, the population, rows",
    r"alike": "equal, similar",
    r"apart(?! from)": "different, separate",
    r"(wide|narrow)(r|er|st|est)? gaps?|gaps? (is|are) (wider|narrower)": "large, small gap",
    r"gaps? allowed|allowed gaps?|asked for": "limit, max_gap; requested",
    r"promis(e|es|ed)": "constraint; population guarantee",
    r"unkept|in the way": "infeasible; infeasibility reason",
    r"none found": "no feasible model found",
    r"(un)?certif(y|ies|ied|ication)|(?<!kkt )certificates?": "KKT certificate; validated",
    r"judg(e|es|ed|ing)": "evaluate",
    r"too few to": "too small to evaluate",
    r"how sure|surely|give or take|all at once": "with what confidence; simultaneously; ±",
    r"bands? of|cuts? (of|at) scores": "interval; threshold",
    r"shares? above": "proportion above",
    r"idle thresholds?": "threshold outside the interval",
    r"crossed groups|members inside": "intersectional groups; effective sample size",
    r"everybody|everyone": "the whole group, all rows",
    r"ordinary models?|as they are": "unconstrained model; unadjusted",
    r"stand-ins?|each from the last|goes? on where": "surrogate; warm-started; resumes",
    r"grown|growers?|draws? towards|leaves know": "trained, base estimator; shrinks towards",
    r"in one sentence|culprits?": "InputError; offending value",
    r"whole or absent|strangers?": "atomic; untrusted",
    r"fairer|less fair": "smaller, larger gap",
    r"pictures?|interactive pages?|html pages?": "figure; HTML report",
    r"beside|ours|peers?|rivals?": "compared with, next to; partialfair; other libraries",
    r"(will|would|may|might) do(?= *[,.;:)]|$)": "is enough",
    r"manners|by a hair|without a word": "conventions; slightly; silently",
    r"told|tells?|telling": "report, infer",
    r"(?<!there )(is|are|was|were) no (?!longer|more|less|such|need|\w+er than)\w+": "is not a …",
    r"referees?|house rules?": "plain words",
    r"\d %": "95% without a space",
    r"(?<=[\s(–=])\.\d+(?![\w.*])": "a leading zero",
    r"\w*(optimis|regularis|linearis|minimis|maximis|normalis|penalis)[ei]\w*": "American spelling",
    r"\w*(standardis|summaris|symmetris|recognis|organis|visualis|generalis)[ei]\w*": "American spelling",
    r"\w*(optimis|regularis|linearis|normalis|standardis|symmetris|generalis)a\w*": "American spelling",
    r"\w*(colour|neighbour|favour|behaviour)\w*|licences?": "American spelling",
}
"""What is not written, as a regular expression of words, and what to write instead."""

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""By file and phrase, the reason why it stands there."""

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
SOURCES = sorted(
    [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "paper" / "src").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "docs").glob("*.py"),
    ]
)
ASSETS = sorted(path for kind in ("js", "css", "html") for path in (ROOT / "src").rglob(f"*.{kind}"))
FILES = [*PAGES, *SOURCES, *ASSETS]

_JS_TEXT = re.compile(r"/\*.*?\*/|(?<![:\w])//[^\n]*|\"[^\"\n]*\"|`[^`]*`", re.DOTALL)
"""Comments and strings of JavaScript; comments of CSS."""


def _is_printed(node: ast.AST) -> bool:
    """Whether a node is a docstring, an error, or a call that prints a message."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    printed = ("print", "add_argument", "ArgumentParser", "error", "exit")
    called = getattr(node, "func", None)
    return isinstance(node, ast.Raise) or getattr(called, "id", getattr(called, "attr", None)) in printed


def read_texts(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a file, without its code, and the line of each piece."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        without_code = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
        paragraphs = re.split(r"(?<=\n)(?=\n)", re.sub(r"`[^`\n]*`", "`x`", without_code))
        numbers = [1]
        for paragraph in paragraphs:
            numbers.append(numbers[-1] + paragraph.count("\n"))
        return list(zip(numbers, paragraphs, strict=False))
    if path.suffix in (".js", ".css"):
        return [
            (1 + text.count("\n", 0, match.start()), re.sub(r"\$\{[^}]*\}", "x", match[0]))
            for match in _JS_TEXT.finditer(text)
            if " " in match[0]
        ]
    if path.suffix != ".py":
        return list(enumerate(text.split("\n"), 1))
    tree = ast.parse(text)
    strings = {node for node in ast.walk(tree) if isinstance(node, ast.Constant) and " " in str(node.value)}
    if path.parent.name == "benchmarks":  # other strings are labels of records, which stay comparable
        strings &= {part for node in ast.walk(tree) if _is_printed(node) for part in ast.walk(node)}
    pieces = [
        (node.lineno, re.sub(r"``[^`]*``|`[^`\n]*`", "`x`", node.value))
        for node in strings
        if isinstance(node.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    pieces += [(line, re.sub(r"`[^`]*`", "`x`", comment)) for line, comment in comments]
    return pieces


@cache
def read_helps() -> dict[str, str]:
    """Return what ``--help`` prints, by command."""
    words: list[tuple[typer.Typer, list[str]]] = [(app, []), (paper_app, [])]
    for name, command in typer.main.get_command(app).commands.items():
        words += [(app, [name, *more]) for more in ([], *([one] for one in getattr(command, "commands", ())))]
    helps = {}
    for one, names in words:
        printed = CliRunner().invoke(one, [*names, "--help"], env={"COLUMNS": "200"})
        assert printed.exit_code == 0, printed.output
        name = "reproduce" if one is paper_app else " ".join(names)
        helps[name] = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", printed.output)
    return helps


def find_phrases(name: str, texts: list[tuple[int, str]]) -> list[str]:
    """Return the phrases of some texts, with lines and what to write."""
    found = []
    for line, text in texts:
        joined = " ".join(text.split())
        for phrase, better in PHRASES.items():
            word = phrase if phrase.startswith(("(?<=", r"\d")) else rf"\b(?:{phrase})"
            word += "" if phrase.endswith((")", "+", "%", "*")) else r"\b"
            for match in re.finditer(word, joined, re.IGNORECASE):
                if (name, match[0].lower()) not in EXCEPTIONS:
                    around = joined[max(0, match.start() - 30) : match.end() + 30]
                    found.append(f"{name}:{line}: “{match[0]}” in “…{around}…”: {better}")
    return found


def findings(path: Path) -> list[str]:
    """Return the phrases of a file, with lines and what to write."""
    return find_phrases(path.relative_to(ROOT).as_posix(), read_texts(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_texts_use_the_fields_words(path):
    found = findings(path)
    assert not found, "\n".join(found)


def test_helps_use_the_fields_words():
    helps = read_helps()
    assert len(helps) > 9
    found = [line for name, text in helps.items() for line in find_phrases(f"{name} --help", [(1, text)])]
    assert not found, "\n".join(found)


def test_every_exception_is_needed():
    needed = set()
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        whole = " ".join(" ".join(text for _, text in read_texts(path)).split()).lower()
        needed |= {key for key in EXCEPTIONS if key[0] == name and key[1] in whole}
    assert set(EXCEPTIONS) == needed


@pytest.mark.parametrize(
    "text", ["the promise is kept", "scores are alike", "a gap of .05", "95 % of rows", "is no feature"]
)
def test_a_phrase_is_found(text, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(text)
    monkeypatch.setattr("tests.docs.test_language.ROOT", tmp_path)
    assert len(findings(page)) == 1


def test_code_of_scripts_is_not_text(tmp_path):
    script = tmp_path / "script.js"
    script.write_text(
        'const apart = 1; // apart\nlabel("they are alike"); const beside = `set ${beside} up`;\n'
    )
    assert [text for _, text in read_texts(script)] == ["// apart", '"they are alike"', "`set x up`"]
