"""HTML reports of the library's objects: one report, several of the same rows, a path of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import roc_auc_score

from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics.report import FairnessReport
from partialfair.optimization.solvers import GOOD
from partialfair.report.page_data import IntervalChanges, collect_changes
from partialfair.report.rendering import (
    NOT_ONE_INTERVAL,
    check_reports,
    render,
)
from partialfair.report.sections import (
    Section,
    audited_section,
    describe_end,
    fits_section,
    notes_section,
    pairs_section,
    settings_section,
)
from partialfair.report.verdict import Outcome
from partialfair.utils.files import write_file
from partialfair.utils.text import fixed

if TYPE_CHECKING:
    from partialfair.estimators.path import FairnessPath, PathPoint


def audit_page(
    report: FairnessReport | Mapping[str, FairnessReport],
    *,
    title: str = "Fairness audit",
    headline: str | None = None,
    sections: Sequence[Section] = (),
    shown: int = 0,
    seen_in_training: bool = False,
    warning: str | None = None,
    metric: str = "statistical_parity",
    outcomes: Mapping[str, Outcome] | None = None,
    changes: IntervalChanges | None = None,
    frontier: Mapping[str, Any] | None = None,
) -> str:
    """Return the HTML report of one fairness report, or of several on the same rows.

    Parameters
    ----------
    report
        The result of `fairness_report`, with one interval that is the same for all groups, or several results
        by name, which must have the same settings.
    title, headline
        The first lines; by default the headline contains the numbers of scores and groups.
    sections
        Details below the audited metrics.
    shown
        Position of the report that is shown first.
    seen_in_training
        Whether the rows are training rows; the report then has no confidence bands.
    warning
        A red line at the top.
    metric
        The metric of the verdict and of the list of pairs.
    outcomes
        Further results of models, by name.
    changes
        The result of `collect_changes` with the scores of the reports, in their order: the HTML report then
        shows how many rows enter and leave any interval.
    frontier
        The models of a path by gap and score, as in `path_page`.
    """
    named = {"these scores": report} if isinstance(report, FairnessReport) else report
    check_reports(named, shown)
    if changes is not None and changes.names != tuple(named):
        raise InputError(f"changes has the models {list(changes.names)}, but the reports are {list(named)}")
    first = next(iter(named.values()))
    rows = sum(group.n for group in first.groups)
    name, one = list(named.items())[shown]
    of_pairs = "Pairs of groups" if len(named) == 1 else f"Pairs of groups: {name}"
    # Confidence intervals of pairs are not valid on training rows.
    pairs = [] if seen_in_training else pairs_section(one, metric, of_pairs)
    return render(
        named,
        title=title,
        headline=headline or f"{rows:,} scores of {len(first.groups)} groups",
        metric=metric,
        outcomes=outcomes or {},
        sections=[
            audited_section(named, seen_in_training=seen_in_training),
            *pairs,
            *([] if changes is None else [changes.section]),
            *sections,
        ],
        frontier=frontier,
        shown=shown,
        seen_in_training=seen_in_training,
        warning=warning,
        changes=changes,
    )


def path_page(
    path: FairnessPath,
    *,
    confidence: float = 0.95,
    title: str = "Frontier of fairness and accuracy",
    headline: str | None = None,
    sections: Sequence[Section] = (),
    chosen: PathPoint | None = None,
    shown: PathPoint | None = None,
    claim: str = "",
    warning: str | None = None,
) -> str:
    """Return the HTML report of a path of models, evaluated on its validation rows.

    Parameters
    ----------
    path
        The result of `fairness_path`.
    confidence
        The confidence level of error bars and bands.
    title, headline, sections
        As in `audit_page`.
    chosen
        The point that is marked.
    shown
        The point that is shown first; by default the chosen one, else the one with the smallest limit whose
        fit ended well.
    claim
        A further sentence of its verdict.
    warning
        A red line at the top.
    """
    points, rows = path.points, path.validation
    interval = _one_interval(points[0])
    names = path_names(points)
    reports = {name: path.report(point, confidence) for name, point in zip(names, points, strict=True)}
    # Models are in descending order of their limits.
    done = [k for k, point in enumerate(points) if point.model.result_.status in GOOD]
    check_reports(reports)
    # The chosen model; else the smallest limit whose fit is feasible or converged; else the last model.
    first_shown = shown or chosen or points[done[-1] if done else -1]
    scores = {name: point.scores for name, point in zip(names, points, strict=True)}
    outcomes = {
        name: _outcome(path, point, claim if point is first_shown else "")
        for name, point in zip(names, points, strict=True)
    }
    first = reports[names[0]]
    changes = collect_changes(
        scores,
        sensitive_features=first.evaluated(rows.groups),
        interval=interval,
        sample_weight=rows.weights,
        higher_is_better=first.higher_is_better,
        missing_groups="ignore",
    )
    return audit_page(
        reports,
        title=title,
        headline=headline or f"{len(points)} models evaluated on {len(rows.y):,} rows {path.evaluated_on}",
        metric=path.record.metric,
        outcomes=outcomes,
        frontier=_frontier(path, names, confidence, chosen),
        sections=[
            fits_section(
                {name: point.model.result_ for name, point in zip(names, points, strict=True)},
                path.record.metric,
                [point.training_gap for point in points],
            ),
            *(sections or _own_sections(path, first_shown)),
        ],
        shown=points.index(first_shown),
        warning=warning,
        changes=changes,
    )


def _outcome(path: FairnessPath, point: PathPoint, claim: str) -> Outcome:
    """Return the scores of a model of a path, and the result of its fit."""
    rows = path.validation
    quality = [(path.scoring.replace("_", " "), fixed(point.score)), ("±", fixed(point.error))]
    if not is_regressor(point.model) and path.scoring != "roc_auc" and len(np.unique(rows.y)) > 1:
        quality.append(("AUC", fixed(roc_auc_score(rows.y, point.scores, sample_weight=rows.weights))))
    return Outcome(quality, point.model.result_.satisfied, point.max_gap, point.training_gap, claim)


def _own_sections(path: FairnessPath, shown: PathPoint) -> list[Section]:
    """Return the default details of a path."""
    notes = [] if path.meaning is None else [path.meaning]
    return [settings_section(shown.model.get_params(deep=False)), *notes_section(notes)]


def _one_interval(point: PathPoint) -> tuple[float, float]:
    """Return the interval of a model's constraint; unions and intervals by group are an error."""
    interval = point.constraint.interval
    if isinstance(interval, Mapping) or len(as_interval_set(interval).parts) > 1:
        raise InputError(NOT_ONE_INTERVAL)
    return as_interval_set(interval).parts[0]


