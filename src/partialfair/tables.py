"""Convert tables with text, numbers and missing values to features, with the models that use them.

Numbers are standardized, ``(x − mean) / scale``. Missing values are replaced by the median and, if there were
any in training, marked by another feature. Text becomes one feature per level; missing values are a level.
"""

from __future__ import annotations

import difflib
import re
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from partialfair.data.columns import LARGEST, MAX_LEVELS, as_text, kind_of, more_rows, numbers_in, row_count
from partialfair.data.samples import Features
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.inputs import refuse_repeated_names
from partialfair.exceptions import InputError
from partialfair.utils.checks import refuse_lazy, shown
from partialfair.utils.text import listed
from partialfair.utils.typing import ArrayLike, Floats, Ints

__all__ = [
    "MAX_LEVELS",
    "CategoryColumn",
    "Column",
    "GroupColumn",
    "NumberColumn",
    "TableEncoder",
    "TableModel",
    "as_text",
    "encode",
    "make_table_pipeline",
    "missing_columns",
    "read_columns",
    "tree_features",
    "unseen_levels",
]

_MOST_NAMED, _LONGEST_NAME = 8, 40  # in messages


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, with its training statistics.

    Attributes
    ----------
    name, median, mean, scale
        Mean and scale are those of the values with missing ones replaced by the median.
    gaps
        Whether values were missing, so that a second feature marks missing values.
    """

    name: str
    median: float
    mean: float
    scale: float
    gaps: bool

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return [self.name, f"{self.name} is missing"] if self.gaps else [self.name]

    @property
    def typical(self) -> float:
        """A value that occurred in training, or nearly."""
        return self.median

    def entries(self, values: pd.Series) -> tuple[Ints, Floats]:
        """Return for each row the positions of its features, and their values: (n, 1 or 2) each."""
        numbers = numbers_in(values)
        gaps = np.isnan(numbers)
        scaled = (np.where(gaps, self.median, numbers) - self.mean) / self.scale
        table = np.column_stack([scaled, gaps]) if self.gaps else scaled[:, None]
        return np.tile(np.arange(table.shape[1]), (len(table), 1)), np.asarray(table, dtype=np.float64)

    def tree_values(self, values: pd.Series) -> Floats:
        """Return the numbers; nan for missing ones."""
        return np.asarray(numbers_in(values), dtype=np.float64)

    def unseen(self, values: pd.Series) -> str | None:
        """Return a sentence about values that did not occur in training; None if there are none."""
        gaps = 0 if self.gaps else int(np.isnan(numbers_in(values)).sum())
        if not gaps:
            return None
        where = f"column {self.name!r} is empty in {row_count(gaps)}"
        return f"{where}, and never was in training: the median is used"


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: its levels in training, and whether some cells were empty."""

    name: str
    levels: tuple[str, ...]
    gaps: bool

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return [f"{self.name}={level}" for level in self.levels] + [f"{self.name} is missing"] * self.gaps

    @property
    def typical(self) -> str | None:
        """A value that occurred in training."""
        return self.levels[0] if self.levels else None

    def entries(self, values: pd.Series) -> tuple[Ints, Floats]:
        """Return for each row the position of its level, and 1, or 0 for levels not in training."""
        codes = self._codes(values)
        known = codes < len(self.feature_names)
        return np.where(known, codes, 0)[:, None], known.astype(np.float64)[:, None]

    def tree_values(self, values: pd.Series) -> Any:
        """Return a pandas categorical; levels that did not occur in training are missing."""
        codes = self._codes(values)
        known: Any = np.where(codes < len(self.levels), codes, -1)
        return pd.Categorical.from_codes(known, pd.Index(list(self.levels)))

    def unseen(self, values: pd.Series) -> str | None:
        """Return a sentence about values that did not occur in training; None if there are none."""
        codes = self._codes(values)
        unknown = np.flatnonzero(codes >= len(self.feature_names))
        if not unknown.size:
            return None
        first = as_text(values.iloc[unknown[:1]]).tolist()[0]
        what = "empty cells" if pd.isna(first) else f"values such as {first!r}"
        return (
            f"column {self.name!r} has {what} in {row_count(unknown.size)}, which did not occur in training: "
            "no level is assumed"
        )

    def _codes(self, values: pd.Series) -> npt.NDArray[np.int64]:
        """Return positions among the levels; then come missing values, then levels not in training."""
        text = as_text(values)
        found = pd.Index(self.levels, dtype=object).get_indexer(pd.Index(text, dtype=object))
        after = len(self.levels)
        strange = np.where(text.isna().to_numpy(), after + (not self.gaps), after + 1)
        return np.where(found >= 0, found, strange).astype(np.int64)


