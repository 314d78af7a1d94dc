"""Draw the sample of UCI Adult that ships with the package: ``python docs/make_adult_sample.py DIRECTORY``.

``DIRECTORY`` holds ``adult.data`` and ``adult.test`` as UCI publishes them, plain or gzipped.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

SAMPLE = Path(__file__).parents[1] / "src" / "partialfair" / "datasets" / "adult_sample.csv.gz"
N_ROWS, SEED = 5000, 0

COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
    "income",
]
# A survey weight, which does not describe a person, and a second code of `education`.
LEFT_OUT = ["fnlwgt", "education-num"]

NOTICE = f"""\
# {N_ROWS:,} rows of UCI Adult, drawn at random without replacement (docs/make_adult_sample.py, seed {SEED}).
# Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. https://doi.org/10.24432/C5XW20
# License of the data: CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
# Changes: a sample of the rows; columns fnlwgt and education-num left out; "?" written as an empty cell;
# spaces and the full stops of the test labels removed; column score added. score is not UCI's: it is the
# out-of-fold probability of an income above 50K by a logistic regression (five folds) that does not see
# sex.
"""


def main(directory: Path) -> None:
    """Write the sample."""
    SAMPLE.write_bytes(gzip.compress(sample_text(directory).encode(), mtime=0))


def sample_text(directory: Path) -> str:
    """Return the CSV file of the sample, which begins with its notice."""
    sample = draw_rows(directory)
    return NOTICE + sample.assign(score=score_out_of_fold(sample).round(5)).to_csv(index=False)


def draw_rows(directory: Path) -> pd.DataFrame:
    """Return the rows in the order in which UCI publishes them, those of ``adult.data`` first."""
    adult = pd.concat([read_part(directory, "adult.data", 0), read_part(directory, "adult.test", 1)])
    adult["income"] = adult["income"].str.rstrip(".")
    rows = np.sort(np.random.default_rng(SEED).choice(len(adult), N_ROWS, replace=False))
    return adult.drop(columns=LEFT_OUT).iloc[rows].reset_index(drop=True)


def read_part(directory: Path, name: str, n_comments: int) -> pd.DataFrame:
    """Return one of the published files, of which ``adult.test`` begins with a comment."""
    (file,) = [file for file in (directory / name, directory / f"{name}.gz") if file.is_file()]
    return pd.read_csv(file, names=COLUMNS, skiprows=n_comments, skipinitialspace=True, na_values="?")


def score_out_of_fold(sample: pd.DataFrame) -> np.ndarray:
    """Return out-of-fold probabilities of a high income."""
    model = make_pipeline(
        make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        ),
        LogisticRegression(max_iter=1000),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
    inputs = sample.drop(columns=["sex", "income"])
    return cross_val_predict(model, inputs, sample["income"] == ">50K", cv=folds, method="predict_proba")[
        :, 1
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
