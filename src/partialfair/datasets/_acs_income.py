"""Loads folktables' ACSIncome, and builds it from the US Census Bureau's files by state."""

from __future__ import annotations

import io
import logging
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets.source import (
    ARCHIVE_ERRORS,
    PathLike,
    describe,
    download,
    fetch_failure,
    read_all,
    sha256,
)
from partialfair.datasets.task import Dataset, Entry, categorical, group_series
from partialfair.exceptions import DataFetchError, InputError
from partialfair.utils.extras import require
from partialfair.utils.files import scratch, write_files

if TYPE_CHECKING:
    import pandas as pd


_CENSUS_URL = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year"

# The smallest types that hold the codes.
ACS_COLUMNS: Mapping[str, type[np.signedinteger[Any]]] = {  # in folktables' order of features
    "AGEP": np.int8,
    "COW": np.int8,
    "SCHL": np.int8,
    "MAR": np.int8,
    "OCCP": np.int16,
    "POBP": np.int16,
    "RELP": np.int8,
    "WKHP": np.int8,
    "SEX": np.int8,
    "RAC1P": np.int8,
}

TABLE_COLUMNS = ("ST", *ACS_COLUMNS, "label")

# Rows of folktables' ACSIncome, 2018, in its order of states (the District of Columbia is not among them).
# The Census Bureau publishes no hashes, so these counts are the check on what it sends.
# fmt: off
STATE_ROWS: Mapping[str, int] = {
    "AL": 22268, "AK": 3546, "AZ": 33277, "AR": 13929, "CA": 195665, "CO": 31306, "CT": 19785, "DE": 4713,
    "FL": 98925, "GA": 50915, "HI": 7731, "ID": 8265, "IL": 67016, "IN": 35022, "IA": 17745, "KS": 15807,
    "KY": 22006, "LA": 20667, "ME": 7002, "MD": 33042, "MA": 40114, "MI": 50008, "MN": 31021, "MS": 13189,
    "MO": 31664, "MT": 5463, "NE": 10785, "NV": 14807, "NH": 7966, "NJ": 47781, "NM": 8711, "NY": 103021,
    "NC": 52067, "ND": 4455, "OH": 62135, "OK": 17917, "OR": 21919, "PA": 68308, "RI": 5712, "SC": 24879,
    "SD": 4899, "TN": 34003, "TX": 135924, "UT": 16337, "VT": 3767, "VA": 46144, "WA": 39944, "WV": 8103,
    "WI": 32690, "WY": 3064, "PR": 9071,
}
# fmt: on

