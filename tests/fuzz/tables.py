"""Tables that people have, or that somebody made to do harm: columns of Python values and their roles."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random

import pyarrow as pa

__all__ = ["FOREIGN_NAMES", "HOSTILE_TEXTS", "Column", "Table", "make_table", "plain_table", "second_scores"]

HOSTILE_TEXTS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "a\x00b",
    "a\rb",
    "line\nbreak",
    "tab\there",
    "\x7f\x9b31m",
    "\u202eevil\u202c",
    "\u2066iso\u2069",
    "\u2028",
    "caf\udce9",  # a byte that is not UTF-8, as file names and arguments bring it
    "\udcff\udcfe",
    "=SUM(A1:A9)",
    "+1+cmd",
    "-2-3",
    "@now",
    "[bold]x[/bold]",
    "$x_1$ \\frac{",
    "<script>alert(1)</script>",
    "</script>",
    "",
    " ",
    "NA",
    "nan",
    "-inf",
    '"',
    "a,b;c|d",
    "x" * 2000,
    "🙂" * 30,
    "e\u0301\u0302" * 40,
    "--json",
    "-",
    "small groups",
    "0",
    "01",
    "1e400",
)


FOREIGN_NAMES = (
    "\u05e6\u05d9\u05d5\u05df",
    "\u0646\u062a\u064a\u062c\u0629 \u0661\u0662",
    "\u5f97\u5206",
    "\u0151sz \u0141\u00f3d\u017a",
    "caf\u00e9",
    "cafe\u0301",  # the same word, written otherwise
    "\u00b2",
    "\u0130\u0131",
)
"""Hebrew, Arabic, Chinese, accents as one character and as two, and letters that change with case."""


@dataclass(frozen=True)
class Column:
    """A named column; `kind` is its type in Arrow, where it is not to be guessed."""

    name: str
    values: tuple[object, ...]
    kind: pa.DataType | None = None


@dataclass(frozen=True)
class Table:
    """Columns, and which of them is the score, group, label, weight and id."""

    columns: tuple[Column, ...]
    roles: dict[str, str]

    @property
    def n_rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def of(self, role: str) -> int:
        """Return the position of the column with a role."""
        return next(k for k, column in enumerate(self.columns) if column.name == self.roles[role])

    def with_column(self, position: int, **changes: object) -> Table:
        """Return the table with one column changed; the roles follow its name."""
        old = self.columns[position]
        new = replace(old, **changes)
        columns = (*self.columns[:position], new, *self.columns[position + 1 :])
        roles = {role: new.name if name == old.name else name for role, name in self.roles.items()}
        return Table(columns, roles)


ROLES = {"score": "score", "group": "sex", "label": "hired", "weight": "weight", "id": "person"}


def plain_table(rng: Random, n: int, names: tuple[str, ...]) -> Table:
    """Return a table without tricks: scores that differ between groups, two features, weights and ids."""
    groups = [rng.choice(names) for _ in range(n)]
    skill = [rng.gauss(0.4 * names.index(group) / len(names), 1) for group in groups]
    hired = [int(value + rng.gauss(0, 0.7) > 0.3) for value in skill]
    columns = {
        "person": [f"p{k:04d}" for k in range(n)],
        "sex": groups,
        "hired": hired,
        "score": [round(value + rng.gauss(0, 0.3), 3) for value in skill],
        "weight": [round(rng.uniform(0.5, 2), 2) for _ in range(n)],
        "income": [round(1000 * value + 3000, 1) for value in skill],
        "city": [rng.choice(["Turin", "Oslo", "Bari"]) for _ in range(n)],
    }
    return Table(tuple(Column(name, tuple(values)) for name, values in columns.items()), ROLES)


def make_table(rng: Random, larger: int = 1) -> Table:
    """Return a plain table, so many times as large, or one with up to three tricks played on it."""
    sizes = (rng.randint(60, 400), rng.randint(60, 200), rng.randint(20, 60), rng.choice([0, 1, 2, 3, 5, 11]))
    n = larger * rng.choices(sizes, (5, 5, 3, 1))[0]
    k = rng.choices((2, 3, 6, 1, 25, max(2, n // 2)), (20, 8, 4, 1, 2, 1))[0]
    names = ("women", "men", "others", *(f"group {j}" for j in range(k)))[:k]
    table = plain_table(rng, n, names)
    for trick in rng.sample(TRICKS, rng.choices((0, 1, 2, 3), (5, 6, 2, 1))[0]):
        if table.n_rows:
            table = trick(rng, table)
    return table


def second_scores(rng: Random, table: Table) -> Table:
    """Return scores of another model for the same people, mostly; for `compare`."""
    position = table.of("score")
    values = [
        value + rng.gauss(0, 0.5) if isinstance(value, int | float) and abs(value) < 1e100 else value
        for value in table.columns[position].values
    ]
    other = table.with_column(position, values=tuple(values), kind=None)
    rows = list(range(table.n_rows))
    if rng.random() < 0.4:
        rng.shuffle(rows)
    if rng.random() < 0.15:
        rows = rows[: len(rows) // 2]
    return _rows(other, rows)


def _rows(table: Table, rows: list[int]) -> Table:
    columns = [replace(column, values=tuple(column.values[k] for k in rows)) for column in table.columns]
    return Table(tuple(columns), table.roles)


Trick = Callable[[Random, Table], Table]


def _some_column(rng: Random, table: Table) -> int:
    """Return a column's position; those with a role are the more interesting ones."""
    if rng.random() < 0.7:
        return table.of(rng.choice(["score", "group", "label", "weight", "id"]))
    return rng.randrange(len(table.columns))


