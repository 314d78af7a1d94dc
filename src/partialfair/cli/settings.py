"""What each command is to do: its options, declared once each, and what is wrong before any file is read.

Nothing here imports numpy: ``--help`` does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from partialfair.cli.intervals import (
    AUTO,
    WHOLE_GROUPS,
    check_scale,
    interval_record,
    interval_words,
    read_interval,
)
from partialfair.cli.options import (
    COLUMNS,
    EVALUATION,
    FIT,
    JSON_HELP,
    OUTPUT,
    REQUEST,
    Enforcement,
    FailureKinds,
    GroupTerms,
    MissingGroups,
    Models,
    Outside,
    RankWithin,
    Scales,
    SmallGroups,
    argument,
    option,
)
from partialfair.exceptions import InputError
from partialfair.utils.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from partialfair.cli.intervals import RequestedInterval
    from partialfair.training.named_constraints import NamedConstraint
    from partialfair.utils import typing as types

columns, request, evaluation, fit, output = (
    partial(option, panel=panel) for panel in (COLUMNS, REQUEST, EVALUATION, FIT, OUTPUT)
)

HELP_ORDER = (
    *("score", "target", "group", "id_column", "label", "pos_label", "weight", "clusters"),
    *("ids", "drop", "categories"),
    *("max_gaps", "constraint", "requested_interval", "max_gap", "population", "lower_is_better"),
    *("threshold", "gap_scale", "enforce", "outside", "rank_within", "score_range", "apply_map", "max_knots"),
    *("min_group_size", "max_groups", "small_groups", "missing_groups"),
    *("model", "group_terms", "alpha", "given_alphas", "decision_threshold", "time_limit"),
    *("test_size", "validation", "cv", "scoring", "best", "confidence"),
    *("fail_above", "fail_metric", "fail_on"),
    *("out", "keep", "allow_infeasible", "report", "memo", "as_json", "verbose", "seed"),
)
"""In which order ``--help`` lists options; headings follow their first option."""

MAX_GROUPS = 200
"""Default of ``--max-groups``, smaller than the 1,000 of the library.

Commands compare all pairs of groups several times, also on the grid of the map and of the HTML report. With
1,000 groups of 100 rows that takes four minutes and 1.8 GiB, with 200 groups of 200 rows 20 s and 1 GiB.
"""

SCORINGS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "roc_auc": "AUC"}
"""Values of ``--scoring``, and what they are called in the table."""

_CONSTRAINTS = "statistical_parity, demographic_parity, group_auc, equal_opportunity, equalized_odds"
"""Names of `partialfair.training.named_constraints`, which imports too much for help; a test compares."""

_LARGEST_SEED = 2**32 - 1
"""The largest seed that the generators of scikit-learn accept."""

_HIGHEST_CONFIDENCE = 0.995
"""Of the thousand draws of a report, five lie beyond the ends of an interval of this coverage."""

_SHARE = 0.2
"""Of the rows that is held out to evaluate models."""

_FEWEST = 2
"""The estimators' own ``min_group_size``: a constraint on fewer members has no meaning."""

_PENALTIES = {Models.linear.value: 1e-4}
"""The estimators' own ``alpha``; a test compares."""
_PENALTY_OF_TREES = 1e-2


def read_numbers(text: str, flag: str) -> tuple[float, ...]:
    """Return the numbers of a list such as ``0.05,0.1``."""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(f"{flag} must be numbers with commas between them, not {text!r}") from error


def _read_names(names: list[str] | None) -> tuple[str, ...]:
    return tuple(names or ())


def _read_alpha(text: str | None) -> float | Literal["auto"] | None:
    if text is None or text == AUTO:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"--alpha must be a number or {AUTO}, not {text!r}") from error


def _read_decision_threshold(text: str | None) -> float | Literal["tune"]:
    if text == "tune":
        return "tune"
    try:
        return 0.0 if text is None else float(text)
    except ValueError as error:
        raise InputError(f"--decision-threshold must be a number or tune, not {text!r}") from error


def _read_alphas(text: str | None) -> tuple[float | Literal["auto"], ...]:
    if text is None:
        return ()
    return (AUTO,) if text == AUTO else read_numbers(text, "--alphas")


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """The file of a command that reads one."""

    file: Path = argument(Path, "CSV, Parquet or Arrow file, one row per person; - for a pipe.")


