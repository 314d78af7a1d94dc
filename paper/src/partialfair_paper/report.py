"""Writes the report of a reproduction: every figure and table, and what becomes of each claim."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from typing import Any

from partialfair.extension import Section, page_style
from partialfair_paper.claims import Answer, Verdict
from partialfair_paper.figures import Frontiers
from partialfair_paper.parts import LOADERS
from partialfair_paper.published import Claim
from partialfair_paper.store import Store
from partialfair_paper.target import Scope, Target
from partialfair_paper.targets import TARGETS

_TITLE = "Reproducing the paper: results"
_REMARKS = (
    "Fairness is 1 − gap on test rows. The gap is on the absolute scale, as in the paper's tables: its "
    "definition divides by the width of the interval, its numbers do not.",
    "Means are over random splits; ± is one standard error of our splits alone, bars in figures are 95% "
    "intervals. The paper's numbers have errors of their own, which it does not print.",
    "A claim of higher accuracy is said to hold where the 95% interval of the gain lies above 0 at the "
    'fairness of every model that it is compared with. "Not worse" is less: nowhere is the accuracy lower by '
    'more than one standard error, which does not show that it is higher. "Comparable" is a difference whose '
    '95% interval contains 0, or that is no larger than what the paper calls similar. "Tied" is a fairness '
    "within one standard error.",
)
_REMARKS_ON_TABLES = (
    "Baselines all of whose models are less fair than ours, or fairer and less accurate, are named and not "
    "compared. Methods that the paper does not have, dotted in Figure 1, are in no claim.",
    "Models of the paper have terms for every group, so that scoring needs the group. What Figure 1 has "
    "in addition uses it as well; its table says which method does not.",
    "Tables read our frontier at the paper's fairness, or at its end where it does not reach so far (read "
    "at); differences are also in standard errors of ours (in errors). Models that another one beats on the "
    "validation rows are no part of a frontier, and the unconstrained one is part of each.",
    "The paper's trainers stop early; in the fast protocol problems are solved, and a penalty on "
    "coefficients is chosen on the validation rows instead. Most of the paper's λ are so high that the "
    "regularization method, solved, has the same model for all of them.",
    "In Figures 10 and 11 our engine's line jumps where it begins again from another start. Objectives are "
    "compared only if the infeasibilities differ at most 10-fold.",
    "Figure 12, of networks on faces, is not among all: it wants a GPU.",
)
_REMARKS_ON = {
    "bank": "bank is compared by changes against the unconstrained model: the paper's encoding of it is not "
    "known, and with ours that model is less accurate by 0.002. By so much accuracies of ours are raised in "
    "tables next to the paper's, but for that of the unconstrained model itself.",
    "acs_income": "ACS here has 92% of the paper's rows, and the two unconstrained models already differ by "
    "0.016 in accuracy: what is compared there is not the same model. Our intra-group models are less fair "
    "than the unconstrained one and no more accurate, so that it is what their rows in Table 2 show.",
    "celeba": "Of CelebA's 202,599 images those are taken that are at hand (how many, the table says), in "
    "the official parts: here splits are networks that begin with other random numbers. κ, learning rate, "
    "epochs and batches were chosen on the validation part; the paper names none. Curves are compared seed "
    "by seed, between networks that the validation part prefers, at levels of fairness that both reach.",
}
"""What there is to know of one data set."""
_CSS = """
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #fff; }
.holds { color: #1a7f37; font-weight: 600; }
.fails { color: var(--interval); font-weight: 600; }
.open { color: var(--soft); font-weight: 600; }
"""
_ELSEWHERE = "Claims on other data sets, not evaluated here:"
_STYLES = {Answer.HOLDS: "holds", Answer.FAILS: "fails"}
"""CSS classes; every other answer is "open"."""


def reproduction_page(
    targets: Sequence[Target],
    scope: Scope,
    store: Store,
    verdicts: Sequence[Verdict],
    pictures: Mapping[str, Mapping[str, bytes]],
) -> str:
    """Return the page as text, one file that needs no network.

    Parameters
    ----------
    targets
        In the order in which they are shown.
    scope
        How much of each was done.
    store
        The runs.
    verdicts
        On the paper's claims.
    pictures
        PNG files of each target, by their names.
    """
    parts = [
        f"<h1>{_TITLE}</h1>",
        f'<p class="soft">{escape(_describe_progress(scope, store))}</p>',
        *(f"<p><strong>{escape(text)}</strong></p>" for text in _describe_trainers(scope, store)),
        Section("How to read it", items=_remarks(scope), is_open=True).html(),
        _claims(verdicts),
        *(_target(target, scope, store, pictures.get(target.name, {})) for target in targets),
    ]
    style = page_style() + _CSS
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_TITLE}</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def reproduction_text(
    targets: Sequence[Target],
    scope: Scope,
    store: Store,
    verdicts: Sequence[Verdict],
    pictures: Mapping[str, Iterable[str]],
) -> str:
    """Return the same as Markdown, whose pictures are files beside it; parameters as above."""
    lines = [f"# {_TITLE}", _describe_progress(scope, store)]
    lines += [f"**{text}**" for text in _describe_trainers(scope, store)]
    lines += ["## How to read it", _bullets(_remarks(scope))]
    lines.append("## The paper's claims")
    here, elsewhere = _by_scope(verdicts)
    for verdict in here:
        lines.append(f"**{verdict.claim.sentence}** ({verdict.claim.where})")
        lines.append(
            _bullets(
                f"{finding.dataset}: **{finding.answer.value}**; {finding.why}"
                for finding in verdict.findings
            )
        )
    if elsewhere:
        lines += [_ELSEWHERE, _bullets(f"{claim.sentence} ({claim.where})" for claim in elsewhere)]
    for target in targets:
        lines.append(f"## {target.name}: {target.title}")
        names = list(pictures.get(target.name, ()))
        lines += [f"![{target.title}]({name}.png)" for name in names]
        rows = target.rows(scope, store)
        if not rows:
            lines.append("No run of it has been done.")
            continue
        table = "\n".join(
            f"| {' | '.join(map(str, cells))} |"
            for cells in (rows[0], ["---"] * len(rows[0]), *map(_cells, rows))
        )
        lines.append(f"<details><summary>in numbers</summary>\n\n{table}\n\n</details>" if names else table)
    return "\n\n".join(line for line in lines if line) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [str(value).replace("|", "\\|") for value in row.values()]


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _describe_progress(scope: Scope, store: Store) -> str:
    """Return how much has been done, as a sentence."""
    runs = [(run, outcome) for run, outcome in store.all() if run.rows == scope.rows]
    failed = sum(outcome.failed for _, outcome in runs)
    splits = "1 split" if scope.seeds == 1 else f"{scope.seeds} splits"
    fewer = "" if scope.rows is None else f", {scope.rows:,} training rows only"
    both = " of both protocols" if len({run.protocol for run, _ in runs}) > 1 else ""
    failures = f", {failed:,} of them failed and do not count" if failed else ""
    minutes = sum(outcome.seconds for _, outcome in runs) / 60
    sentence = (
        f"partialfair {version('partialfair')}, protocol {scope.protocol}, {splits}{fewer}: "
        f"{len(runs):,} runs{both}{failures}, which took {minutes:,.0f} min one after the other."
    )
    if scope.rows is None and scope.seeds > 1:
        return sentence
    return f"{sentence} A quick look: its verdicts are mostly chance."


def _describe_trainers(scope: Scope, store: Store) -> list[str]:
    """Return on which data sets the paper's own trainers were run in full, as one sentence or none."""
    wanted = [dataset for dataset in scope.datasets if dataset in LOADERS]
    if not wanted:
        return []
    figure = TARGETS["fig1"]
    assert isinstance(figure, Frontiers)
    trained: dict[str, dict[str, list[str]]] = {}
    for question, _, trainer in figure.trainers(scope, store):
        trained.setdefault(question.dataset, {}).setdefault(question.fairness, []).append(trainer.label)
    return [write_trainers(trained)]


def write_trainers(trained: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return the sentence on the paper's trainers that were run in full, by data set and fairness."""
    which = "; ".join(
        f"{dataset} ({'; '.join(f'{fairness}: ' + ', '.join(labels) for fairness, labels in found.items())})"
        for dataset, found in trained.items()
    )
    return (
        f"The paper's own trainers were run in full on {f'{which} only' if which else 'no data set'}. Every "
        "other frontier is of the paper's problem, solved by our engine: what follows from it concerns the "
        "problem, not the paper's algorithm."
    )


def _remarks(scope: Scope) -> list[str]:
    on_tables = _REMARKS_ON_TABLES if set(LOADERS) & set(scope.datasets) else ()
    own = (text for dataset, text in _REMARKS_ON.items() if dataset in scope.datasets)
    return [*_REMARKS, *on_tables, *own]


def _by_scope(verdicts: Sequence[Verdict]) -> tuple[list[Verdict], list[Claim]]:
    """Return verdicts on claims that something is said of here, and the other claims."""
    here = [verdict for verdict in verdicts if verdict.findings]
    return here, [verdict.claim for verdict in verdicts if not verdict.findings]


def _claims(verdicts: Sequence[Verdict]) -> str:
    """Return what becomes of each claim, data set by data set."""
    lines = ["<section>\n<h2>The paper's claims</h2>"]
    here, elsewhere = _by_scope(verdicts)
    for verdict in here:
        lines.append(f"<p><strong>{escape(verdict.claim.sentence)}</strong> ")
        lines.append(f'<span class="soft">{escape(verdict.claim.where)}</span></p>\n<ul>')
        for finding in verdict.findings:
            style = _STYLES.get(finding.answer, "open")
            answer = f'<span class="{style}">{finding.answer.value}</span>'
            said = f"{escape(finding.dataset)}: {answer}; {escape(finding.why)}"
            lines.append(f"<li>{said}</li>")
        lines.append("</ul>")
    if elsewhere:
        items = "".join(f"<li>{escape(f'{one.sentence} ({one.where})')}</li>" for one in elsewhere)
        lines.append(f'<p>{_ELSEWHERE}</p>\n<ul class="soft">{items}</ul>')
    return "\n".join([*lines, "</section>"])


def _target(target: Target, scope: Scope, store: Store, pictures: Mapping[str, bytes]) -> str:
    """Return a figure or table with its numbers."""
    rows = target.rows(scope, store)
    lines = [f'<section>\n<h2 id="{target.name}">{target.name}: {escape(target.title)}</h2>']
    for name, picture in pictures.items():
        source = f"data:image/png;base64,{b64encode(picture).decode()}"
        shown = escape(f"{target.title} ({name})")
        lines.append(f'<figure><img alt="{shown}" src="{source}"></figure>')
    if rows:
        table = Section(
            f"{target.name} in numbers",
            [[str(value) for value in row.values()] for row in rows],
            list(rows[0]),
            is_open=not pictures,
        )
        lines.append(table.html())
    else:
        lines.append("<p>No run of it has been done.</p>")
    return "\n".join([*lines, "</section>"])
