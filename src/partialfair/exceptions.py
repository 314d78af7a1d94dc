"""Errors and warnings of partialfair.

``InputError`` and its subclasses report unusable input, ``MissingExtraError`` a missing optional package.
Each warning has its own class, so that `warnings.filterwarnings` can silence it or turn it into an error.
"""

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
    """The data or settings cannot be used; the message names the argument, column or row, and the remedy.

    See Also
    --------
    InputTypeError : The same for values that are neither numbers nor text.

    Examples
    --------
    >>> from partialfair.exceptions import InputError
    >>> from partialfair.metrics import partial_statistical_parity_difference
    >>> try:
    ...     partial_statistical_parity_difference(None, [1, 2], sensitive_features=["a"])
    ... except InputError as error:
    ...     print(error)
    sensitive_features has 1 rows, but there are 2 scores
    """


class InputTypeError(InputError, TypeError):
    """The data hold a value that is neither a number nor text, for which scikit-learn raises TypeError.

    See Also
    --------
    InputError : The base class.

    Examples
    --------
    >>> from partialfair.exceptions import InputError, InputTypeError
    >>> issubclass(InputTypeError, InputError), issubclass(InputTypeError, TypeError)
    (True, True)
    """


class MissingExtraError(ImportError):
    """An optional package is not installed; the message names the extra that installs it.

    See Also
    --------
    InputError : Unusable data or settings.

    Examples
    --------
    >>> from partialfair.exceptions import MissingExtraError
    >>> try:
    ...     raise MissingExtraError("drawing needs matplotlib: pip install 'partialfair[cli]'")
    ... except ImportError as error:
    ...     print(error)
    drawing needs matplotlib: pip install 'partialfair[cli]'
    """


class DataFetchError(InputError):
    """A data file could not be found, downloaded or verified; the message names the remedies.

    See Also
    --------
    partialfair.datasets : The functions that read data files.

    Examples
    --------
    >>> from partialfair.datasets import fetch_a9a
    >>> from partialfair.exceptions import DataFetchError
    >>> try:
    ...     fetch_a9a(path="no/such/directory")
    ... except DataFetchError as error:
    ...     print(str(error)[:17])
    there is no a9a/a
    """


class UncenteredFeatureWarning(UserWarning):
    """A feature has a mean that is large compared with its standard deviation, so precision is lost.

    Issued by ``fit``; subtract the mean of the feature, or use a scaler.

    See Also
    --------
    PenalizedFeatureWarning : A feature has a small scale.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import UncenteredFeatureWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UncenteredFeatureWarning)
    """


class ThresholdOutsideIntervalWarning(UserWarning):
    """The threshold's rank lies outside the interval of some group, so scores inside do not change the gap.

    Issued by metrics, reports and ``fit``; choose a threshold inside the interval, or statistical parity.

    See Also
    --------
    UndefinedGapWarning : The gap is nan.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import ThresholdOutsideIntervalWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ThresholdOutsideIntervalWarning)
    """


class SmallSampleGapWarning(UserWarning):
    """The limit of the gap is far below what the training set can detect; new data will show a larger gap.

    Issued by ``fit``; choose a larger ``max_gap``, see `partialfair.metrics.detectable_gap`.

    See Also
    --------
    SmallGroupWarning : A group is too small.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import SmallSampleGapWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SmallSampleGapWarning)
    """


class PenalizedFeatureWarning(UserWarning):
    """A feature has such a small scale that the penalty keeps its coefficient near 0.

    Issued by ``fit``; scale the features, or reduce ``alpha``.

    See Also
    --------
    UncenteredFeatureWarning : A feature has a large mean.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import PenalizedFeatureWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", PenalizedFeatureWarning)
    """


class SmallGroupWarning(UserWarning):
    """A group has too few members, in all or inside the interval, for reliable results.

    Issued by reports and ``fit``; merge small groups, or widen the interval.

    See Also
    --------
    SmallSampleGapWarning : The limit is too small for the sample.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import SmallGroupWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SmallGroupWarning)
    """


class SurrogateWarning(UserWarning):
    """The surrogate of a constraint implies little about the exact gap of the trained model.

    Issued by ``fit`` with ``enforce="surrogate"``.

    See Also
    --------
    UninformativeModelWarning : The model is no better than a constant.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import SurrogateWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SurrogateWarning)
    """


class UndefinedGapWarning(UserWarning):
    """A gap is nan because some group has no rows to compare, for instance no positives in the interval.

    Issued by the metrics that compare labels.

    See Also
    --------
    ThresholdOutsideIntervalWarning : The gap does not depend on the scores inside.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import UndefinedGapWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UndefinedGapWarning)
    """


class UninformativeModelWarning(UserWarning):
    """The training objective of a model is not below that of the constant model with equal scores.

    Issued by ``fit``; the penalty may be too large, or the limits too small.

    See Also
    --------
    SurrogateWarning : The surrogate differs from the exact gap.

    Examples
    --------
    >>> import warnings
    >>> from partialfair.exceptions import UninformativeModelWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UninformativeModelWarning)
    """