@dataclass(frozen=True, kw_only=True)
class OutDirectory:
    """Where a command writes, if it is to."""

    out: Path | None = output(
        Path | None, "--out DIR", "Directory for tables, JSON and pictures; made if need be."
    )


@dataclass(frozen=True, kw_only=True)
class Seed:
    """What random numbers depend on."""

    seed: int = output(
        int, "--seed N", "Of all that is drawn at random.", default=0, min=0, max=_LARGEST_SEED
    )


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Options of every command that reads groups of rows from a table."""

    group: list[str] = columns(list[str], "--group COL", "The group; repeat to cross.")
    pos_label: str | None = columns(
        str | None,
        "--pos-label VALUE",
        'The positive label; by default as the names say ("no" is negative), else the larger.',
    )
    weight: str | None = columns(str | None, "--weight COL", "Sample weights.")
    requested_interval: RequestedInterval | None = request(
        list[str] | None,
        "--interval LOW HIGH",
        "Ranks from the top: 0.05 0.30 are score percentiles 70–95. Repeated: their union. "
        "Women=0.05 0.30: of one group. auto: around the rate of selection. Required, except by audit and "
        "compare: there the default is 0 1, all ranks.",
        read=read_interval,
    )
    lower_is_better: bool = request(
        bool,
        "--lower-is-better",
        "Low scores are the good ones (risk, default): the interval counts from the lowest.",
    )
    gap_scale: types.GapScale = request(
        Scales,
        "--gap-scale",
        "Gaps as shares of the interval, the definition, or of whole groups, as in the paper's tables.",
        default="interval",
    )
    min_group_size: int = evaluation(
        int,
        "--min-group-size N",
        "A group with fewer effective members inside the interval is too small to evaluate.",
        default=10,
    )
    missing_groups: types.MissingGroups = evaluation(
        MissingGroups,
        "--missing-groups",
        "Rows without a group: an error, or ignored wherever ranks are taken.",
        default="error",
    )
    as_json: bool = output(bool, "--json", JSON_HELP)

    @property
    def interval(self) -> RequestedInterval:
        """The interval as it was typed, with names of groups, or whole groups if none was."""
        return WHOLE_GROUPS if self.requested_interval is None else self.requested_interval

    def require_interval(self) -> None:
        """Refuse commands without an interval: where groups are made similar has to be said."""
        if self.requested_interval is None:
            raise InputError(
                "--interval is missing: give ranks from the top, such as --interval 0.05 0.30, or --interval "
                "0 1 for the whole range"
            )

    @property
    def higher_is_better(self) -> bool:
        """Whether ranks count from the highest score."""
        return not self.lower_is_better

    def words(self, interval: RequestedInterval) -> str:
        """Write an interval in words."""
        return interval_words(interval, self.higher_is_better)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Seed, TableSettings):
    """Options of every command that measures gaps."""

    clusters: str | None = columns(
        str | None,
        "--clusters COL",
        "Which rows belong together, as those of one person do; confidence is that of so many people, "
        "and splits keep them together.",
    )
    small_groups: types.SmallGroups = evaluation(
        SmallGroups,
        "--small-groups",
        "Such groups: list them, merge them into one, or keep and judge them.",
        default="list",
    )
    confidence: float = evaluation(
        float, "--confidence P", "Coverage of the confidence intervals.", default=0.95
    )
    report: Path | None = output(
        Path | None, "--report FILE.html", "Write an interactive page; it opens offline."
    )

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        from partialfair.utils.checks import check_count

        check_scale(self.interval, self.gap_scale)
        if not 0 < self.confidence < 1:
            raise InputError(f"--confidence must lie between 0 and 1, not {self.confidence:g}")
        # Beyond it the ends of an interval would be single draws, whose noise nobody sees.
        if self.confidence > _HIGHEST_CONFIDENCE:
            raise InputError(f"--confidence must be at most {_HIGHEST_CONFIDENCE:g}, not {self.confidence:g}")
        check_count(self.min_group_size, "--min-group-size")
        # The merged group would have no interval of its own.
        if self.small_groups == "merge" and isinstance(self.interval, dict):
            raise InputError("--small-groups merge needs one --interval for all groups, not one for each")


@dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """Columns of a table of scores."""

    score: str = columns(str, "--score COL", "The scores; high ones are good, or see --lower-is-better.")
    label: str | None = columns(str | None, "--label COL", "The true label, of two values.")


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """When a command fails for its gap, besides the metric."""

    fail_above: float | None = evaluation(
        float | None, "--fail-above GAP", "Exit with 1 if the gap of --fail-metric is wider than this."
    )
    fail_on: str | None = evaluation(
        FailureKinds | None,
        "--fail-on",
        "Fail if the estimate is wider (default), only if the true gap is shown to exceed --fail-above, "
        "or unless it is shown to be at most that.",
    )

    @property
    def gate_metric(self) -> str:
        """The metric of the gap that fails."""
        raise NotImplementedError

    def check_gate(self, reasons: Mapping[str, str | None]) -> None:
        """Refuse a gate that cannot be right; reasons say why a kind of failure cannot be decided."""
        from partialfair.metrics.catalogue import METRICS

        if self.fail_above is None:
            if self.fail_on is not None:
                raise InputError("--fail-on says when --fail-above fails: give --fail-above as well")
            return
        if self.gate_metric not in METRICS:
            raise InputError(f"--fail-metric must be one of {', '.join(METRICS)}, not {self.gate_metric}")
        # Gaps in units of scores have no largest value.
        largest = max(1.0, METRICS[self.gate_metric].largest)
        if not 0 <= self.fail_above <= largest:
            limits = "lie between 0 and 1" if largest == 1 else "be at least 0"
            raise InputError(f"--fail-above must {limits}, not {self.fail_above:g}")
        if (reason := reasons.get(self.fail_on or "")) is not None:
            raise InputError(f"--fail-on {self.fail_on} {reason}")


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(OutDirectory, ScoreColumns, EvaluationSettings):
    """Options of commands that evaluate scores: ``audit`` and ``compare``."""

    threshold: float | None = request(
        float | None,
        "--threshold SCORE",
        "Above it (with --lower-is-better: below it) a person is selected; has no default.",
    )
    rank_within: types.RankWithin = request(
        RankWithin,
        "--rank-within",
        "Equal opportunity and odds rank people in their group, or among those with their label.",
        default="group",
    )
    max_groups: int = evaluation(
        int,
        "--max-groups N",
        "Largest number of groups; more raise an error. Run time grows with the pairs of groups: "
        "1,000 take minutes and 2 GiB.",
        default=MAX_GROUPS,
    )

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        from math import isfinite

        from partialfair.utils.checks import check_count

        super().check()
        if self.threshold is not None and not isfinite(self.threshold):
            raise InputError(f"--threshold must be a finite number, not {self.threshold:g}")
        check_count(self.max_groups, "--max-groups", low=2)


@dataclass(frozen=True, kw_only=True)
class AuditSettings(TableFile, GateOptions, ScoreSettings):
    """Options of ``audit``."""

    fail_metric: str = evaluation(
        str, "--fail-metric NAME", "Metric that --fail-above looks at.", default="statistical_parity"
    )
    memo: Path | None = output(
        Path | None,
        "--memo FILE.md",
        "Write the verdict, and what it does not say, as a paragraph.",
    )

    @property
    def gate_metric(self) -> str:
        """The metric of the gap that fails."""
        return self.fail_metric

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        super().check()
        reason = None
        if self.interval == AUTO:
            reason = (
                f"is a test of an interval that was fixed before, and --interval {AUTO} takes one for its "
                "wide gap on the same rows; give the interval"
            )
        self.check_gate({FailureKinds.exceeds: reason})


@dataclass(frozen=True, kw_only=True)
class CompareSettings(ScoreSettings):
    """Options of ``compare``."""

    files: list[Path] = argument(list[Path], "Two or more files with scores of the same people.")
    id_column: str | None = columns(
        str | None, "--id COL", "Says who a row is; without it rows are matched in order."
    )

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        if len(self.files) < 2:
            raise InputError("compare needs at least two files; for one use audit")
        super().check()


@dataclass(frozen=True, kw_only=True)
class AdjustSettings(TableFile, OutDirectory, ScoreColumns, TableSettings):
    """Options of ``adjust``."""

    id_column: str | None = columns(str | None, "--id COL", "Says who a row is; kept in what is written.")
    max_gap: float | None = request(
        float | None,
        "--max-gap GAP",
        "Largest gap of the adjusted scores on this file; needed unless a map is applied.",
    )
    threshold: float | None = request(
        float | None,
        "--threshold SCORE",
        "Bound the gap in who is above this score only, demographic parity.",
    )
    score_range: tuple[float, float] | None = request(
        tuple[float, float] | None,
        "--score-range LOW HIGH",
        "Ends that new people's scores must not leave: 0 1 for probabilities.",
    )
    apply_map: Path | None = fit(
        Path | None, "--apply MAP.json", "Move scores by the map of an earlier run, for new people."
    )
    max_knots: int = fit(int, "--max-knots N", "About how many rows the map has by group.", default=1000)

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        if self.apply_map is not None:
            given = {
                "--max-gap": self.max_gap,
                "--threshold": self.threshold,
                "--score-range": self.score_range,
                "--interval": self.requested_interval,
            }
            # A map says all of it already, and was made for that.
            wrong = [name for name, value in given.items() if value is not None]
            if wrong:
                raise InputError(
                    f"--apply moves scores by a map that is there, so {wrong[0]} cannot be given"
                )
        elif self.max_gap is None:
            raise InputError("--max-gap is missing: the largest gap that the adjusted scores may have")
        elif self.interval == AUTO:
            raise InputError(
                "--interval auto looks for a gap, and adjust closes one: say where it is to close"
            )
        else:
            self.require_interval()
            check_scale(self.interval, self.gap_scale)
        if self.as_json and self.out is None:
            raise InputError("--json needs --out, because the scores would go to standard output")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(TableFile, EvaluationSettings):
    """Options of commands that train models: ``train`` and ``path``."""

    target: str = columns(str, "--target COL", "What to predict, of two values.")
    ids: tuple[str, ...] = columns(
        list[str] | None,
        "--id COL",
        "Says who a row is: no feature, but kept by predict; repeat.",
        default=(),
        read=_read_names,
    )
    drop: tuple[str, ...] = columns(
        list[str] | None, "--drop COL", "Is no feature; repeat.", default=(), read=_read_names
    )
    categories: tuple[str, ...] = columns(
        list[str] | None,
        "--category COL",
        "Numbers that are codes of categories; repeat.",
        default=(),
        read=_read_names,
    )
    constraint: str = request(
        str,
        "--constraint NAME",
        f"What is bounded: {_CONSTRAINTS}; or, in train, none.",
        default="statistical_parity",
    )
    enforce: Literal["exact", "surrogate"] = request(
        Enforcement,
        "--enforce",
        "'exact' bounds the gap itself on the training rows, 'surrogate' the paper's smooth stand-in.",
        default="exact",
    )
    outside: Literal["free", "no_worse"] = request(
        Outside,
        "--outside",
        "'no_worse' limits gaps next to the interval to those of the model without a constraint.",
        default="free",
    )
    model: str = fit(
        Models,
        "--model",
        "A linear model, or trees of LightGBM, XGBoost or scikit-learn (HistGradientBoosting), whose "
        "leaf values are refitted; trees take categories and missing values as they are.",
        default="linear",
    )
    group_terms: Literal["intercept", "interactions"] | None = fit(
        GroupTerms,
        "--group-terms",
        "Whether the model may use the group; it then needs it to score.",
        default=None,
        read={"none": None, "intercept": "intercept", "interactions": "interactions"}.get,
    )
    decision_threshold: float | Literal["tune"] = fit(
        str | None,
        "--decision-threshold X",
        "The score above which decisions are positive, 0 by default; tune takes the most accurate one on the "
        "training rows; a constraint on ranks does not notice.",
        default=0.0,
        read=_read_decision_threshold,
    )
    time_limit: float | None = fit(
        float | None, "--time-limit SECONDS", "End each fit after so long, with its best model so far."
    )
    cv: int | None = evaluation(
        int | None,
        "--cv FOLDS",
        "Hold out no rows: train on all, and judge models trained like this on all rows out of fold.",
    )
    verbose: bool = output(bool, "--verbose", "Also say how the fit went: steps, objective, KKT certificate.")

    share_flag: ClassVar[str]
    """The option that says how many rows are held out."""

    @property
    def named(self) -> NamedConstraint | None:
        """What is known of the constraint; None of an ordinary model."""
        from partialfair.training.named_constraints import NAMED_CONSTRAINTS

        return NAMED_CONSTRAINTS.get(self.constraint)

    @property
    def metric(self) -> str:
        """The metric that the constraint bounds; of an ordinary model statistical parity."""
        return "statistical_parity" if self.named is None else self.named.metric

    @property
    def largest_gap(self) -> float:
        """The largest gap that may be allowed."""
        return 1.0 if self.named is None else self.named.kind.largest_gap

    @property
    def is_at_threshold(self) -> bool:
        """Whether the constraint is about the shares above a threshold."""
        return self.named is not None and self.named.bounded.needs_threshold

    @property
    def rank_within(self) -> types.RankWithin:
        """Where evaluations rank rows: where the constraint does."""
        # Equal opportunity and odds are constrained within the label, see `rank_within` of the metrics.
        by_label = self.named is not None and self.named.bounded.needs_labels
        return "group_and_label" if by_label else "group"

    @property
    def is_constrained(self) -> bool:
        """Whether a model with a constraint is trained."""
        return self.constraint != "none"

    @property
    def enforcement(self) -> Literal["exact", "surrogate", "population"]:
        """The estimator's ``enforce``."""
        return self.enforce

    @property
    def penalty(self) -> float:
        """The estimator's own ``alpha``."""
        return _PENALTIES.get(self.model, _PENALTY_OF_TREES)

    @property
    def constrained_size(self) -> int:
        """Members that a group has at least if the constraint is to hold for it."""
        return _FEWEST if self.small_groups == "keep" else self.min_group_size

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        from partialfair.training.named_constraints import NAMED_CONSTRAINTS
        from partialfair.utils.checks import check_count, check_number

        super().check()
        if self.model != Models.linear and self.group_terms is not None:
            raise InputError(
                f"--model {self.model} never needs the group to score, so it takes no --group-terms"
            )
        # scikit-learn is always there; the other libraries are an extra.
        if self.model not in (Models.linear, Models.hist):
            require(self.model, extra="boosting", purpose=f"--model {self.model}")
        if self.constraint not in (*NAMED_CONSTRAINTS, "none"):
            known = ", ".join([*NAMED_CONSTRAINTS, "none"])
            raise InputError(f"--constraint must be one of {known}, not {self.constraint}")
        if self.named is not None and self.named.kind.interval is None:  # some classes have a default
            self.require_interval()
        if self.interval == AUTO and not self.is_constrained:
            raise InputError("--interval auto is chosen for a constraint, and --constraint none has none")
        if self.decision_threshold != "tune":
            check_number(self.decision_threshold, "--decision-threshold")
        elif self.is_at_threshold:
            raise InputError(
                f"--decision-threshold tune moves decisions away from the score at which --constraint "
                f"{self.constraint} compares groups; use statistical_parity, or leave it out"
            )
        if self.outside == "no_worse":
            self._check_outside()
        if self.time_limit is not None:
            check_number(self.time_limit, "--time-limit", above=0.0)
        # A model with a term for each group cannot score a row without one.
        if self.group_terms is not None and self.missing_groups == "ignore":
            raise InputError("--group-terms needs the group of every row, so --missing-groups must be error")
        if self.group_terms is not None and self.small_groups == "merge":
            raise InputError(
                "--small-groups merge does not go with --group-terms: new rows have the groups of the table, "
                "not the merged one"
            )
        if self.cv is not None:
            check_count(self.cv, "--cv", low=2)

    def _check_outside(self) -> None:
        """Refuse what limits next to the interval cannot be added to."""
        if self.constraint != "statistical_parity":
            raise InputError(
                "--outside no_worse limits gaps next to the interval of --constraint statistical_parity, not "
                f"of {self.constraint}; leave it out"
            )
        if self.enforcement != "exact":
            option = "--population" if self.enforcement == "population" else "--enforce surrogate"
            raise InputError(f"--outside no_worse limits exact training gaps; leave {option} out")
        if isinstance(self.interval, Mapping):
            raise InputError(
                "--outside no_worse has no meaning when intervals differ by group; give one interval for all"
            )

    def check_savable(self) -> None:
        """Refuse, before any fit, a constraint whose models could not be written."""
        from partialfair.persistence import is_trusted

        if self.named is not None and not is_trusted(self.named.kind):
            raise InputError(
                f"--constraint {self.constraint} is a class of another package, which files of models do not "
                "hold; use it from Python"
            )

    def _check_alpha(self, alpha: float | Literal["auto"], flag: str) -> None:
        from partialfair.utils.checks import check_number

        if alpha != AUTO:
            check_number(alpha, flag, low=0.0)
        elif self.model == Models.linear:
            raise InputError(
                f"{flag} {AUTO} is for trees, whose leaf values it draws to those of the library; give a "
                "number, or another --model"
            )

    def _share_of(self, given: float | None) -> float:
        """Return the share of the rows to hold out; none where they are in folds."""
        if self.cv is None:
            return _SHARE if given is None else given
        if given is not None:
            raise InputError(f"--cv judges models on all rows, so {self.share_flag} must be left out")
        return 0.0

    def record(self) -> dict[str, Any]:
        """Return what was asked for as plain data for JSON, in the words of the library."""
        return {
            "interval": interval_record(self.interval),
            "gap_scale": self.gap_scale,
            "confidence": self.confidence,
            "higher_is_better": self.higher_is_better,
            "min_group_size": self.min_group_size,
            "small_groups": self.small_groups,
            "missing_groups": self.missing_groups,
            "seed": self.seed,
            "constraint": self.constraint,
            "enforce": self.enforcement,
            "outside": self.outside,
            "group_terms": self.group_terms,
            "decision_threshold": self.decision_threshold,
            "time_limit": self.time_limit,
            "model": self.model,
        }


