"""Tables as ``partialfair train`` read them: one input a column, made features within the graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from partialfair.onnx._graph import Graph, Kind, Name
from partialfair.onnx._groups import group_inputs
from partialfair.onnx._models import GraphRows, Linear
from partialfair.onnx._reading import Exported, exported
from partialfair.tables import CategoryColumn, Column, NumberColumn, TableModel

__all__ = ["table_rows", "table_scores"]


def table_scores(model: TableModel) -> Exported:
    """Return what of a model of tables is exported: its classifier, with the table's labels and groups."""
    held = exported(model.classifier)
    assert held.decision is not None  # a model of tables is a classifier
    scores = held.scores
    if isinstance(scores, Linear) and scores.group_labels:
        scores = replace(
            scores, group_labels=tuple(_as_in_table(model, label) for label in scores.group_labels)
        )
    return replace(
        held,
        scores=scores,
        decision=replace(held.decision, classes=np.array(model.labels, dtype=object)),
        feature_names=tuple(column.name for column in model.columns),
        group_columns=tuple(group.name for group in model.groups),
    )


def table_rows(graph: Graph, model: TableModel, held: Exported, outputs: Collection[str]) -> GraphRows:
    """Declare one input for each column, doubles or texts, and make features of them.

    An empty cell is NaN, or an empty text. A column that is called as an output is called ``column x``.
    """
    kinds: dict[Name, Kind] = {}
    parts = []
    as_they_are = model.classifier.takes_tables
    for place, column in enumerate(model.columns):
        name = f"column {column.name}" if column.name in outputs else column.name
        kinds[name] = "double" if isinstance(column, NumberColumn) else "string"
        value = graph.input(name, kinds[name])
        if as_they_are:
            parts.append(_as_it_is(graph, column, value, held.scores.categories.get(place)))
        else:
            parts.append(_encoded(graph, column, value))
    table = graph.op("Concat", *parts, axis=1)
    labels = held.scores.group_labels
    return GraphRows(table, group_inputs(graph, labels, held.group_columns, kinds) if labels else None)


def _encoded(graph: Graph, column: Column, value: Name) -> Name:
    """Return the features of one column, as `Column.entries` makes them."""
    if isinstance(column, CategoryColumn):
        levels = [
            *column.levels,
            *([""] if column.gaps else []),
        ]  # gaps come last; strangers are none of them
        codes = graph.column(graph.lookup(value, levels, len(levels)))
        places = graph.constant(np.arange(len(levels))[None])
        return graph.cast(graph.op("Equal", codes, places), "double")
    gaps = graph.op("IsNaN", value)
    filled = graph.op("Where", gaps, graph.constant(column.median), value)
    centred = graph.op("Sub", filled, graph.constant(column.mean))
    scaled = graph.column(graph.op("Div", centred, graph.constant(column.scale)))
    if not column.gaps:
        return scaled
    return graph.op("Concat", scaled, graph.column(graph.cast(gaps, "double")), axis=1)


def _as_it_is(graph: Graph, column: Column, value: Name, order: Sequence[Any] | None) -> Name:
    """Return a column as trees take it: numbers, or codes in the library's order; NaN for other levels."""
    if isinstance(column, NumberColumn):
        return graph.column(value)
    levels = [str(level) for level in order or column.levels]
    code = graph.lookup(value, levels, len(levels))
    known = graph.op("Less", code, graph.constant(len(levels)))
    return graph.column(graph.op("Where", known, graph.cast(code, "double"), graph.constant(np.nan)))


def _as_in_table(model: TableModel, label: Any) -> Any:
    """Return a group as the cells of the table hold it; codes are written with their column in messages."""
    cells = label if isinstance(label, tuple) else (label,)
    plain = tuple(
        cell.removeprefix(f"{group.name}=") if group.coded else cell
        for group, cell in zip(model.groups, cells, strict=True)
    )
    return plain if isinstance(label, tuple) else plain[0]
