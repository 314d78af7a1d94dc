"""Read the arguments of ``fit`` and ``predict``: features, target, groups, weights and clusters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Number
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

from partialfair.constraints.base import Constraint
from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import Groups, column_names, encode_groups, group_name
from partialfair.data.samples import Features, Samples, n_rows_of
from partialfair.exceptions import InputError, InputTypeError
from partialfair.metrics.inputs import cluster_codes
from partialfair.optimization.problems import Cells
from partialfair.training.remarks import small_sample_gap_warning
from partialfair.training.statement import check_groups, group_constraints
from partialfair.utils.checks import (
    as_array,
    check_choice,
    check_sparse,
    check_weights,
    finite_vector,
    first_text,
    refuse_dates,
    refuse_lazy,
    refuse_masked,
    shown,
)
from partialfair.utils.text import listed, reads_as_negative
from partialfair.utils.typing import ArrayLike, Bools, GroupLabel


def read_samples(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    sensitive_features: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    *,
    reset: bool = True,
    groups_needed: bool = True,
) -> Samples:
    """Return checked rows for fits and paths.

    Parameters
    ----------
    estimator
        Estimator whose methods read the features and the target.
    X, y, sensitive_features, sample_weight, clusters
        As in ``fit``.
    reset
        Whether the estimator will expect the columns of this X from now on.
    groups_needed
        Whether to raise `InputError` if no groups are given.
    """
    # Tree estimators read tables, linear models read numbers.
    features, columns = estimator._read_features(X, reset=reset)
    n_rows = n_rows_of(features)
    target = estimator._read_target(y, n_rows)
    weights = None
    if sample_weight is not None:
        if not check_weights(sample_weight, n_rows, "rows of X").any():
            raise InputError("sample_weight is zero in every row")
        # Not scaled: the regularization of trees (Hessians, smallest leaves) depends on the sum of weights.
        weights = finite_vector(sample_weight, "sample_weight")
    groups: Groups | None = Groups.none(n_rows)
    if groups_needed:
        advice = "; missing_groups='ignore' uses such rows in the loss only"
        groups = read_groups(sensitive_features, columns, n_rows, estimator.missing_groups, advice=advice)
        terms = estimator.group_terms
        if groups is None:
            wanted = "a constraint" if estimator.constraint else f"group_terms={terms!r}"
            raise InputError(
                f"{wanted} needs the group of every row: pass sensitive_features to fit, or name the "
                "columns of X in sensitive_columns"
            )
        # Rows with weight 0 count as absent and may lack a group.
        missing = (groups.codes < 0) & (weights is None or weights > 0)
        if terms is not None and missing.any():
            row = int(missing.argmax())
            raise InputError(f"group_terms={terms!r} needs the group of every row; row {row} has none")
        if reset:
            estimator._group_columns = names_of(sensitive_features)
    assert groups is not None
    codes = None if clusters is None else cluster_codes(clusters, n_rows)
    return Samples(features, target, groups, weights, codes)


def adopt_samples(estimator: Any, samples: Samples, *, reset: bool = True) -> Samples:
    """Return rows that were read and encoded elsewhere, with features in the estimator's format."""
    if reset:
        estimator._group_columns = ()
    clusters = None if samples.clusters is None else cluster_codes(samples.clusters, samples.n)
    features = estimator._read_features(samples.X, reset=reset)[0]
    return replace(samples, X=features, clusters=clusters)


def check_sample_groups(
    samples: Samples, constraints: Sequence[Constraint], min_group_size: int, positive: Bools | None = None
) -> None:
    """Raise `InputError` if no constraint can compare the groups; warn of groups that are too small."""
    if not constraints:
        return
    if samples.n == 1:
        raise InputError("X has one sample; a constraint compares rows of at least two groups")
    labels = samples.groups.labels
    if len(labels) < 2:
        found = f"only group {group_name(labels[0])!r}" if labels else "no group"
        raise InputError(f"sensitive_features has {found}; a constraint needs at least two groups")
    cells = Cells(samples.row_weights, samples.groups.codes, positive)
    grouped = group_constraints(constraints, samples.groups, cells, min_group_size)
    check_groups(grouped)
    remark = small_sample_gap_warning(grouped, cells)
    if remark is not None:
        warnings.warn(remark, stacklevel=4)