@dataclass(frozen=True, kw_only=True)
class TrainSettings(GateOptions, ModelSettings):
    """Options of ``train``."""

    max_gap: float = request(
        float,
        "--max-gap GAP",
        "The largest gap allowed among the training rows, or with --population among new people.",
        default=0.05,
    )
    population: bool = request(
        bool,
        "--population",
        "Promise the gap of new people: train several models, and keep the best of those whose gap "
        "the rows held out show, with --confidence, to be at most --max-gap.",
    )
    alpha: float | Literal["auto"] | None = fit(
        str | None,
        "--alpha X",
        "Strength of the l2 penalty: 1e-4 by default, of trees 1e-2; for trees auto chooses it, in "
        "five times the time.",
        read=_read_alpha,
    )
    test_size: float | None = evaluation(
        float | None,
        "--test-size SHARE",
        f"Share of the rows held out to evaluate the model, {_SHARE:g} if not given; 0 for none.",
    )
    fail_metric: str | None = evaluation(
        str | None,
        "--fail-metric NAME",
        "Metric that --fail-above looks at; by default that of --constraint.",
    )
    out: Path = output(
        Path,
        "--out DIR",
        "Directory for the model, JSON and pictures, or DIR/name.skops.",
        default=Path("model"),
    )

    share_flag = "--test-size"

    @property
    def share(self) -> float:
        """Of the rows that is held out."""
        return self._share_of(self.test_size)

    @property
    def enforcement(self) -> Literal["exact", "surrogate", "population"]:
        """The estimator's ``enforce``."""
        return "population" if self.population else self.enforce

    @property
    def alphas(self) -> tuple[float | Literal["auto"], ...]:
        """The one penalty."""
        return (self.penalty if self.alpha is None else self.alpha,)

    @property
    def gate_metric(self) -> str:
        """The metric of the gap that fails."""
        return self.fail_metric or self.metric

    @property
    def max_gaps(self) -> tuple[float, ...]:
        """The one limit; none without a constraint."""
        return (self.max_gap,) if self.is_constrained else ()

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        from partialfair.utils.checks import check_number

        if self.population and self.enforce == "surrogate":
            raise InputError("--population trains for exact gaps; leave --enforce surrogate out")
        super().check()
        self.check_savable()
        check_number(self.max_gap, "--max-gap", low=0.0, high=self.largest_gap)
        self._check_alpha(self.alphas[0], "--alpha")
        # 0 is allowed: `train` without held-out rows reports training figures only.
        if not 0 <= self.share < 1:
            raise InputError(f"--test-size must be at least 0 and below 1, not {self.share:g}")
        reason = None
        if self.cv is not None:
            reason = "is about one model, and --cv measures several; leave one of them out"
        elif self.share == 0:
            reason = (
                "is about people whom the model has not seen: it needs rows held out, so --test-size above 0"
            )
        self.check_gate({FailureKinds.exceeds: reason, FailureKinds.inconclusive: reason})
        if not self.population:
            return
        if not self.is_constrained:
            raise InputError("--population bounds a gap of new people, and --constraint none has none")
        if self.cv is not None:
            raise InputError(
                "--population promises the gap of one model, and --cv measures those of several; leave one "
                "out"
            )
        if self.share == 0:
            raise InputError("--population validates models on held-out rows, so --test-size must be above 0")

    def record(self) -> dict[str, Any]:
        """Return what was asked for as plain data for JSON."""
        own = {"max_gap": self.max_gap, "alpha": self.alphas[0], "test_size": self.share, "cv": self.cv}
        return {**super().record(), **own}


