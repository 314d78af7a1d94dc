"""LIBSVM's a9a: the UCI Adult census data with every column binned and one-hot coded."""

from __future__ import annotations

import io

import numpy as np

from partialfair.datasets._entry import Entry
from partialfair.datasets.source import PathLike, RemoteFile, read_all
from partialfair.datasets.task import Dataset, Shares, group_series

_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_FILES = (
    RemoteFile(
        dataset="a9a",
        name="a9a/a9a",
        raw_sha256="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
        url=_URL + "a9a",
    ),
    RemoteFile(
        dataset="a9a",
        name="a9a/a9a.t",
        raw_sha256="1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
        url=_URL + "a9a.t",
    ),
)

# LIBSVM publishes numbered columns only. These names come from matching them with UCI Adult row by row;
# of a binned column, the range of its training values is given.
_COLUMNS = {
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
_FEATURE_NAMES = tuple(f"{column}={value}" for column, values in _COLUMNS.items() for value in values.split())
_FEMALE = _FEATURE_NAMES.index("sex=Female")
_MALE = _FEATURE_NAMES.index("sex=Male")


def load_a9a(*, path: PathLike | None = None, drop_sensitive: bool = False) -> Dataset:
    """Load a9a: adults of the 1994 US census.

    The label is an income above $50,000 a year, the sensitive feature the sex. The features are 123 binary
    columns in a CSR matrix, the two of sex among them. The rows of the training file come first;
    `Dataset.split` keeps the test file whole.

    Parameters
    ----------
    path
        The directory that holds ``a9a`` and ``a9a.t``; see the package for where else they are looked for.
    drop_sensitive
        Leave the two columns of sex out of the features.
    """
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    # Without n_features the test part would be a column short: its last one is empty.
    n_features = len(_FEATURE_NAMES)
    parts = [
        load_svmlight_file(io.BytesIO(raw), n_features=n_features, zero_based=False)
        for raw in read_all(_FILES, path)
    ]
    sizes = [len(labels) for _, labels in parts]
    features = sparse.csr_matrix(sparse.vstack([part for part, _ in parts]))
    labels = np.concatenate([part for _, part in parts])
    is_male = features[:, [_MALE]].toarray().ravel() == 1

    kept = [j for j in range(n_features) if not (drop_sensitive and j in (_FEMALE, _MALE))]
    return Dataset(
        name="a9a",
        X=features[:, kept] if drop_sensitive else features,
        y=(labels > 0).astype(np.int8),
        sensitive_features=group_series("sex", is_male, ("Female", "Male")),
        feature_names=tuple(_FEATURE_NAMES[j] for j in kept),
        target_name="income above $50,000",
        interval=(0.05, 0.30),
        description="UCI Adult (US census, 1994), binned and one-hot coded by LIBSVM; training rows first.",
        shares=Shares(0.9, 0.1, test=None),
        max_gaps={
            "statistical_parity": (0.01, 0.05, 0.1, 0.2, 0.28),
            "demographic_parity": (0.005, 0.03, 0.05, 0.1, 0.15),
        },
        official_partition=np.repeat(np.array([0, 2], dtype=np.int8), sizes),
    )


ENTRY = Entry(
    name="a9a",
    loader=load_a9a,
    files=_FILES,
    summary="Income above $50,000 by sex: 48,842 adults of the 1994 US census, 123 binary features",
    terms="LIBSVM's version of UCI Adult, CC BY 4.0 (Becker and Kohavi, 1996)",
)
