"""Evaluates the paper's claims on stored runs: where each claim holds, fails, or was not evaluated.

"Higher" and "the same" refer to accuracy at equal fairness on test rows, split by split. The frontier of the
paper's method is interpolated linearly at the fairness of each model of the other method. The other method is
not interpolated, so it gets no credit for models that it did not find. The frontier is less accurate than a
model if the mean difference over the splits is more than one standard error below 0. A frontier that is
nowhere less accurate is *not worse*, which does not show that it is higher. It is higher only if every
difference has a 95% interval above 0 and no model of the other method has a smaller gap than the whole
frontier. Such models are compared with the frontier's model of the smallest gap: the claim fails if they are
more accurate as well, and otherwise they decide nothing. With several splits, a model that only one split has
is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import TypeAlias

import numpy as np

from partialfair_paper.figures import Convergence, Networks, Robustness
from partialfair_paper.frontiers import Mean, Point, choose_runs, curves, frontier, read_at
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.parts import FACES, gap_name
from partialfair_paper.published import CLAIMS, DATASETS, NETWORKS, OWN_INTERVALS, Claim
from partialfair_paper.store import Store
from partialfair_paper.target import Scope
from partialfair_paper.targets import TARGETS

Models: TypeAlias = tuple[Question, Method]
_Pairs: TypeAlias = Mapping[tuple[int, float | None], tuple[float, float]]

_HIGH_FAIRNESS = 0.85
"""Level of fairness that the paper calls high."""
_SIMILAR = 0.002
"""Largest difference of similar accuracies: the paper calls curves similar that differ by this much."""
_SAME_OBJECTIVE = 0.01
"""Largest relative difference of similar objectives."""
_ROUNDING = 1e-12
"""Differences of accuracies below this are rounding errors."""
_FEASIBLE = 1e-4
"""Smaller infeasibilities are replaced by this value."""
_SAME_INFEASIBILITY = 10.0
"""Largest ratio of infeasibilities at which objectives are compared: a solver that violates the constraint
more solves an easier problem."""
_LEVELS = (0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94)
"""Levels of fairness on the interval at which networks are compared."""
_BASELINES = ("group-auc", "inter-group", "intra-group", "penalty")
_NOT_RUN = "no two comparable methods have been run"


class Answer(Enum):
    """The result of a claim on one data set, as the report words it.

    NOT_WORSE, TIED and COMPARABLE are weaker than a claim of "higher", "highest" or "superior".
    """

    HOLDS = "holds"
    NOT_WORSE = "not worse"
    TIED = "tied"
    COMPARABLE = "comparable"
    FAILS = "does not hold"
    OPEN = "not evaluated"

    @classmethod
    def of(cls, holds: bool) -> Answer:
        """Return HOLDS or FAILS."""
        return cls.HOLDS if holds else cls.FAILS


@dataclass(frozen=True)
class Finding:
    """The result of a claim on one data set, with the reason."""

    dataset: str
    answer: Answer
    why: str


@dataclass(frozen=True)
class Verdict:
    """A claim with its findings."""

    claim: Claim
    findings: tuple[Finding, ...]


def verdicts(scope: Scope, store: Store) -> list[Verdict]:
    """Evaluate all claims on the data sets of a scope."""
    return [Verdict(claim, tuple(_EVALUATIONS[claim.name](scope, store))) for claim in CLAIMS]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """One method's frontier compared with another's models.

    Attributes
    ----------
    pairs
        By split and tolerance of the other method: the fairness of its model, and the accuracy of the
        frontier there minus the model's. Models whose gap is smaller or larger than all gaps of the frontier
        are excluded.
    smaller_gap
        The same for models whose gap is smaller than all gaps of the frontier; they are compared with the
        frontier's model of the smallest gap.
    n_splits
        Number of splits in which both methods were run.
    """

    pairs: _Pairs
    smaller_gap: _Pairs
    n_splits: int

    @classmethod
    def of(cls, store: Store, frontier_of: Models, models_of: Models) -> _Comparison | None:
        """Compare split by split; return None unless both methods were run."""
        lines = curves(store, *frontier_of)
        question, method = models_of
        gap = gap_name(question.fairness, question.interval)
        pairs: dict[tuple[int, float | None], tuple[float, float]] = {}
        smaller_gap: dict[tuple[int, float | None], tuple[float, float]] = {}
        splits = set()
        for (seed, tolerance), (_, outcome) in choose_runs(store, question, method).items():
            if (line := lines.get(seed)) is None:
                continue
            splits.add(seed)
            fairness = 1 - outcome.test[gap]
            if line[0, 0] <= fairness:
                gain = read_at(line, fairness) - outcome.test["accuracy"]
                (pairs if fairness <= line[-1, 0] else smaller_gap)[seed, tolerance] = fairness, gain
        return cls(pairs, smaller_gap, len(splits)) if splits else None

    @property
    def mean(self) -> Mean:
        """The mean difference at equal fairness, with its standard error over splits."""
        by_split: dict[int, list[float]] = {}
        for (seed, _), (_, gain) in self.pairs.items():
            by_split.setdefault(seed, []).append(gain)
        return Mean.of(fmean(gains) for gains in by_split.values())

    def lower(self, above: float = -np.inf, by: float = 0.0) -> dict[float, float]:
        """Return levels of fairness at which the frontier is less accurate, and by how much.

        Only levels from ``above`` count, and only losses larger than one standard error and ``by``.
        """
        return self._losses(self.pairs, above, by)

    def beaten(self) -> dict[float, float]:
        """Return the fairness of models that have a smaller gap than the frontier and are more accurate."""
        return self._losses(self.smaller_gap)

    def is_higher(self, above: float = -np.inf) -> bool:
        """Whether the frontier is more accurate than every model above a level, with 95% confidence.

        It is False if a model has a smaller gap than the whole frontier: no model of the frontier has equal
        fairness.
        """
        gains = [Mean.of(gains) for level, gains in self._by_tolerance(self.pairs) if level >= above]
        return bool(gains) and not self.smaller_gap and all(_is_positive(gain) for gain in gains)

    def _by_tolerance(self, pairs: _Pairs) -> Iterator[tuple[float, list[float]]]:
        """Yield mean fairness and gains of each tolerance; with several splits, at least two must have it."""
        tolerances = dict.fromkeys(tolerance for _, tolerance in pairs)
        for wanted in tolerances:
            same = [pair for (_, tolerance), pair in pairs.items() if tolerance == wanted]
            if len(same) >= min(2, self.n_splits):
                yield fmean(fairness for fairness, _ in same), [gain for _, gain in same]

    def _losses(self, pairs: _Pairs, above: float = -np.inf, by: float = 0.0) -> dict[float, float]:
        losses = {}
        for level, gains in self._by_tolerance(pairs):
            gain = Mean.of(gains)
            if level >= above and gain.value < -max(np.nan_to_num(gain.error), by):
                losses[level] = -gain.value
        return losses


def _is_positive(gain: Mean) -> bool:
    """Whether the 95% interval of a gain lies above 0; False for a single split, which has no interval."""
    return bool(gain.value > np.nan_to_num(gain.half_width, nan=np.inf))


def _in_scope(scope: Scope, *names: str) -> list[str]:
    return [dataset for dataset in names if dataset in scope.datasets]


def _against_baselines(
    scope: Scope, store: Store, dataset: str, fairness: str, *, similar_below: float = -np.inf
) -> Finding:
    """Evaluate whether the paper's method is more accurate than all baselines, or nowhere less accurate.

    Below the level ``similar_below``, differences that the paper calls similar do not count.
    """
    question = scope.question(dataset, fairness)
    ours = question, scope.method("ours")
    worse: list[str] = []
    compared: list[str] = []
    others: list[str] = []
    higher = True
    for name in _BASELINES:
        label = scope.method(name).label
        comparison = _Comparison.of(store, ours, (question, scope.method(name)))
        higher = higher and comparison is not None and comparison.is_higher(similar_below)
        if comparison is None:
            others.append(f"{label} has not been run")
            continue
        if lower := {**comparison.lower(above=similar_below), **comparison.lower(by=_SIMILAR)}:
            worse.append(f"{label} is more accurate {_list_losses(lower)}")
        if beaten := comparison.beaten():
            losses = _list_losses(beaten)
            worse.append(
                f"{label} has a smaller gap than all of partialfair's models and is more accurate {losses}"
            )
        if comparison.pairs:
            compared.append(label)
        elif comparison.smaller_gap:
            others.append(
                f"all models of {label} have smaller gaps than partialfair's, and none is more accurate"
            )
        else:
            others.append(f"all models of {label} have larger gaps than partialfair's")
    if not worse and not compared:
        return Finding(dataset, Answer.OPEN, _NOT_RUN)
    if worse:
        return Finding(dataset, Answer.FAILS, "; ".join(worse))
    if higher:
        return Finding(dataset, Answer.HOLDS, f"more accurate than {', '.join(compared)}")
    why = "; ".join([f"nowhere less accurate than {', '.join(compared)}", *others])
    return Finding(dataset, Answer.NOT_WORSE, why)


def _list_losses(losses: Mapping[float, float]) -> str:
    levels = dict.fromkeys(f"{level:.2f}" for level in sorted(losses))
    return f"at fairness {', '.join(levels)}, by at most {max(losses.values()):.4f}"


def _frontiers(
    fairness: str, *datasets: str, similar_below: float = -np.inf
) -> Callable[[Scope, Store], Iterator[Finding]]:
    """Return a function that compares frontiers of some data sets with all baselines."""

    def evaluate(scope: Scope, store: Store) -> Iterator[Finding]:
        for dataset in _in_scope(scope, *datasets):
            yield _against_baselines(scope, store, dataset, fairness, similar_below=similar_below)

    return evaluate


def _check_gaps_shrink(fairness: str) -> Callable[[Scope, Store], Iterator[Finding]]:
    """Return a function that evaluates whether test gaps shrink with κ, up to one standard error."""

    def evaluate(scope: Scope, store: Store) -> Iterator[Finding]:
        for dataset in _in_scope(scope, *DATASETS):
            points = frontier(store, scope.question(dataset, fairness), scope.method("ours"))
            if len(points) < 2:
                yield Finding(dataset, Answer.OPEN, "no frontier has been computed")
                continue
            gaps = [1 - point.fairness.value for point in points]
            errors = [np.nan_to_num(point.fairness.error) for point in points]
            falls = all(gaps[k + 1] <= gaps[k] + errors[k] for k in range(len(gaps) - 1))
            yield Finding(dataset, Answer.of(falls), "test gaps " + ", ".join(f"{gap:.3f}" for gap in gaps))

    return evaluate


def _densities(scope: Scope, store: Store) -> Iterator[Finding]:
    for fairness in ("pSP", "pDP"):
        for finding in _check_gaps_shrink(fairness)(scope, store):
            yield Finding(f"{finding.dataset} ({fairness})", finding.answer, finding.why)


def _robust(scope: Scope, store: Store) -> Iterator[Finding]:
    """Compare the fairness on the worst interval among methods of similar or higher accuracy.

    Differences within one standard error of the paper's method are ties.
    """
    target = TARGETS["fig9"]
    assert isinstance(target, Robustness)
    ours = scope.method("ours").name
    for dataset in _in_scope(scope, *DATASETS):
        by_method: dict[str, list[Point]] = {}
        for question, method, point in target.bars(scope, store):
            if question.dataset == dataset:
                by_method.setdefault(method.name, []).append(point)
        if ours not in by_method or len(by_method) < 2:
            yield Finding(dataset, Answer.OPEN, "no bars have been computed")
            continue
        worst = {
            name: min((point.fairness for point in points), key=lambda one: one.value)
            for name, points in by_method.items()
        }
        accuracy = {name: fmean(one.accuracy.value for one in points) for name, points in by_method.items()}
        comparable = [name for name in worst if accuracy[name] >= accuracy[ours] - _SIMILAR]
        why = "; ".join(
            f"{METHODS[name].label} {fairness.value:.3f} or more at a mean accuracy of {accuracy[name]:.4f}"
            + ("" if name in comparable else ", which is too low to compare")
            for name, fairness in worst.items()
        )
        others = {METHODS[name].label: worst[name].value for name in comparable if name != ours}
        answer, ties = rank_worst(worst[ours].value, float(np.nan_to_num(worst[ours].error)), others)
        yield Finding(dataset, answer, f"tied with {', '.join(ties)}: {why}" if ties else why)


def rank_worst(ours: float, error: float, others: Mapping[str, float]) -> tuple[Answer, list[str]]:
    """Return whether a fairness is the highest, up to its standard error, and the methods tied with it."""
    if any(value > ours + error for value in others.values()):
        return Answer.FAILS, []
    ties = [name for name, value in others.items() if value >= ours - error]
    return (Answer.TIED if ties else Answer.HOLDS), ties


def _descents(name: str) -> Callable[[Scope, Store], Iterator[Finding]]:
    """Return a function that compares the last iterates of IDCA and SSG.

    The paper calls them similar, except on law school (pSP) and on bank (pDP).
    """

    def evaluate(scope: Scope, store: Store) -> Iterator[Finding]:
        target = TARGETS[name]
        assert isinstance(target, Convergence)
        for dataset in _in_scope(scope, *DATASETS):
            ends = {}
            for run in target.runs(scope):
                outcome = store.of(run) if run.dataset == dataset else None
                if outcome is not None and not outcome.failed:
                    ends[run.method] = outcome.fit["objective"], outcome.fit["violation"]
            if not {"idca", "ssg"} <= set(ends):
                yield Finding(dataset, Answer.OPEN, "no histories have been computed")
                continue
            better = {("fig10", "law_school"): "IDCA", ("fig11", "bank"): "SSG"}.get((name, dataset))
            yield Finding(dataset, *compare_ends(ends["idca"], ends["ssg"], better=better))

    return evaluate


def compare_ends(
    idca: tuple[float, float], ssg: tuple[float, float], *, better: str | None
) -> tuple[Answer, str]:
    """Compare the last iterates of two solvers.

    Parameters
    ----------
    idca, ssg : tuple of float
        Objective and infeasibility.
    better : {"IDCA", "SSG"} or None
        The claim: "IDCA" that its objective and infeasibility are smaller, "SSG" that its objective is not
        larger, None that both solvers are similar.
    """
    objectives, violations = zip(idca, ssg, strict=True)
    why = (
        f"objective {idca[0]:.5f} (IDCA) and {ssg[0]:.5f} (SSG), infeasibility {idca[1]:.1e} and {ssg[1]:.1e}"
    )
    similar = abs(idca[0] - ssg[0]) <= _SAME_OBJECTIVE * abs(ssg[0])
    if better == "IDCA":
        return Answer.of(idca[0] < ssg[0] and idca[1] <= ssg[1] and not similar), why
    counted = [max(violation, _FEASIBLE) for violation in violations]
    if (ratio := max(counted) / min(counted)) > _SAME_INFEASIBILITY:
        return Answer.OPEN, f"{why}, which differ {ratio:.0f}-fold: objectives are not compared"
    return Answer.of(objectives[1] <= objectives[0] if better == "SSG" else similar), why


def _partial_and_full(scope: Scope, store: Store) -> Iterator[Finding]:
    """Compare partial with full parity: superior on bank and law school, comparable on a9a."""
    for dataset in _in_scope(scope, *DATASETS):
        question = scope.question(dataset, "pSP")
        partial, full = ((question, scope.method(name)) for name in ("ours", "full-parity"))
        comparison = _Comparison.of(store, partial, full)
        if comparison is None or not comparison.pairs:
            yield Finding(dataset, Answer.OPEN, _NOT_RUN)
            continue
        gain = comparison.mean
        why = f"partial parity gains {_write_gain(gain)} at the fairness of full-parity models"
        lower = comparison.lower(by=_SIMILAR if dataset == "a9a" else 0.0)
        if lower and gain.value > 0:
            why += f", on average, but loses {_list_losses(lower)}"
        yield Finding(dataset, compare_gain(gain, superior=dataset != "a9a", loses=bool(lower)), why)


def compare_gain(gain: Mean, *, superior: bool, loses: bool) -> Answer:
    """Evaluate the claim that a mean gain is positive (``superior``) or that it is small.

    A claim of superiority holds if the 95% interval lies above 0. If the interval contains 0, the methods are
    comparable.
    """
    if loses or (superior and gain.value < 0 and not _holds_zero(gain)):
        return Answer.FAILS
    if not superior:
        return Answer.HOLDS
    return Answer.HOLDS if _is_positive(gain) else Answer.COMPARABLE


def _holds_zero(gain: Mean) -> bool:
    return bool(abs(gain.value) <= np.nan_to_num(gain.half_width, nan=np.inf))


def _points(scope: Scope, store: Store) -> Iterator[Finding]:
    """Compare ten with twenty points: no significant gain is claimed, except on law school."""
    for dataset in _in_scope(scope, *DATASETS):
        twenty, ten = (
            (scope.question(dataset, "pSP", n_points=n_points), scope.method("ours")) for n_points in (20, 10)
        )
        comparison = _Comparison.of(store, twenty, ten)
        if comparison is None or not comparison.pairs:
            yield Finding(dataset, Answer.OPEN, _NOT_RUN)
            continue
        gains = comparison.mean
        significant = bool(gains.value > max(2 * np.nan_to_num(gains.error, nan=np.inf), _SIMILAR))
        why = f"twenty points gain {_write_gain(gains)}"
        yield Finding(dataset, Answer.of(significant == (dataset == "law_school")), why)


def _network_gains(
    scope: Scope, store: Store, one: str, other: str
) -> tuple[dict[float, tuple[Mean, int]], Mean] | None:
    """Return by how much one curve of Figure 12 is more accurate than another, by level and on average.

    A level is a value of fairness on the interval. Curves consist of the networks on the validation frontier.
    They are interpolated linearly, seed by seed, at levels that both reach in at least two seeds; each gain
    comes with the number of seeds.
    """
    target = TARGETS["fig12"]
    assert isinstance(target, Networks)
    by_label = {label: (question, method) for label, question, method in target.curves(scope)}
    if not by_label:
        return None
    first, second = (
        curves(store, *by_label[label], fairness_on=OWN_INTERVALS[FACES]) for label in (one, other)
    )
    by_level: dict[float, tuple[Mean, int]] = {}
    by_seed: dict[int, list[float]] = {}
    for level in _LEVELS:
        gains = {}
        for seed in first.keys() & second.keys():
            lines = first[seed], second[seed]
            if max(line[0, 0] for line in lines) <= level <= min(line[-1, 0] for line in lines):
                gains[seed] = read_at(lines[0], level) - read_at(lines[1], level)
        if len(gains) >= 2:
            by_level[level] = Mean.of(gains.values()), len(gains)
            for seed, gain in gains.items():
                by_seed.setdefault(seed, []).append(gain)
    return (by_level, Mean.of(fmean(gains) for gains in by_seed.values())) if by_level else None


def _by_levels(by_level: Mapping[float, tuple[Mean, int]]) -> str:
    return ", ".join(
        f"{_write_gain(gain)} at fairness {level:.2f} ({n} seeds)" for level, (gain, n) in by_level.items()
    )


def _networks_partial(scope: Scope, store: Store) -> Iterator[Finding]:
    """Compare networks constrained on the interval and on all ranks, at equal fairness on the interval."""
    on_band, on_all, more_points = NETWORKS
    for label in (on_band, more_points) if _in_scope(scope, FACES) else ():
        found = _network_gains(scope, store, label, on_all)
        if found is None:
            yield Finding(label, Answer.OPEN, "no two curves have been computed that can be compared")
            continue
        by_level, _ = found
        lower = any(gain.value < -max(gain.error, _ROUNDING) for gain, _ in by_level.values())
        higher = all(_is_positive(gain) for gain, _ in by_level.values())
        answer = Answer.FAILS if lower else Answer.HOLDS if higher else Answer.NOT_WORSE
        yield Finding(label, answer, f"compared with all ranks {_by_levels(by_level)}")


def _networks_points(scope: Scope, store: Store) -> Iterator[Finding]:
    """Compare fifty points with ten: no significant difference is claimed."""
    on_band, _, more_points = NETWORKS
    if not _in_scope(scope, FACES):
        return
    found = _network_gains(scope, store, more_points, on_band)
    if found is None:
        yield Finding(FACES, Answer.OPEN, "no two curves have been computed that can be compared")
        return
    by_level, mean = found
    similar = _holds_zero(mean) or abs(mean.value) <= _SIMILAR
    answer = Answer.COMPARABLE if similar else Answer.FAILS
    yield Finding(FACES, answer, f"fifty points gain {_write_gain(mean)} on average; {_by_levels(by_level)}")


def _write_gain(gain: Mean) -> str:
    return f"{gain.value:+.4f}" if np.isnan(gain.error) else f"{gain.value:+.4f} ± {gain.error:.4f}"


_EVALUATIONS: dict[str, Callable[[Scope, Store], Iterator[Finding]]] = {
    "frontier-psp": _frontiers("pSP", *DATASETS),
    "frontier-pdp-law": _frontiers("pDP", "law_school"),
    "frontier-pdp-others": _frontiers("pDP", "a9a", "bank", similar_below=_HIGH_FAIRNESS),
    "rank-curves": _check_gaps_shrink("pSP"),
    "densities": _densities,
    "robust": _robust,
    "idca-psp": _descents("fig10"),
    "idca-pdp": _descents("fig11"),
    "acs": _frontiers("pSP", "acs_income"),
    "networks-partial": _networks_partial,
    "networks-points": _networks_points,
    "partial-full": _partial_and_full,
    "points": _points,
}
"""Evaluation of each claim, by name."""
