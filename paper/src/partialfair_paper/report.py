"""Writes the report of a reproduction: all figures and tables, and an evaluation of each claim."""

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

_TITLE = "Results"
_REMARKS = (
    "Fairness is 1 − gap on test rows. The gap is on the absolute scale, as in the paper's tables: the "
    "paper's definition divides by the width of the interval, but its printed numbers do not.",
    "Means are over random splits; ± is one standard error of partialfair's splits, and bars in figures are "
    "95% intervals. The paper does not print the standard errors of its numbers.",
    "A claim of higher accuracy holds if the 95% interval of the gain lies above 0 at the fairness of every "
    'model in the comparison. "Not worse" is weaker: nowhere is the accuracy lower by more than one standard '
    'error, which does not show that it is higher. "Comparable" is a difference whose 95% interval contains '
    '0, or that is at most as large as differences that the paper calls similar. "Tied" is a fairness within '
    "one standard error.",
)
_REMARKS_ON_TABLES = (
    "Baselines are named but not compared if all of their models have larger gaps than partialfair's, or "
    "smaller gaps and lower accuracies. Claims do not concern methods that the paper does not include, which "
    "are dotted in Figure 1.",
    "The paper's models have coefficients for every group, so that scoring needs the group. Most additional "
    "methods of Figure 1 need it as well; the table of the figure states which method does not.",
    "Tables evaluate partialfair's frontier at the paper's fairness, or at the end of the frontier if it "
    "does not reach that fairness (column: evaluated at). The column difference / SE divides by the "
    "standard error over splits. A model is on the frontier if no other model has both a smaller gap and a "
    "higher accuracy on the validation rows; unconstrained models are included.",
    "The paper's algorithms stop early. The fast protocol solves each problem to convergence and instead "
    "chooses a penalty on coefficients on the validation rows. Most of the paper's λ are so large that the "
    "converged regularization method has the same model for all of them.",
    "In Figures 10 and 11 the line of our engine jumps when the solver starts again from another point. "
    "Objectives are compared only if the infeasibilities differ by a factor of at most 10.",
    "The target all excludes Figure 12, networks on faces, because it needs a GPU.",
)
_REMARKS_ON = {
    "bank": "On bank, changes from the unconstrained model are compared: the paper's encoding is not known, "
    "and with the encoding used here the unconstrained model is less accurate by 0.002. Tables add this "
    "difference to the accuracies of constrained models.",
    "acs_income": "ACS here has 92% of the paper's rows, and the accuracies of the two unconstrained models "
    "differ by 0.016, so the models are not directly comparable. The intra-group models trained here have "
    "larger gaps than the unconstrained model and no higher accuracy, so their rows in Table 2 show the "
    "unconstrained model.",
    "celeba": "Of CelebA's 202,599 images, the available ones are used (the table states how many), in the "
    "official parts; splits are networks with different random seeds. κ, learning rate, epochs and batches "
    "were chosen on the validation part, because the paper gives none. Curves are compared seed by seed, "
    "between networks on the validation frontier, at levels of fairness that both reach.",
}
"""Remarks on one data set each."""
_CSS = """
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #fff; }
.holds { color: #1a7f37; font-weight: 600; }
.fails { color: var(--interval); font-weight: 600; }
.open { color: var(--soft); font-weight: 600; }
"""
_ELSEWHERE = "Claims on other data sets, not evaluated here:"
_STYLES = {Answer.HOLDS: "holds", Answer.FAILS: "fails"}
"""CSS classes; the class of every other answer is "open"."""