Column: TypeAlias = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class GroupColumn:
    """A column that holds the group; numeric codes are written with their column, ``"sex=1"``."""

    name: str
    coded: bool

    def labels(self, values: pd.Series) -> pd.Series:
        """Return the group of every row as text."""
        text = as_text(values, strip=False)
        return f"{self.name}=" + text if self.coded else text


@dataclass(frozen=True, eq=False)
class TableModel:
    """A classifier of tables with its preprocessing, which ``partialfair train`` and ``path`` save.

    Attributes
    ----------
    target, labels
        The target column, and its two values; the second is the positive one.
    columns
        The columns that are features.
    groups
        The columns that hold the group; read at prediction only if the classifier has group terms.
    ids
        Columns that identify a row.
    classifier
        The classifier, fitted on the features; True stands for the positive label.
    satisfied
        Whether the constraint is satisfied: for ``train`` the training gap, for ``path`` the gap in the
        population with the requested confidence; None without a constraint.
    """

    target: str
    labels: tuple[str, str]
    columns: tuple[Column, ...]
    groups: tuple[GroupColumn, ...]
    ids: tuple[str, ...]
    classifier: Any
    satisfied: bool | None = None

    @property
    def needed(self) -> list[str]:
        """Names of the columns that are needed to score a table."""
        groups = [group.name for group in self.groups] if self.classifier.group_terms is not None else []
        return [column.name for column in self.columns] + groups

    @property
    def feature_names(self) -> list[str]:
        """The features of the classifier's coefficients."""
        return [name for column in self.columns for name in column.feature_names]

    def check(self) -> None:
        """Raise `InputError`, a part of a sentence, if a model from a file could not score a table."""
        held = vars(self)
        labels, columns, groups = held.get("labels"), held.get("columns"), held.get("groups")
        if not (
            _is_texts(labels, n=2) and isinstance(held.get("target"), str) and _is_texts(held.get("ids"))
        ):
            raise InputError("its target, labels or ids are not names")
        if not (isinstance(columns, tuple) and columns and all(map(_is_column, columns))):
            raise InputError("its columns are not columns of a table")
        if not (isinstance(groups, tuple) and all(map(_is_group_column, groups))):
            raise InputError("its groups are not columns of a table")
        classifier = held.get("classifier")
        if not (isinstance(classifier, PartialFairEstimator) and is_classifier(classifier)):
            raise InputError("its classifier is missing or of another kind")
        # Shapes and dtypes that scoring relies on; files may be untrusted.
        classifier._check_stored()
        if vars(self.classifier).get("sensitive_columns") is not None:
            raise InputError("its classifier reads the group from features")
        if not hasattr(self.classifier, "result_"):
            raise InputError("its classifier is not fitted")
        row = self._made_up_row()  # scoring finds what the checks above have missed
        if not (np.isfinite(self.decision_function(row)).all() and self.predict_proba(row).shape == (1, 2)):
            raise InputError("it returns no valid scores")

    def _made_up_row(self) -> pd.DataFrame:
        """Return a table of one row with everything that the model needs."""
        row: dict[str, Any] = {column.name: column.typical for column in self.columns}
        if self.classifier.group_terms is not None:
            label = self.classifier.groups_[0]
            cells = label if isinstance(label, tuple) else (label,)
            for group, cell in zip(self.groups, cells, strict=True):
                row[group.name] = cell.removeprefix(f"{group.name}=") if group.coded else cell
        return pd.DataFrame({name: [cell] for name, cell in row.items()}, dtype=object)

    def decision_function(self, table: pd.DataFrame) -> Floats:
        """Return the scores of the rows; `decide` returns their labels."""
        scores: Floats = self.classifier.decision_function(*self._inputs(table))
        return scores

    def predict(self, table: pd.DataFrame) -> npt.NDArray[Any]:
        """Return the label of every row."""
        return self.decide(self.decision_function(table))

    def decide(self, scores: Floats) -> npt.NDArray[Any]:
        """Return the labels of scores: the positive one above the classifier's decision threshold."""
        positive = np.asarray(scores > self.classifier.decision_threshold_)
        return np.array(self.labels, dtype=object)[positive.astype(np.intp)]

    def predict_proba(self, table: pd.DataFrame) -> Floats:
        """Return the probabilities of the two labels."""
        return np.asarray(self.classifier.predict_proba(*self._inputs(table)))

    def unseen_levels(self, table: pd.DataFrame) -> list[str]:
        """Return a sentence for each column with values that did not occur in training."""
        return unseen_levels(self.columns, table, for_trees=self.classifier.takes_tables)

    def _inputs(self, table: pd.DataFrame) -> tuple[Features, pd.DataFrame | None]:
        """Return the features and, if the classifier needs them, the groups."""
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"the model needs tables (pandas DataFrames), not {type(table).__name__}")
        self._check_columns([str(name) for name in table.columns])
        if not len(table):
            raise InputError("the table has no rows to score")
        groups = None
        if self.classifier.group_terms is not None:
            groups = pd.DataFrame({group.name: group.labels(table[group.name]) for group in self.groups})
            for name in groups:
                if (gaps := np.flatnonzero(groups[name].isna())).size:
                    raise InputError(
                        f"column {name!r} is empty in data row {gaps[0] + 1}{more_rows(gaps.size)}; the "
                        "model has group terms, so it needs the group of every row"
                    )
        if not self.classifier.takes_tables:
            return encode(self.columns, table), groups
        # XGBoost was trained on numbered levels; see `tree_features`.
        numbered = type(self.classifier.estimator_).__module__.startswith("xgboost.")
        return tree_features(self.columns, table, numbered_levels=numbered), groups

    def _check_columns(self, present: list[str]) -> None:
        missing = [name for name in self.needed if name not in present]
        if missing:
            unused = [name for name in present if name not in self.needed]
            raise InputError(
                f"the table has no {missing_columns(missing, unused)}, which the model was trained on"
            )
        for name in self.needed:
            if present.count(name) > 1:
                raise InputError(f"the table has {present.count(name)} columns {name!r}; rename all but one")


