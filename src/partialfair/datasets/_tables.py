"""Loads the paper's data sets a9a, bank and law school from their published files."""

from __future__ import annotations

import io

import numpy as np

from partialfair.datasets.source import PathLike, RemoteFile, read_all
from partialfair.datasets.task import Dataset, Entry, Shares, group_series

_A9A_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_A9A_FILES = tuple(
    RemoteFile(dataset="a9a", name=f"a9a/{name}", raw_sha256=digest, url=_A9A_URL + name)
    for name, digest in (
        ("a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        ("a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    )
)

# LIBSVM publishes numbered columns only. These names come from matching them with UCI Adult row by row;
# of a binned column, the range of its training values is given.
_A9A_COLUMNS = {
    "age": "17..25 26..32 33..40 41..49 50..90",
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay"
    " Never-worked",
    "fnlwgt": "12285..106627 106648..158656 158662..196332 196338..259865 259873..1484705",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th"
    " Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    "education-num": "1..8 9..9 10..10 11..12 13..16",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent"
    " Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty"
    " Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv"
    " Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "capital-gain": "0..0 114..99999",
    "capital-loss": "0..0 155..4356",
    "hours-per-week": "1..34 35..39 40..40 41..47 48..99",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc)"
    " India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico"
    " Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala"
    " Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
_A9A_FEATURE_NAMES = tuple(
    f"{column}={value}" for column, values in _A9A_COLUMNS.items() for value in values.split()
)


def fetch_a9a(*, path: PathLike | None = None, drop_sensitive: bool = False) -> Dataset:
    """Load a9a: adults of the 1994 US census.

    The label is an income above $50,000 a year, the sensitive feature the sex. The features are 123 binary
    columns in a CSR matrix, including two for sex. The rows of the training file come first; `Dataset.split`
    leaves the test file whole.

    Parameters
    ----------
    path : str or Path, optional
        The directory that holds ``a9a`` and ``a9a.t``. See `partialfair.datasets` for the default locations.
    drop_sensitive : bool, default=False
        Leave the two columns for sex out of the features.

    Returns
    -------
    Dataset
        48,842 rows, with the interval and the limits of the paper.

    See Also
    --------
    load_adult : A sample of the original data, which ships with the package.

    Examples
    --------
    >>> from partialfair.datasets import fetch_a9a
    >>> data = fetch_a9a()  # doctest: +SKIP
    >>> data  # doctest: +SKIP
    <Dataset a9a: 48,842 rows, 123 features, sex: Female 16,192, Male 32,650>
    """
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    # Without n_features the test part would be a column short: its last one is empty.
    n_features = len(_A9A_FEATURE_NAMES)
    sexes = [_A9A_FEATURE_NAMES.index(f"sex={sex}") for sex in ("Female", "Male")]
    parts = [
        load_svmlight_file(io.BytesIO(raw), n_features=n_features, zero_based=False)
        for raw in read_all(_A9A_FILES, path)
    ]
    sizes = [len(labels) for _, labels in parts]
    features = sparse.csr_matrix(sparse.vstack([part for part, _ in parts]))
    labels = np.concatenate([part for _, part in parts])
    is_male = features[:, sexes[1:]].toarray().ravel() == 1
    chosen = [j for j in range(n_features) if not (drop_sensitive and j in sexes)]
    return Dataset(
        name="a9a",
        X=features[:, chosen] if drop_sensitive else features,
        y=(labels > 0).astype(np.int8),
        sensitive_features=group_series("sex", is_male, ("Female", "Male")),
        feature_names=tuple(_A9A_FEATURE_NAMES[j] for j in chosen),
        target_name="income above $50,000",
        interval=(0.05, 0.30),
        description="UCI Adult (US census, 1994), binned and one-hot coded by LIBSVM; training rows first.",
        shares=Shares(0.9, 0.1, test=None),  # of the training file; the test file stays whole
        max_gaps={
            "statistical_parity": (0.01, 0.05, 0.1, 0.2, 0.28),
            "demographic_parity": (0.005, 0.03, 0.05, 0.1, 0.15),
        },
        official_partition=np.repeat(np.array([0, 2], dtype=np.int8), sizes),  # training and test rows
    )


A9A = Entry(
    name="a9a",
    loader=fetch_a9a,
    files=_A9A_FILES,
    summary="Income above $50,000 by sex: 48,842 adults of the 1994 US census, 123 binary features",
    terms="LIBSVM's version of UCI Adult, CC BY 4.0 (Becker and Kohavi, 1996)",
)


_BANK_FILES = (
    RemoteFile(
        dataset="bank",
        name="bank/bank-additional-full.csv",  # all rows, with the 5 economic columns
        raw_sha256="74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        url="https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        members=("bank-additional.zip", "bank-additional/bank-additional-full.csv"),
    ),
)


def fetch_bank(*, path: PathLike | None = None, duration: bool = False) -> Dataset:
    """Load the bank data: clients who were called by a Portuguese bank.

    The label is a subscribed term deposit, the sensitive feature the age group: ``"25-60"`` (both included)
    or ``"other"``. The features are a frame of floats: the numeric columns, including the age, and one 0/1
    column for every category except the first of each categorical column, 52 in all. "unknown" is a category.

    Parameters
    ----------
    path : str or Path, optional
        ``bank-additional-full.csv`` or its directory. See `partialfair.datasets` for the default locations.
    duration : bool, default=False
        Include the length of the last call, a 53rd column. It is known only after the call, together with the
        label, so a model that uses it cannot be deployed.

    Returns
    -------
    Dataset
        41,188 rows, with the interval and the limits of the paper.

    See Also
    --------
    fetch_a9a, fetch_law_school, fetch_acs_income : The other data sets of the paper.

    Examples
    --------
    >>> from partialfair.datasets import fetch_bank
    >>> data = fetch_bank()  # doctest: +SKIP
    >>> data.X.shape  # doctest: +SKIP
    (41188, 52)
    """
    import pandas as pd

    (raw,) = read_all(_BANK_FILES, path)
    table = pd.read_csv(io.BytesIO(raw), sep=";")
    inputs = table.drop(columns=["y"] if duration else ["y", "duration"])
    features = pd.get_dummies(inputs, prefix_sep="=", drop_first=True).astype(np.float64)  # of texts alone
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


BANK = Entry(
    name="bank",
    loader=fetch_bank,
    files=_BANK_FILES,
    summary="Term deposit subscribed by age group: 41,188 calls of a Portuguese bank, 52 features",
    terms="UCI Bank Marketing, CC BY 4.0 (Moro, Cortez and Rita, 2014)",
)


_LAW_SCHOOL_FILES = (
    RemoteFile(
        dataset="law_school",
        name="law_school/law_school_clean.csv",
        raw_sha256="23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
        url="https://github.com/tailequy/fairness_dataset/raw/abb5a18/experiments/data/law_school_clean.csv",
    ),
)


def fetch_law_school(*, path: PathLike | None = None) -> Dataset:
    """Load the law school data: students of US law schools.

    The label is a bar exam that was passed on the first try, the sensitive feature the race, ``"White"`` or
    ``"Non-White"``. The features are a frame of the 10 other columns, all numeric.

    Parameters
    ----------
    path : str or Path, optional
        ``law_school_clean.csv`` or its directory. See `partialfair.datasets` for the default locations.

    Returns
    -------
    Dataset
        20,798 rows, with the interval and the limits of the paper.

    See Also
    --------
    fetch_a9a, fetch_bank, fetch_acs_income : The other data sets of the paper.

    Examples
    --------
    >>> from partialfair.datasets import fetch_law_school
    >>> data = fetch_law_school()  # doctest: +SKIP
    >>> data.X.shape  # doctest: +SKIP
    (20798, 10)
    """
    import pandas as pd

    (raw,) = read_all(_LAW_SCHOOL_FILES, path)
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


LAW_SCHOOL = Entry(
    name="law_school",
    loader=fetch_law_school,
    files=_LAW_SCHOOL_FILES,
    summary="Bar exam passed by race: 20,798 students of US law schools, 10 features",
    terms="LSAC National Longitudinal Bar Passage Study (Wightman, 1998); the copy states no licence",
)
