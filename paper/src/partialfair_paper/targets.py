"""Lists the paper's figures and tables by label; a new one is one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partialfair.exceptions import InputError
from partialfair_paper.figures import (
    Convergence,
    Densities,
    Frontiers,
    Networks,
    RankCurves,
    Robustness,
)
from partialfair_paper.published import DATASETS, TABLE_2, TABLE_3, TABLE_4
from partialfair_paper.tables import DataTable, PrintedRows
from partialfair_paper.target import Target

_NAMES = {"a9a": "a9a", "bank": "bank", "law_school": "law school"}

_ACS: tuple[tuple[str, int, dict[str, Any]], ...] = tuple(
    (name, 10, {"acs_income": rows}) for name, rows in TABLE_2.items()
)
_TEN, _TWENTY = ({data: by_points[n] for data, by_points in TABLE_4.items()} for n in (10, 20))

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Frontiers("fig1", "Pareto frontiers of accuracy against pSP and pDP fairness"),
        RankCurves("fig2", "Positive rates of one group against those of the other, by κ"),
        *(
            Densities(
                f"fig{number}",
                f"Score densities on {_NAMES[dataset]} by κ ({fairness})",
                fairness,
                (dataset,),
            )
            for number, (fairness, dataset) in enumerate(
                [(fairness, dataset) for fairness in ("pSP", "pDP") for dataset in DATASETS], start=3
            )
        ),
        Robustness("fig9", "Fairness on several intervals at the same accuracy"),
        Convergence("fig10", "IDCA, SSG and our engine on pSP constraints", "pSP"),
        Convergence("fig11", "IDCA, SSG and our engine on pDP constraints", "pDP"),
        Networks("fig12", "ResNet-18s on faces, constrained on the interval and on all ranks"),
        DataTable("table1", "Statistics of the datasets"),
        PrintedRows("table2", "Pairwise baselines and partial parity on ACS", _ACS, ("acs_income",)),
        PrintedRows(
            "table3",
            "Full against partial statistical parity",
            (("full-parity", 10, dict(TABLE_3)), ("ours", 10, _TEN)),
        ),
        PrintedRows("table4", "Ten against twenty points", (("ours", 20, _TWENTY), ("ours", 10, _TEN))),
    )
}
"""Targets by label."""


def find_targets(names: Sequence[str]) -> list[Target]:
    """Return targets by label, each once; ``all`` stands for those that need no GPU."""
    if "all" in names:
        names = [*(name for name in TARGETS if not isinstance(TARGETS[name], Networks)), *names]
        names = [name for name in names if name != "all"]
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise InputError(f"there is no target {unknown[0]!r}; choose among {', '.join(TARGETS)}, and all")
    return [TARGETS[name] for name in dict.fromkeys(names)]
