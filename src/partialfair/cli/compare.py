"""``partialfair compare``: several models' scores of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console

from partialfair.cli.audit import Audit, measure, read
from partialfair.cli.columns import ScoreTable
from partialfair.cli.evaluation import compare_scores
from partialfair.cli.intervals import AUTO, interval_record
from partialfair.cli.output import Content, PlainTable, csv_text, note_line, step
from partialfair.cli.pictures import draw_rank_curves
from partialfair.cli.report_text import print_omitted, report_record
from partialfair.cli.settings import CompareSettings
from partialfair.cli.verdict import difference_record
from partialfair.data.groups import members_text
from partialfair.exceptions import InputError
from partialfair.metrics import interval_changes, interval_membership
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.paired import GapComparison, GapDifference
from partialfair.metrics.report import FairnessReport
from partialfair.report.page_data import collect_changes
from partialfair.report.pages import audit_page
from partialfair.report.sections import Section, gap_cells, interval_title, notes_section
from partialfair.report.verdict import Outcome
from partialfair.utils.text import short_percent, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("movers.csv", "rank_curves.png", "compare.json")
"""What ``--out`` writes, the record last."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Audits of the same rows under several models, which are compared with the first one.

    ``differences`` and ``changes`` have one element for each further model: its gaps minus the gaps of the
    first model, and by group the numbers of rows that enter and leave the interval.
    """

    audits: tuple[Audit, ...]
    differences: tuple[GapComparison, ...]
    changes: tuple[pd.DataFrame, ...]

    @property
    def names(self) -> list[str]:
        """Short names of the models: file names, paths or numbered paths, whichever are distinct first."""
        paths = [audit.table.path for audit in self.audits]
        numbered = [f"{path} ({k + 1})" for k, path in enumerate(paths)]
        # The shortest names that are distinct.
        choices = ([path.stem for path in paths], [str(path) for path in paths], numbered)
        return next(names for names in choices if len(set(names)) == len(names))

    def movers(self) -> pd.DataFrame:
        """One line per row whose membership of the interval differs between models."""
        first = self.audits[0]
        # Group columns as they were read, so that rows can be looked up.
        frame = first.table.groups.reset_index(drop=True).copy()
        ids = first.table.ids
        frame.insert(
            0,
            "row" if ids is None else str(ids.name),
            np.arange(1, len(frame) + 1) if ids is None else ids.to_numpy(),
        )
        for name, audit in zip(self.names, self.audits, strict=True):
            frame[f"in interval: {name}"] = interval_membership(
                audit.table.scores, interval=first.interval, **first.evaluation.ranking
            ).round(6)
        shares = frame.iloc[:, -len(self.audits) :]
        # Membership is a fraction where an end of the interval splits ties. Rounding ignores numerical noise.
        return frame[shares.nunique(axis=1) > 1]

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "schema": "partialfair.compare/1",
            "interval": interval_record(self.audits[0].interval),
            "pos_label": self.audits[0].positive_name,
            "clusters": self.audits[0].table.clusters_record,
            "models": [
                {
                    "name": name,
                    "file": str(audit.table.path),
                    **report_record(audit.report),
                    "changes_from_first": self.changes[k - 1].to_dict(orient="index") if k else None,
                    "difference_from_first": self._differences_record(k) if k else None,
                    "notes": list(audit.notes),
                }
                for k, (name, audit) in enumerate(zip(self.names, self.audits, strict=True))
            ],
        }

    def _differences_record(self, k: int) -> dict[str, Any]:
        """Return by how much the gaps of a model differ from the first one's, by metric."""
        return {row.metric: difference_record(row) for row in self.differences[k - 1].metrics}

    def files(self) -> dict[str, Content]:
        """Return what ``--out`` writes with the record."""
        return {"movers.csv": csv_text(self.movers()), "rank_curves.png": self._rank_curves}

    def page(self) -> str:
        """Return the HTML report, which shows the last model and the first."""
        names, first = self.names, self.audits[0]
        n_rows, n_groups = len(first.table.scores), len(first.report.groups)
        scores = {name: audit.table.scores for name, audit in zip(names, self.audits, strict=True)}
        changes = collect_changes(scores, interval=first.interval, **first.evaluation.ranking)
        notes = [
            f"{name}: {note}" for name, audit in zip(names, self.audits, strict=True) for note in audit.notes
        ]
        return audit_page(
            {name: audit.report for name, audit in zip(names, self.audits, strict=True)},
            title="Comparison of " + " and ".join(names),
            headline=f"{n_rows:,} rows in {n_groups} groups; {first.subject}",
            sections=[self._differences_section(), *notes_section(notes)],
            shown=len(names) - 1,
            outcomes={name: Outcome(claim=self._claim(k)) for k, name in enumerate(names[1:])},
            changes=changes,
        )

    def _claim(self, k: int) -> str:
        """Describe the difference of a model's parity gap from the first model's, and its verdict."""
        comparison = self.differences[k]
        if "statistical_parity" in comparison.omitted:
            return ""
        _, difference, interval, verdict = difference_cells(comparison["statistical_parity"])
        percents = interval_title(comparison.confidence)
        return f"Its gap minus the gap of {self.names[0]} is {difference} ({percents} {interval}): {verdict}."

    def _differences_section(self) -> Section:
        """Return the differences from the first model's gaps, with confidence intervals."""
        rows = [
            [name, *difference_cells(row)]
            for name, differences in zip(self.names[1:], self.differences, strict=True)
            for row in differences.metrics
        ]
        percents = interval_title(self.differences[0].confidence)
        return Section(
            "Differences of gaps",
            rows,
            ("model", "metric", "difference", percents, "verdict"),
            f"Gap minus the gap of {self.names[0]}, on the audited interval: below 0 the model has a smaller "
            "gap. The confidence intervals are for the difference, on the same rows under both models.",
            is_open=True,
        )

    def _rank_curves(self) -> Figure:
        reports = {name: audit.report for name, audit in zip(self.names, self.audits, strict=True)}
        return draw_rank_curves(reports, self.audits[0].interval)

    def print(self, out: Console) -> None:
        """Print the gaps of all models, their differences, and how many rows enter and leave the interval."""
        audits, names = self.audits, self.names
        settings = audits[0].settings
        out.print(f"{audits[0].headline}\n")
        table = PlainTable()
        table.add_column(f"gap ({short_percent(settings.confidence)} interval)")
        for name in names:
            table.add_column(visible(name), justify="right")
        for metric, described in METRICS.items():
            cells = [_cell(audit.report, metric) for audit in audits]
            if any(cells):
                table.add_row(described.title, *(cell or "left out" for cell in cells))
        out.print(table)
        for k, compared in enumerate(self.differences, start=1):
            out.print(f"\nDoes {names[k]} have a smaller gap than {names[0]}? On the same rows:")
            differences = PlainTable()
            percents = interval_title(settings.confidence)
            for title in ("metric", f"difference from {visible(names[0])}", percents, visible(names[k])):
                differences.add_column(title, justify="right" if title.startswith("difference") else "left")
            for row in compared.metrics:
                differences.add_row(*difference_cells(row))
            out.print(differences)
        for k in range(1, len(audits)):
            out.print(f"\nRows in the interval, from {names[0]} to {names[k]}:")
            moves = PlainTable()
            moves.add_column("group")
            for title in ("in the interval", "stay", "enter", "leave"):
                moves.add_column(title, justify="right")
            for group, line in self.changes[k - 1].iterrows():
                moves.add_row(str(group), *(members_text(float(value)) for value in line))
            out.print(moves)
        for name, audit in zip(names, audits, strict=True):
            print_omitted(audit.report, out, f"left out of {name}")
        for note in dict.fromkeys(note for audit in audits for note in audit.notes):
            out.print(note_line(note))