def _is_texts(value: Any, n: int | None = None) -> bool:
    """Whether a value is a tuple of different texts, and of n of them if n is given."""
    is_texts = isinstance(value, tuple) and all(isinstance(text, str) for text in value)
    return is_texts and len(set(value)) == len(value) and n in (None, len(value))


def _is_column(value: Any) -> bool:
    """Whether a value is a valid column of features."""
    if not isinstance(value, NumberColumn | CategoryColumn):
        return False
    held = vars(value)
    if not (isinstance(held.get("name"), str) and type(held.get("gaps")) is bool):
        return False
    if isinstance(value, CategoryColumn):
        return _is_texts(held.get("levels"))
    numbers = [held.get(name) for name in ("median", "mean", "scale")]
    return all(type(number) is float and np.isfinite(number) for number in numbers) and value.scale > 0


def _is_group_column(value: Any) -> bool:
    held = vars(value) if isinstance(value, GroupColumn) else {}
    return isinstance(held.get("name"), str) and type(held.get("coded")) is bool


def missing_columns(missing: Sequence[str], present: Sequence[str]) -> str:
    """Return the names of missing columns, each with the most similar present one; long lists are cut."""
    by_lower_case = {str(name).lower(): str(name) for name in present}
    named = []
    for name in missing[:_MOST_NAMED]:
        # Compared in lower case, because a wrong case is the most common error.
        close = difflib.get_close_matches(name.lower()[:_LONGEST_NAME], by_lower_case, n=1, cutoff=0.7)
        hint = f" ({shown(by_lower_case[close[0]], _LONGEST_NAME)} is similar)" if close else ""
        named.append(f"{shown(name, _LONGEST_NAME)}{hint}")
    named_columns = listed([*named, *missing[_MOST_NAMED:]], most=_MOST_NAMED)
    return f"column{'s' if len(missing) > 1 else ''} {named_columns}"