def _ties(rng: Random, table: Table) -> Table:
    position, digits = table.of("score"), rng.choice([0, 1, None])
    values = table.columns[position].values
    tied = [
        1.0 if digits is None or not isinstance(value, float) else round(value, digits) for value in values
    ]
    return table.with_column(position, values=tuple(tied))


def _tiny_group(rng: Random, table: Table) -> Table:
    """Make a few people a group of their own."""
    position = table.of("group")
    values = list(table.columns[position].values)
    for k in rng.sample(range(len(values)), min(rng.choice([1, 2, 5]), len(values))):
        values[k] = "few"
    return table.with_column(position, values=tuple(values))


def _gaps(rng: Random, table: Table) -> Table:
    position, share = _some_column(rng, table), rng.choice([0.01, 0.1, 0.9, 1.0])
    values = [None if rng.random() < share else value for value in table.columns[position].values]
    return table.with_column(position, values=tuple(values))


def _extreme_numbers(rng: Random, table: Table) -> Table:
    """Put numbers at the ends of the floating-point range into scores, weights or a feature."""
    position = table.of(rng.choice(["weight", "weight", "score"]))
    values = list(table.columns[position].values)
    for k in range(len(values)):
        if rng.random() < 0.05 or k == 0:
            values[k] = rng.choice([1e308, -1e308, 1e-320, 5e-324, 0.0, -0.0, -1.0, math.inf, math.nan, 1e17])
    return table.with_column(position, values=tuple(values))


def _equal_extremes(rng: Random, table: Table) -> Table:
    """Give everybody the same extreme weight."""
    extreme = rng.choice([1e308, 1e-320, 0.0, 1e-200])
    return table.with_column(table.of("weight"), values=(extreme,) * table.n_rows)


def _large_integers(rng: Random, table: Table) -> Table:
    """Take scores that floats cannot tell apart."""
    start = rng.choice([2**53, 2**60, 2**62, 2**63, 10**30])
    values = tuple(start + rng.randrange(7) for _ in range(table.n_rows))
    return table.with_column(table.of(rng.choice(["score", "weight", "label"])), values=values)


def _dates(rng: Random, table: Table) -> Table:
    day = datetime.date(2020, 1, 1)
    values: list[object] = [day + datetime.timedelta(days=rng.randrange(2)) for _ in range(table.n_rows)]
    if rng.random() < 0.5:
        values = [datetime.datetime.combine(value, datetime.time()) for value in values]
    if rng.random() < 0.5:
        values[rng.randrange(len(values))] = None
    return table.with_column(_some_column(rng, table), values=tuple(values), kind=None)


def _booleans(rng: Random, table: Table) -> Table:
    values = tuple(rng.random() < 0.5 for _ in range(table.n_rows))
    return table.with_column(_some_column(rng, table), values=values, kind=None)


def _mixed(rng: Random, table: Table) -> Table:
    position = _some_column(rng, table)
    odd = (1, 2.5, "text", True, None, "1", b"\xff", "NaN")
    values = [rng.choice(odd) if rng.random() < 0.2 else value for value in table.columns[position].values]
    return table.with_column(position, values=tuple(values), kind=None)