@dataclass(frozen=True, kw_only=True)
class PathSettings(ModelSettings):
    """Options of ``path``."""

    max_gaps: tuple[float, ...] = request(
        str,
        "--max-gaps GAP,GAP,…",
        "Gaps to allow among the training rows, with commas between them.",
        read=lambda text: read_numbers(text, "--max-gaps"),
    )
    given_alphas: tuple[float | Literal["auto"], ...] = fit(
        str | None,
        "--alphas X,X,…",
        "Strengths of the l2 penalty to try with each gap: 1e-4 by default, of trees 1e-2; for "
        "trees auto chooses one.",
        default=(),
        read=_read_alphas,
    )
    validation: float | None = evaluation(
        float | None,
        "--test-size SHARE",
        f"Share of the rows held out to evaluate the models, {_SHARE:g} if not given.",
    )
    scoring: str = evaluation(
        str, "--scoring NAME", "What counts: accuracy, balanced_accuracy or roc_auc.", default="accuracy"
    )
    best: float | None = evaluation(
        float | None,
        "--best GAP",
        "Save the best model whose gap on new people is, with --confidence, at most this; exit with "
        "1 if there is none.",
    )
    out: Path = output(
        Path,
        "--out DIR",
        "Directory for the table, JSON, the picture and the chosen model.",
        default=Path("path"),
    )

    share_flag = "--test-size"

    @property
    def share(self) -> float:
        """Of the rows that is held out."""
        return self._share_of(self.validation)

    @property
    def alphas(self) -> tuple[float | Literal["auto"], ...]:
        """The penalties to try."""
        return self.given_alphas or (self.penalty,)

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        from partialfair.utils.checks import check_choice, check_number

        super().check()
        # Also refuses --test-size with --cv.
        share = self.share
        if not self.is_constrained:
            raise InputError("--constraint none leaves no gap to vary; use train for an ordinary model")
        for gap in self.max_gaps:
            check_number(gap, "--max-gaps", low=0.0, high=self.largest_gap)
        for alpha in self.alphas:
            self._check_alpha(alpha, "--alphas")
        if self.cv is None:
            check_number(share, "--test-size", above=0.0, high=0.9)
        elif self.best is not None:
            raise InputError(
                "--best promises the gap of one model, and --cv measures those of several; leave one out"
            )
        check_choice(self.scoring, "--scoring", SCORINGS)
        if self.best is not None:
            self.check_savable()
            check_number(self.best, "--best", low=0.0, high=self.largest_gap)

    def record(self) -> dict[str, Any]:
        """Return what was asked for as plain data for JSON."""
        return {
            **super().record(),
            "max_gaps": self.max_gaps,
            "alphas": self.alphas,
            "validation": self.share,
            "scoring": self.scoring,
            "best": self.best,
            "cv": self.cv,
        }