def encode(columns: Sequence[Column], table: pd.DataFrame) -> Features:
    """Return the features of a table, as a sparse matrix if most of them are 0."""
    positions, values = [], []
    width = 0
    for column in columns:
        places, entries = column.entries(table[column.name])
        positions.append(places + width)
        values.append(entries)
        width += len(column.feature_names)
    indices, data = np.hstack(positions), np.hstack(values)
    starts = np.arange(len(table) + 1) * data.shape[1]
    features = sparse.csr_matrix((data.ravel(), indices.ravel(), starts), shape=(len(table), width))
    # The format depends on columns only: the score of a row must not depend on the other rows.
    return features if 3 * data.shape[1] < width else features.toarray()


def tree_features(
    columns: Sequence[Column], table: pd.DataFrame, *, numbered_levels: bool = False
) -> pd.DataFrame:
    """Return the columns in the format of trees: numbers and categories, with missing values.

    Libraries reject names with brackets, commas and similar characters, so words are joined by underscores.
    With ``numbered_levels`` categories are named "0", "1" and so on, for XGBoost: version 3.2 stores only
    some bytes of names that are not ASCII, and confuses ä with ü.
    """
    names = [re.sub(r"\W", "_", column.name) for column in columns]
    # Different names may become equal; then they are numbered.
    if len(set(names)) < len(names):
        names = [f"{name}_{number}" for number, name in enumerate(names)]
    taken = {
        name: column.tree_values(table[column.name]) for name, column in zip(names, columns, strict=True)
    }
    if numbered_levels:
        taken = {
            name: _numbered(values) if isinstance(values, pd.Categorical) else values
            for name, values in taken.items()
        }
    return pd.DataFrame(taken, index=table.index)


def _numbered(values: pd.Categorical) -> Any:
    return pd.Categorical.from_codes(
        values.codes, pd.Index([str(code) for code in range(len(values.categories))])
    )


def unseen_levels(columns: Sequence[Column], table: pd.DataFrame, *, for_trees: bool = False) -> list[str]:
    """Return a sentence for each column with values not in training, and how they are treated."""
    found = [column.unseen(table[column.name]) for column in columns]
    sentences = [sentence for sentence in found if sentence is not None]
    if for_trees:
        sentences = [f"{sentence.rpartition(': ')[0]}: they count as missing" for sentence in sentences]
    return sentences