def _nested(rng: Random, table: Table) -> Table:
    """Take a type that only Arrow has."""
    day, n = datetime.datetime(2021, 5, 4), table.n_rows
    choices: list[tuple[object, pa.DataType]] = [
        ([1, 2], pa.list_(pa.int64())),
        ({"a": 1}, pa.struct([("a", pa.int64())])),
        ([("k", 1)], pa.map_(pa.string(), pa.int64())),
        (Decimal("1.25"), pa.decimal128(10, 2)),
        (Decimal("1e30"), pa.decimal256(60, 2)),
        (day, pa.timestamp("ns", tz="Europe/Rome")),
        (day, pa.timestamp("s")),
        (datetime.timedelta(seconds=3), pa.duration("us")),
        (datetime.time(3, 4), pa.time64("us")),
        (b"\xff\x00", pa.binary()),
        (1.5, pa.float16()),
        (7, pa.uint64()),
        ("women", pa.dictionary(pa.int8(), pa.string())),
        ("women", pa.large_string()),
        (None, pa.null()),
    ]
    value, kind = rng.choice(choices)
    values = tuple(None if rng.random() < 0.02 else value for _ in range(n))
    return table.with_column(_some_column(rng, table), values=values, kind=kind)


def _dictionary(rng: Random, table: Table) -> Table:
    return table.with_column(table.of("group"), kind=pa.dictionary(pa.int32(), pa.string()))


def _hostile_cells(rng: Random, table: Table) -> Table:
    """Rename a group, or write hostile text over some cells."""
    position, text = _some_column(rng, table), rng.choice(HOSTILE_TEXTS)
    column = table.columns[position]
    old = rng.choice(column.values)
    values = [text if value == old or rng.random() < 0.01 else value for value in column.values]
    return table.with_column(position, values=tuple(values), kind=None)


def _hostile_name(rng: Random, table: Table) -> Table:
    return table.with_column(_some_column(rng, table), name=rng.choice(HOSTILE_TEXTS))


def _twice(rng: Random, table: Table) -> Table:
    """Give two columns one name."""
    return Table((*table.columns, table.columns[_some_column(rng, table)]), table.roles)


def _wide(rng: Random, table: Table) -> Table:
    more = [
        Column(f"f{j}", tuple(round(rng.random(), 2) for _ in range(table.n_rows)))
        for j in range(rng.choice([40, 300]))
    ]
    return Table((*table.columns, *more), table.roles)


def _constant(rng: Random, table: Table) -> Table:
    position = _some_column(rng, table)
    return table.with_column(position, values=(rng.choice(table.columns[position].values),) * table.n_rows)


def _codes(rng: Random, table: Table) -> Table:
    """Write a column as codes with leading zeros, or as integers that nearly all differ."""
    values = [f"{k:06d}" if rng.random() < 0.9 else str(k) for k in range(table.n_rows)]
    return table.with_column(_some_column(rng, table), values=tuple(values))


def _decimal_commas(rng: Random, table: Table) -> Table:
    """Write numbers as spreadsheets of many countries do."""
    for role in rng.sample(["score", "weight"], rng.choice([1, 2])):
        values = table.columns[table.of(role)].values
        written = (str(value).replace(".", ",") if isinstance(value, float) else value for value in values)
        table = table.with_column(table.of(role), values=tuple(written), kind=None)
    return table


def _foreign_names(rng: Random, table: Table) -> Table:
    """Rename a column, and a group, to words outside ASCII, some of them written from right to left."""
    table = table.with_column(_some_column(rng, table), name=rng.choice(FOREIGN_NAMES))
    position = table.of("group")
    old, new = rng.choice(table.columns[position].values), rng.choice(FOREIGN_NAMES)
    values = (new if value == old else value for value in table.columns[position].values)
    return table.with_column(position, values=tuple(values), kind=None)


TRICKS: tuple[Trick, ...] = (
    _decimal_commas,
    _foreign_names,
    _foreign_names,
    _ties,
    _tiny_group,
    _gaps,
    _extreme_numbers,
    _equal_extremes,
    _large_integers,
    _dates,
    _booleans,
    _mixed,
    _nested,
    _nested,
    _dictionary,
    _hostile_cells,
    _hostile_cells,
    _hostile_name,
    _hostile_name,
    _twice,
    _wide,
    _constant,
    _codes,
)
