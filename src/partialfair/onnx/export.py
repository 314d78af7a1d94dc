"""Export of fitted models to ONNX: inputs, scores, decisions and metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import group_name
from partialfair.exceptions import InputError
from partialfair.onnx.graph import Graph, GroupInputs, Kind, Name
from partialfair.onnx.models import GraphRows
from partialfair.onnx.reading import Decision, ExportedModel, read_linear_estimator, read_model
from partialfair.tables import CategoryColumn, Column, NumberColumn, TableModel
from partialfair.utils.files import write_file

if TYPE_CHECKING:
    from onnx import ModelProto

OUTPUTS = ("scores", "label", "probabilities")
"""Names of the outputs."""


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> ModelProto:
    """Convert a fitted model to ONNX, which runs without partialfair and without the original library.

    The inputs are ``X``, the features in double precision without the columns of ``sensitive_columns``, and,
    only if scores depend on the group, ``group``, one column with labels as in ``groups_`` (texts, whole
    numbers, booleans or doubles). Intersectional groups have one input for each of their columns, with the
    same names. An adjuster without an estimator has the input ``unadjusted`` scores instead of ``X``. A model
    that ``partialfair train`` saved has one input for each column of its table.

    The outputs are ``scores``, as in ``decision_function`` or, for regressors, ``predict``; for classifiers
    also ``label`` and, if the model has them, ``probabilities`` of both classes. The arithmetic is in double
    precision: scores of refitted trees and of adjusters are equal to the last bit, and scores of linear
    models are equal up to the order of sums. Rows for which Python raises an error (rows of an unknown group,
    and missing values that the model does not support) have NaN as their score, and a ``label`` that is not
    one of the classes (an empty text, NaN, or the smallest class minus 1).

    Parameters
    ----------
    model : estimator
        A fitted `PartialFairClassifier`, `PartialFairRegressor`, `PartialFairTrees` (of LightGBM, XGBoost or
        scikit-learn) or `PartialParityAdjuster` (alone, or with such a model or a tree ensemble or linear
        model of scikit-learn as its estimator); a pipeline of scalers that ends in one; or a model of
        ``partialfair train``.
    path : str or path-like, default=None
        The file to write. An existing file is replaced atomically. If None, no file is written.

    Returns
    -------
    onnx.ModelProto
        The checked model. Its metadata contain the constraints and the meaning of category codes. It needs
        onnxruntime 1.21, or 1.23 with splits on categories.

    Raises
    ------
    InputError
        If the model cannot be exported.

    See Also
    --------
    partialfair.save_model : Save a fitted model for use from Python.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.onnx import to_onnx
    >>> data = make_admissions(500, seed=0)
    >>> X = data.X.select_dtypes("number").fillna(0)
    >>> clf = PartialFairClassifier("statistical_parity", interval=(0.15, 0.4), max_gap=0.2)
    >>> clf = clf.fit(X, data.y, sensitive_features=data.sensitive_features)
    >>> [output.name for output in to_onnx(clf).graph.output]
    ['scores', 'label', 'probabilities']
    """
    if isinstance(model, type):
        raise InputError(f"to_onnx needs a fitted model, not the class {model.__name__}")
    graph = Graph()
    if isinstance(model, TableModel):
        exported = _read_table_model(model)
        rows = _table_inputs(graph, model, exported)
        metadata = _metadata(model.classifier, exported, has_codes=False)
    else:
        exported = read_model(model)
        name = "unadjusted" if exported.n_features is None else "X"
        table, groups = graph.input(name, "double", exported.n_features), None
        if labels := exported.group_labels:
            groups = GroupInputs.declare(graph, labels, exported.group_columns, {name: "double"})
        rows = GraphRows(table, groups)
        metadata = _metadata(model, exported, has_codes=True)
    scores = exported.scores(graph, rows)
    graph.output("scores", scores, "double")
    if exported.decision is not None:
        _add_decision(graph, scores, exported.decision)
    release = metadata["partialfair"]
    proto = graph.model(metadata, release, f"{metadata['model']} of partialfair {release}")
    if path is not None:
        write_file(path, proto.SerializeToString())
    return proto


def _add_decision(graph: Graph, scores: Name, decision: Decision) -> None:
    """Add the outputs for the label and for the probabilities of both classes."""
    # Both classes, and the label of rows without a score.
    classes = decision.classes.tolist()
    kind: Kind = "string"
    values = np.array([*map(str, classes), ""], dtype=object)
    if all(isinstance(label, int) for label in classes):  # booleans are 0 and 1
        kind, values = "int64", np.array([*map(int, classes), int(min(classes)) - 1], dtype=np.int64)
    elif all(isinstance(label, int | float) for label in classes):
        kind, values = "double", np.array([*classes, np.nan], dtype=np.float64)
    above = graph.cast(graph.op("Greater", scores, graph.constant(decision.cut)), "int64")
    chosen = graph.op("Where", graph.op("IsNaN", scores), graph.constant(2), above)
    graph.output("label", graph.op("Gather", graph.constant(values), chosen), kind)
    if decision.link is not None:
        both = (decision.link.complements(graph, scores), decision.link.probabilities(graph, scores))
        table = graph.op("Concat", *map(graph.column, both), axis=1)
        graph.output("probabilities", table, "double", 2)


def _read_table_model(model: TableModel) -> ExportedModel:
    """Return the exported parts of a table model: its classifier with the labels and groups of the table."""
    exported = read_model(model.classifier)
    if exported.group_labels:
        # Groups as in the cells of the table; codes have the name of their column in messages only.
        labels = []
        for label in exported.group_labels:
            cells = [
                cell.removeprefix(f"{group.name}=") if group.coded else cell
                for group, cell in zip(
                    model.groups, label if isinstance(label, tuple) else (label,), strict=True
                )
            ]
            labels.append(tuple(cells) if isinstance(label, tuple) else cells[0])
        exported = read_linear_estimator(model.classifier, tuple(labels))
    assert exported.decision is not None  # a model of tables is a classifier
    return replace(
        exported,
        decision=replace(exported.decision, classes=np.array(model.labels, dtype=object)),
        feature_names=tuple(column.name for column in model.columns),
        group_columns=tuple(group.name for group in model.groups),
    )


def _table_inputs(graph: Graph, model: TableModel, exported: ExportedModel) -> GraphRows:
    """Declare one input for each column, doubles or texts, and encode the features.

    An empty cell is NaN or an empty text. A column with the name of an output becomes ``column x``.
    """
    kinds: dict[Name, Kind] = {}
    parts = []
    for place, column in enumerate(model.columns):
        name = f"column {column.name}" if column.name in OUTPUTS else column.name
        kinds[name] = "double" if isinstance(column, NumberColumn) else "string"
        value = graph.input(name, kinds[name])
        if model.classifier.takes_tables:
            parts.append(_raw_column(graph, column, value, exported.categories.get(place)))
        else:
            parts.append(_encoded_column(graph, column, value))
    table, groups = graph.op("Concat", *parts, axis=1), None
    if exported.group_labels:
        groups = GroupInputs.declare(graph, exported.group_labels, exported.group_columns, kinds)
    return GraphRows(table, groups)


def _encoded_column(graph: Graph, column: Column, value: Name) -> Name:
    """Return the features of one column, as in `Column.entries`."""
    if isinstance(column, CategoryColumn):
        # Missing values come last; unknown levels have no feature.
        levels = [*column.levels, *([""] if column.gaps else [])]
        codes = graph.column(graph.lookup(value, levels, len(levels)))
        places = graph.constant(np.arange(len(levels))[None])
        return graph.cast(graph.op("Equal", codes, places), "double")
    gaps = graph.op("IsNaN", value)
    filled = graph.op("Where", gaps, graph.constant(column.median), value)
    centered = graph.op("Sub", filled, graph.constant(column.mean))
    scaled = graph.column(graph.op("Div", centered, graph.constant(column.scale)))
    if not column.gaps:
        return scaled
    return graph.op("Concat", scaled, graph.column(graph.cast(gaps, "double")), axis=1)


def _raw_column(graph: Graph, column: Column, value: Name, order: Sequence[Any] | None) -> Name:
    """Return a column as input of trees: numbers, or codes in the library's order; NaN for unknown levels."""
    if isinstance(column, NumberColumn):
        return graph.column(value)
    levels = [str(level) for level in order or column.levels]
    code = graph.lookup(value, levels, len(levels))
    known = graph.op("Less", code, graph.constant(len(levels)))
    return graph.column(graph.op("Where", known, graph.cast(code, "double"), graph.constant(np.nan)))


