"""Settings of each command: its options, each declared once, and the checks that need no file.

Nothing here imports numpy, so that ``--help`` does not wait for it.
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
    EXPERT,
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

columns, request, evaluation, fit, output, expert = (
    partial(option, panel=panel) for panel in (COLUMNS, REQUEST, EVALUATION, FIT, OUTPUT, EXPERT)
)

HELP_ORDER = (
    *("score", "target", "group", "id_column", "label", "pos_label", "weight", "clusters"),
    *("ids", "drop", "categories"),
    *("requested_interval", "max_gap", "max_gaps", "best", "constraint", "population", "lower_is_better"),
    *("threshold", "apply_map"),
    *("model", "test_size", "cv", "scoring", "confidence", "fail_above"),
    *("out", "keep", "allow_infeasible", "report", "memo", "as_json", "verbose"),
    *("outside", "enforce", "group_terms", "alpha", "given_alphas", "decision_threshold", "time_limit"),
    *("gap_scale", "rank_within", "score_range", "max_knots"),
    *("min_group_size", "small_groups", "missing_groups", "max_groups", "fail_metric", "fail_on", "seed"),
)
"""The order of options in ``--help``; a heading is printed where its first option stands."""

MAX_GROUPS = 200
"""Default of ``--max-groups``, smaller than the 1,000 of the library.

