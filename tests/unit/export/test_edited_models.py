"""Linear models with numbers that do not fit their features: refused, as onnx's checker may crash."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partialfair.exceptions import InputError

pytest.importorskip("onnx")

from partialfair.onnx.reading import read_model

X = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize(
    ("step", "name", "value"),
    [
        (-1, "coef_", np.ones(6)),
        (-1, "coef_", np.ones((1, 2))),
        (-1, "n_features_in_", 5),
        (0, "mean_", np.ones(2)),
        (0, "scale_", np.ones((3, 3))),
        (0, "n_features_in_", 4),
    ],
)
def test_numbers_that_do_not_fit(step, name, value):
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0)
    read_model(model)
    setattr(model.steps[step][1], name, value)
    with pytest.raises(InputError, match="features"):
        read_model(model)