_MIN_AGE, _MIN_INCOME, _HIGH_INCOME = 16, 100, 50_000
_PERSON_FILE = re.compile(r"psam_p\d+\.csv")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CensusFile:
    """The ACSIncome table in one Parquet file, recognized by its rows per state.

    The bytes of a table that is built on the user's machine depend on the Parquet writer, so it has no fixed
    hash; a ready-made file with missing rows is accepted by its hash.

    Parameters
    ----------
    dataset, name
        As for `RemoteFile`.
    accepted_sha256
        Hash of a ready-made file, which may be incomplete.
    base_url
        Where the person files ``csv_p{state}.zip`` are.
    state_rows
        The states and the number of rows of each.
    """

    dataset: str
    name: str
    accepted_sha256: str
    base_url: str
    state_rows: Mapping[str, int]

    def check(self, raw: bytes, path: Path) -> None:
        """Raise `DataFetchError` if ``raw``, found at ``path``, is not this table."""
        digest = sha256(raw)
        if digest == self.accepted_sha256:
            return
        wrong = f"{path} is not the expected {self.name}"
        way_out = f"replace it, or delete it to have it built from {self.base_url}"
        try:
            states = read_parquet(raw, TABLE_COLUMNS)["ST"]
        except (OSError, ValueError, KeyError) as error:
            raise DataFetchError(f"{wrong}: {error.args[0]}; {way_out}") from error
        counts = {str(state): count for state, count in states.value_counts().items()}
        for state in {**self.state_rows, **counts}:
            have, expected = counts.get(state, 0), self.state_rows.get(state, 0)
            if have != expected:
                raise DataFetchError(
                    f"{wrong}: it has {have} rows of {state} where there are {expected} (and sha256 {digest},"
                    f" where the known incomplete table has {self.accepted_sha256}); {way_out}"
                )

    def obtain(self, directory: Path) -> Path:
        """Download every state's person file, and write the table to ``directory / name``.

        Finished states stay on disk, so a second call after a failure resumes with the first missing state.
        """
        import pandas as pd

        require("pyarrow", extra="cli", purpose="writing Parquet files")  # before any download
        target = directory / self.name
        parts = target.parent / "census_states"
        try:
            states = {state: self._state(state, parts / f"{state}.parquet") for state in self.state_rows}
            table = pd.concat(states.values(), ignore_index=True)
            sizes = [len(rows) for rows in states.values()]
            table["ST"] = categorical(np.repeat(np.arange(len(sizes)), sizes), states)
            _write_parquet(table, target)
            shutil.rmtree(parts, ignore_errors=True)  # the table is written, and another fetch may use them
        except OSError as error:
            raise fetch_failure(self, self.base_url, describe(error)) from error
        return target

    def _state(self, state: str, part: Path) -> pd.DataFrame:
        """Return one state's rows, from ``part`` if an earlier call has written it."""
        expected = self.state_rows[state]
        if part.is_file():
            rows = read_parquet(part.read_bytes(), [*ACS_COLUMNS, "label"])
            if len(rows) == expected:  # else the file is of other data
                return rows
        _logger.info("fetching %s, one of %d states", state, len(self.state_rows))
        url = f"{self.base_url}/csv_p{state.lower()}.zip"
        try:
            with scratch(part.parent) as temporary:
                archive = temporary / "published.zip"
                download(url, archive)
                rows = select_rows(_read_persons(archive))
        except (OSError, ValueError, *ARCHIVE_ERRORS) as error:
            raise fetch_failure(self, url, describe(error)) from None
        if len(rows) != expected:
            raise fetch_failure(self, url, f"it gives {len(rows)} rows where folktables has {expected}")
        _write_parquet(rows, part)
        return rows


def select_rows(persons: pd.DataFrame) -> pd.DataFrame:
    """Apply folktables' ACSIncome filter to a person file, and add the label.

    The filter selects persons older than 16 with an income above $100, weekly hours above 0 and a survey
    weight of at least 1; the label is an income above $50,000. A missing code becomes 0, as in folktables.
    """
    workers = persons[
        (persons["AGEP"] > _MIN_AGE)
        & (persons["PINCP"] > _MIN_INCOME)
        & (persons["WKHP"] > 0)
        & (persons["PWGTP"] >= 1)
    ]
    rows = workers[list(ACS_COLUMNS)].fillna(0).astype(dict(ACS_COLUMNS))
    rows["label"] = (workers["PINCP"] > _HIGH_INCOME).astype(np.int8)
    return rows.reset_index(drop=True)


def read_parquet(raw: bytes, columns: Sequence[str]) -> pd.DataFrame:
    """Return the named columns of a Parquet file."""
    arrow = require("pyarrow", extra="cli", purpose="reading Parquet files")
    parquet = require("pyarrow.parquet", extra="cli", purpose="reading Parquet files")
    file = parquet.ParquetFile(arrow.BufferReader(raw))
    present = file.schema_arrow.names
    lacking = [column for column in columns if column not in present]
    if lacking:
        raise KeyError(f"it has no column {lacking[0]}")
    frame: pd.DataFrame = file.read(columns=list(columns)).to_pandas()
    return frame


def _read_persons(archive: Path) -> pd.DataFrame:
    import pandas as pd

    with zipfile.ZipFile(archive) as opened:
        # The two digits are the state's FIPS code; the archive holds one such file and a PDF.
        names = [name for name in opened.namelist() if _PERSON_FILE.fullmatch(name)]
        if len(names) != 1:
            raise KeyError(f"there is no single psam_p*.csv among {opened.namelist()}")
        with opened.open(names[0]) as member:
            return pd.read_csv(member, usecols=[*ACS_COLUMNS, "PINCP", "PWGTP"])


