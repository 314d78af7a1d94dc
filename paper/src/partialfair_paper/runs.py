"""Defines a run of an experiment: its settings, with a key made of them, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

FORMAT = 1
"""Version of the file format of runs."""
_KEY_DIGITS = 16
_LARGEST_WHOLE = 1 << 53


@dataclass(frozen=True)
class Run:
    """A model to be fitted and evaluated.

    Attributes
    ----------
    dataset, seed
        Name of the data set, and number of the random split.
    method
        A key of `partialfair_paper.methods.METHODS`.
    tolerance
        κ, or another parameter that trades accuracy for fairness; None if the method has none.
    fairness
        The constrained quantity, ``"pSP"`` or ``"pDP"``; None for methods that constrain neither.
    interval
        Constrained ranks, counted from the top; None for methods without an interval.
    n_points
        |Î|; None for methods without an interval.
    alpha
        Penalty on coefficients.
    protocol
        ``"fast"`` or ``"paper"``.
    rows
        Number of training rows, drawn at random; None for all.
    """

    dataset: str
    seed: int
    method: str
    tolerance: float | None = None
    fairness: str | None = None
    interval: tuple[float, float] | None = None
    n_points: int | None = None
    alpha: float = 0.0
    protocol: str = "fast"
    rows: int | None = None

    @property
    def key(self) -> str:
        """Name of the run's directory: a digest of the settings."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_KEY_DIGITS]

    def __str__(self) -> str:
        """Return a short description."""
        words = [self.dataset, f"split {self.seed}", self.method]
        if self.fairness is not None and self.interval is not None:
            words.append(f"{self.fairness} on {self.interval[0]:.0%} to {self.interval[1]:.0%}")
        if self.tolerance is not None:
            words.append(f"tolerance {self.tolerance:g}")
        return ", ".join([*words, f"alpha {self.alpha:g}"])


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run; a failed run has only an error.

    Attributes
    ----------
    error
        One line if the run failed.
    seconds
        Run time.
    fit
        Details of the fit: status, objective, violation and others that depend on the method.
    validation, test
        Metrics by name on those rows: accuracy, AUC, and gaps on the absolute scale.
    history
        Columns of numbers by name, for methods whose convergence is shown.
    environment
        Versions of packages.
    """

    error: str | None = None
    seconds: float = 0.0
    fit: Mapping[str, Any] = field(default_factory=dict)
    validation: Mapping[str, float] = field(default_factory=dict)
    test: Mapping[str, float] = field(default_factory=dict)
    history: Mapping[str, list[float]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the run failed."""
        return self.error is not None

    def without_timings(self) -> Outcome:
        """Return the outcome without run times, which differ between repetitions."""
        history = {name: column for name, column in self.history.items() if name != "seconds"}
        return replace(self, seconds=0.0, history=history)


def read_run(content: Mapping[str, Any]) -> Run:
    """Return the run in a file's content; raise LookupError, TypeError or ValueError if it is invalid."""
    fields = {name: value for name, value in content.items() if name != "format"}
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']}, not {FORMAT}")
    interval = fields.get("interval")
    run = Run(**{**fields, "interval": None if interval is None else (interval[0], interval[1])})
    numbers = (run.seed, run.alpha, run.tolerance, run.n_points, run.rows, *(run.interval or ()))
    texts = (run.dataset, run.method, run.protocol, run.fairness)
    if not all(number is None or _is_number(number) for number in numbers):
        raise ValueError("its numbers are not numbers")
    if not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError("its names are not text")
    return run


def read_outcome(content: Mapping[str, Any]) -> Outcome:
    """Return the outcome in a file's content; raise TypeError or ValueError if it is invalid."""
    outcome = Outcome(**content)
    for name in ("fit", "validation", "test", "history", "environment"):
        if not isinstance(getattr(outcome, name), Mapping):
            raise ValueError(f"its {name} is not an object")
    if not (outcome.error is None or isinstance(outcome.error, str)) or not _is_number(outcome.seconds):
        raise ValueError("its error is not text, or its run time is not a number")
    for measures in (outcome.validation, outcome.test):
        if not all(map(_is_number, measures.values())):
            raise ValueError("its measures are not numbers")
    if not outcome.failed and not (outcome.validation and outcome.test):
        raise ValueError("it has neither measures nor an error")
    return outcome


def _is_number(value: Any) -> bool:
    """Whether a value is a float, or an integer that a float represents; unknown metrics are NaN."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= _LARGEST_WHOLE)
