"""Generates synthetic admissions data: equal merit in all groups, and unequal records on an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partialfair.datasets.task import Dataset, Entry, categorical, group_series
from partialfair.utils.checks import check_count, random_generator

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from partialfair.utils.typing import Floats

_BAND = (0.15, 0.40)  # ranks from the top, within each group, whose records depend on the group
_FEWEST_ROWS = 100

_GROUPS = ("North", "South", "Islands")
_GROUP_SHARES = (0.50, 0.32, 0.18)
_SHIFT = np.array([0.35, 0.0, -0.35])  # of the record at the middle of the band, in standard deviations

# Proxies: rows are groups in the order above, columns the categories.
_SCHOOLS = ("state", "grammar", "private")
_SCHOOL_SHARES = np.array([[0.45, 0.30, 0.25], [0.60, 0.28, 0.12], [0.82, 0.14, 0.04]])
_RESIDENCES = ("city", "town", "countryside", "coast")
_RESIDENCE_SHARES = np.array([[0.50, 0.30, 0.18, 0.02], [0.35, 0.33, 0.25, 0.07], [0.08, 0.20, 0.12, 0.60]])
_COACHED_SHARES = np.array([0.45, 0.35, 0.20])

_ADMISSION_SLOPE, _ADMISSION_CUT = 3.0, 0.65


def make_admissions(n: int = 6000, *, seed: int = 0) -> Dataset:
    """Generate applicants of three groups whose records differ on one interval of ranks only.

    Merit has the same distribution in every group. At ranks 15 to 40% from the top the records of applicants
    from the North are above their merit and those of applicants from the Islands below it, most in the middle
    of this interval and not at its ends; elsewhere records equal merit. Historical decisions followed the
    record, so a model fitted to them gives the groups equal scores outside the interval and different scores
    inside it.

    The features are a frame of mixed types: three noisy measurements of the record, with missing values; a
    count, a flag and two categorical columns that depend on the group, one of them with missing values.
    ``historical_score`` is the committee's own score, from 0 to 100.

    Parameters
    ----------
    n : int, default=6000
        Number of applicants.
    seed : int, default=0
        The same seed gives the same data.

    Returns
    -------
    Dataset
        With ``interval=(0.15, 0.40)``.

    See Also
    --------
    load_adult : Real data that ship with the package.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> make_admissions(seed=0)
    <Dataset admissions: 6,000 rows, 7 features, origin: North 3,000, South 1,920, Islands 1,080>
    """
    check_count(n, "n", low=_FEWEST_ROWS)  # three groups are to have members
    from scipy.special import ndtri

    rng = random_generator(seed, "seed")
    ends = np.rint(np.cumsum(_GROUP_SHARES) * n)  # so that sizes of groups follow the shares exactly
    group = rng.permutation(np.searchsorted(ends, np.arange(n), side="right"))

    # Standard normal, and stratified: one draw from each of n_k equally likely slices. Groups of a thousand
    # then agree outside the band far better than independent draws would let them.
    merit = np.empty(n)
    for code in range(len(_GROUPS)):
        members = np.flatnonzero(group == code)
        merit[members] = ndtri((rng.permutation(len(members)) + rng.random(len(members))) / len(members))

    # A tent: 1 in the middle of the contested band, falling to 0 at its ends and beyond.
    low, high = float(ndtri(1.0 - _BAND[1])), float(ndtri(1.0 - _BAND[0]))
    tent = np.maximum(0.0, 1.0 - np.abs(2.0 * merit - low - high) / (high - low))
    record = merit + _SHIFT[group] * tent
    seen = record + 0.1 * rng.normal(size=n)  # by the committee
    admitted = rng.random(n) < 1.0 / (1.0 + np.exp(-_ADMISSION_SLOPE * (seen - _ADMISSION_CUT)))
    features = _features(group, record, rng)
    return Dataset(
        name="admissions",
        X=features,
        y=admitted.astype(np.int8),
        sensitive_features=group_series("origin", group, _GROUPS),
        feature_names=tuple(features.columns),
        target_name="admitted",
        interval=_BAND,
        description="Made data: equal merit, unequal records at ranks 15 to 40% from the top of each group.",
        historical_score=np.clip(50.0 + 14.0 * seen, 0.0, 100.0),
    )


def _features(group: npt.NDArray[np.intp], record: Floats, rng: np.random.Generator) -> pd.DataFrame:
    import pandas as pd

    n = len(group)
    readings = {
        "test_score": np.clip(500.0 + 100.0 * (record + 0.25 * rng.normal(size=n)), 200.0, 800.0).round(),
        "gpa": np.clip(2.6 + 0.45 * (record + 0.30 * rng.normal(size=n)), 0.0, 4.0).round(2),
        "essay": np.clip(5.5 + 1.4 * (record + 0.40 * rng.normal(size=n)), 0.0, 10.0).round(1),
    }
    school = _draw_categories(_SCHOOL_SHARES[group], rng)
    residence = _draw_categories(_RESIDENCE_SHARES[group], rng)
    for name, share in {"gpa": 0.05, "essay": 0.08}.items():
        readings[name][rng.random(n) < share] = np.nan
    school[rng.random(n) < 0.04] = -1  # missing, to pandas
    return pd.DataFrame(
        {
            **readings,
            "n_activities": rng.poisson(3.0, size=n),
            "coached": rng.random(n) < _COACHED_SHARES[group],
            "school_type": categorical(school, _SCHOOLS),
            "residence": categorical(residence, _RESIDENCES),
        }
    )


def _draw_categories(shares: Floats, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Draw one category for each row of ``shares``, whose rows sum to one."""
    inner_ends = np.cumsum(shares, axis=1)[:, :-1]
    drawn: npt.NDArray[np.int8] = np.sum(rng.random((len(shares), 1)) > inner_ends, axis=1, dtype=np.int8)
    return drawn


ADMISSIONS = Entry(
    name="admissions",
    loader=make_admissions,
    files=(),
    summary="Admitted by origin: made data, three groups, unlike records at ranks 15 to 40% from the top",
    terms="made by partialfair, BSD-3-Clause",
)
