"""What commands print and write: tables, sentences, JSON, pictures."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from partialfair.exceptions import InputError
from partialfair.groups import group_name
from partialfair.intervals import IntervalSet
from partialfair.metrics import FairnessReport, ReportRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "METRIC_TITLES",
    "check_out",
    "console",
    "groups_table",
    "json_text",
    "metrics_table",
    "parity_sentence",
    "report_record",
    "step",
    "write_all",
]

METRIC_TITLES = {
    "statistical_parity": "statistical parity (pSP)",
    "demographic_parity": "demographic parity (pDP)",
    "group_auc": "group AUC (pGAUC)",
    "equal_opportunity": "equal opportunity (pEOP)",
    "equalized_odds": "equalized odds (pEOD)",
    "inter_group_pairwise": "inter-group pairwise (all ranks)",
    "intra_group_pairwise": "intra-group pairwise (all ranks)",
}

_logger = logging.getLogger("partialfair")


def console() -> Console:
    """Return a console for standard output; wide enough for its tables when it is not a terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@contextmanager
def step(message: str) -> Iterator[None]:
    """Show what is being done: a spinner on a terminal, a log line elsewhere; always on standard error."""
    terminal = Console(stderr=True)
    if terminal.is_terminal:
        with terminal.status(escape(message)):
            yield
    else:
        _logger.info("%s", message)
        yield


def metrics_table(report: FairnessReport) -> Table:
    """Return one line per metric, with the confidence interval and where the worst pair differs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("metric", "gap", f"{100 * report.confidence:g} % interval", "worst pair", "where"):
        table.add_column(title, justify="right" if title == "gap" else "left")
    for row in report.rows:
        table.add_row(METRIC_TITLES[row.metric], *_value_cells(row), _pair(row), _where(row))
    return table


def groups_table(report: FairnessReport) -> Table:
    """Return one line per group."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("group")
    for title in ("members", "in the interval", "tied scores"):
        table.add_column(title, justify="right")
    for group in report.groups:
        table.add_row(
            escape(group_name(group.group)),
            f"{group.n:,}",
            f"{group.n_in_interval:,.0f}",
            f"{100 * group.tied_share:.0f} %",
        )
    return table


def parity_sentence(report: FairnessReport) -> str:
    """Say in words where the worst pair of the statistical-parity gap differs, and by how much."""
    row = report["statistical_parity"]
    first, second = row.groups
    intervals = {group.group: IntervalSet(group.interval) for group in report.groups}
    shares = [_percent(rank) for rank in row.ranks]
    if report.gap_scale == "interval":
        shares = [
            _percent(float(intervals[label].passed(np.array(rank))))
            for label, rank in zip(row.groups, row.ranks, strict=True)
        ]
    if intervals[first] == intervals[second]:
        among = f"Among {intervals[first]} of each group"
    else:
        among = "Among each group's interval"
    if report.gap_scale == "absolute":
        among = f"Where a rank lies in {intervals[first]}"
    return (
        f"{among}, {shares[0]} of {group_name(first)} but {shares[1]} of {group_name(second)} score above "
        f"{row.threshold:.4g}: a gap of {row.value:.3f} ({100 * report.confidence:g} % interval "
        f"{row.low:.3f} to {row.high:.3f})."
    )


def report_record(report: FairnessReport) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    return {
        "gap_scale": report.gap_scale,
        "rank_within": report.rank_within,
        "threshold": report.threshold,
        "confidence": report.confidence,
        "metrics": {
            row.metric: {
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "worst_pair": [group_name(label) for label in row.groups],
                "score": row.threshold,
                "ranks_from_top": list(row.ranks),
                "n": list(row.sizes),
            }
            for row in report.rows
        },
        "omitted": report.omitted,
        "groups": [
            {
                "group": group_name(group.group),
                "n": group.n,
                "n_effective": group.n_effective,
                "n_in_interval": group.n_in_interval,
                "tied_share": group.tied_share,
                "interval": [list(part) for part in group.interval],
            }
            for group in report.groups
        ],
    }


def json_text(record: Mapping[str, Any]) -> str:
    """Return strict JSON: what is undefined or infinite is null."""
    return json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False)


def check_out(out: Path | None) -> None:
    """Refuse, before any work, an output directory that cannot be one."""
    if out is None:
        return
    existing = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"--out {out} cannot be made a directory, because {existing} is a file")


def write_all(out: Path, files: Mapping[str, str | Callable[[], Figure]]) -> list[Path]:
    """Write texts and figures into a directory; called when everything else has succeeded."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, content in files.items():
            path = out / name
            if isinstance(content, str):
                path.write_text(content, encoding="utf-8")
            else:
                _save(content(), path)
            paths.append(path)
    except OSError as error:
        raise InputError(f"cannot write to --out {out}: {error.strerror}") from error
    return paths


def _save(figure: Figure, path: Path) -> None:
    from matplotlib import pyplot

    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def _value_cells(row: ReportRow) -> tuple[str, str]:
    if np.isnan(row.value):
        return "undefined", ""
    return f"{row.value:.3f}", f"{row.low:.3f} – {row.high:.3f}"


def _pair(row: ReportRow) -> str:
    return escape(" / ".join(group_name(label) for label in row.groups))


def _where(row: ReportRow) -> str:
    if np.isnan(row.threshold):
        return ""
    ranks = " / ".join(_percent(rank) for rank in row.ranks)
    return f"score {row.threshold:.4g}, {ranks} above it"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
