"""The paper's claims held against our runs: where each holds, where it does not, and where nothing is known.

"Higher" and "the same" are meant at equal fairness on test rows, split by split. A method is less accurate
than another at some fairness if the mean difference over the splits is more than one standard error below 0,
and only levels that both of its frontiers reach are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from partialfair._typing import Floats
from partialfair.experiments.frontiers import Mean, chosen, curves, frontier, read_at
from partialfair.experiments.method import Method, Question
from partialfair.experiments.methods import METHODS
from partialfair.experiments.paper import CLAIMS, DATASETS, Claim
from partialfair.experiments.parts import gap_name
from partialfair.experiments.store import Store
from partialfair.experiments.targets import TARGETS, Convergence, Robustness, Scope

__all__ = ["Finding", "Verdict", "verdicts"]

_LEVELS = 9
"""Levels of fairness at which frontiers are compared."""
_HIGH_FAIRNESS = 0.85
"""What the paper calls a high level."""
_SIMILAR = 0.002
"""Accuracies that differ by no more are similar: the paper says so of such curves."""
_SAME_OBJECTIVE = 0.01
"""Relative difference of objectives that are alike."""
_BASELINES = ("group-auc", "inter-group", "intra-group", "penalty")


@dataclass(frozen=True)
class Finding:
    """What one data set says of a claim: True, False, or None where runs are missing; and why."""

    dataset: str
    holds: bool | None
    why: str


@dataclass(frozen=True)
class Verdict:
    """A claim with its findings."""

    claim: Claim
    findings: tuple[Finding, ...]

    def sentence(self) -> str:
        """Return where it holds, and where it does not."""
        parts = []
        for holds, words in ((True, "holds on"), (False, "does not hold on"), (None, "not judged on")):
            where = [finding.dataset for finding in self.findings if finding.holds is holds]
            if where:
                parts.append(f"{words} {', '.join(where)}")
        return "; ".join(parts) or "not judged"


def verdicts(scope: Scope, store: Store) -> list[Verdict]:
    """Judge all claims on the data sets of a scope."""
    return [Verdict(claim, tuple(_JUDGES[claim.name](scope, store))) for claim in CLAIMS]


@dataclass(frozen=True, eq=False)
class _Beside:
    """Two methods at equal fairness: levels, and the mean difference of accuracies at each."""

    levels: Floats
    differences: tuple[Mean, ...]

    @classmethod
    def of(cls, store: Store, question: Question, method: Method, other: Method) -> _Beside | None:
        """Compare two methods on the splits that both have; None if there are none, or no common level."""
        ours, theirs = (curves(store, question, one) for one in (method, other))
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            return None
        low = max(curve[0, 0] for seed in seeds for curve in (ours[seed], theirs[seed]))
        high = min(curve[-1, 0] for seed in seeds for curve in (ours[seed], theirs[seed]))
        if low >= high:
            return None
        levels = np.linspace(low, high, _LEVELS)
        return cls(
            levels,
            tuple(
                Mean.of(read_at(ours[seed], level) - read_at(theirs[seed], level) for seed in seeds)
                for level in levels
            ),
        )

    def lower(self, above: float = -np.inf, by: float = 0.0) -> list[float]:
        """Return the levels above some level at which the first is less accurate, by more than so much."""
        return [
            float(level)
            for level, mean in zip(self.levels, self.differences, strict=True)
            if level >= above and mean.value < -max(np.nan_to_num(mean.error), by)
        ]


def _asked(scope: Scope, *names: str) -> list[str]:
    return [dataset for dataset in names if dataset in scope.datasets]


def _against_baselines(
    scope: Scope, store: Store, dataset: str, fairness: str, *, similar_below: float = -np.inf
) -> Finding:
    """Judge whether ours is nowhere less accurate than a baseline; below a level, not by much."""
    question = scope.question(dataset, fairness)
    worse, compared = [], 0
    for name in _BASELINES:
        beside = _Beside.of(store, question, METHODS["ours"], METHODS[name])
        if beside is None:
            continue
        compared += 1
        lower = set(beside.lower(above=similar_below)) | set(beside.lower(by=_SIMILAR))
        if lower:
            levels = ", ".join(f"{level:.2f}" for level in sorted(lower))
            worse.append(f"{METHODS[name].label} is more accurate at fairness {levels}")
    if not compared:
        return Finding(dataset, None, "no two frontiers have been computed")
    why = "; ".join(worse) or f"nowhere less accurate than {compared} baselines at {_LEVELS} levels each"
    return Finding(dataset, not worse, why)


def _frontiers_psp(scope: Scope, store: Store) -> Iterator[Finding]:
    for dataset in _asked(scope, *DATASETS):
        yield _against_baselines(scope, store, dataset, "pSP")


def _frontier_pdp_law(scope: Scope, store: Store) -> Iterator[Finding]:
    for dataset in _asked(scope, "law_school"):
        yield _against_baselines(scope, store, dataset, "pDP")


def _frontiers_pdp_others(scope: Scope, store: Store) -> Iterator[Finding]:
    for dataset in _asked(scope, "a9a", "bank"):
        yield _against_baselines(scope, store, dataset, "pDP", similar_below=_HIGH_FAIRNESS)


def _acs(scope: Scope, store: Store) -> Iterator[Finding]:
    for dataset in _asked(scope, "acs_income"):
        yield _against_baselines(scope, store, dataset, "pSP")


def _narrowing(fairness: str) -> Callable[[Scope, Store], Iterator[Finding]]:
    """Judge whether gaps on test rows shrink with κ, up to one standard error."""

    def judge(scope: Scope, store: Store) -> Iterator[Finding]:
        for dataset in _asked(scope, *DATASETS):
            points = frontier(store, scope.question(dataset, fairness), METHODS["ours"])
            if len(points) < 2:
                yield Finding(dataset, None, "no frontier has been computed")
                continue
            gaps = [1 - point.fairness.value for point in points]
            errors = [np.nan_to_num(point.fairness.error) for point in points]
            falls = all(gaps[k + 1] <= gaps[k] + errors[k] for k in range(len(gaps) - 1))
            yield Finding(dataset, falls, "test gaps " + ", ".join(f"{gap:.3f}" for gap in gaps))

    return judge


def _densities(scope: Scope, store: Store) -> Iterator[Finding]:
    for fairness in ("pSP", "pDP"):
        for finding in _narrowing(fairness)(scope, store):
            yield Finding(f"{finding.dataset} ({fairness})", finding.holds, finding.why)


def _robust(scope: Scope, store: Store) -> Iterator[Finding]:
    """Judge by the lowest fairness over the intervals, and by how far it spreads."""
    target = TARGETS["fig9"]
    assert isinstance(target, Robustness)
    for dataset in _asked(scope, *DATASETS):
        by_method: dict[str, list[float]] = {}
        for question, method, tolerance in target.asked(scope):
            best = chosen(store, question, method, (tolerance,)).values()
            if question.dataset == dataset and best:
                gap = gap_name("pSP", question.interval)
                by_method.setdefault(method.name, []).append(
                    float(np.mean([1 - outcome.test[gap] for _, outcome in best]))
                )
        if "ours" not in by_method or len(by_method) < 2:
            yield Finding(dataset, None, "no bars have been computed")
            continue
        lowest = {name: min(values) for name, values in by_method.items()}
        spread = {name: max(values) - min(values) for name, values in by_method.items()}
        first, steadiest = max(lowest, key=lowest.__getitem__), min(spread, key=spread.__getitem__)
        why = "; ".join(
            f"{METHODS[name].label} {lowest[name]:.2f} to {max(by_method[name]):.2f}" for name in by_method
        )
        yield Finding(dataset, first == "ours" and steadiest == "ours", why)


def _descents(name: str) -> Callable[[Scope, Store], Iterator[Finding]]:
    """Judge IDCA beside SSG by where they end: alike on most data, better or worse on one of them."""

    def judge(scope: Scope, store: Store) -> Iterator[Finding]:
        target = TARGETS[name]
        assert isinstance(target, Convergence)
        for dataset in _asked(scope, *DATASETS):
            ends = {}
            for run in target.runs(scope):
                outcome = store.of(run) if run.dataset == dataset else None
                if outcome is not None and not outcome.failed:
                    ends[run.method] = outcome.fit["objective"], outcome.fit["violation"]
            if not {"idca", "ssg"} <= set(ends):
                yield Finding(dataset, None, "no histories have been computed")
                continue
            (idca, idca_violation), (ssg, ssg_violation) = ends["idca"], ends["ssg"]
            why = (
                f"objective {idca:.4f} (IDCA) and {ssg:.4f} (SSG), infeasibility {idca_violation:.0e} and "
                f"{ssg_violation:.0e}"
            )
            alike = abs(idca - ssg) <= _SAME_OBJECTIVE * abs(ssg)
            if (name, dataset) == ("fig10", "law_school"):
                yield Finding(dataset, idca < ssg and idca_violation <= ssg_violation and not alike, why)
            else:
                yield Finding(dataset, alike, why)

    return judge


def _partial_and_full(scope: Scope, store: Store) -> Iterator[Finding]:
    """Judge partial against full parity: superior on bank and law school, comparable on a9a."""
    for dataset in _asked(scope, *DATASETS):
        question = scope.question(dataset, "pSP")
        beside = _Beside.of(store, question, METHODS["ours"], METHODS["full-parity"])
        if beside is None:
            yield Finding(dataset, None, "no two frontiers have been computed")
            continue
        mean = Mean.of(one.value for one in beside.differences)
        why = f"mean difference of accuracies {mean.value:+.4f} at {_LEVELS} levels of fairness"
        lower = beside.lower(by=_SIMILAR if dataset == "a9a" else 0.0)
        yield Finding(dataset, not lower and (dataset == "a9a" or mean.value > 0), why)


def _points(scope: Scope, store: Store) -> Iterator[Finding]:
    """Judge ten against twenty points: no difference beyond two standard errors, but on law school."""
    for dataset in _asked(scope, *DATASETS):
        ten, twenty = (
            curves(store, scope.question(dataset, "pSP", n_points=n), METHODS["ours"]) for n in (10, 20)
        )
        seeds = sorted(set(ten) & set(twenty))
        if not seeds:
            yield Finding(dataset, None, "no two frontiers have been computed")
            continue
        low = max(curve[seed][0, 0] for seed in seeds for curve in (ten, twenty))
        high = min(curve[seed][-1, 0] for seed in seeds for curve in (ten, twenty))
        levels = np.linspace(low, high, _LEVELS)
        gains = Mean.of(
            float(np.mean([read_at(twenty[seed], one) - read_at(ten[seed], one) for one in levels]))
            for seed in seeds
        )
        significant = bool(gains.value > 2 * np.nan_to_num(gains.error, nan=np.inf))
        why = f"twenty points gain {gains.value:+.4f} ± {gains.error:.4f}"
        yield Finding(dataset, significant if dataset == "law_school" else not significant, why)


_JUDGES: dict[str, Callable[[Scope, Store], Iterator[Finding]]] = {
    "frontier-psp": _frontiers_psp,
    "frontier-pdp-law": _frontier_pdp_law,
    "frontier-pdp-others": _frontiers_pdp_others,
    "rank-curves": _narrowing("pSP"),
    "densities": _densities,
    "robust": _robust,
    "idca-psp": _descents("fig10"),
    "idca-pdp": _descents("fig11"),
    "acs": _acs,
    "partial-full": _partial_and_full,
    "points": _points,
}
"""By the names of claims."""
