"""``partialfair demo``: the main job on made data, nothing to download.

A table of applicants; an ordinary model, which ranks the regions unlike in the contested band; models that
may do so less and less; and what that costs, on applicants that none of them has seen.
"""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from rich.console import Console

from partialfair.cli._csv import csv_text
from partialfair.cli._path import FILES as PATH_FILES
from partialfair.cli._path import Frontier, PathSettings, trace
from partialfair.cli._prepare import Roles
from partialfair.cli._reports import parity_sentence
from partialfair.cli.output import command_name, rank_curves
from partialfair.cli.writing import Content
from partialfair.datasets import make_admissions
from partialfair.estimators.path import PathPoint
from partialfair.metrics import rank_curve, unfairness_map
from partialfair.plotting import plot_unfairness_map
from partialfair.utils.files import scratch
from partialfair.utils.text import fixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "PAGE", "Demo", "by_hand", "print_demo", "run"]

TABLE, PAGE = "people.csv", "demo.html"
_CURVES, _MAP = "rank_curves.png", "unfairness_map.png"
FILES = (TABLE, _CURVES, _MAP, *PATH_FILES)
"""What is written, the record last."""

_N_PEOPLE = 20_000
"""Of whom a fifth is held out: enough for gaps that can be told from chance, few enough for seconds."""
_TARGET, _GROUP, _INTERVAL = "admitted", "origin", (0.15, 0.40)
_MAX_GAPS, _SHOWN = (0.05, 0.1, 0.2), 0.1


@dataclass(frozen=True, eq=False)
class Demo:
    """The table that was made, and the models that were trained on it."""

    people: str
    frontier: Frontier

    @property
    def before(self) -> PathPoint:
        """The model without a constraint."""
        return self.frontier.models.points[0]

    @property
    def after(self) -> PathPoint:
        """The model that is shown beside it."""
        return next(point for point in self.frontier.models.points if point.max_gap == _SHOWN)

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON, as ``path`` does."""
        return self.frontier.record()

    def files(self) -> dict[str, Content]:
        """Return what is written beside the record."""
        return {TABLE: self.people, _CURVES: self._curves, _MAP: self._map, **self.frontier.files()}

    def page(self) -> str:
        """Return the interactive page: the frontier, and every model on it."""
        return self.frontier.page()

    def _curves(self) -> Figure:
        groups = self.frontier.prepared.parts["held out"].groups
        curves = {
            name: rank_curve(point.scores, sensitive_features=groups)
            for name, point in (("no constraint", self.before), (f"max gap {_SHOWN:g}", self.after))
        }
        return rank_curves(curves, reference=groups.labels[groups.names.index("North")], interval=_INTERVAL)

    def _map(self) -> Figure:
        groups = self.frontier.prepared.parts["held out"].groups
        unfairness = unfairness_map(self.before.scores, sensitive_features=groups, n_grid=100)
        title = "Unfairness map of the model without a constraint"
        return cast("Figure", plot_unfairness_map(unfairness, interval=_INTERVAL, title=title).figure)


def run(out: Path, seed: int) -> Demo:
    """Make a table, and trace the path of models that ``partialfair path`` would trace on it."""
    people = _people(seed)
    settings = PathSettings(
        interval=_INTERVAL,
        interval_given=True,
        gap_scale="interval",
        confidence=0.95,
        higher_is_better=True,
        min_group_size=10,
        small_groups="list",
        missing_groups="error",
        pos_label="yes",
        seed=seed,
        constraint="statistical_parity",
        enforce="exact",
        group_terms=None,
        time_limit=None,
        max_gaps=_MAX_GAPS,
        alphas=(1e-4,),
        validation=0.2,
        scoring="accuracy",
        best=None,
    )
    settings.check()
    with scratch(Path(tempfile.gettempdir())) as directory:  # the table is written with all the rest
        draft = directory / TABLE
        draft.write_text(people, encoding="utf-8")
        frontier = trace(draft, Roles(_TARGET, (_GROUP,), None, (), (), ()), settings)
    return Demo(people, replace(frontier, prepared=replace(frontier.prepared, path=out / TABLE)))


def _people(seed: int) -> str:
    """Return the applicants as a CSV file."""
    data = make_admissions(_N_PEOPLE, seed=seed)
    assert isinstance(data.X, pd.DataFrame)
    table = data.X.copy()
    table[_GROUP] = data.sensitive_features
    table[_TARGET] = ["yes" if positive else "no" for positive in data.y]
    return csv_text(table)


def print_demo(demo: Demo, out: Console) -> None:
    """Print before and after, then the models between them."""
    frontier, confidence = demo.frontier, demo.frontier.settings.confidence
    for title, point in (("Before, no constraint", demo.before), (f"After, max gap {_SHOWN:g}", demo.after)):
        report = frontier.models.report(point, confidence)
        out.print(f"{title}: accuracy {fixed(point.score)} on applicants held out.", style="bold")
        out.print(f"{parity_sentence(report)}\n")
    out.print("What fairness costs, model by model:")
    out.print(frontier.table())


def by_hand(out: Path, seed: int) -> str:
    """Return the commands that do the same."""
    low, high = _INTERVAL
    table = shlex.quote(str(out / TABLE))
    options = f"--target {_TARGET} --group {_GROUP} --interval {low:g} {high:g}"
    gaps = ",".join(f"{gap:g}" for gap in _MAX_GAPS)
    again = f" --seed {seed}" if seed else ""
    return (
        "On the page: the frontier, and every model at any other interval.\n\n"
        "The same by hand, with any table of yours:\n"
        f"  {command_name()} path {table} {options} --max-gaps {gaps}{again} --report path.html\n"
        f"  {command_name()} train {table} {options} --max-gap {_SHOWN:g}{again} --out model"
    )
