"""``partialfair demo``: an example on synthetic data, without a download.

The command generates a table of applicants, and trains an unconstrained model, which ranks the regions
differently in one interval, and models with decreasing limits. Held-out applicants show what these cost.
"""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from rich.console import Console

from partialfair.cli.output import Content, command_name, csv_text
from partialfair.cli.path import FILES as PATH_FILES
from partialfair.cli.path import Frontier, trace
from partialfair.cli.pictures import draw_rank_curves
from partialfair.cli.prepare import HELD_OUT
from partialfair.cli.settings import DemoSettings, PathSettings
from partialfair.datasets import make_admissions
from partialfair.metrics import unfairness_map
from partialfair.plotting.ranks import plot_unfairness_map
from partialfair.utils.files import scratch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, PAGE = "people.csv", "demo.html"
_CURVES, _MAP = "rank_curves.png", "unfairness_map.png"
FILES = (TABLE, _CURVES, _MAP, *PATH_FILES)
"""The files that are written, the record last."""

_N_ROWS = 20_000
"""A fifth of the rows is held out: enough to detect the gaps, and few enough to run in seconds."""
# The interval in which the synthetic data treat applicants differently.
_TARGET, _GROUP, _INTERVAL = "admitted", "origin", (0.15, 0.40)
_MAX_GAPS, _SHOWN = (0.05, 0.1, 0.2), 0.1


@dataclass(frozen=True, eq=False)
class Demo:
    """The synthetic table as CSV, and the models that were trained on it."""

    settings: DemoSettings
    table: str
    frontier: Frontier

    def record(self) -> dict[str, Any]:
        """Return the record of ``path`` for JSON."""
        return self.frontier.record()

    def files(self) -> dict[str, Content]:
        """Return the files besides the record."""
        return {TABLE: self.table, _CURVES: self._curves, _MAP: self._map, **self.frontier.files()}

    def page(self) -> str:
        """Return the HTML report: the frontier, and every model on it."""
        return self.frontier.page()

    def _curves(self) -> Figure:
        models, confidence = self.frontier.models, self.frontier.settings.confidence
        reports = {point.allowed: models.report(point, confidence) for point in self.frontier.sides}
        return draw_rank_curves(reports, _INTERVAL)

    def _map(self) -> Figure:
        groups = self.frontier.prepared.parts[HELD_OUT].groups
        unfairness = unfairness_map(self.frontier.sides[0].scores, sensitive_features=groups, n_grid=100)
        title = "Unfairness map of the model without a constraint"
        return cast("Figure", plot_unfairness_map(unfairness, interval=_INTERVAL, title=title).figure)

    def print(self, out: Console) -> None:
        """Print the models before and after, then all models."""
        self.frontier.print_before_after(out)
        out.print("What fairness costs, model by model:")
        out.print(self.frontier.table())

    def commands(self) -> str:
        """Return the commands that give the same results."""
        low, high = _INTERVAL
        table, seed = shlex.quote(str(self.settings.out / TABLE)), self.settings.seed
        options = f"--target {_TARGET} --group {_GROUP} --interval {low:g} {high:g}"
        gaps = ",".join(f"{gap:g}" for gap in _MAX_GAPS)
        again = f" --seed {seed}" if seed else ""
        return (
            "The HTML report shows the frontier, and every model on any other interval.\n\n"
            "The same commands for your own table:\n"
            f"  {command_name()} path {table} {options} --max-gaps {gaps}{again} --report path.html\n"
            f"  {command_name()} train {table} {options} --max-gap {_SHOWN:g}{again} --out model\n"
            "path gives the numbers above. train fits one limit alone, while path also starts from its "
            "models with\nother limits: gap and accuracy may differ slightly."
        )


def run(settings: DemoSettings) -> Demo:
    """Generate a table, and train the models that ``partialfair path`` would train on it."""
    data = make_admissions(_N_ROWS, seed=settings.seed)
    assert isinstance(data.X, pd.DataFrame)
    frame = data.X.copy()
    frame[_GROUP] = data.sensitive_features
    frame[_TARGET] = ["yes" if positive else "no" for positive in data.y]
    table = csv_text(frame)
    with scratch(
        Path(tempfile.gettempdir())
    ) as directory:  # the table is written later, with the other files
        draft = directory / TABLE
        draft.write_text(table, encoding="utf-8")
        path_settings = PathSettings(
            file=draft,
            target=_TARGET,
            group=[_GROUP],
            pos_label="yes",
            requested_interval=_INTERVAL,
            max_gaps=_MAX_GAPS,
            seed=settings.seed,
        )
        path_settings.check()
        frontier = trace(path_settings, shown=_SHOWN)
    # Reports name the final file instead of the draft.
    prepared = replace(frontier.prepared, path=settings.out / TABLE)
    return Demo(settings, table, replace(frontier, prepared=prepared))