Commands compare all pairs of groups several times, also on the grid of the map and of the HTML report. With
1,000 groups of 100 rows that takes four minutes and 1.8 GiB, with 200 groups of 200 rows 20 s and 1 GiB.
"""

SCORINGS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "roc_auc": "AUC"}
"""Values of ``--scoring``, and their names in the table."""

_CONSTRAINTS = "statistical_parity, demographic_parity, group_auc, equal_opportunity, equalized_odds"
"""Names of `partialfair.training.named_constraints`, which ``--help`` need not import; a test compares."""

_LARGEST_SEED = 2**32 - 1
"""The largest seed that the generators of scikit-learn accept."""

_HIGHEST_CONFIDENCE = 0.995
"""A report draws a thousand samples; five of them lie outside an interval of this coverage."""

_SHARE = 0.2
"""The proportion of the rows that is held out to evaluate models."""

_FEWEST = 2
"""The default ``min_group_size`` of the estimators: a constraint on fewer members has no meaning."""

_PENALTIES = {Models.linear.value: 1e-4}
"""The default ``alpha`` of the estimators; a test compares."""
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

    file: Path = argument(Path, "FILE", "CSV, Parquet or Arrow file with one row per person; - reads a pipe.")


@dataclass(frozen=True, kw_only=True)
class OutDirectory:
    """The directory that a command writes to, if any."""

    out: Path | None = output(Path | None, "--out DIR", "Write tables, JSON and figures to this directory.")


@dataclass(frozen=True, kw_only=True)
class Seed:
    """The seed of random numbers."""

    seed: int = expert(int, "--seed N", "Seed of all random numbers.", default=0, min=0, max=_LARGEST_SEED)


def _interval(default: str) -> Any:
    """Declare ``--interval``; its help ends with the default."""
    return request(
        list[str] | None,
        "--interval LOW HIGH",
        "Ranks from the top of each group: 0.05 0.30 means score percentiles 70 to 95. Repeat for a union; "
        "Women=0.05 0.30 applies to one group; auto chooses an interval around the selection rate. "
        f"{default}",
        read=read_interval,
    )


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Options of every command that reads groups of rows from a table."""

    group: list[str] = columns(
        list[str], "--group COL", "Group of each row. Repeat for intersectional groups, such as sex by race."
    )
    pos_label: str | None = columns(
        str | None,
        "--pos-label VALUE",
        'The positive label. Default: inferred from the names ("no" is negative), else the larger value.',
    )
    weight: str | None = columns(str | None, "--weight COL", "Sample weights.")
    requested_interval: RequestedInterval | None = _interval("Required; 0 1 is the whole range.")
    lower_is_better: bool = request(
        bool,
        "--lower-is-better",
        "Low scores are good, as for the risk of default: the interval counts from the lowest score.",
    )
    gap_scale: types.GapScale = expert(
        Scales,
        "--gap-scale interval|absolute",
        "Report gaps as proportions of the interval (the definition), or of whole groups, as in the paper's "
        "tables.",
        default="interval",
    )
    min_group_size: int = expert(
        int,
        "--min-group-size N",
        "Smallest effective sample size in the interval of a group that is evaluated.",
        default=10,
    )
    missing_groups: types.MissingGroups = expert(
        MissingGroups,
        "--missing-groups error|ignore",
        "Rows without a group: raise an error, or leave them out of all ranks.",
        default="error",
    )
    as_json: bool = output(bool, "--json", JSON_HELP)

    @property
    def interval(self) -> RequestedInterval:
        """The interval as it was typed, with names of groups; the whole range if none was given."""
        return WHOLE_GROUPS if self.requested_interval is None else self.requested_interval

    def require_interval(self) -> None:
        """Raise an error without an interval: the user has to say where scores are made similar."""
        if self.requested_interval is None:
            raise InputError(
                "--interval is missing: give ranks from the top, such as --interval 0.05 0.30, or --interval "
                "0 1 for the whole range"
            )

    @property
    def higher_is_better(self) -> bool:
        """Whether ranks count from the highest score down."""
        return not self.lower_is_better

    def words(self, interval: RequestedInterval) -> str:
        """Describe an interval in words."""
        return interval_words(interval, self.higher_is_better)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Seed, TableSettings):
    """Options of every command that evaluates gaps."""

    clusters: str | None = columns(
        str | None,
        "--clusters COL",
        "Column of cluster ids, such as a person's id where a person has several rows. Confidence "
        "counts clusters, and splits keep their rows together.",
    )
    small_groups: types.SmallGroups = expert(
        SmallGroups,
        "--small-groups list|merge|keep",
        "Groups below --min-group-size: exclude and list them, merge them into one group, or keep them.",
        default="list",
    )
    confidence: float = evaluation(
        float, "--confidence P", "Confidence level of intervals and bounds.", default=0.95
    )
    report: Path | None = output(
        Path | None, "--report FILE.html", "Write an interactive HTML report, one file that opens offline."
    )

    def check(self) -> None:
        """Check the options before any file is read."""
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

    score: str = columns(str, "--score COL", "Scores; high scores are good unless --lower-is-better.")
    label: str | None = columns(str | None, "--label COL", "True label, with two values.")


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """When a command exits with 1 because of a gap; the metric is declared by the command."""

    fail_above: float | None = evaluation(
        float | None, "--fail-above GAP", "Exit with 1 if the gap of --fail-metric is larger than this."
    )
    fail_on: str | None = expert(
        FailureKinds | None,
        "--fail-on estimate|exceeds|inconclusive",
        "Compare --fail-above with the estimate (default) or the lower confidence bound (exceeds), or fail "
        "unless the upper confidence bound is at most --fail-above (inconclusive).",
    )

    @property
    def gate_metric(self) -> str:
        """The metric that ``--fail-above`` evaluates."""
        raise NotImplementedError

    def check_gate(self, reasons: Mapping[str, str | None]) -> None:
        """Check the options of the gate; reasons say why a kind of failure cannot be decided."""
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

    requested_interval: RequestedInterval | None = _interval("Default: 0 1, the whole range.")
    threshold: float | None = request(
        float | None,
        "--threshold SCORE",
        "Rows with scores above it are selected (below it with --lower-is-better). No default.",
    )
    rank_within: types.RankWithin = expert(
        RankWithin,
        "--rank-within group|group_and_label",
        "Rank rows within their group, or within group and label, for equal opportunity and equalized odds.",
        default="group",
    )
    max_groups: int = expert(
        int,
        "--max-groups N",
        "Largest number of groups; more raise an error. Run time grows with the pairs of groups: "
        "1,000 groups need minutes and 2 GiB.",
        default=MAX_GROUPS,
    )

    def check(self) -> None:
        """Check the options before any file is read."""
        from math import isfinite

        from partialfair.utils.checks import check_count

        super().check()
        if self.threshold is not None and not isfinite(self.threshold):
            raise InputError(f"--threshold must be a finite number, not {self.threshold:g}")
        check_count(self.max_groups, "--max-groups", low=2)


@dataclass(frozen=True, kw_only=True)
class AuditSettings(TableFile, GateOptions, ScoreSettings):
    """Options of ``audit``."""

    fail_metric: str = expert(
        str, "--fail-metric NAME", "Metric that --fail-above evaluates.", default="statistical_parity"
    )
    memo: Path | None = output(
        Path | None,
        "--memo FILE.md",
        "Write the verdict and its limits as a paragraph.",
    )

    @property
    def gate_metric(self) -> str:
        """The metric that ``--fail-above`` evaluates."""
        return self.fail_metric

    def check(self) -> None:
        """Check the options before any file is read."""
        super().check()
        reason = None
        if self.interval == AUTO:
            reason = (
                f"tests an interval that was fixed before, and --interval {AUTO} chooses one with a large "
                "gap on the same rows; give the interval"
            )
        self.check_gate({FailureKinds.exceeds: reason})