def read_features(
    estimator: Any, X: ArrayLike, sensitive_columns: Any, *, reset: bool
) -> tuple[Features, dict[str, ArrayLike] | None]:
    """Return the features as numbers, and the columns of X that hold the groups.

    ``n_features_in_`` and ``feature_names_in_`` describe X as it was passed, sensitive columns included.
    """
    refuse_masked(X, "X")
    check_sparse(X, "X")
    if isinstance(X, CategoricalCodes):
        if sensitive_columns is not None:
            raise InputError("sensitive_columns cannot be read from integer codes; pass sensitive_features")
        code_names = np.asarray(X.feature_names, dtype=object)
        if reset:
            estimator.n_features_in_, estimator.feature_names_in_ = code_names.size, code_names
        elif not np.array_equal(code_names, getattr(estimator, "feature_names_in_", np.empty(0))):
            raise InputError("the columns or categories of X differ from those in fit")
        return X, None
    if sensitive_columns is None:
        features, groups = _convert_table(partial(validate_data, estimator, reset=reset), X), None
    else:
        features, groups = part_features(estimator, X, sensitive_columns, reset=reset)
        features = _convert_table(partial(check_array, estimator=estimator), features)
    left_out = set() if sensitive_columns is None else set(_locate(X, sensitive_columns)[1])
    _check_finite(features, estimator, left_out)
    return features, groups


def part_features(
    estimator: Any, X: ArrayLike, sensitive_columns: Any, *, reset: bool
) -> tuple[Features, dict[str, ArrayLike] | None]:
    """Return X without the columns that hold the groups, and those columns, if there are any."""
    refuse_lazy(X, "X")
    # The stored names and number of columns include the sensitive columns.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if sensitive_columns is None:
        return X, None
    names, places = _locate(X, sensitive_columns)
    groups = {name: _column(X, place) for name, place in zip(names, places, strict=True)}
    return _without(X, places), groups


def feature_name(estimator: Any, feature: int) -> str:
    """Return the name of a feature for messages: its column name, if columns have names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return f"feature {feature} of X"
    left_out = estimator.sensitive_columns
    single = left_out is None or isinstance(left_out, str | int | np.integer)
    left_out = [left_out] if single else list(left_out)
    # Sensitive columns are given by name or by position.
    left_out = [names[one] if isinstance(one, int | np.integer) else one for one in left_out]
    return f"feature {shown([name for name in names if name not in left_out][feature])}"


def read_groups(
    sensitive_features: ArrayLike | None,
    columns: Mapping[str, ArrayLike] | None,
    n_rows: int,
    missing: Literal["error", "ignore"] = "error",
    *,
    advice: str = "",
) -> Groups | None:
    """Return the group of every row from ``sensitive_features`` or columns of X; None if neither is given."""
    check_choice(missing, "missing_groups", ("error", "ignore"))
    sources = [source for source in (columns, sensitive_features) if source is not None]
    found = [
        encode_groups(source, n_rows=n_rows, rows_of="rows of X", missing=missing, advice=advice)
        for source in sources
    ]
    if len(found) == 2:
        # Both may be given, as in pipelines, if their groups correspond one to one under any names.
        pairs = np.unique(np.stack([one.codes for one in found]), axis=1)
        if any(len(np.unique(codes)) < codes.size for codes in pairs):
            raise InputError(
                "sensitive_features and sensitive_columns give different groups; omit one of them"
            )
    return found[0] if found else None


def names_of(source: ArrayLike | None) -> tuple[Any, ...]:
    """Return the names of the columns that are crossed, if there are several and they have names."""
    names = tuple(source) if isinstance(source, Mapping) else tuple(column_names(source) or ())
    return names if len(names) > 1 else ()


def in_columns_of(names: tuple[Any, ...], source: ArrayLike | None) -> ArrayLike | None:
    """Return the columns of the sensitive features in their order in fit."""
    given = names_of(source)
    if source is None or not names or not given or given == names:
        return source
    if set(given) != set(names):
        raise InputError(f"sensitive_features has columns {_listing(given)}, and fit {_listing(names)}")
    return {name: source[name] for name in names}


def known_groups(groups: Groups, known: tuple[GroupLabel, ...]) -> Groups:
    """Return the same groups, coded by their positions among the groups seen in training."""
    position = {label: k for k, label in enumerate(known)}
    for label in groups.labels:
        if label not in position:
            raise InputError(f"group {label!r} was not seen in fit, which saw {_listing(known)}")
    # Group terms are in the order of fit, whichever groups occur here.
    codes = np.array([position[label] for label in groups.labels], dtype=np.int32)
    return Groups(codes[groups.codes], known)


def read_target(y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
    """Return a target of one column with one value per row, none missing or infinite."""
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None")
    refuse_masked(y, "y")
    refuse_repeated_names(y, "y")
    given = as_array(y, "y")
    if given.dtype.names:
        raise InputError("y must be one column, not records with fields")
    refuse_dates(given, "y")
    if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 1):
        raise InputError(f"y must have one column, not the shape {given.shape}")
    target = np.asarray(column_or_1d(given, warn=True))
    if len(target) != n_rows:
        raise InputError(f"y has {len(target)} rows, but there are {n_rows} rows of X")
    if (missing := np.flatnonzero(pd.isna(target) | np.isin(target, [np.inf, -np.inf]))).size:
        raise InputError(
            f"y has {missing.size} values that are NaN or infinite, the first in row {missing[0]}"
        )
    return target


def two_classes(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the two labels in order; raise `InputError` if there are not exactly two."""
    classes = np.unique(labels)
    if classes.size == 2:
        return classes
    if classes.size == 1:
        raise InputError(f"y has only one class, {classes.tolist()[0]!r}; a classifier needs two")
    first = ", ".join(map(repr, classes.tolist()[:5]))
    raise InputError(f"Only binary classification is supported. y has {classes.size} classes: {first}")


