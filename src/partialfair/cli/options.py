"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "ASKED",
    "COLUMNS",
    "FIT",
    "JUDGED",
    "MAX_GROUPS",
    "OUTPUT",
    "AsJson",
    "Categories",
    "Clusters",
    "Confidence",
    "ConstraintName",
    "CrossValidation",
    "Dropped",
    "Enforce",
    "Enforcement",
    "FailAbove",
    "FailOn",
    "FailureKinds",
    "Group",
    "GroupTerms",
    "Ids",
    "Intervals",
    "Label",
    "LowerIsBetter",
    "MaxGroups",
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


_CONSTRAINTS = "statistical_parity, demographic_parity, group_auc, equal_opportunity, equalized_odds"
"""Names of `partialfair.training.named_constraints`, which imports too much for help; a test compares."""

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


class FailureKinds(StrEnum):
    """Values of ``--fail-on``."""

    estimate = "estimate"
    exceeds = "exceeds"
    unproven = "unproven"


COLUMNS, ASKED, JUDGED = "Columns", "What is asked", "Who is judged, and how surely"
FIT, OUTPUT = "The fit", "Output"
"""Headings of the options in a command's help."""

Table = Annotated[
    Path,
    typer.Argument(readable=False, help="CSV, Parquet or Arrow file, one row per person; - for a pipe."),
]
Score = Annotated[
    str,
    typer.Option(
        "--score",
        metavar="COL",
        help="The scores; high ones are good, or see --lower-is-better.",
        rich_help_panel=COLUMNS,
    ),
]
Target = Annotated[
    str,
    typer.Option("--target", metavar="COL", help="What to predict, of two values.", rich_help_panel=COLUMNS),
]
Group = Annotated[
    list[str],
    typer.Option("--group", metavar="COL", help="The group; repeat to cross.", rich_help_panel=COLUMNS),
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COL", help="The true label, of two values.", rich_help_panel=COLUMNS),
]
PosLabel = Annotated[
    str | None,
    typer.Option(
        "--pos-label",
        metavar="VALUE",
        help='The positive label; by default as the names say ("no" is negative), else the larger.',
        rich_help_panel=COLUMNS,
    ),
]
Weight = Annotated[
    str | None, typer.Option("--weight", metavar="COL", help="Sample weights.", rich_help_panel=COLUMNS)
]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        metavar="COL",
        help="Which rows belong together, as those of one person do; confidence is that of so many people, "
        "and splits keep them together.",
        rich_help_panel=COLUMNS,
    ),
]
CrossValidation = Annotated[
    int | None,
    typer.Option(
        "--cv",
        metavar="FOLDS",
        help="Hold out no rows: train on all, and judge models trained like this on all rows out of fold.",
        rich_help_panel=JUDGED,
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar="COL",
        help="Says who a row is: no feature, but kept by predict; repeat.",
        rich_help_panel=COLUMNS,
    ),
]
Dropped = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL", help="Is no feature; repeat.", rich_help_panel=COLUMNS),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        "--category",
        metavar="COL",
        help="Numbers that are codes of categories; repeat.",
        rich_help_panel=COLUMNS,
    ),
]
Intervals = Annotated[
    list[str] | None,
    typer.Option(
        "--interval",
        metavar="LOW HIGH",
        help="Ranks from the top: 0.05 0.30 are score percentiles 70–95. Repeated: their union. "
        "Women=0.05 0.30: of one group. auto: around the rate of selection. Default: everybody.",
        rich_help_panel=ASKED,
    ),
]
LowerIsBetter = Annotated[
    bool,
    typer.Option(
        "--lower-is-better",
        help="Low scores are the good ones (risk, default): the interval counts from the lowest.",
        rich_help_panel=ASKED,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="SCORE",
        help="Above it (with --lower-is-better: below it) a person is selected; has no default.",
        rich_help_panel=ASKED,
    ),
]
ConstraintName = Annotated[
    str,
    typer.Option(
        "--constraint",
        metavar="NAME",
        help=f"What is bounded: {_CONSTRAINTS}; or, in train, none.",
        rich_help_panel=ASKED,
    ),
]
Scale = Annotated[
    Scales,
    typer.Option(
        "--gap-scale",
        help="Gaps as shares of the interval, the definition, or of whole groups, as in the paper's tables.",
        rich_help_panel=ASKED,
    ),
]
Within = Annotated[
    RankWithin,
    typer.Option(
        "--rank-within",
        help="Equal opportunity and odds rank people in their group, or among those with their label.",
        rich_help_panel=ASKED,
    ),
]
Enforce = Annotated[
    Enforcement,
    typer.Option(
        "--enforce",
        help="'exact' bounds the gap itself on the training rows, 'surrogate' the paper's smooth stand-in.",
        rich_help_panel=ASKED,
    ),
]
MAX_GROUPS = 200
"""Default of ``--max-groups``, smaller than the 1,000 of the library.

Commands compare all pairs of groups several times, also on the grid of the map and of the HTML report. With
1,000 groups of 100 rows that takes four minutes and 1.8 GiB, with 200 groups of 200 rows 20 s and 1 GiB.
"""

MaxGroups = Annotated[
    int,
    typer.Option(
        "--max-groups",
        metavar="N",
        help="Largest number of groups; more raise an error. Run time grows with the pairs of groups: "
        "1,000 take minutes and 2 GiB.",
        rich_help_panel=JUDGED,
    ),
]
MinGroup = Annotated[
    int,
    typer.Option(
        "--min-group",
        metavar="N",
        help="A group with fewer effective members inside the interval is too few to judge.",
        rich_help_panel=JUDGED,
    ),
]
Small = Annotated[
    SmallGroups,
    typer.Option(
        "--small-groups",
        help="Such groups: list them, merge them into one, or keep and judge them.",
        rich_help_panel=JUDGED,
    ),
]
Missing = Annotated[
    MissingGroups,
    typer.Option(
        "--missing-groups",
        help="Rows without a group: an error, or ignored wherever ranks are taken.",
        rich_help_panel=JUDGED,
    ),
]
Confidence = Annotated[
    float,
    typer.Option(
        "--confidence", metavar="P", help="Coverage of the confidence intervals.", rich_help_panel=JUDGED
    ),
]
FailAbove = Annotated[
    float | None,
    typer.Option(
        "--fail-above",
        metavar="GAP",
        help="Exit with 1 if the gap of --fail-metric is wider than this.",
        rich_help_panel=JUDGED,
    ),
]
FailOn = Annotated[
    FailureKinds | None,
    typer.Option(
        "--fail-on",
        help="Fail if the estimate is wider (default), only if the true gap is shown to exceed --fail-above, "
        "or unless it is shown to be at most that.",
        rich_help_panel=JUDGED,
    ),
]
Terms = Annotated[
    GroupTerms,
    typer.Option(
        "--group-terms",
        help="Whether the model may use the group; it then needs it to score.",
        rich_help_panel=FIT,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="End each fit after so long, with its best model so far.",
        rich_help_panel=FIT,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=_LARGEST_SEED,
        help="Of all that is drawn at random.",
        rich_help_panel=OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Write an interactive page; it opens offline.",
        rich_help_panel=OUTPUT,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Directory for tables, JSON and pictures; made if need be.",
        rich_help_panel=OUTPUT,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON with a versioned schema instead of tables.", rich_help_panel=OUTPUT
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        help="Also say how the fit went: steps, objective, certificate.",
        rich_help_panel=OUTPUT,
    ),
]
