"""Fitted models as ONNX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.onnx._facts import facts_of
from partialfair.onnx._graph import Graph, Kind, Name
from partialfair.onnx._groups import group_inputs
from partialfair.onnx._models import GraphRows
from partialfair.onnx._reading import Decision, Exported, exported
from partialfair.onnx._tables import table_rows, table_scores
from partialfair.tables import TableModel
from partialfair.utils.files import write_file

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OUTPUTS", "to_onnx"]

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
        held = table_scores(model)
        rows = table_rows(graph, model, held, OUTPUTS)
        facts = facts_of(model.classifier, held, codes=False)
    else:
        held = exported(model)
        rows = _rows(graph, held)
        facts = facts_of(model, held)
    scores = held.scores.scores(graph, rows)
    graph.output("scores", scores, "double")
    if held.decision is not None:
        _decide(graph, scores, held.decision)
    made = graph.model(facts, facts["partialfair"], f"{facts['model']} of partialfair {facts['partialfair']}")
    if path is not None:
        write_file(path, made.SerializeToString())
    return made


def _rows(graph: Graph, held: Exported) -> GraphRows:
    """Declare the inputs of a model."""
    n_features = held.scores.n_features
    name = "unadjusted" if n_features is None else "X"
    table = graph.input(name, "double", n_features)
    labels = held.scores.group_labels
    return GraphRows(
        table, group_inputs(graph, labels, held.group_columns, {name: "double"}) if labels else None
    )


def _decide(graph: Graph, scores: Name, decision: Decision) -> None:
    """Return the label, and the probabilities of both classes."""
    kind, values = _labels(decision)
    above = graph.cast(graph.op("Greater", scores, graph.constant(decision.cut)), "int64")
    chosen = graph.op("Where", graph.op("IsNaN", scores), graph.constant(2), above)
    graph.output("label", graph.op("Gather", graph.constant(values), chosen), kind)
    if decision.link is not None:
        both = (decision.link.complements(graph, scores), decision.link.probabilities(graph, scores))
        table = graph.op("Concat", *map(graph.column, both), axis=1)
        graph.output("probabilities", table, "double", 2)


def _labels(decision: Decision) -> tuple[Kind, Any]:
    """Return the kind of labels, and both classes with what is said where there is no score."""
    classes = decision.classes.tolist()
    if all(isinstance(one, int) for one in classes):  # booleans are 0 and 1
        return "int64", np.array([*map(int, classes), int(min(classes)) - 1], dtype=np.int64)
    if all(isinstance(one, int | float) for one in classes):
        return "double", np.array([*classes, np.nan], dtype=np.float64)
    return "string", np.array([*map(str, classes), ""], dtype=object)