def compare(settings: CompareSettings) -> Comparison:
    """Evaluate the scores of several models on the same rows, and on the interval of the first model."""
    tables = [read(file, settings, settings.id_column) for file in settings.files]
    first, *others = align(tables)
    audit = measure(first, settings)
    # The interval is chosen once, by the first model: gaps on different intervals are not comparable.
    if settings.interval == AUTO:
        settings = replace(settings, requested_interval=audit.interval)
    # All models use the labels, weights and groups of the first file, see `align`.
    audits = (audit, *(measure(table, settings) for table in others))
    ranking, interval = audit.evaluation.ranking, audit.interval
    return Comparison(
        audits,
        tuple(_gap_differences(audit, other) for other in audits[1:]),
        tuple(interval_changes(first.scores, table.scores, interval=interval, **ranking) for table in others),
    )


def _gap_differences(first: Audit, other: Audit) -> GapComparison:
    """Compare the gaps of two models on the same rows."""
    table, settings = first.table, first.settings
    with step(f"comparing {other.table.path} with {table.path}"):
        return compare_scores(
            settings,
            first.evaluation,
            other.table.scores,
            labels=None if table.labels is None else table.labels.to_numpy(),
            positive=first.positive,
            threshold=settings.threshold,
            rank_within=settings.rank_within,
            clusters=table.clusters,
        )