def _write_parquet(table: pd.DataFrame, target: Path) -> None:
    """Write a Parquet file atomically."""
    content = io.BytesIO()
    table.to_parquet(content, engine="pyarrow", compression="zstd", index=False)
    write_files({target: content.getvalue()})


_FILES = (
    CensusFile(
        dataset="acs_income",
        name="acs_income/acs_income_2018_us.parquet",
        accepted_sha256="0a86609a1b80bc7befb0b61945c28757cacb70bbe3463d65b5f7101dae6a25a3",
        base_url=_CENSUS_URL,
        state_rows=STATE_ROWS,
    ),
)
_FEATURES = [column for column in ACS_COLUMNS if column != "SEX"]
_MALE_CODE = 1


def fetch_acs_income(
    *,
    path: PathLike | None = None,
    states: str | Sequence[str] | None = None,
) -> Dataset:
    """Load folktables' ACSIncome: working adults of the 2018 US survey.

    The label is an income above $50,000 a year, the sensitive feature the sex. The features are the other
    nine columns of folktables' task, as `CategoricalCodes` (every value is a level; 30 MB): age (AGEP), class
    of worker (COW), schooling (SCHL), marital status (MAR), occupation (OCCP), place of birth (POBP),
    relationship (RELP), weekly hours (WKHP) and race (RAC1P).

    Parameters
    ----------
    path : str or Path, optional
        The Parquet file or its directory. See `partialfair.datasets` for the default locations.
    states : str or sequence of str, optional
        Load only these states, by abbreviation; by default all. The levels of the columns are always those of
        the whole table, so that models of different states have the same columns.

    Returns
    -------
    Dataset
        Up to 1,664,500 rows, with the interval and the limits of the paper.

    See Also
    --------
    load_adult : A sample of the 1994 census, which ships with the package.

    Notes
    -----
    The public source gives all 1,664,500 rows of 50 states and Puerto Rico. A ready-made table of 1,536,724
    of them is accepted too: it lacks 98,081 rows of California and 29,695 of Florida, and in NY, TX, PR, CA
    and FL some rows have MAR 0 (not married, code unknown: 63,973 rows) or RAC1P 0 (not white, code unknown:
    15,381 rows). Here 0 is a separate level. Some of its rows of California (19,318) come from a source that
    had dropped a tenth of the rows of non-white adults with a high income.

    Examples
    --------
    >>> from partialfair.datasets import fetch_acs_income
    >>> data = fetch_acs_income(states=["VT", "WY"])  # doctest: +SKIP
    >>> len(data.X.names)  # doctest: +SKIP
    9
    """
    (raw,) = read_all(_FILES, path)
    table = read_parquet(raw, TABLE_COLUMNS)
    codes = CategoricalCodes.from_frame(table[_FEATURES])
    if states is not None:
        chosen = [states] if isinstance(states, str) else list(states)
        unknown = [state for state in chosen if state not in STATE_ROWS]
        if unknown:
            raise InputError(f"there is no state {unknown[0]!r}; there are {', '.join(STATE_ROWS)}")
        rows = np.flatnonzero(table["ST"].isin(chosen).to_numpy())
        codes, table = codes.take(rows), table.iloc[rows].reset_index(drop=True)
    return Dataset(
        name="acs_income",
        X=codes,
        y=table["label"].to_numpy(dtype=np.int8),
        sensitive_features=group_series("sex", table["SEX"] == _MALE_CODE, ("Female", "Male")),
        feature_names=codes.feature_names,
        target_name="income above $50,000",
        interval=(0.20, 0.40),
        description="folktables' ACSIncome task: American Community Survey, 1-year sample of 2018.",
    )


ACS_INCOME = Entry(
    name="acs_income",
    loader=fetch_acs_income,
    files=_FILES,
    summary="Income above $50,000 by sex: 1.5 to 1.7 million adults of the 2018 US survey, 9 coded columns",
    terms="US Census Bureau, ACS PUMS 2018, Census terms of use; task by folktables (Ding et al., 2021)",
)
