"""Exported models, run by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx")


def run(model: Any, **inputs: Any) -> dict[str, np.ndarray]:
    """Return the outputs of an exported model by name; texts are handed over as objects."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {name: np.asarray(values) for name, values in inputs.items()}
    texts = {name: values.astype(object) for name, values in given.items() if values.dtype.kind in "UT"}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, given | texts), strict=True))


def metadata(model: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def as_numbers(X: Any) -> np.ndarray:
    """Return a table of tests.tree_models as an exported model takes it: codes for categories."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, dtype=np.float64)
    coded = X.assign(e=X["e"].cat.codes.astype(float).replace(-1.0, np.nan)) if "e" in X else X
    return coded.to_numpy(dtype=np.float64)


def tree_attributes(model: Any) -> dict[str, np.ndarray]:
    """Return what the first TreeEnsemble of an exported model holds."""
    from onnx import helper, numpy_helper

    (node, *_) = [node for node in model.graph.node if node.op_type == "TreeEnsemble"]
    held = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    return {
        name: numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)
        for name, value in held.items()
    }
