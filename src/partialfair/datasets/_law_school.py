"""The LSAC bar passage study, as cleaned by Le Quy et al."""

from __future__ import annotations

import io

import numpy as np

from partialfair.datasets._entry import Entry
from partialfair.datasets.source import PathLike, RemoteFile, read_all
from partialfair.datasets.task import Dataset, Shares, group_series

_FILES = (
    RemoteFile(
        dataset="law_school",
        name="law_school/law_school_clean.csv",
        raw_sha256="23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
        url="https://github.com/tailequy/fairness_dataset/raw/abb5a18/experiments/data/law_school_clean.csv",
    ),
)


def load_law_school(*, path: PathLike | None = None) -> Dataset:
    """Load the law school data: students of US law schools.

    The label is the bar exam passed on the first try, the sensitive feature the race, ``"White"`` or
    ``"Non-White"``. The features are a frame of the 10 other columns, all numeric.

    Parameters
    ----------
    path
        ``law_school_clean.csv`` or its directory; see the package for where else it is looked for.
    """
    import pandas as pd

    (raw,) = read_all(_FILES, path)
    table = pd.read_csv(io.BytesIO(raw))
    features = table.drop(columns=["race", "pass_bar"])
    return Dataset(
        name="law_school",
        X=features,
        y=table["pass_bar"].to_numpy(dtype=np.int8),
        sensitive_features=group_series("race", table["race"] == "Non-White", ("White", "Non-White")),
        feature_names=tuple(features.columns),
        target_name="bar exam passed",
        interval=(0.70, 1.0),
        description="Students who entered US law schools in 1991 (LSAC), as cleaned by Le Quy et al. (2022).",
        shares=Shares(0.5625, 0.1875, 0.25),
        max_gaps={
            "statistical_parity": (0.005, 0.08, 0.1, 0.15, 0.2),
            "demographic_parity": (0.005, 0.04, 0.06, 0.1, 0.15),
        },
    )


ENTRY = Entry(
    name="law_school",
    loader=load_law_school,
    files=_FILES,
    summary="Bar exam passed by race: 20,798 students of US law schools, 10 features",
    terms="LSAC National Longitudinal Bar Passage Study (Wightman, 1998); the copy states no licence",
)