def difference_cells(row: GapDifference) -> list[str]:
    """Return the table cells of a difference: metric, difference, confidence interval and verdict."""
    metric = METRICS[row.metric]
    if np.isnan(row.difference):
        return [metric.title, f"n/a ({row.reason})" if row.reason else "undefined", "", ""]
    ends = f"{metric.text(row.ci_low)} to {metric.text(row.ci_high)}"
    return [metric.title, metric.text(row.difference), ends, row.verdict]


def align(tables: Sequence[ScoreTable]) -> list[ScoreTable]:
    """Put the rows of every table in the order of the first, and check that they are the same rows."""
    first = tables[0]
    aligned = [first]
    for table in tables[1:]:
        if first.ids is not None:
            table = _reorder(table, first)
        elif len(table.scores) != len(first.scores):
            raise InputError(
                f"{table.path} has {len(table.scores):,} rows and {first.path} has {len(first.scores):,}; "
                "compare needs the same rows in every file, so name an --id column that both have"
            )
        # A row in another group cannot be the same row.
        differ = _in_other_groups(table.groups, first.groups)
        if differ.any():
            row = int(np.argmax(differ)) + 1
            raise InputError(
                f"{table.path} puts {int(differ.sum()):,} rows into other groups than {first.path}, "
                f"or into none, the first in data row {row}; compare needs the same rows"
                + (" in the same order, or an --id column" if first.ids is None else " in the same groups")
            )
        # Columns that do not depend on the model come from the first file.
        aligned.append(
            replace(
                table,
                groups=first.groups,
                encoded=first.encoded,
                labels=first.labels,
                weights=first.weights,
                clusters=first.clusters,
            )
        )
    return aligned


def _in_other_groups(groups: pd.DataFrame, of_first: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return whether each row is in different groups; rows without a group in both tables are not."""
    known, known_first = groups.notna().to_numpy(), of_first.notna().to_numpy()
    # Missing values are unequal to each other, so their positions are compared.
    same = groups.astype(str).to_numpy() == of_first.astype(str).to_numpy()
    differ: npt.NDArray[np.bool_] = ~np.where(known & known_first, same, known == known_first).all(axis=1)
    return differ


def _reorder(table: ScoreTable, first: ScoreTable) -> ScoreTable:
    """Return the table with its rows in the first one's order of ids."""
    wanted, present = _unique_ids(first), _unique_ids(table)
    # Check both ways for ids that only one of the files has.
    for ids, others, lacking in ((wanted, present, table), (present, wanted, first)):
        absent = ids.difference(others)
        if len(absent):
            raise InputError(f"{lacking.path} lacks {absent[0]!r}; compare needs the same rows in every file")
    # From the first file's order to positions in this one.
    place = present.get_indexer(wanted)
    groups = table.groups.iloc[place].reset_index(drop=True)
    return replace(table, scores=table.scores[place], groups=groups, ids=first.ids)


def _unique_ids(table: ScoreTable) -> pd.Index[Any]:
    assert table.ids is not None
    ids: pd.Index[Any] = pd.Index(table.ids)
    if not ids.is_unique:
        repeated = ids[ids.duplicated()][0]
        raise InputError(f"column {ids.name!r} of {table.path} repeats {repeated!r}; ids must be unique")
    return ids


def _cell(report: FairnessReport, metric: str) -> str:
    """Return the table cell of one model's gap; empty if its report has none."""
    if all(row.metric != metric for row in report.metrics):
        return ""
    value, interval = gap_cells(report[metric], metric)
    return f"{value} ({interval})" if interval else value