def path_names(points: Sequence[PathPoint]) -> list[str]:
    """Return names of the models of a path, short if short names are distinct."""
    several = len({point.alpha for point in points}) > 1
    # Rounded limits may coincide; names then have all digits.
    short = [point.allowed + (f", alpha {point.alpha:g}" if several else "") for point in points]
    if len(set(short)) == len(short):
        return short
    return [f"{point.allowed} ({point.max_gap!r}), alpha {point.alpha!r}" for point in points]


def _frontier(
    path: FairnessPath, names: list[str], confidence: float, chosen: PathPoint | None
) -> dict[str, Any] | None:
    """Return the models with a defined gap, as an argument of `render`; None without such models."""
    score, metric = path.scoring.replace("_", " "), path.record.bounded
    dots = []
    for k, point in enumerate(path.points):
        gap = path.gap(point, confidence)
        # Models with an undefined gap or score are left out.
        if not np.isfinite([gap.gap, point.score, point.error]).all():
            continue
        label = (
            f"{names[k]}: {score} {fixed(point.score)} ± {fixed(point.error)}, gap {metric.text(gap.gap)} "
            f"({metric.text(gap.ci_low)} – {metric.text(gap.ci_high)}); "
            f"the fit {describe_end(point.model.result_)}"
        )
        dot = {"model": k, "name": names[k].removeprefix("max gap "), "label": label}
        dot |= {"gap": gap.gap, "low": gap.ci_low, "high": gap.ci_high, "score": point.score}
        dot |= {"error": point.error, "chosen": point is chosen}
        dots.append(dot | {"failed": point.model.result_.status not in GOOD})
    axes = {
        "gapLabel": f"{metric.title} gap, {path.evaluated_on}",
        "scoreLabel": f"{score}, {path.evaluated_on}",
    }
    return {**axes, "points": dots} if dots else None


def write_page(text: str, path: str | Path) -> None:
    """Write an HTML report to a file, atomically."""
    write_file(path, text.encode("utf-8", errors="backslashreplace"))
