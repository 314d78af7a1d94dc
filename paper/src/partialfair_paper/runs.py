"""Defines a run of an experiment: what is to be done, under a key made of just that, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

FORMAT = 1
"""Of the files of a run; another number means that they are read in another way."""
_KEY_DIGITS = 16
_LARGEST_WHOLE = 1 << 53


@dataclass(frozen=True)
class Run:
    """A model to be fitted and evaluated.

    Attributes
    ----------
    dataset, seed
        The data, and which of its random splits.
    method
        A key of `partialfair_paper.methods.METHODS`.
    tolerance
        κ, or whatever of the method trades accuracy for fairness; None if it has no such thing.
    fairness
        What is constrained, ``"pSP"`` or ``"pDP"``; None for methods that constrain neither.
    interval
        Ranks on which it is constrained, counted from the top; None as above.
    n_points
        |Î|; None as above.
    alpha
        Of the penalty on coefficients.
    protocol
        ``"fast"`` or ``"paper"``.
    rows
        Training rows that are kept, drawn at random; None for all.
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
        """Name of its directory: a digest of everything above."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_KEY_DIGITS]

    def __str__(self) -> str:
        """Say it in a few words."""
        words = [self.dataset, f"split {self.seed}", self.method]
        if self.fairness is not None and self.interval is not None:
            words.append(f"{self.fairness} on {self.interval[0]:.0%} to {self.interval[1]:.0%}")
        if self.tolerance is not None:
            words.append(f"tolerance {self.tolerance:g}")
        return ", ".join([*words, f"alpha {self.alpha:g}"])


@dataclass(frozen=True)
class Outcome:
    """What came of a run; one that failed has an error and nothing else.

    Attributes
    ----------
    error
        One line if it failed.
    seconds
        What it took.
    fit
        What the solver says: status, objective, violation and whatever else the method tells.
    validation, test
        Measures by name on those rows: accuracy, AUC, and gaps on the absolute scale.
    history
        Columns of numbers by name, for methods whose way is of interest.
    environment
        Versions.
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
        """Whether there is no result."""
        return self.error is not None

    def without_timings(self) -> Outcome:
        """Return what is the same each time the run is done."""
        history = {name: column for name, column in self.history.items() if name != "seconds"}
        return replace(self, seconds=0.0, history=history)


def read_run(content: Mapping[str, Any]) -> Run:
    """Return the run of a file's content; LookupError, TypeError or ValueError if it is none."""
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
    """Return the outcome of a file's content; TypeError or ValueError if it is none."""
    outcome = Outcome(**content)
    for name in ("fit", "validation", "test", "history", "environment"):
        if not isinstance(getattr(outcome, name), Mapping):
            raise ValueError(f"its {name} is no object")
    if not (outcome.error is None or isinstance(outcome.error, str)) or not _is_number(outcome.seconds):
        raise ValueError("its error is not text, or its seconds are not a number")
    for measures in (outcome.validation, outcome.test):
        if not all(map(_is_number, measures.values())):
            raise ValueError("its measures are not numbers")
    if not outcome.failed and not (outcome.validation and outcome.test):
        raise ValueError("it has neither measures nor an error")
    return outcome


def _is_number(value: Any) -> bool:
    """Whether a value is a float, or an integer that one can hold; unknown measures are NaN."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= _LARGEST_WHOLE)
