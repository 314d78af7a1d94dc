"""Texts use the field's words: the phrases below stand in no page, docstring, comment, message or asset."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.scripts import ROOT

PHRASES = {
    r"made (data|people|rows|tables?)": "synthetic data",
    r"(people|rows) not seen|who was held out|people whom the model has not seen": "test set, held-out rows",
    r"(new|unseen|held-out|fewer|more) people": "new data, the population, rows",
    r"alike": "equal, similar",
    r"apart(?! from)": "different, separate",
    r"(wide|wider|widest|narrow|narrower|narrowest) gaps?|gaps? (is|are) (wider|narrower)": "large, small gap",
    r"gaps? allowed|allowed gaps?|asked for": "limit, max_gap; requested",
    r"promis(e|es|ed|ing)": "constraint; population guarantee",
    r"unkept|in the way": "infeasible; infeasibility reason",
    r"none found": "no feasible model found",
    r"certif(y|ies|ied)|(?<!kkt )certificates?": "KKT certificate; validated",
    r"judg(e|es|ed|ing)": "evaluate",
    r"too few to": "too small to evaluate",
    r"how sure|surely|give or take|all at once": "with what confidence; simultaneously; ±",
    r"bands? of|cuts? (of|at) scores": "interval; threshold",
    r"shares? above": "proportion above",
    r"idle thresholds?|crossed groups|members inside": "threshold outside the interval; intersectional groups; effective sample size",
    r"everybody|everyone": "the whole group, all rows",
    r"ordinary models?|as they are": "unconstrained model; unadjusted",
    r"stand-ins?|each from the last|goes? on where": "surrogate; warm-started; resumes",
    r"grown|growers?|draws? towards|leaves know": "trained, base estimator; shrinks towards",
    r"one sentence|culprits?|whole or absent|strangers?|fairer|less fair": "InputError; offending value; atomic; untrusted; smaller gap",
    r"pictures?|interactive pages?|html pages?": "figure; HTML report",
    r"beside|ours|peers?|rivals?": "compared with, next to; partialfair; other libraries",
    r"(will|would|may|might) do(?= *[,.;:)]|$)|manners|by a hair|without a word": "is enough; conventions; slightly; silently",
    r"told|tells?|telling": "report, infer",
    r"(?<!there )(is|are|was|were) no (?!longer|more|such|less|need)\w+": "is not a …",
    r"referees?|house rules?": "plain words",
    r"\d %": "95% without a space",
    r"(?<=[\s(–=])\.\d+(?![\w.*])": "a leading zero",
    r"\w*(optimis|regularis|linearis|minimis|maximis|normalis|standardis|summaris|symmetris)\w*": "American spelling",
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
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "src").rglob("*.py")])
ASSETS = sorted(path for kind in ("js", "css", "html") for path in (ROOT / "src").rglob(f"*.{kind}"))


def texts_of(path: Path) -> list[tuple[int, str]]:
    """Return what people read in a file, without its code, and the line of each piece."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        without_code = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
        paragraphs = re.split(r"(?<=\n)(?=\n)", re.sub(r"`[^`\n]*`", "`x`", without_code))
        numbers = [1 + text.count("\n", 0, 0)]
        for paragraph in paragraphs:
            numbers.append(numbers[-1] + paragraph.count("\n"))
        return list(zip(numbers, paragraphs, strict=False))
    if path.suffix != ".py":
        return list(enumerate(text.split("\n"), 1))
    pieces = [
        (node.lineno, re.sub(r"``[^`]*``|`[^`\n]*`", "`x`", node.value))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    pieces += [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return pieces


def findings(path: Path) -> list[str]:
    """Return the phrases that stand in a file, with lines and what to write."""
    name, found = path.relative_to(ROOT).as_posix(), []
    for line, text in texts_of(path):
        joined = " ".join(text.split())
        for phrase, better in PHRASES.items():
            word = phrase if phrase.startswith(("(?<=", r"\d")) else rf"\b(?:{phrase})"
            word += "" if phrase.endswith((")", "+", "%", "*")) else r"\b"
            for match in re.finditer(word, joined, re.IGNORECASE):
                if (name, match[0].lower()) not in EXCEPTIONS:
                    around = joined[max(0, match.start() - 30) : match.end() + 30]
                    found.append(f"{name}:{line}: “{match[0]}” in “…{around}…”: {better}")
    return found


@pytest.mark.parametrize(
    "path", [*PAGES, *SOURCES, *ASSETS], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_texts_use_the_fields_words(path):
    found = findings(path)
    assert not found, "\n".join(found)


def test_every_exception_is_needed():
    needed = set()
    for path in [*PAGES, *SOURCES, *ASSETS]:
        name = path.relative_to(ROOT).as_posix()
        whole = " ".join(" ".join(text for _, text in texts_of(path)).split()).lower()
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
