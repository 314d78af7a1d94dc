"""Pages of the library's objects: one report, several of the same people, a path of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partialfair.intervals import as_interval_set
from partialfair.metrics import band_changes
from partialfair.metrics.report import METRICS, FairnessReport
from partialfair.report.page import (
    Frontier,
    FrontierPoint,
    Section,
    audited_interval,
    audited_section,
    render,
)

if TYPE_CHECKING:
    import pandas as pd

    from partialfair.estimators.result import FitResult
    from partialfair.path import FairnessPath, PathPoint

__all__ = ["audit_page", "changes_section", "fits_section", "notes_section", "path_page", "settings_section"]


def audit_page(
    report: FairnessReport | Mapping[str, FairnessReport],
    path: str | Path | None = None,
    *,
    title: str = "Fairness audit",
    headline: str | None = None,
    sections: Sequence[Section] = (),
    shown: int = 0,
) -> str:
    """Return the page of one report, or of several of the same people by name; write it if a path is given.

    Parameters
    ----------
    report
        From `fairness_report`, with one interval that is the same for all groups.
    path
        Where to write the page.
    title, headline
        What is said on top; by default the headline gives the numbers of scores and groups.
    sections
        What is said below the audited metrics.
    shown
        Position of the report that is shown first.
    """
    named = {"scores": report} if isinstance(report, FairnessReport) else dict(report)
    first = next(iter(named.values()))
    for one in named.values():
        audited_interval(one)
    rows = sum(group.n for group in first.groups)
    audited = [
        audited_section(one, "As audited" if len(named) == 1 else f"As audited: {name}")
        for name, one in named.items()
    ]
    text = render(
        named,
        title=title,
        headline=headline or f"{rows:,} scores of {len(first.groups)} groups",
        sections=[*audited, *sections],
        shown=shown,
    )
    return _written(text, path)


def path_page(
    path: FairnessPath,
    file: str | Path | None = None,
    *,
    confidence: float = 0.95,
    title: str = "Frontier of fairness and accuracy",
    headline: str | None = None,
    sections: Sequence[Section] = (),
    chosen: PathPoint | None = None,
) -> str:
    """Return the page of a path of models, judged on its validation rows; write it if a file is given.

    Parameters
    ----------
    path
        From `fairness_path`.
    file
        Where to write the page.
    confidence
        Of the error bars and bands.
    title, headline, sections
        As in `audit_page`.
    chosen
        The point that is marked and shown first; by default the last, the strictest.
    """
    points = path.points
    reports = [path.report(point, confidence) for point in points]
    for report in reports:
        audited_interval(report)
    several = len({point.alpha for point in points}) > 1
    names = [_name(point, several) for point in points]
    gaps = [path.gap(point, confidence) for point in points]
    shown = len(points) - 1 if chosen is None else points.index(chosen)
    interval = audited_interval(reports[0])
    score = path.scoring.replace("_", " ")
    dots = tuple(
        FrontierPoint(
            model=k,
            label=f"{names[k]}: {score} {point.score:.3f} ± {point.error:.3f}, gap {gap.value:.3f} "
            f"({gap.low:.3f} – {gap.high:.3f}), {point.model.result_.status}",
            gap=gap.value,
            low=gap.low,
            high=gap.high,
            score=point.score,
            error=point.error,
            chosen=point is chosen,
        )
        for k, (point, gap) in enumerate(zip(points, gaps, strict=True))
    )
    rows = path.validation
    changes = {
        name: band_changes(
            points[0].scores,
            point.scores,
            sensitive_features=rows.groups,
            interval=interval,
            sample_weight=rows.weights,
        )
        for name, point in zip(names[1:], points[1:], strict=True)
    }
    text = render(
        dict(zip(names, reports, strict=True)),
        title=title,
        headline=headline or f"{len(points)} models judged on {len(rows.y):,} rows held out",
        frontier=Frontier(dots, f"{METRICS[gaps[0].metric].title} gap, held out", f"{score}, held out"),
        sections=[
            audited_section(reports[shown], f"As audited: {names[shown]}"),
            *([changes_section(changes, names[0], str(as_interval_set(interval)))] if changes else []),
            fits_section({name: point.model.result_ for name, point in zip(names, points, strict=True)}),
            *(sections or [settings_section(points[shown].model.get_params(deep=False))]),
        ],
        shown=shown,
    )
    return _written(text, file)


def changes_section(changes: Mapping[str, pd.DataFrame], first: str, where: str) -> Section:
    """Return who enters and leaves the interval from the first model to each other, by group."""
    kinds = ("in_interval", "stays", "enters", "leaves")
    return Section(
        "Who enters and leaves the interval",
        text=f"At {where}, compared with {first}; weights are counted where there are any. The interval "
        "holds as many of a group under every model.",
        columns=("model", "group", "in the interval", "stay", "enter", "leave"),
        rows=[
            [name, str(group), *(f"{line[kind]:,.5g}" for kind in kinds)]
            for name, frame in changes.items()
            for group, line in frame.iterrows()
        ],
    )


def fits_section(fits: Mapping[str, FitResult]) -> Section:
    """Return how each fit ended, with its certificate."""
    (tol,) = {result.tol for result in fits.values()}
    return Section(
        "Fits and certificates",
        text=f"A certificate holds if its four residuals are at most tol = {tol:g}: then the model is nearly "
        "a KKT point of the training problem. The training gap is that of the exact metric.",
        columns=(
            "model",
            "status",
            "training gap",
            "objective",
            "feasibility",
            "stationarity",
            "complementarity",
            "distance",
            "steps",
            "seconds",
        ),
        rows=[
            [
                name,
                f"{result.status}{f' ({result.obstacle})' if result.obstacle else ''}",
                f"{result.gap:.4f}",
                f"{result.objective:.5f}",
                f"{result.kkt.feasibility:.1e}",
                f"{result.kkt.stationarity:.1e}",
                f"{result.kkt.complementarity:.1e}",
                f"{result.kkt.distance:.1e}",
                f"{result.history[-1].step:,}",
                f"{result.history[-1].seconds:.1f}",
            ]
            for name, result in fits.items()
        ],
    )


def settings_section(settings: Mapping[str, Any]) -> Section:
    """Return what was asked for."""
    return Section("Settings", rows=[(name, str(value)) for name, value in settings.items()])


def notes_section(notes: Sequence[str]) -> list[Section]:
    """Return what may surprise, if anything does."""
    return [Section("Notes", columns=("note",), rows=[[note] for note in notes])] if notes else []


def _name(point: PathPoint, several: bool) -> str:
    return f"max gap {point.max_gap:g}" + (f", alpha {point.alpha:g}" if several else "")


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
