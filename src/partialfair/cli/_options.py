"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from partialfair.constraints import CONSTRAINTS

__all__ = [
    "AsJson",
    "Categories",
    "Confidence",
    "ConstraintName",
    "Dropped",
    "Enforce",
    "Enforcement",
    "FailAbove",
    "Group",
    "GroupTerms",
    "Ids",
    "Intervals",
    "Label",
    "LowerIsBetter",
    "MinGroup",
    "Missing",
    "MissingGroups",
    "Out",
    "PosLabel",
    "RankWithin",
    "Report",
    "Scale",
    "Scales",
    "Score",
    "Seed",
    "Small",
    "SmallGroups",
    "Table",
    "Target",
    "Terms",
    "Threshold",
    "TimeLimit",
    "Verbose",
    "Weight",
    "Within",
]


_LARGEST_SEED = 2**32 - 1
"""What the generators of scikit-learn take."""


class Scales(StrEnum):
    """Values of ``--gap-scale``."""

    interval = "interval"
    absolute = "absolute"


class RankWithin(StrEnum):
    """Values of ``--rank-within``."""

    group = "group"
    group_and_label = "group_and_label"


class GroupTerms(StrEnum):
    """Values of ``--group-terms``."""

    none = "none"
    intercept = "intercept"
    interactions = "interactions"

    @property
    def terms(self) -> Literal["intercept", "interactions"] | None:
        """What the estimators call it."""
        if self is GroupTerms.intercept:
            return "intercept"
        return "interactions" if self is GroupTerms.interactions else None


class SmallGroups(StrEnum):
    """Values of ``--small-groups``."""

    list = "list"
    merge = "merge"
    keep = "keep"


class MissingGroups(StrEnum):
    """Values of ``--missing-groups``."""

    error = "error"
    ignore = "ignore"


class Enforcement(StrEnum):
    """Values of ``--enforce``."""

    exact = "exact"
    surrogate = "surrogate"


Table = Annotated[
    Path, typer.Argument(readable=False, help="CSV, Parquet or Arrow file with one row per person.")
]
Score = Annotated[
    str, typer.Option("--score", help="Column with the scores; higher is better, or see --lower-is-better.")
]
Target = Annotated[str, typer.Option("--target", help="Column to predict, of two classes.")]
Group = Annotated[
    list[str], typer.Option("--group", help="Column with the group; repeat it to cross several.")
]
Label = Annotated[str | None, typer.Option("--label", help="Column with the true label, of two classes.")]
PosLabel = Annotated[
    str | None,
    typer.Option(
        "--pos-label",
        help="The positive label; by default what the names say, else the larger.",
    ),
]
Weight = Annotated[str | None, typer.Option("--weight", help="Column with sample weights.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column that identifies a person: no feature, but kept by predict."),
]
Dropped = Annotated[
    list[str] | None, typer.Option("--drop", help="Column that is not to be a feature; repeat it.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option("--category", help="Column of numbers that are codes of categories; repeat it."),
]
Intervals = Annotated[
    list[str] | None,
    typer.Option(
        "--interval",
        metavar="LOW HIGH",
        help="Ranks from the top: 0.05 0.30 are score percentiles 70–95. Repeat it for a union; "
        "WOMEN=0.05 0.30 is for one group; auto chooses. Default: everybody.",
    ),
]
LowerIsBetter = Annotated[
    bool,
    typer.Option(
        "--lower-is-better",
        help="Low scores are the good ones (risk, default): the interval counts from the lowest.",
    ),
]
MinGroup = Annotated[
    int,
    typer.Option(
        "--min-group", help="Fewest effective members inside the interval for a group to be judged."
    ),
]
Small = Annotated[
    SmallGroups,
    typer.Option("--small-groups", help="Groups with fewer: list them, merge them into one, or keep them."),
]
Missing = Annotated[
    MissingGroups,
    typer.Option(
        "--missing-groups", help="Rows without a group: an error, or ignored wherever ranks are taken."
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Also say how the fit went: steps, objective, certificate.")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        help="Score above which (with --lower-is-better: below which) a person is selected; has no default.",
    ),
]
ConstraintName = Annotated[
    str,
    typer.Option("--constraint", help=f"What is bounded: {', '.join(CONSTRAINTS)}; or, in train, none."),
]
Scale = Annotated[
    Scales,
    typer.Option("--gap-scale", help="'interval' is the definition, 'absolute' what the paper's tables use."),
]
Within = Annotated[
    RankWithin, typer.Option("--rank-within", help="Where equal opportunity and odds take ranks.")
]
Enforce = Annotated[
    Enforcement,
    typer.Option(
        "--enforce",
        help="'exact' bounds the gap itself on the training rows, 'surrogate' the paper's smooth stand-in.",
    ),
]
Terms = Annotated[
    GroupTerms,
    typer.Option("--group-terms", help="Whether the model may use the group; it then needs it to score."),
]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", help="Seconds after which a fit ends.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Coverage of the confidence intervals.")]
FailAbove = Annotated[
    float | None,
    typer.Option("--fail-above", help="Exit with 1 if the gap of --fail-metric is wider than this."),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, max=_LARGEST_SEED, help="Seed of whatever is drawn at random."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", help="Write an interactive page to this file; it opens offline."
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Directory for tables, JSON and pictures; made if need be.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with a versioned schema instead of tables.")]