@dataclass(frozen=True, kw_only=True)
class CompareSettings(ScoreSettings):
    """Options of ``compare``."""

    files: list[Path] = argument(list[Path], "FILE", "Two or more files with scores of the same rows.")
    id_column: str | None = columns(
        str | None, "--id COL", "Column that identifies rows. Default: rows are matched in order."
    )

    def check(self) -> None:
        """Check the options before any file is read."""
        if len(self.files) < 2:
            raise InputError("compare needs at least two files; for one use audit")
        super().check()


@dataclass(frozen=True, kw_only=True)
class AdjustSettings(TableFile, OutDirectory, ScoreColumns, TableSettings):
    """Options of ``adjust``."""

    id_column: str | None = columns(str | None, "--id COL", "Column that identifies rows; also written.")
    max_gap: float | None = request(
        float | None,
        "--max-gap GAP",
        "Limit on the gap of the adjusted scores in this file; required without --apply.",
    )
    threshold: float | None = request(
        float | None,
        "--threshold SCORE",
        "Limit only the gap in the proportion above this score (demographic parity).",
    )
    score_range: tuple[float, float] | None = expert(
        tuple[float, float] | None,
        "--score-range LOW HIGH",
        "Range of the adjusted scores of new data: 0 1 for probabilities.",
    )
    apply_map: Path | None = request(
        Path | None, "--apply MAP.json", "Adjust the scores of new data with the map of an earlier run."
    )
    max_knots: int = expert(
        int, "--max-knots N", "Approximate number of rows of the map per group.", default=1000
    )

    def check(self) -> None:
        """Check the options before any file is read."""
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

    target: str = columns(str, "--target COL", "Label to predict, with two values.")
    ids: tuple[str, ...] = columns(
        list[str] | None,
        "--id COL",
        "Column that identifies rows: not a feature, but kept by predict. Repeatable.",
        default=(),
        read=_read_names,
    )
    drop: tuple[str, ...] = columns(
        list[str] | None,
        "--drop COL",
        "Column that is not a feature. Repeatable.",
        default=(),
        read=_read_names,
    )
    categories: tuple[str, ...] = columns(
        list[str] | None,
        "--category COL",
        "Column of numbers that are codes of categories. Repeatable.",
        default=(),
        read=_read_names,
    )
    constraint: str = request(
        str,
        "--constraint NAME",
        f"Metric to limit: {_CONSTRAINTS}; train also accepts none.",
        default="statistical_parity",
    )
    enforce: Literal["exact", "surrogate"] = expert(
        Enforcement,
        "--enforce exact|surrogate",
        "Limit the exact gap of the training rows, or the paper's smooth surrogate of it.",
        default="exact",
    )
    outside: Literal["free", "no_worse"] = expert(
        Outside,
        "--outside free|no_worse",
        "no_worse limits the gaps next to the interval to those of the unconstrained model.",
        default="free",
    )
    model: str = fit(
        Models,
        "--model linear|lightgbm|xgboost|hist",
        "A linear model, or trees of LightGBM, XGBoost or scikit-learn (HistGradientBoosting) with refitted "
        "leaf values. Trees need no encoding of categories and missing values.",
        default="linear",
    )
    group_terms: Literal["intercept", "interactions"] | None = expert(
        GroupTerms,
        "--group-terms none|intercept|interactions",
        "Let the model use the group; scoring then requires the group.",
        default=None,
        read={"none": None, "intercept": "intercept", "interactions": "interactions"}.get,
    )
    decision_threshold: float | Literal["tune"] = expert(
        str | None,
        "--decision-threshold X",
        "Score above which decisions are positive, or tune for the most accurate one on the training rows "
        "(constraints on ranks only). [default: 0]",
        default=0.0,
        read=_read_decision_threshold,
    )
    time_limit: float | None = expert(
        float | None, "--time-limit SECONDS", "Stop each fit after this time and keep its best model."
    )
    cv: int | None = evaluation(
        int | None,
        "--cv FOLDS",
        "Train on all rows, and evaluate out of fold instead of on held-out rows.",
    )
    verbose: bool = output(bool, "--verbose", "Also print steps, objective and KKT certificate of the fit.")

    share_flag: ClassVar[str]
    """The option that sets how many rows are held out."""

    @property
    def named(self) -> NamedConstraint | None:
        """The entry of the constraint; None for an unconstrained model."""
        from partialfair.training.named_constraints import NAMED_CONSTRAINTS

        return NAMED_CONSTRAINTS.get(self.constraint)

    @property
    def metric(self) -> str:
        """The metric that the constraint limits; statistical parity for an unconstrained model."""
        return "statistical_parity" if self.named is None else self.named.metric

    @property
    def largest_gap(self) -> float:
        """The largest possible limit."""
        return 1.0 if self.named is None else self.named.kind.largest_gap

    @property
    def is_at_threshold(self) -> bool:
        """Whether the constraint concerns proportions above a threshold."""
        return self.named is not None and self.named.bounded.needs_threshold

    @property
    def rank_within(self) -> types.RankWithin:
        """Whether evaluations rank rows within group and label, as the constraint does, or in the group."""
        # Equal opportunity and odds are constrained within the label, see `rank_within` of the metrics.
        by_label = self.named is not None and self.named.bounded.needs_labels
        return "group_and_label" if by_label else "group"

    @property
    def is_constrained(self) -> bool:
        """Whether the model has a constraint."""
        return self.constraint != "none"

    @property
    def enforcement(self) -> Literal["exact", "surrogate", "population"]:
        """The estimator's ``enforce``."""
        return self.enforce

    @property
    def penalty(self) -> float:
        """The default ``alpha`` of the estimator."""
        return _PENALTIES.get(self.model, _PENALTY_OF_TREES)

    @property
    def constrained_size(self) -> int:
        """The smallest group that the constraint includes."""
        return _FEWEST if self.small_groups == "keep" else self.min_group_size

    def check(self) -> None:
        """Check the options before any file is read."""
        from partialfair.training.named_constraints import NAMED_CONSTRAINTS
        from partialfair.utils.checks import check_count, check_number

        super().check()
        if self.model != Models.linear and self.group_terms is not None:
            raise InputError(
                f"--model {self.model} scores without the group, so --group-terms must be left out"
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
            raise InputError(
                "--interval auto needs a constraint to choose for, and --constraint none has none"
            )
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
        """Check that limits next to the interval can be added to the constraint."""
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
            raise InputError(f"{flag} {AUTO} is available for trees only; give a number, or another --model")

    def _share_of(self, given: float | None) -> float:
        """Return the proportion of rows to hold out; 0 with folds."""
        if self.cv is None:
            return _SHARE if given is None else given
        if given is not None:
            raise InputError(f"--cv evaluates models on all rows, so {self.share_flag} must be left out")
        return 0.0

    def record(self) -> dict[str, Any]:
        """Return the settings as plain data for JSON, under the library's names."""
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
        "Limit on the gap of the training rows, or with --population of the population.",
        default=0.05,
    )
    population: bool = request(
        bool,
        "--population",
        "Train several models, and keep the most accurate one whose gap in the population is at most "
        "--max-gap with --confidence, as validated on the held-out rows.",
    )
    alpha: float | Literal["auto"] | None = expert(
        str | None,
        "--alpha X",
        "Strength of the l2 penalty; auto (trees only) chooses it in five times the run time. "
        "[default: 0.0001, for trees 0.01]",
        read=_read_alpha,
    )
    test_size: float | None = evaluation(
        float | None,
        "--test-size P",
        f"Proportion of the rows held out to evaluate the model; 0 for none. [default: {_SHARE:g}]",
    )
    fail_metric: str | None = expert(
        str | None,
        "--fail-metric NAME",
        "Metric that --fail-above evaluates. Default: the metric of --constraint.",
    )
    out: Path = output(
        Path,
        "--out DIR",
        "Directory for the model, JSON and figures, or DIR/name.skops.",
        default=Path("model"),
    )

    share_flag = "--test-size"

    @property
    def share(self) -> float:
        """The proportion of rows that is held out."""
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
        """The metric that ``--fail-above`` evaluates."""
        return self.fail_metric or self.metric

    @property
    def max_gaps(self) -> tuple[float, ...]:
        """The one limit; none without a constraint."""
        return (self.max_gap,) if self.is_constrained else ()

    def check(self) -> None:
        """Check the options before any file is read."""
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
            reason = "concerns one model, and --cv evaluates several; leave one of them out"
        elif self.share == 0:
            reason = "is decided on held-out rows, so --test-size must be above 0"
        self.check_gate({FailureKinds.exceeds: reason, FailureKinds.inconclusive: reason})
        if not self.population:
            return
        if not self.is_constrained:
            raise InputError("--population limits a gap in the population; --constraint none has no limit")
        if self.cv is not None:
            raise InputError("--population validates one model, and --cv evaluates several; leave one out")
        if self.share == 0:
            raise InputError("--population validates models on held-out rows, so --test-size must be above 0")

    def record(self) -> dict[str, Any]:
        """Return the settings as plain data for JSON."""
        own = {"max_gap": self.max_gap, "alpha": self.alphas[0], "test_size": self.share, "cv": self.cv}
        return {**super().record(), **own}