def check_names_of_classes(classes: npt.NDArray[Any]) -> None:
    """Raise `InputError` if the names of the labels suggest that the larger label is the negative one."""
    first, second = classes.tolist()
    if reads_as_negative(second) and not reads_as_negative(first):
        raise InputError(
            f"y has the labels {first!r} and {second!r}: by name {first!r} is positive, but high scores mean "
            f"{second!r}, the larger; fit y == {first!r}, or set higher_is_better=False, so that ranks count "
            "from low scores"
        )


def check_labels(labels: npt.NDArray[Any]) -> None:
    """Raise `InputError` if a classifier's target is continuous or has labels of several types."""
    try:
        check_classification_targets(labels)
    except TypeError:  # labels that cannot be sorted
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(f"y holds labels of different types ({', '.join(kinds)}); use one type") from None


def _convert_table(check: Callable[..., Features], X: ArrayLike) -> Features:
    """Convert a table by scikit-learn's check; if that fails, name the column and the value."""
    refuse_repeated_names(X, "X")
    # Data types of the columns, or of an array; lists have none, and Arrow types have no kind.
    dtypes = [X.dtype] if hasattr(X, "dtype") else getattr(X, "dtypes", getattr(X, "schema", ()))
    if not sparse.issparse(X) and any(getattr(one, "kind", "O") in "mMO" for one in dtypes):
        _refuse_dates(X)  # scikit-learn would read dates as counts of nanoseconds
    try:
        return check(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, OverflowError):
            raise InputError(f"X cannot be read as numbers: {error}") from None
        table = X if hasattr(X, "columns") else np.asarray(X, dtype=object)
        if not table.shape:
            raise InputError(f"X must have two dimensions, not 0: it is {shown(X)}") from None
        if len(table.shape) == 1 and any(isinstance(row, list | tuple) for row in table):
            raise InputError("X has rows of different lengths") from None
        if str(error).startswith("setting an array element"):
            raise InputError(f"X cannot be read as numbers: {error}") from None
        _refuse_dates(table)
        for place in range(table.shape[1] if len(table.shape) == 2 else 0):
            if (text := first_text(_column(table, place))) is not None:
                raise InputError(
                    f"{_named(X, place)} holds {shown(text)}, which is not a number; encode it first, or "
                    "name it in sensitive_columns if it is the group"
                ) from None
            readable = str | bytes | Number | np.generic
            objects = np.asarray(_column(table, place), dtype=object).ravel()
            unknown = [one for one in objects if not isinstance(one, readable) and one is not None]
            if unknown:
                raise InputTypeError(
                    f"{_named(X, place)} holds {shown(unknown[0])}; an argument must be a string or a real "
                    "number"
                ) from None
        raise


