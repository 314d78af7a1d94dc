"""Loads the real data that ship with the package: a sample of UCI Adult, for examples without a network."""

from __future__ import annotations

import gzip
import io
from importlib import resources

import numpy as np

from partialfair.datasets.task import Dataset, Entry, group_series

_FILE = "adult_sample.csv.gz"


def load_adult() -> Dataset:
    """Load a sample of UCI Adult: 5,000 adults of the 1994 US census.

    The label is an income above $50,000 a year, the sensitive feature the sex. The features are a frame of
    the other columns of UCI Adult except ``fnlwgt``, a survey weight, and ``education-num``, a second code
    of ``education``: numbers and text, with missing values. ``historical_score`` is the probability of a
    high income by a logistic regression without sex, out of fold (five folds).

    The rows were drawn at random. The file ships with the package, so no network is needed. Data: Becker and
    Kohavi (1996), CC BY 4.0; the file begins with the attribution.

    Returns
    -------
    Dataset
        With the interval of `fetch_a9a`, which is all of UCI Adult in binary columns.

    See Also
    --------
    fetch_a9a : All 48,842 rows, with binned and one-hot coded features.
    make_admissions : Synthetic data with three groups.

    Examples
    --------
    >>> from partialfair.datasets import load_adult
    >>> load_adult()
    <Dataset adult: 5,000 rows, 11 features, sex: Female 1,662, Male 3,338>
    """
    import pandas as pd

    table = pd.read_csv(io.StringIO(adult_csv()))
    features = table.drop(columns=["sex", "income", "score"])
    return Dataset(
        name="adult",
        X=features,
        y=np.asarray(table["income"] == ">50K", dtype=np.int8),
        sensitive_features=group_series("sex", table["sex"] == "Male", ("Female", "Male")),
        feature_names=tuple(features.columns),
        target_name="income above $50,000",
        interval=(0.05, 0.30),
        description="A random sample of UCI Adult (US census, 1994), drawn by docs/make_adult_sample.py.",
        historical_score=table["score"].to_numpy(dtype=np.float64),
    )


def adult_csv() -> str:
    """Return the sample as CSV with a header, without the notice at its beginning."""
    packed = resources.files(__package__).joinpath(_FILE).read_bytes()
    lines = gzip.decompress(packed).decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


ADULT = Entry(
    name="adult",
    loader=load_adult,
    files=(),
    summary="Income above $50,000 by sex: 5,000 adults of the 1994 US census, ships with the package",
    terms="a sample of UCI Adult, CC BY 4.0 (Becker and Kohavi, 1996)",
)
