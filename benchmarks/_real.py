"""Settings on real data: five tables, pSP and pDP, both scales, with and without group terms, four κ."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from _data import CONSTRAINTS, Part, load
from _judging import Case

MAX_GAPS = (0.02, 0.05, 0.1, 0.2)
TERMS = {"one model": None, "interactions": "interactions"}
ADULT_INTERVAL = (0.05, 0.30)
ROWS = {"law_school": None, "a9a": None, "bank": None, "adult": None, "acs_income": 100_000}
"""Number of training rows of each table; None for all of the first split, or all of adult.data."""
# fmt: off
_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)
# fmt: on
_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def real_settings(path: Path | None, wanted: Callable[[str], bool]) -> Iterator[list[Case]]:
    """Yield settings of selected problems; each table is read when it is needed."""
    for name, n in ROWS.items():
        keys = [
            (kind, scale, terms, [f"real/{name} {kind} {scale} {terms} κ={gap:g}" for gap in MAX_GAPS])
            for terms in TERMS
            for kind in CONSTRAINTS
            for scale in ("interval", "absolute")
        ]
        if not any(wanted(key) for *_, own in keys for key in own):
            continue
        part, interval = _table(name, path, n)
        for kind, scale, terms, own in keys:
            setting = [
                Case(
                    key,
                    part.X,
                    part.y,
                    part.groups,
                    kind,
                    interval,
                    scale,
                    max_gap,
                    group_terms=TERMS[terms],
                )
                for key, max_gap in zip(own, MAX_GAPS, strict=True)
                if wanted(key)
            ]
            if setting:
                yield setting


def _table(name: str, path: Path | None, n: int | None) -> tuple[Part, tuple[float, float]]:
    """Return the training rows and the paper's interval."""
    if name == "adult":
        return load_adult(path), ADULT_INTERVAL
    data, train, _ = load(name, path, n)
    return train, data.interval


def read_adult(path: Path | None) -> pd.DataFrame:
    """Return the training rows of UCI Adult, as published."""
    directory = path or Path(os.environ["PARTIALFAIR_DATA"])
    text = gzip.decompress((directory / "adult" / "adult.data.gz").read_bytes()).decode()
    return pd.read_csv(io.StringIO(text), names=list(_ADULT), skipinitialspace=True)


def load_adult(path: Path | None) -> Part:
    """Return UCI Adult with standardized numbers and a column for each category, without sex."""
    table = read_adult(path)
    numbers: Any = table[list(_NUMERIC)].to_numpy(dtype=float)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    names = [name for name in _ADULT[:-1] if name not in (*_NUMERIC, "sex")]
    dummies = pd.get_dummies(table[names]).to_numpy(dtype=float)
    X = sparse.csr_matrix(np.column_stack([numbers, dummies]))
    return Part(X, (table["income"] == ">50K").to_numpy(dtype=np.int8), table["sex"].to_numpy())
