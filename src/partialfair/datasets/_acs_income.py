"""folktables' ACSIncome: the American Community Survey of 2018."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets._census import (
    ACS_COLUMNS,
    CENSUS_URL,
    STATE_ROWS,
    TABLE_COLUMNS,
    CensusFile,
    read_parquet,
)
from partialfair.datasets._entry import Entry
from partialfair.datasets.source import PathLike, read_all
from partialfair.datasets.task import Dataset, categorical, group_series
from partialfair.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from partialfair.datasets.task import Features

_FILES = (
    CensusFile(
        dataset="acs_income",
        name="acs_income/acs_income_2018_us.parquet",
        accepted_sha256="0a86609a1b80bc7befb0b61945c28757cacb70bbe3463d65b5f7101dae6a25a3",
        base_url=CENSUS_URL,
        state_rows=STATE_ROWS,
    ),
)
_FEATURES = [column for column in ACS_COLUMNS if column != "SEX"]
_NUMERIC = ("AGEP", "WKHP")
_MALE_CODE = 1
# Marks, in the incomplete table alone, the rows of a random 40 % of the nation with every code exact.
_EXACT_SAMPLE = "aeq"

Encoding: TypeAlias = Literal["codes", "csr", "frame"]


def load_acs_income(
    *,
    path: PathLike | None = None,
    states: str | Sequence[str] | None = None,
    exact_only: bool = False,
    encoding: Encoding = "codes",
) -> Dataset:
    """Load folktables' ACSIncome: working adults of the 2018 US survey.

    The label is an income above $50,000 a year, the sensitive feature the sex. The features are the other
    nine columns of folktables' task: age (AGEP), class of worker (COW), schooling (SCHL), marital status
    (MAR), occupation (OCCP), place of birth (POBP), relationship (RELP), weekly hours (WKHP) and race
    (RAC1P).

    The public source gives all 1,664,500 rows of 50 states and Puerto Rico. A ready-made table of
    1,536,724 of them is accepted too: it lacks 98,081 rows of California and 29,695 of Florida, and in
    NY, TX, PR, CA and FL some rows have MAR 0 (not married, code unknown: 63,973 rows) or RAC1P 0 (not
    white, code unknown: 15,381 rows). Here 0 is a level of its own. Some of its rows of California (19,318)
    come from a source that had dropped a tenth of the non-white people with a high income; with
    ``exact_only`` they are left out.

    Parameters
    ----------
    path
        The Parquet file or its directory; see the package for where else it is looked for.
    states
        Keep only these, by abbreviation. The levels of the columns remain those of the whole table, so
        that models of different states have the same columns.
    exact_only
        From the incomplete table keep only the rows of what appears to be a random 40 % of the nation,
        in which every code is exact. Choosing exact rows by MAR and RAC1P instead would bias the sample.
        The complete table has nothing but exact codes, and is kept whole.
    encoding
        ``"codes"``: `CategoricalCodes`, every value a level, 30 MB; ``"csr"``: its one-hot matrix;
        ``"frame"``: a pandas frame, AGEP and WKHP integers and the others categorical.
    """
    if encoding not in ("codes", "csr", "frame"):
        raise InputError(f"encoding must be 'codes', 'csr' or 'frame', not {encoding!r}")
    (raw,) = read_all(_FILES, path)
    table = read_parquet(raw, TABLE_COLUMNS, optional=[_EXACT_SAMPLE])
    rows = _chosen_rows(table, states, exact_only)
    codes = CategoricalCodes.from_frame(table[_FEATURES])
    if rows is not None:
        codes, table = codes.take(rows), table.iloc[rows].reset_index(drop=True)
    features, names = _encoded(codes, table, encoding)
    return Dataset(
        name="acs_income",
        X=features,
        y=table["label"].to_numpy(dtype=np.int8),
        sensitive_features=group_series("sex", table["SEX"] == _MALE_CODE, ("Female", "Male")),
        feature_names=names,
        target_name="income above $50,000",
        interval=(0.20, 0.40),
        description="folktables' ACSIncome task: American Community Survey, 1-year sample of 2018.",
    )


def _chosen_rows(
    table: pd.DataFrame, states: str | Sequence[str] | None, exact_only: bool
) -> npt.NDArray[np.intp] | None:
    """Return the positions of the rows asked for, or None for all of them."""
    wanted = np.ones(len(table), dtype=np.bool_)
    if states is not None:
        chosen = [states] if isinstance(states, str) else list(states)
        unknown = [state for state in chosen if state not in STATE_ROWS]
        if unknown:
            raise InputError(f"there is no state {unknown[0]!r}; there are {', '.join(STATE_ROWS)}")
        wanted &= table["ST"].isin(chosen).to_numpy()
    if exact_only and _EXACT_SAMPLE in table:
        wanted &= table[_EXACT_SAMPLE].to_numpy() > 0
    return None if wanted.all() else np.flatnonzero(wanted)


def _encoded(
    codes: CategoricalCodes, table: pd.DataFrame, encoding: Encoding
) -> tuple[Features, tuple[str, ...]]:
    """Return the features in the form asked for, and their names."""
    if encoding == "codes":
        return codes, codes.feature_names
    if encoding == "csr":
        return codes.to_csr(), codes.feature_names

    import pandas as pd

    columns = {
        name: table[name]
        if name in _NUMERIC
        else categorical(codes.codes[:, j].astype(np.int16), codes.categories[j])
        for j, name in enumerate(_FEATURES)
    }
    return pd.DataFrame(columns), tuple(_FEATURES)


ENTRY = Entry(
    name="acs_income",
    loader=load_acs_income,
    files=_FILES,
    summary="Income above $50,000 by sex: 1.5 to 1.7 million adults of the 2018 US survey, 9 coded columns",
    terms="US Census Bureau, ACS PUMS 2018, Census terms of use; task by folktables (Ding et al., 2021)",
)
