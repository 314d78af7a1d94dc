"""Training data whose groups differ in one feature."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="package")
def people():
    """300 people of two groups: "income" carries the group, "merit" does not."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["f", "m"], 300)
    merit, income = rng.normal(size=300), rng.normal(size=300) + 1.2 * (groups == "m")
    y = np.where(merit + 0.7 * income + 0.5 * rng.normal(size=300) > 0.5, "hired", "passed over")
    X = np.column_stack([merit, income])
    frame = pd.DataFrame({"merit": merit, "sex": groups, "income": income})
    return SimpleNamespace(X=X, y=y, groups=groups, frame=frame, numeric=frame.assign(sex=groups == "m"))