def refuse_repeated_names(table: ArrayLike, name: str) -> None:
    """Raise `InputError` for a table in which two columns have the same name."""
    names = () if sparse.issparse(table) else names_of(table)  # some sparse formats are mappings
    if len(set(names)) < len(names):
        twice = next(one for k, one in enumerate(names) if one in names[:k])
        raise InputError(f"{name} has several columns named {twice!r}; give each column a different name")


def _refuse_dates(X: ArrayLike) -> None:
    for place in range(X.shape[1] if len(X.shape) == 2 else 0):
        refuse_dates(np.asarray(_column(X, place)), _named(X, place))


def _named(X: ArrayLike, place: int) -> str:
    names = column_names(X)
    return f"column {place} of X" if names is None else f"column {names[place]!r} of X"


def _locate(X: ArrayLike, sensitive_columns: Any) -> tuple[list[str], list[int]]:
    """Return the names of the sensitive columns for messages, and their positions in X."""
    if len(np.shape(X)) != 2:
        raise InputError(f"X must have two dimensions, not {len(np.shape(X))}")
    single = isinstance(sensitive_columns, str | int | np.integer)
    try:
        wanted = [sensitive_columns] if single else list(sensitive_columns)
    except TypeError:
        raise InputError(f"sensitive_columns must name columns, not {shown(sensitive_columns)}") from None
    if not wanted:
        raise InputError("sensitive_columns is empty; name the columns of X that hold the group")
    columns = column_names(X)
    n_columns = len(columns) if columns is not None else np.shape(X)[1]
    names, places = [], []
    for column in wanted:
        if columns is not None and column in columns:
            if columns.count(column) > 1:
                raise InputError(f"X has several columns named {column!r}")
            place = columns.index(column)
        elif (
            isinstance(column, int | np.integer)
            and not isinstance(column, bool)
            and -n_columns <= column < n_columns
        ):
            place = int(column) % n_columns
        else:
            kind = "names" if isinstance(column, str) else "is"
            known = f"; it has {_listing(columns)}" if columns is not None else f", which has {n_columns}"
            raise InputError(f"sensitive_columns {kind} {column!r}, which is not a column of X{known}")
        names.append(str(columns[place]) if columns is not None else f"column {place}")
        places.append(place)
    if len(set(places)) < len(places):
        raise InputError(f"sensitive_columns lists a column twice: {wanted}")
    if len(places) == n_columns:
        raise InputError("sensitive_columns names all columns of X, so no feature is left")
    return names, places


def _column(X: ArrayLike, place: int) -> ArrayLike:
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    if (names := column_names(X)) is not None:
        return X[names[place]]
    if sparse.issparse(X):
        return X.tocsc()[:, [place]].toarray().ravel()
    return np.asarray(X)[:, place]


def _without(X: ArrayLike, places: list[int]) -> ArrayLike:
    keep = [j for j in range(np.shape(X)[1]) if j not in set(places)]
    if hasattr(X, "iloc"):
        return X.iloc[:, keep]
    if (names := column_names(X)) is not None:
        return X.select([names[j] for j in keep])
    if sparse.issparse(X):
        return X.tocsc()[:, keep]
    return np.asarray(X)[:, keep]


def _check_finite(X: Features, estimator: Any, left_out: set[int]) -> None:
    """Raise `InputError` for missing or infinite features outside the sensitive columns."""
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():  # a finite sum is the faster check
            return
    bad = ~np.isfinite(values)
    what = "NaN" if np.isnan(values).any() else "infinity"
    if sparse.issparse(X):
        rows, columns = sparse.csr_matrix((bad, X.indices, X.indptr), shape=X.shape).nonzero()
    else:
        rows, columns = bad.nonzero()
    place = [place for place in range(estimator.n_features_in_) if place not in left_out][columns[0]]
    names = getattr(estimator, "feature_names_in_", None)
    raise InputError(
        f"X contains {what}: {int(bad.sum())} values are not finite, the first in row {rows[0]}, column "
        f"{place if names is None else repr(names[place])}"
    )


def _listing(names: Iterable[Any]) -> str:
    return listed([shown(name) for name in names], most=8)
