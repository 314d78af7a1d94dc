"""Arguments of the commands: what each needs, and good and bad values of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import typer

from partialfair.cli.app import app
from partialfair.training.named_constraints import NAMED_CONSTRAINTS, NO_CONSTRAINT
from tests.fuzz.tables import HOSTILE_TEXTS, Table

__all__ = ["Arguments", "arguments", "known_options"]

_CONSTRAINTS = (*NAMED_CONSTRAINTS, NO_CONSTRAINT)


@dataclass(frozen=True)
class Arguments:
    """Arguments, where they ask for outputs, and whether for JSON; a column may be called ``--json``."""

    words: tuple[str, ...]
    out: str | None = None
    report: str | None = None
    memo: str | None = None
    as_json: bool = False


@dataclass(frozen=True)
class Draw:
    """What values are drawn by: random numbers, the table, and how often they are mostly not allowed."""

    rng: Random
    table: Table
    bad: float

    def choice(self, good: Sequence[str], bad: Sequence[str]) -> str:
        return self.rng.choice(bad if self.rng.random() < self.bad else good)


Values = Callable[[Draw], Sequence[str]]

_BAD = 0.12
"""How often values are bad in a third of the cases; the others are to get past the options."""


def _of(*good: str, bad: Sequence[str]) -> Values:
    """Return one word of several."""
    return lambda draw: [draw.choice(good, bad)]


def _flag(draw: Draw) -> Sequence[str]:
    return []


def _column(role: str) -> Values:
    """Return mostly the column with that role, seldom another name."""

    def name(draw: Draw) -> list[str]:
        names = [column.name for column in draw.table.columns]
        seldom = replace(draw, bad=draw.bad / 4)  # because every command needs several names
        return [seldom.choice([draw.table.roles[role]], [*names, "nobody", draw.rng.choice(HOSTILE_TEXTS)])]

    return name


def _feature(draw: Draw) -> Sequence[str]:
    return [draw.choice(["income", "city"], ["nobody", "person", *HOSTILE_TEXTS])]


def _label(draw: Draw) -> Sequence[str]:
    values = [str(value) for value in draw.table.columns[draw.table.of("label")].values[:5]]
    return [draw.choice([*values, "0", "1"], ["2", "", *HOSTILE_TEXTS])]


def _interval(draw: Draw) -> Sequence[str]:
    """Return one interval, a union of two, one for each group, "auto", or what is mostly not allowed."""
    rng = draw.rng
    groups = list(dict.fromkeys(map(str, draw.table.columns[draw.table.of("group")].values))) or ["x"]
    if rng.random() < 2 * draw.bad:
        return rng.choice([*_BAD_INTERVALS, [f"{groups[0]}=0.05", "0.3"], [rng.choice(HOSTILE_TEXTS), "0.2"]])
    form = rng.choices(("one", "union", "groups", "auto"), (6, 1, 1, 1))[0]
    if form == "one":
        low = rng.choice([0, 0, 0.05, 0.2])
        return [str(low), str(round(low + rng.choice([0.1, 0.25, 0.5, 0.8]), 2))]
    if form == "union":
        return ["0.1", "0.3", "--interval", rng.choice(["0.5", "0.3"]), "0.8"]
    if form == "groups":
        high = rng.choice(["0.3", "0.6"])
        return [word for name in groups for word in ("--interval", f"{name}=0.05", high)][1:]
    return ["auto"]


_BAD_INTERVALS = (
    ["0.3", "0.1"],
    ["0", "0"],
    ["0", "1e-9"],
    ["-0.1", "0.5"],
    ["0.5", "1.5"],
    ["nan", "1"],
    ["0", "inf"],
    ["0.1"],
    ["a", "b"],
    ["0.2", "0.200001"],
    ["0.1", "0.3", "--interval", "0.2", "0.4"],
    ["auto", "--interval", "0.1", "0.2"],
    ["Women=0.05", "0.30"],
    ["=0.1", "0.2"],
    ["a=b=0.1", "0.2"],
)
_NUMBERS = ("0", "0.1", "1", "-1", "nan", "inf", "1e308", "1e-320", "x", "", "0.5", "1e400")


def _number(*good: str) -> Values:
    return _of(*good, bad=_NUMBERS)


def _fail_on(draw: Draw) -> Sequence[str]:
    """Return what fails, mostly with the limit that it needs."""
    word = draw.choice(["estimate", "exceeds", "inconclusive"], ["luck", ""])
    return [word] if draw.rng.random() < draw.bad else [word, "--fail-above", "0.1"]


JUDGING: dict[str, Values] = {
    "--weight": _column("weight"),
    "--pos-label": _label,
    "--interval": _interval,
    "--gap-scale": _of("interval", "absolute", bad=["other"]),
    "--confidence": _number("0.9", "0.95", "0.5"),
    "--min-group-size": _number("1", "1", "1", "2", "10", "30"),
    "--small-groups": _of("list", "merge", "keep", bad=["some"]),
    "--missing-groups": _of("error", "ignore", "ignore", bad=["maybe"]),
    "--lower-is-better": _flag,
    "--json": _flag,
    "--verbose": _flag,
    "--seed": _of("0", "1", bad=["-1", "99999999999999999999", "x"]),
}
SCORING: dict[str, Values] = {
    "--label": _column("label"),
    "--threshold": _number("0", "0.5", "-0.3"),
    "--rank-within": _of("group", "group_and_label", bad=["other"]),
    "--clusters": _column("id"),
}
TRAINING: dict[str, Values] = {
    "--drop": _feature,
    "--category": _feature,
    "--constraint": _of(*_CONSTRAINTS, bad=["fairness", "inter_group_pairwise"]),
    "--enforce": _of("exact", "surrogate", "surrogate", bad=["hope"]),
    "--group-terms": _of("none", "intercept", "interactions", bad=["all"]),
    "--decision-threshold": _of("0", "tune", "0.5", bad=["best", "", "nan"]),
    "--clusters": _column("id"),
    "--cv": _of("2", "3", bad=["0", "1", "-1", "2.5", "x", "", "99999999999999999999"]),
}
GATE: dict[str, Values] = {
    "--fail-above": _number("0.05", "0.2"),
    "--fail-metric": _of("statistical_parity", "demographic_parity", "group_auc", bad=["nothing"]),
    "--fail-on": _fail_on,
}
OPTIONS: dict[str, dict[str, Values]] = {
    "audit": {**JUDGING, **SCORING, **GATE},
    "compare": {**JUDGING, **SCORING, "--id": _column("id")},
    "train": {
        **JUDGING,
        **TRAINING,
        **GATE,
        "--max-gap": _number("0.05", "0.1", "0.3"),
        "--population": _flag,
        "--alpha": _number("1e-4", "1e-3", "1"),
        "--test-size": _number("0.2", "0.3", "0"),
    },
    "path": {
        **JUDGING,
        **TRAINING,
        "--alphas": _of("1e-4", "1e-3,1e-2", "1e-4,1e-4", bad=["", "x", "-1", "nan"]),
        "--test-size": _number("0.2", "0.4"),
        "--scoring": _of("accuracy", "balanced_accuracy", "roc_auc", bad=["luck"]),
        "--best": _number("0.1", "0.5", "0.9"),
    },
    "predict": {"--keep": _flag, "--json": _flag, "--allow-infeasible": _flag, "--verbose": _flag},
}
TRAINED: dict[str, Values] = {
    "--target": _column("label"),
    "--group": _column("group"),
    "--id": _column("id"),
    "--drop": _column("score"),
    "--time-limit": _number("0.5", "1", "2"),  # of each fit: some of these problems are hard
}
NEEDED: dict[str, dict[str, Values]] = {
    "audit": {"--score": _column("score"), "--group": _column("group")},
    "compare": {"--score": _column("score"), "--group": _column("group")},
    "train": TRAINED,
    "path": {
        **TRAINED,
        "--max-gaps": _of("0.1,0.3", "0.2", "0.05,0.1", "0.2,0.2", bad=["", "x", "0.1,,0.2", "2", "-1"]),
    },
    "predict": {},
}
OFTEN = {
    "--allow-infeasible": 0.4,
    "--interval": 0.3,
    "--min-group-size": 0.8,
    "--small-groups": 0.3,
    "--missing-groups": 0.4,
    "--id": 0.6,
}
"""How often options are given that decide who can be judged; the others, an eighth of the time."""

LISTS = ("--group", "--interval", "--drop", "--category", "--id")
"""Options that may be repeated, each with a meaning of its own."""

_ODD_WORDS = ("--unknown", "-x", "--\x1b[31m", "--help", "extra", "--" + "x" * 3000, "\u202e" * 300, "--seed")
_DIRECTORIES = ("out", "out", "out", "deep/er/out", "old", "old", "old/", "link", "link", ".", "./out")
_ODD_DIRECTORIES = (
    "file.txt",
    "/dev/null",
    "fifo",
    "broken",
    "",
    "\x1b[31mout",
    "caf\udce9",
    "old/notes.txt",
)
_TABLES = ("scores.csv", "scores.csv", "scores.parquet", "old/scores.csv", "link.csv", "./scores.csv")
_ODD_TABLES = ("fifo.csv", "dir.csv", "missing/scores.csv", "scores.xlsx", "/dev/null", "", "broken.csv", "-")
_PAGES = ("page.html", "page.html", "out/page.html", "old/page.html", "link.html")
_MEMOS = ("memo.md", "memo.txt", "out/memo.md", "old/memo.md")
_ODD_MEMOS = ("fifo.md", "memo.html", "missing/memo.md", "/dev/null", "old", "-", "")
_ODD_PAGES = ("fifo.html", "page.txt", "missing/page.html", "dir.html", "/dev/null", "old", "-", "")


def arguments(rng: Random, command: str, files: Sequence[str], table: Table) -> Arguments:
    """Return arguments for a command on some files; in a third of the cases some are wrong."""
    bad = rng.choice([0.0, 0.0, _BAD])
    words: list[str] = []
    as_json = False
    for option, values in NEEDED[command].items():
        if rng.random() >= bad / 8:
            words += [option, *values(Draw(rng, table, bad))]
    seed = rng.getrandbits(32)
    for option, values in OPTIONS[command].items():
        # Each option has its own numbers, and a new one leaves the others of a case as they are.
        if option in known_options(command):
            more = _seldom(Draw(Random(f"{seed} {option}"), table, bad), option, values)
            as_json = as_json or more == ["--json"]
            words += more
    # Without an interval nothing is trained.
    if command in ("train", "path") and "--interval" not in words and Random(f"{seed} all").random() >= bad:
        words += ["--interval", "0", "1"]
    if rng.random() < bad and command != "predict":
        words += ["--group", rng.choice(["city", "city", "hired", "nobody"])]
    if rng.random() < bad / 2:
        words.append(rng.choice(_ODD_WORDS))
    out = _out(rng, command, files, bad)
    report = None
    if command != "predict" and rng.random() < 0.2:
        report = _chosen(rng, _PAGES, _ODD_PAGES, files, bad)
    words += [] if out is None else ["--out", out]
    words += [] if report is None else ["--report", report]
    memo, of_memo = None, Random(f"{seed} --memo")
    if command == "audit" and of_memo.random() < 0.2:
        memo = _chosen(of_memo, _MEMOS, _ODD_MEMOS, files, bad)
    words += [] if memo is None else ["--memo", memo]
    positional = list(files)
    if rng.random() < bad / 3:
        positional.append("missing.csv")
    return Arguments((command, *positional, *words), out, report, memo, as_json)


@cache
def known_options(command: str) -> frozenset[str]:
    """Return the options that a command has: with another it would end before anything is read."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return frozenset(name for parameter in commands[command].params for name in parameter.opts)


def _seldom(draw: Draw, option: str, values: Values) -> list[str]:
    words: list[str] = []
    if draw.rng.random() < OFTEN.get(option, 0.12):
        words += [option, *values(draw)]
        if option in LISTS and draw.rng.random() < 2 * draw.bad:
            words += [option, *values(draw)]
    return words


def _out(rng: Random, command: str, files: Sequence[str], bad: float) -> str | None:
    if command == "predict":
        return _chosen(rng, _TABLES, _ODD_TABLES, files, bad) if rng.random() < 0.6 else None
    if rng.random() < (0.75 if command in ("train", "path") else 0.3):
        if command == "train" and rng.random() < 0.1:
            return rng.choice(["out/mine.skops", "old/model.skops", "fifo.skops", "link.skops", files[0]])
        return _chosen(rng, _DIRECTORIES, _ODD_DIRECTORIES, files, bad)
    return None


def _chosen(rng: Random, good: Sequence[str], odd: Sequence[str], files: Sequence[str], bad: float) -> str:
    """Return an output; of the bad ones a third are inputs."""
    return rng.choices(
        (rng.choice(good), rng.choice(odd), rng.choice(list(files))), (1 - 3 * bad, 2 * bad, bad)
    )[0]
