"""UCI Bank Marketing: calls of a Portuguese bank, 2008 to 2010."""

from __future__ import annotations

import io

import numpy as np

from partialfair.datasets._entry import Entry
from partialfair.datasets.source import PathLike, RemoteFile, read_all
from partialfair.datasets.task import Dataset, group_series

_FILES = (
    RemoteFile(
        dataset="bank",
        name="bank/bank-additional-full.csv",
        raw_sha256="74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        url="https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        members=("bank-additional.zip", "bank-additional/bank-additional-full.csv"),
    ),
)
_CATEGORICAL = [
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "poutcome",
]


def load_bank(*, path: PathLike | None = None, duration: bool = False) -> Dataset:
    """Load the bank data: clients called by a Portuguese bank.

    The label is a term deposit subscribed, the sensitive feature the age group: ``"25-60"`` (both included)
    or ``"other"``. The features are a frame of floats: the numeric columns, the age among them, and one 0/1
    column for every category but the first of each categorical column, 52 in all. "unknown" is a category.

    Parameters
    ----------
    path
        ``bank-additional-full.csv`` or its directory; see the package for where else it is looked for.
    duration
        Keep the length of the last call, a 53rd column. It is known only after the call, when the answer
        is known too, so a model that uses it cannot be used.
    """
    import pandas as pd

    (raw,) = read_all(_FILES, path)
    table = pd.read_csv(io.BytesIO(raw), sep=";")
    inputs = table.drop(columns=["y"] if duration else ["y", "duration"])
    dummies = pd.get_dummies(inputs, columns=_CATEGORICAL, prefix_sep="=", drop_first=True)
    features = dummies.astype(np.float64)
    return Dataset(
        name="bank",
        X=features,
        y=np.asarray(table["y"] == "yes", dtype=np.int8),
        sensitive_features=group_series("age_group", ~table["age"].between(25, 60), ("25-60", "other")),
        feature_names=tuple(features.columns),
        target_name="term deposit subscribed",
        interval=(0.0, 0.25),
        description="Telephone campaign of a Portuguese bank, 2008 to 2010, with dummy columns.",
        max_gaps={
            "statistical_parity": (0.01, 0.08, 0.22, 0.3),
            "demographic_parity": (0.01, 0.03, 0.05, 0.07, 0.1),
        },
    )


ENTRY = Entry(
    name="bank",
    loader=load_bank,
    files=_FILES,
    summary="Term deposit subscribed by age group: 41,188 calls of a Portuguese bank, 52 features",
    terms="UCI Bank Marketing, CC BY 4.0 (Moro, Cortez and Rita, 2014)",
)
