"""What partialfair raises when the fault is in what it was given."""

from __future__ import annotations

__all__ = [
    "DataFetchError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "PenalizedFeatureWarning",
    "SmallGroupWarning",
    "SmallSampleGapWarning",
    "SurrogateWarning",
    "ThresholdOutsideIntervalWarning",
    "UncenteredFeatureWarning",
    "UndefinedGapWarning",
    "UninformativeModelWarning",
]


class InputError(ValueError):
    """The caller's data or settings cannot be used; the message names the culprit in one sentence."""


class InputTypeError(InputError, TypeError):
    """Data hold a value that is neither a number nor a text; scikit-learn's estimators raise a TypeError."""


class MissingExtraError(ImportError):
    """A feature needs an optional dependency that is not installed; the message names the extra."""


class DataFetchError(InputError):
    """A data file could not be found, downloaded or verified; the message names the ways out."""


class UncenteredFeatureWarning(UserWarning):
    """The mean of a feature is so large beside its standard deviation that few digits tell values apart."""


class ThresholdOutsideIntervalWarning(UserWarning):
    """The threshold lies outside the interval of some group, where no score inside can change the gap."""


class SmallSampleGapWarning(UserWarning):
    """The gap asked for in training is far narrower than so few people can show: others will see a wider."""


class PenalizedFeatureWarning(UserWarning):
    """A feature is counted in such a small unit that the penalty keeps its coefficient at nearly 0."""


class SmallGroupWarning(UserWarning):
    """A group, or its share of the interval, has too few members for the numbers to mean much."""


class SurrogateWarning(UserWarning):
    """Training met the surrogate of a constraint in a way that says little about the exact gap."""


class UndefinedGapWarning(UserWarning):
    """A gap is nan because some group has nobody to compare (for instance no positives in the band)."""


class UninformativeModelWarning(UserWarning):
    """The training objective of a model is not below that of the constant model, whose scores are equal."""