@dataclass(frozen=True, kw_only=True)
class PathSettings(ModelSettings):
    """Options of ``path``."""

    max_gaps: tuple[float, ...] = request(
        str,
        "--max-gaps GAP,GAP,…",
        "Limits on the gap of the training rows; a model is trained for each.",
        read=lambda text: read_numbers(text, "--max-gaps"),
    )
    given_alphas: tuple[float | Literal["auto"], ...] = expert(
        str | None,
        "--alphas X,X,…",
        "Strengths of the l2 penalty to try with each limit; auto (trees only) chooses one. "
        "[default: 0.0001, for trees 0.01]",
        default=(),
        read=_read_alphas,
    )
    test_size: float | None = evaluation(
        float | None,
        "--test-size P",
        f"Proportion of the rows held out to evaluate the models. [default: {_SHARE:g}]",
    )
    scoring: str = evaluation(
        str, "--scoring NAME", "Score of a model: accuracy, balanced_accuracy or roc_auc.", default="accuracy"
    )
    best: float | None = request(
        float | None,
        "--best GAP",
        "Save the best model whose gap in the population is at most GAP, with --confidence; exit with 1 if "
        "no model qualifies.",
    )
    out: Path = output(
        Path,
        "--out DIR",
        "Directory for the table, JSON, the figure and the chosen model.",
        default=Path("path"),
    )

    share_flag = "--test-size"

    @property
    def share(self) -> float:
        """The proportion of rows that is held out."""
        return self._share_of(self.test_size)

    @property
    def alphas(self) -> tuple[float | Literal["auto"], ...]:
        """The penalties to try."""
        return self.given_alphas or (self.penalty,)

    def check(self) -> None:
        """Check the options before any file is read."""
        from partialfair.utils.checks import check_choice, check_number

        super().check()
        # Also refuses --test-size with --cv.
        share = self.share
        if not self.is_constrained:
            raise InputError("--constraint none has no gap to vary; use train for an unconstrained model")
        for gap in self.max_gaps:
            check_number(gap, "--max-gaps", low=0.0, high=self.largest_gap)
        for alpha in self.alphas:
            self._check_alpha(alpha, "--alphas")
        if self.cv is None:
            check_number(share, "--test-size", above=0.0, high=0.9)
        elif self.best is not None:
            raise InputError("--best validates one model, and --cv evaluates several; leave one out")
        check_choice(self.scoring, "--scoring", SCORINGS)
        if self.best is not None:
            self.check_savable()
            check_number(self.best, "--best", low=0.0, high=self.largest_gap)

    def record(self) -> dict[str, Any]:
        """Return the settings as plain data for JSON."""
        return {
            **super().record(),
            "max_gaps": self.max_gaps,
            "alphas": self.alphas,
            "test_size": self.share,
            "scoring": self.scoring,
            "best": self.best,
            "cv": self.cv,
        }