class TableEncoder(TransformerMixin, BaseEstimator):
    """Transformer from the columns of a table to features; see `make_table_pipeline`.

    Parameters
    ----------
    categories : sequence of str, default=()
        As in `make_table_pipeline`.
    drop : sequence of str, default=()
        As in `make_table_pipeline`.
    for_trees : bool, default=False
        Whether columns stay numeric and categorical, as trees accept them.
    numbered_levels : bool, default=False
        Whether categories are numbered, for XGBoost; see `tree_features`.

    Attributes
    ----------
    columns_ : tuple of NumberColumn or CategoryColumn
        The columns with their training statistics.
    """

    def __init__(
        self,
        *,
        categories: Sequence[str] = (),
        drop: Sequence[str] = (),
        for_trees: bool = False,
        numbered_levels: bool = False,
    ) -> None:
        self.categories = categories
        self.drop = drop
        self.for_trees = for_trees
        self.numbered_levels = numbered_levels

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Infer the types of the columns; warn of columns that look like another type."""
        table = _read_table(X)
        names: list[str] = table.columns.tolist()
        for name, given in (("categories", self.categories), ("drop", self.drop)):
            if isinstance(given, str):
                raise InputError(f"{name} must be a list of columns, not {given!r}; write [{given!r}]")
            if missing := [column for column in given if column not in names]:
                raise InputError(f"{name} has {missing_columns(missing, names)}, which X does not have")
        used = [name for name in names if name not in self.drop]
        self.columns_, notes = read_columns(
            table, used, np.arange(len(table)), categories=self.categories, option="drop=[{}]"
        )
        for note in notes:
            in_python = note.replace("--category", "categories").replace("by --id or --drop", "by drop")
            warnings.warn(in_python, stacklevel=2)
        self.n_features_in_ = table.shape[1]
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, X: ArrayLike) -> Features:
        """Return the features of a table with the columns of `fit`, in any order."""
        check_is_fitted(self)
        table = _read_table(X)
        missing = [column.name for column in self.columns_ if column.name not in table]
        if missing:
            known = set(self.feature_names_in_)
            others = [name for name in table.columns.tolist() if name not in known]
            raise InputError(f"X has no {missing_columns(missing, others)}, which was in fit")
        if self.for_trees:
            return tree_features(self.columns_, table, numbered_levels=self.numbered_levels)
        return encode(self.columns_, table)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return the names of the features."""
        check_is_fitted(self)
        if self.for_trees:
            return np.array([column.name for column in self.columns_], dtype=object)
        return np.array([name for column in self.columns_ for name in column.feature_names], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False  # columns need names
        return tags


def make_table_pipeline(
    estimator: PartialFairEstimator,
    *,
    categories: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Pipeline:
    """Return a pipeline for tables with text, numbers and missing values, as the command line reads them.

    Numeric columns are standardized; missing values are replaced by the median and marked by another feature.
    Text columns, and columns named in ``categories``, become one feature per level, with a level for missing
    values. A level that did not occur in `fit` sets none of them. Trees get numeric and categorical columns
    unchanged.

    Parameters
    ----------
    estimator : PartialFairClassifier, PartialFairRegressor or PartialFairTrees
        Estimator to fit on the features.
    categories : sequence of str, default=()
        Numeric columns that are codes of categories.
    drop : sequence of str, default=()
        Columns that are not features, such as names of rows or the group.

    Returns
    -------
    Pipeline
        A `TableEncoder` and the estimator; parameters of ``fit`` for the estimator have its name in lower
        case as a prefix.

    See Also
    --------
    save_model : Save the pipeline with its columns.
    PartialFairClassifier : An estimator for numeric features.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from partialfair import PartialFairClassifier, make_table_pipeline
    >>> schools = ["state", "private", None, "state"] * 50
    >>> table = pd.DataFrame({"school": schools, "score": np.arange(200) / 8})
    >>> hired = ["yes" if score > 9 else "no" for score in table["score"]]
    >>> sex = ["f", "m"] * 100
    >>> pipe = make_table_pipeline(PartialFairClassifier(interval=(0.1, 0.6), max_gap=0.2))
    >>> pipe = pipe.fit(table, hired, partialfairclassifier__sensitive_features=sex)
    >>> pipe.predict(table[:1]).tolist()
    ['no']
    """
    if not isinstance(estimator, PartialFairEstimator):
        raise InputError(
            f"make_table_pipeline needs an estimator of partialfair, not {type(estimator).__name__}"
        )
    # By the module of the model's class, because this module does not import trees.
    library = type(getattr(estimator, "estimator", None)).__module__.partition(".")[0]
    encoder = TableEncoder(
        categories=categories,
        drop=drop,
        for_trees=estimator.takes_tables,
        numbered_levels=library == "xgboost",
    )
    return make_pipeline(encoder, estimator)


def _read_table(X: ArrayLike) -> pd.DataFrame:
    """Return a pandas table whose columns have different names of type str."""
    refuse_lazy(X, "X")
    table = X if isinstance(X, pd.DataFrame) or not hasattr(X, "to_pandas") else X.to_pandas()
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            f"X must be a table with named columns (pandas, polars, pyarrow), not {type(X).__name__}; use "
            "the estimator itself for arrays of numbers"
        )
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    refuse_repeated_names(table, "X")
    if not len(table):
        raise InputError("X has no rows")
    return table


def read_columns(
    table: pd.DataFrame,
    names: Sequence[str],
    rows: Ints,
    *,
    categories: Sequence[str] = (),
    option: str | None = None,
) -> tuple[tuple[Column, ...], list[str]]:
    """Infer the types of a table's columns; return the columns, and notes on what is not obvious.

    Parameters
    ----------
    table
        All rows; the type of a column is inferred from all of them.
    names
        The columns to read.
    rows
        Training rows, which determine levels, medians, means and scales.
    categories
        Numeric columns that are codes of categories.
    option
        How to drop columns, with ``{}`` for their names in Python; by default as on the command line.
    """
    columns: list[Column] = []
    troubles: dict[str, str] = {}
    notes: list[str] = []
    for name in names:
        values = table[name]
        # Inferred from all rows, so that the type does not depend on the split.
        kind = kind_of(values, name in categories)
        # Collected, so that one message names all of them.
        if kind.trouble is not None:
            troubles[name] = kind.trouble
            continue
        column = _numbers_of(values, rows) if kind.numbers else _categories_of(values, rows)
        if column is None:
            notes.append(f"column {name!r} is the same in every training row, and is left out")
            continue
        columns.append(column)
        if kind.note is not None:
            notes.append(kind.note)
    if troubles:
        sentences = [f"column {shown(name, _LONGEST_NAME)} {trouble}" for name, trouble in troubles.items()]
        options = " ".join(f"--drop {shlex.quote(name)}" for name in troubles)
        if option is not None:
            options = option.format(", ".join(map(repr, troubles)))
        raise InputError(
            f"{listed(sentences, most=5)}; leave such columns out with {options}, or make features of them"
        )
    if not columns:
        named = listed([shown(name, _LONGEST_NAME) for name in names], most=5)
        verb = "is" if len(names) == 1 else "are"
        alike = f": {named} {verb} the same in every training row" if names else ""
        raise InputError(f"the table has no column left to make features of{alike}")
    return tuple(columns), notes


def _numbers_of(values: pd.Series, rows: Ints) -> NumberColumn | None:
    """Return the column with its training statistics; None if all rows are equal."""
    numbers = numbers_in(values)[rows]
    gaps = np.isnan(numbers)
    if gaps.all():
        return None
    median = float(np.median(numbers[~gaps]))
    filled = np.where(gaps, median, numbers)
    alike = np.ptp(filled) < 1 / LARGEST
    if alike and not gaps.any():
        return None
    # If only missing values differ, the numbers themselves add nothing.
    scale = 1.0 if alike else float(filled.std())
    return NumberColumn(str(values.name), median, float(filled.mean()), scale, bool(gaps.any()))


def _categories_of(values: pd.Series, rows: Ints) -> CategoryColumn | None:
    text = as_text(values).iloc[rows]
    levels, gaps = tuple(sorted(text.dropna().unique())), bool(text.isna().any())
    return None if len(levels) + gaps < 2 else CategoryColumn(str(values.name), levels, gaps)
