"""Defines the paper's tables as targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from partialfair.extension import Floats
from partialfair_paper.frontiers import Mean, curves, frontier, halve_grid, read_at
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.parts import LOADERS
from partialfair_paper.published import DATASETS, TABLE_1
from partialfair_paper.runs import Run
from partialfair_paper.store import Store
from partialfair_paper.target import Row, Scope, Target, write_mean

_SAME_FAIRNESS = 5e-5
"""Half a unit of the paper's last digit."""


@dataclass(frozen=True)
class DataTable(Target):
    """Sizes of the data sets."""

    name: str
    title: str
    datasets: Sequence[str] = tuple(TABLE_1)

    def runs(self, scope: Scope) -> list[Run]:
        """Return none: no model is fitted."""
        return []

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the paper's numbers of rows and columns next to those of the data files."""
        rows = []
        for dataset in self.of(scope):
            data = LOADERS[dataset](scope.folder)
            rows.append(
                {
                    "dataset": dataset,
                    "instances, paper": f"{TABLE_1[dataset][0]:,}",
                    "instances, here": f"{len(data.y):,}",
                    "attributes, paper": TABLE_1[dataset][1],
                    "features, here": len(data.feature_names),
                    "label": data.target_name,
                    "groups": ", ".join(map(str, data.sensitive_features.cat.categories)),
                }
            )
        return rows


@dataclass(frozen=True)
class PrintedRows(Target):
    """A table of fairness and accuracy: the paper's values next to partialfair's at the same fairness.

    Attributes
    ----------
    columns
        Methods and numbers of points, with the values that the paper prints, by data set.
    """

    name: str
    title: str
    columns: tuple[tuple[str, int, dict[str, Any]], ...]
    datasets: Sequence[str] = DATASETS

    def tolerances(self, question: Question, method: Method) -> tuple[float | None, ...]:
        """Return the grid of a column.

        Models with the same κ do not have the same fairness, so frontiers are interpolated. Interpolation
        between the paper's κ underestimates the accuracy, so the fast protocol also solves for the values
        between them.
        """
        own = method.tolerances(question.dataset, question.fairness)
        return halve_grid(own) if method.protocol == "fast" else own

    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of the columns and of the unconstrained model."""
        runs = []
        for dataset in self.of(scope):
            for name, n_points, _ in self.columns:
                question, method = scope.question(dataset, "pSP", n_points=n_points), scope.method(name)
                runs += METHODS["unconstrained"].runs(question)
                runs += method.runs(question, self.tolerances(question, method))
        return runs

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return partialfair's accuracy at the fairness of the paper's rows; bank compares changes."""
        rows = []
        for dataset in self.of(scope):
            for name, n_points, printed in self.columns:
                question = scope.question(dataset, "pSP", n_points=n_points)
                free = frontier(store, question, METHODS["unconstrained"])
                method = scope.method(name)
                lines = curves(store, question, method, self.tolerances(question, method))
                if not free or not lines:
                    continue
                first, *others = printed[dataset]
                # The paper's encoding of bank is not known, so only changes can be compared.
                offset = first.accuracy - free[0].accuracy.value if dataset == "bank" else 0.0
                ours = {"dataset": dataset, "method": method.label, "points": n_points}
                rows.append(
                    {
                        **ours,
                        "κ": "none",
                        "fairness": f"{first.fairness:.4f}",
                        "paper": f"{first.accuracy:.4f}",
                        "partialfair": write_mean(free[0].accuracy),
                        "difference": f"{free[0].accuracy.value - first.accuracy:+.4f}",
                        "difference / SE": _in_errors(free[0].accuracy, first.accuracy),
                        "evaluated at": f"{free[0].fairness.value:.4f}",
                    }
                )
                for row in others:
                    read = Mean.of(read_at(line, row.fairness) + offset for line in lines.values())
                    rows.append(
                        {
                            **ours,
                            "κ": "" if row.max_gap is None else f"{row.max_gap:g}",
                            "fairness": f"{row.fairness:.4f}",
                            "paper": f"{row.accuracy:.4f}",
                            "partialfair": write_mean(read),
                            "difference": f"{read.value - row.accuracy:+.4f}",
                            "difference / SE": _in_errors(read, row.accuracy),
                            "evaluated at": _describe_reach(lines.values(), row.fairness),
                        }
                    )
        return rows


def _describe_reach(lines: Iterable[Floats], fairness: float) -> str:
    """Return the fairness at which frontiers are evaluated, if they end before the paper's fairness."""
    reached = fmean(float(np.clip(fairness, line[0, 0], line[-1, 0])) for line in lines)
    return "" if abs(reached - fairness) < _SAME_FAIRNESS else f"{reached:.4f}"


def _in_errors(mean: Mean, printed: float) -> str:
    return "" if np.isnan(mean.error) else f"{(mean.value - printed) / mean.error:+.1f}"