TableFitSettings: TypeAlias = TrainSettings | PathSettings


@dataclass(frozen=True, kw_only=True)
class ModelFileSettings:
    """Options of commands that use a saved model."""

    model: Path = argument(Path, "MODEL", "Output directory of train or path, or a model file.")
    as_json: bool = output(bool, "--json", JSON_HELP)


@dataclass(frozen=True, kw_only=True)
class PredictSettings(ModelFileSettings):
    """Options of ``predict``."""

    file: Path = argument(
        Path, "FILE", "CSV, Parquet or Arrow file with the columns of the training set; - reads a pipe."
    )
    out: Path | None = output(
        Path | None, "--out FILE", "CSV or Parquet file to write. Default: standard output."
    )
    keep: bool = output(bool, "--keep", "Write all columns, not only ids, groups and target.")
    allow_infeasible: bool = output(
        bool, "--allow-infeasible", "Also use a model that violates its constraint."
    )


@dataclass(frozen=True, kw_only=True)
class ExportSettings(ModelFileSettings):
    """Options of ``export``."""

    out: Path = argument(Path, "OUT.onnx", "File to write.")
    allow_infeasible: bool = output(
        bool, "--allow-infeasible", "Also export a model that violates its constraint."
    )


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Seed):
    """Options of ``demo``."""

    out: Path = output(
        Path, "--out DIR", "Directory for the table, the figures and the HTML report.", default=Path("demo")
    )
