"""``partialfair demo``: the whole audit on the embedded data, nothing to download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partialfair.cli._output import step
from partialfair.datasets import make_admissions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["demo_scores"]


def demo_scores(seed: int) -> tuple[pd.DataFrame, tuple[float, float]]:
    """Train an ordinary logistic regression on synthetic admissions and score the people it has not seen.

    Returns
    -------
    DataFrame
        Columns ``score`` (log-odds), the group, and ``label``.
    """
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = make_admissions(30_000, seed=seed)
    split = data.split(seed)
    X, y, _ = data.subset(split.train)
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    categories = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    model = make_pipeline(
        make_column_transformer(
            (numeric, make_column_selector(dtype_include=["number", "bool"])),
            (categories, make_column_selector(dtype_exclude=["number", "bool"])),
        ),
        LogisticRegression(max_iter=1000),
    )
    with step("training a logistic regression without any constraint"):
        model.fit(X, y)
    X_test, y_test, group = data.subset(split.test)
    scores = group.to_frame()
    scores.insert(0, "score", model.decision_function(X_test))
    scores["label"] = y_test
    return scores, data.interval