TableFitSettings: TypeAlias = TrainSettings | PathSettings


@dataclass(frozen=True, kw_only=True)
class ModelFileSettings:
    """Options of commands that use a saved model."""

    model: Path = argument(Path, "Directory of partialfair train or path, or a model's file.")
    as_json: bool = output(bool, "--json", JSON_HELP)


@dataclass(frozen=True, kw_only=True)
class PredictSettings(ModelFileSettings):
    """Options of ``predict``."""

    file: Path = argument(Path, "CSV, Parquet or Arrow file with the columns trained on; - for a pipe.")
    out: Path | None = output(
        Path | None, "--out FILE", "CSV or Parquet file to write; standard output if not given."
    )
    keep: bool = output(bool, "--keep", "Keep all columns; otherwise ids, groups and target.")
    allow_infeasible: bool = option(
        bool,
        "--allow-infeasible",
        "Also score with a model whose gap in training is wider than was asked for.",
    )


@dataclass(frozen=True, kw_only=True)
class ExportSettings(ModelFileSettings):
    """Options of ``export``."""

    out: Path = argument(Path, "File to write; it ends in .onnx.")
    allow_infeasible: bool = option(
        bool, "--allow-infeasible", "Also export a model whose gap in training is wider than was asked for."
    )


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Seed):
    """Options of ``demo``."""

    out: Path = output(
        Path, "--out DIR", "Directory for the table, pictures and the page.", default=Path("demo")
    )
