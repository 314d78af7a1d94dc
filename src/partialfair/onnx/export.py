"""Fitted models as ONNX: inputs, scores, decisions, and metadata that say what a model is."""

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
"""Names of what a model returns."""


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> ModelProto:
    """Return a fitted model as ONNX, which runs without partialfair and without the library it came from.

    Inputs are ``X``, the features in double precision (columns of ``sensitive_columns`` left out), and, only
    if scores depend on the group, ``group`` with labels as in ``groups_``: texts, whole numbers, booleans or
    doubles, one column; where columns were crossed, one input each, called as they are. An adjuster without a
    scorer takes ``unadjusted`` scores instead of ``X``; a model that ``partialfair train`` saved takes the
    columns of its table.

    Outputs are ``scores``, as ``decision_function`` or, of regressors, ``predict`` gives them, and of
    classifiers ``label`` and, where the model has any, ``probabilities`` of both classes. Arithmetic is in
    double precision: scores of refitted trees and of adjusters are the same to the last bit, those of linear
    models but for the order of sums. What Python refuses has no score: rows of a group that the model does
    not know, and rows with missing values where it takes none, have NaN for scores, and a ``label`` that is
    none of the classes (an empty text, NaN, or the least class minus 1).

    Parameters
    ----------
    model
        A fitted `PartialFairClassifier`, `PartialFairRegressor`, `PartialFairTrees` (of LightGBM, XGBoost or
        scikit-learn) or `PartialParityAdjuster`, by itself or around such a model, around trees or a linear
        model of scikit-learn; a pipeline of scalers that ends in one; or a model of ``partialfair train``.
    path
        Where to write it, if it is to be written. An existing file is replaced, at once or not at all.

    Returns
    -------
    onnx.ModelProto
        Checked. Its metadata tell what was asked of the model and what the codes of categories stand for.
        It needs onnxruntime 1.21, with splits on categories 1.23.
    """
    if isinstance(model, type):
        raise InputError(f"to_onnx takes a fitted model, not the class {model.__name__}")
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
    """Return the label, and the probabilities of both classes."""
    # Both classes, and what is returned where there is no score.
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
    """Return what of a model of tables is exported: its classifier, with the table's labels and groups."""
    exported = read_model(model.classifier)
    if exported.group_labels:
        # As the cells of the table hold groups; codes are written with their column in messages.
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
    """Declare one input for each column, doubles or texts, and make features of them.

    An empty cell is NaN, or an empty text. A column that is called as an output is called ``column x``.
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
    """Return the features of one column, as `Column.entries` makes them."""
    if isinstance(column, CategoryColumn):
        # Gaps come last; unknown levels are none of them.
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
    """Return a column as trees read it: numbers, or codes in the library's order; NaN for other levels."""
    if isinstance(column, NumberColumn):
        return graph.column(value)
    levels = [str(level) for level in order or column.levels]
    code = graph.lookup(value, levels, len(levels))
    known = graph.op("Less", code, graph.constant(len(levels)))
    return graph.column(graph.op("Where", known, graph.cast(code, "double"), graph.constant(np.nan)))


def _metadata(model: Any, exported: ExportedModel, *, has_codes: bool) -> dict[str, str]:
    """Return what a model says about itself: texts, most of them JSON.

    What codes stand for is among it where the inputs hold codes.
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