def reproduction_page(
    targets: Sequence[Target],
    scope: Scope,
    store: Store,
    verdicts: Sequence[Verdict],
    figures: Mapping[str, Mapping[str, bytes]],
) -> str:
    """Return the report as HTML, one file that opens offline.

    Parameters
    ----------
    targets : sequence of Target
        Figures and tables, in the order of the report.
    scope : Scope
        Data sets, number of splits and protocol.
    store : Store
        The runs.
    verdicts : sequence of Verdict
        Evaluations of the paper's claims.
    figures : mapping
        PNG files of each target, by name.
    """
    parts = [
        f"<h1>{_TITLE}</h1>",
        f'<p class="soft">{escape(_describe_progress(scope, store))}</p>',
        *(f"<p><strong>{escape(text)}</strong></p>" for text in _describe_trainers(scope, store)),
        Section("How to read it", items=_remarks(scope), is_open=True).html(),
        _claims(verdicts),
        *(_target(target, scope, store, figures.get(target.name, {})) for target in targets),
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
    figures: Mapping[str, Iterable[str]],
) -> str:
    """Return the report as Markdown, with links to PNG files; parameters are those of `reproduction_page`."""
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
        names = list(figures.get(target.name, ()))
        lines += [f"![{target.title}]({name}.png)" for name in names]
        rows = target.rows(scope, store)
        if not rows:
            lines.append("Not run yet.")
            continue
        table = "\n".join(
            f"| {' | '.join(map(str, cells))} |"
            for cells in (rows[0], ["---"] * len(rows[0]), *map(_cells, rows))
        )
        lines.append(f"<details><summary>Numbers</summary>\n\n{table}\n\n</details>" if names else table)
    return "\n\n".join(line for line in lines if line) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [str(value).replace("|", "\\|") for value in row.values()]


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _describe_progress(scope: Scope, store: Store) -> str:
    """Return the number of runs and their time, as a sentence."""
    runs = [(run, outcome) for run, outcome in store.all() if run.rows == scope.rows]
    failed = sum(outcome.failed for _, outcome in runs)
    splits = "1 split" if scope.seeds == 1 else f"{scope.seeds} splits"
    fewer = "" if scope.rows is None else f", {scope.rows:,} training rows"
    both = " of both protocols" if len({run.protocol for run, _ in runs}) > 1 else ""
    failures = f", {failed:,} of which failed and are excluded" if failed else ""
    minutes = sum(outcome.seconds for _, outcome in runs) / 60
    sentence = (
        f"partialfair {version('partialfair')}, protocol {scope.protocol}, {splits}{fewer}: "
        f"{len(runs):,} runs{both}{failures}, which took {minutes:,.0f} min one after the other."
    )
    if scope.rows is None and scope.seeds > 1:
        return sentence
    return f"{sentence} This is a quick look: its verdicts are mostly chance."


def _describe_trainers(scope: Scope, store: Store) -> list[str]:
    """Return a sentence on the data sets on which the paper's own algorithms were run in full, or nothing."""
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
    """Return the sentence on the paper's algorithms that were run in full, by data set and fairness."""
    which = "; ".join(
        f"{dataset} ({'; '.join(f'{fairness}: ' + ', '.join(labels) for fairness, labels in found.items())})"
        for dataset, found in trained.items()
    )
    return (
        f"The paper's own algorithms were run in full {f'only on {which}' if which else 'on no data set'}. "
        "Every other frontier solves the paper's problem with partialfair's solvers: its results concern the "
        "problem, not the paper's algorithm."
    )


def _remarks(scope: Scope) -> list[str]:
    on_tables = _REMARKS_ON_TABLES if set(LOADERS) & set(scope.datasets) else ()
    own = (text for dataset, text in _REMARKS_ON.items() if dataset in scope.datasets)
    return [*_REMARKS, *on_tables, *own]


def _by_scope(verdicts: Sequence[Verdict]) -> tuple[list[Verdict], list[Claim]]:
    """Return verdicts on claims that are evaluated here, and the other claims."""
    here = [verdict for verdict in verdicts if verdict.findings]
    return here, [verdict.claim for verdict in verdicts if not verdict.findings]


def _claims(verdicts: Sequence[Verdict]) -> str:
    """Return the evaluation of each claim, by data set."""
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


def _target(target: Target, scope: Scope, store: Store, figures: Mapping[str, bytes]) -> str:
    """Return a figure or table with its numbers."""
    rows = target.rows(scope, store)
    lines = [f'<section>\n<h2 id="{target.name}">{target.name}: {escape(target.title)}</h2>']
    for name, figure in figures.items():
        source = f"data:image/png;base64,{b64encode(figure).decode()}"
        shown = escape(f"{target.title} ({name})")
        lines.append(f'<figure><img alt="{shown}" src="{source}"></figure>')
    if rows:
        table = Section(
            f"Numbers of {target.name}",
            [[str(value) for value in row.values()] for row in rows],
            list(rows[0]),
            is_open=not figures,
        )
        lines.append(table.html())
    else:
        lines.append("<p>Not run yet.</p>")
    return "\n".join([*lines, "</section>"])