def _metadata(model: Any, exported: ExportedModel, *, has_codes: bool) -> dict[str, str]:
    """Return the metadata of a model: texts, most of them JSON.

    They include the meaning of category codes if the inputs contain codes.
    """
    result: Any = getattr(model, "result_", None)
    facts: dict[str, Any] = {"model": type(model).__name__, "partialfair": version("partialfair")}
    if hasattr(result, "constraints"):
        stated = [
            (type(constraint).__name__, constraint, gap.value)
            for constraint, gap in zip(result.constraints, result.gaps, strict=True)
        ]
    elif hasattr(model, "maps_"):
        stated = [(model.constraint, model, None if result is None else result.gap)]
    else:
        stated = None
    if stated is not None:
        facts["constraints"] = [
            {
                "constraint": name,
                "interval": {group_name(label): held for label, held in settings.interval.items()}
                if isinstance(settings.interval, Mapping)
                else settings.interval,
                "max_gap": settings.max_gap,
                "gap_scale": settings.gap_scale,
                "training_gap": gap,
            }
            for name, settings, gap in stated
        ]
    if result is not None and result.satisfied is not None:
        facts["satisfied"] = bool(result.satisfied)
    if getattr(model, "groups_", None) is not None:
        facts["groups"] = [group_name(label) for label in model.groups_]
    facts["needs_group"] = bool(exported.group_labels)
    names = exported.feature_names
    if names:
        facts["features"] = list(names)
    if has_codes and exported.categories:
        facts["categories"] = {
            names[place] if names else str(place): levels for place, levels in exported.categories.items()
        }
    if exported.decision is not None:
        facts["classes"] = exported.decision.classes.tolist()
        facts["decision_threshold"] = exported.decision.cut
    return {
        key: value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        for key, value in facts.items()
    }
