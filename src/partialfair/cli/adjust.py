"""``partialfair adjust``: post-processing of scores, by new maps or by the maps of an earlier run."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console

from partialfair.cli.columns import ColumnNames, ScoreTable, find_positive_label, read_scores
from partialfair.cli.intervals import AUTO, WHOLE_GROUPS, by_label, interval_record
from partialfair.cli.output import Content, as_options, csv_text, echo, step
from partialfair.cli.report_text import gap_sentence
from partialfair.cli.settings import AdjustSettings
from partialfair.cli.verdict import Change
from partialfair.data.groups import Groups, group_name
from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics import fairness_report
from partialfair.metrics.report import FairnessReport
from partialfair.plotting.scores import plot_score_maps
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.postprocessing.fitting import Adjustment
from partialfair.postprocessing.maps import ScoreMap, maps_frame, maps_record
from partialfair.utils.checks import shown
from partialfair.utils.typing import Floats, GapScale, IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = ("adjusted.csv", "map.csv", "map.json", "score_maps.png", "adjust.json")
"""The files of ``--out``, the record last; with ``--apply`` only the first and the last."""

ADDED = "adjusted_score"


@dataclass(frozen=True)
class Purpose:
    """The settings that maps were made for, which ``map.json`` contains for later use.

    Attributes
    ----------
    interval, threshold, gap_scale, higher_is_better
        The settings of the command; intervals by group are keyed by names of groups.
    """

    interval: IntervalLike
    threshold: float | None
    gap_scale: GapScale
    higher_is_better: bool

    @property
    def metric(self) -> str:
        """The metric of the gap."""
        return "statistical_parity" if self.threshold is None else "demographic_parity"

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**vars(self), "interval": interval_record(self.interval)}

    @classmethod
    def of(cls, settings: AdjustSettings) -> Purpose:
        """Return the requested settings, or those of the map that is applied."""
        if settings.apply_map is not None:
            return cls.read(settings.apply_map)
        assert settings.interval != AUTO
        return cls(settings.interval, settings.threshold, settings.gap_scale, settings.higher_is_better)

    @classmethod
    def read(cls, path: Path) -> Purpose:
        """Read the settings of the maps of a file; the whole range if the file has none."""
        record = json.loads(path.read_bytes()).get("made_for")
        if record is None:  # a file that the library wrote
            return cls(WHOLE_GROUPS, None, "interval", True)
        try:
            made_for = cls(**{**record, "interval": _read_interval(record["interval"])})
            known = made_for.gap_scale in ("interval", "absolute") and type(made_for.higher_is_better) is bool
            if not known or not (made_for.threshold is None or np.isfinite(float(made_for.threshold))):
                raise ValueError
        except (InputError, TypeError, ValueError, KeyError, RecursionError):
            raise InputError(f"{path} is damaged: it has no settings that its maps were made for") from None
        return made_for

    def measure(self, table: ScoreTable, scores: Floats, settings: AdjustSettings) -> FairnessReport:
        """Return the report of scores of a table."""
        groups, interval = table.encoded, self.interval
        if isinstance(interval, dict):
            interval = {name: interval[name] for name in groups.names if name in interval}
        return fairness_report(
            None,
            scores,
            sensitive_features=groups,
            interval=by_label(interval, groups),
            threshold=self.threshold,
            gap_scale=self.gap_scale,
            higher_is_better=self.higher_is_better,
            sample_weight=table.weights,
            min_group_size=settings.min_group_size,
            missing_groups=settings.missing_groups,
            random_state=0,
            metrics=[self.metric],
        )


def _read_interval(value: Any) -> Any:
    """Return an interval from JSON: two numbers, a list of pairs, or either by name of the group."""
    if isinstance(value, dict):
        return {name: _read_interval(parts) for name, parts in value.items()}
    interval = [tuple(part) for part in value] if isinstance(value[0], list) else tuple(value)
    as_interval_set(interval)  # raises an error for an invalid interval
    return interval


@dataclass(frozen=True, eq=False)
class AdjustedTable:
    """Scores before and after the adjustment, with the maps.

    Attributes
    ----------
    path, settings
        The file, and the settings of the command.
    table
        Ids, groups, labels, original and adjusted scores.
    maps
        The maps of all groups.
    result
        The result of the adjustment; None if a map was applied.
    purpose
        The settings that the maps were made for, under which gaps are evaluated.
    gaps
        The reports of the original and the adjusted scores; None unless a map was applied.
    change
        The largest gap outside the interval, before and after.
    notes
        Warnings and remarks.
    """

    path: Path
    settings: AdjustSettings
    table: pd.DataFrame
    maps: tuple[ScoreMap, ...]
    result: Adjustment | None
    purpose: Purpose
    gaps: tuple[FairnessReport, FairnessReport] | None
    change: Change
    notes: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """The lines of text to print, the answer first."""
        if self.result is None:
            moved = f"{len(self.table):,} scores of {self.path} adjusted by {self.settings.apply_map}"
            measured = [
                f"{when}: {gap_sentence(report, self.purpose.metric, unseen=True)}"
                for when, report in zip(("before", "after"), self.gaps or (), strict=False)
            ]
            return [moved, *measured, *self._elsewhere(unseen=True), *self.notes]
        where = self.settings.words(self.settings.interval)
        lines = str(self.result).splitlines()
        return [f"{self.path}: {where}", *lines, *self._elsewhere(unseen=False), *self.notes]

    def _elsewhere(self, *, unseen: bool) -> list[str]:
        sentence = self.change.elsewhere_sentence(unseen=unseen)
        return [] if sentence is None else [sentence]

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
        record: dict[str, Any] = {
            "schema": "partialfair.adjust/1",
            "file": str(self.path),
            "rows": len(self.table),
            "groups": [group_name(one.group) for one in self.maps],
            "notes": list(self.notes),
        }
        record["outside_the_interval"] = self.change.record()["outside_the_interval"]
        if self.result is None:
            metric = self.purpose.metric
            before, after = (None, None) if self.gaps is None else (each[metric].gap for each in self.gaps)
            measured = {"metric": metric, "gap_before": before, "gap": after}
            interval = interval_record(self.purpose.interval)
            return {**record, "applied": str(self.settings.apply_map), "interval": interval, **measured}
        result = self.result
        return {
            **record,
            "interval": interval_record(self.settings.interval),
            "constraint": result.constraint,
            "threshold": self.settings.threshold,
            "max_gap": result.max_gap,
            "gap_scale": result.gap_scale,
            "higher_is_better": self.settings.higher_is_better,
            "gap_before": result.gap_before,
            "gap": result.gap,
            "worst_pair": [group_name(label) for label in result.worst.groups],
            "floor": result.floor,
            "mean_squared_change": result.mean_squared_change,
            "largest_change": result.largest_change,
            "moved_share": result.moved_share,
            "moved_outside": result.n_moved_outside,
            "small_groups": [group_name(label) for label in result.small_groups],
            "calibration": _calibration_record(result),
            "map": "map.json",
        }

    def files(self) -> dict[str, Content]:
        """Return the files of ``--out`` besides the record."""
        scores = csv_text(self.table)
        if self.result is None:
            return {"adjusted.csv": scores}
        return {
            "adjusted.csv": scores,
            "map.csv": csv_text(maps_frame(self.maps)),
            "map.json": json.dumps({**maps_record(self.maps), "made_for": self.purpose.record()}, indent=1),
            "score_maps.png": self._picture,
        }

    def page(self) -> str:
        """Return an empty text: ``adjust`` has no HTML report."""
        return ""

    def print(self, out: Console) -> None:
        """Print the result."""
        for sentence in self.sentences:
            echo(sentence)

    def _picture(self) -> Figure:
        figure: Figure = plot_score_maps(self.maps).figure  # type: ignore[assignment]
        return figure


def _calibration_record(result: Adjustment) -> list[dict[str, Any]] | None:
    if result.calibration is None or result.calibration_before is None:
        return None
    return [
        {
            "group": group_name(new.group),
            "error_before": old.error,
            "error": new.error,
            "difference_before": old.difference,
            "difference": new.difference,
        }
        for old, new in zip(result.calibration_before.groups, result.calibration.groups, strict=True)
    ]


def adjust(settings: AdjustSettings) -> AdjustedTable:
    """Compute maps for a table of scores, or apply existing maps to it."""
    names = (settings.score, tuple(settings.group), settings.label, settings.weight, settings.id_column)
    with step(f"reading {settings.file}"):
        table = read_scores(
            settings.file, ColumnNames(*names), settings.missing_groups, compared=settings.apply_map is None
        )
    with step(f"adjusting {len(table.scores):,} scores"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            adjuster, scores = _move_scores(table, settings)
        except InputError as error:
            raise InputError(as_options(str(error))) from None  # it names parameters
        purpose = Purpose.of(settings)
    notes = tuple(dict.fromkeys(as_options(str(warning.message)) for warning in caught))
    result = getattr(adjuster, "result_", None)
    gaps, change = None, Change()
    with step("measuring gaps"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before, after = (purpose.measure(table, each, settings) for each in (table.scores, scores))
            change = Change.between(before, after, None)
            if result is None and purpose.metric not in {**before.omitted, **after.omitted}:
                gaps = (before, after)
        except InputError as error:  # for example rows of one group, whose scores are adjusted nevertheless
            notes = (*notes, f"gaps are not evaluated: {as_options(str(error))}")
    columns = _columns(table, settings.score, scores)
    return AdjustedTable(table.path, settings, columns, adjuster.maps_, result, purpose, gaps, change, notes)


def _move_scores(table: ScoreTable, settings: AdjustSettings) -> tuple[PartialParityAdjuster, Floats]:
    groups = table.encoded
    if settings.apply_map is not None:
        # The map is checked as any untrusted file.
        adjuster = PartialParityAdjuster.from_json(settings.apply_map)
        adjuster.set_params(missing_groups=settings.missing_groups)
        return adjuster, adjuster.transform(
            table.scores, _match_groups(groups, adjuster.maps_, table, settings)
        )
    assert settings.max_gap is not None
    assert settings.interval != AUTO
    adjuster = PartialParityAdjuster(
        by_label(settings.interval, groups),
        settings.max_gap,
        constraint="statistical_parity" if settings.threshold is None else "demographic_parity",
        constraint_threshold=settings.threshold,
        gap_scale=settings.gap_scale,
        score_range=settings.score_range,
        higher_is_better=settings.higher_is_better,
        min_group_size=settings.min_group_size,
        missing_groups=settings.missing_groups,
        max_knots=settings.max_knots,
    )
    positive = None
    if table.labels is not None:
        label = find_positive_label(table.labels, table.path, settings.pos_label)
        positive = (table.labels == label.value).to_numpy(dtype=np.int64)
    # Labels only measure calibration; maps depend on scores and groups.
    adjuster.fit(table.scores, positive, sensitive_features=groups, sample_weight=table.weights)
    return adjuster, adjuster.transform(table.scores, groups)


def _match_groups(
    groups: Groups, maps: tuple[ScoreMap, ...], table: ScoreTable, settings: AdjustSettings
) -> Groups:
    """Return the groups of a file as the groups of a map with the same names."""
    # A map identifies groups by name, and labels of this file may have other types.
    position = {group_name(one.group): k for k, one in enumerate(maps)}
    for name in groups.names:
        if name not in position:
            raise InputError(
                f"group {shown(name)} of {table.path} has no map in {settings.apply_map}, which has "
                f"{', '.join(map(shown, list(position)[:12]))}"
            )
    return groups.regroup([position[name] for name in groups.names], tuple(one.group for one in maps))


def _columns(table: ScoreTable, score: str, scores: Floats) -> pd.DataFrame:
    """Return the columns to write; raise an error if the table has a column of that name already."""
    # The same order as in a file that `audit` reads: ids, groups, label, scores.
    columns: dict[str, Any] = {} if table.ids is None else {str(table.ids.name): table.ids}
    columns |= {str(name): table.groups[name] for name in table.groups.columns}
    if table.labels is not None:
        columns[str(table.labels.name)] = table.labels
    columns[score] = table.scores
    if ADDED in columns:
        raise InputError(f"{table.path} has a column {ADDED!r}, which adjust would write; rename it")
    return pd.DataFrame({**columns, ADDED: scores})
