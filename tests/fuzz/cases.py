"""A case: a command with its arguments, and the directory that it runs in, all from one integer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.formats import Blob, damaged, stored, zipped
from tests.fuzz.models import Members, hostile_model
from tests.fuzz.options import Arguments, arguments
from tests.fuzz.tables import FOREIGN_NAMES, Table, make_table, plain_table, second_scores

__all__ = ["BYSTANDER", "Case", "Earlier", "make_case", "write_case"]

BYSTANDER = "old/notes.txt"
"""A file in the output directory that no command wrote, and so none may touch."""

_OUTPUT_NAMES = ("metrics.csv", "pairs.csv", "movers.csv", "path.csv", "held_out.csv")


@dataclass(frozen=True)
class Earlier:
    """What commands wrote before the cases.

    Attributes
    ----------
    model, infeasible
        The members of a model, and the file of one that does not keep its promise.
    sets
        Whole sets of outputs, by command.
    """

    model: Members
    infeasible: bytes
    sets: dict[str, dict[str, bytes]]


@dataclass(frozen=True)
class Case:
    """One run of the command.

    Attributes
    ----------
    inputs
        Names of the files that it reads, which must not change.
    """

    seed: int
    command: str
    arguments: Arguments
    files: dict[str, bytes]
    inputs: tuple[str, ...]
    stdin: bytes = b""
    directories: tuple[str, ...] = ("dir.csv", "dir.html")
    fifos: tuple[str, ...] = ("fifo", "fifo.csv", "fifo.html", "fifo.skops")
    links: dict[str, str] = field(
        default_factory=lambda: {
            "link": "old",
            "link.csv": "old/notes.csv",
            "link.html": "old/notes.html",
            "link.skops": "old/model.skops",
            "broken": "nowhere/at/all",
            "broken.csv": "nowhere/at/all.csv",
        }
    )


def make_case(seed: int, earlier: Earlier) -> Case:
    """Make the case of a seed."""
    rng = Random(seed)
    weights = {"audit": 8, "compare": 3, "train": 5, "path": 3, "predict": 7, "data": 0.5}
    command = rng.choices(list(weights), list(weights.values()))[0]
    if command == "data":
        return _data_case(rng, seed)
    table = _table(rng, command)
    blobs = _blobs(rng, command, table)
    files = {blob.name: blob.content for blob in blobs}
    names = [blob.name for blob in blobs]
    stdin = b""
    if rng.random() < 0.04 and len(blobs[0].content) < 50_000:  # one pipe's worth
        stdin, names[0] = blobs[0].content, "/dev/stdin"
    if command == "predict":
        model = rng.choice(["model.skops"] * 5 + ["old", "link.skops", "infeasible.skops"])
        if model == "model.skops":
            files[model] = _model(rng, earlier.model)
        elif model == "infeasible.skops":
            files[model] = earlier.infeasible
        names.insert(0, model)
    files |= _surroundings(earlier, command)
    inputs = [name for name in names if name != "/dev/stdin"]
    if names[0] == "old":  # what else is in the directory is no part of the set
        inputs += [f"old/{name}" for name in earlier.sets["train"]]
        inputs.remove("old")
    return Case(seed, command, arguments(rng, command, names, table), files, tuple(inputs), stdin)


def _table(rng: Random, command: str) -> Table:
    if command == "predict" and rng.random() < 0.6:  # the model knows these columns
        return _without_score(plain_table(rng, rng.choice([1, 40, 300]), ("women", "men")))
    return make_table(rng, larger=2 if command in ("train", "path") else 1)  # a part is held out


def _without_score(table: Table) -> Table:
    """Return what `predict` is to be given: it writes a column of that name."""
    return Table(tuple(column for column in table.columns if column.name != "score"), table.roles)


def _blobs(rng: Random, command: str, table: Table) -> list[Blob]:
    """Write the tables of a command, at times damaged, at times under the name of an output."""
    blobs = [stored(rng, table, "data")]
    if command == "compare":
        blobs.append(stored(rng, second_scores(rng, table), "other"))
    if rng.random() < 0.1:
        blobs[-1] = damaged(rng, blobs[-1])
    if rng.random() < 0.03:
        blobs[0] = Blob(rng.choice(_OUTPUT_NAMES), blobs[0].content)
    if rng.random() < 0.03:
        foreign = [f"{name}.csv" for name in FOREIGN_NAMES]
        odd = rng.choice(
            ["\x1b[31mdata.csv", "caf\udce9.csv", "-data.csv", "da\nta.csv", "=1+1.csv", *foreign]
        )
        blobs[0] = Blob(odd, blobs[0].content)
    return blobs


def _model(rng: Random, members: Members) -> bytes:
    return zipped(members) if rng.random() < 0.45 else hostile_model(rng, members)


def _surroundings(earlier: Earlier, command: str) -> dict[str, bytes]:
    """Return an earlier good set of the command, and bystanders."""
    old = earlier.sets["train" if command == "predict" else command]
    return {
        **{f"old/{name}": content for name, content in old.items()},
        BYSTANDER: b"mine\n",
        "old/notes.csv": b"mine\n1\n",
        "old/notes.html": b"<html>mine</html>\n",
        "file.txt": b"mine\n",
    }


def _data_case(rng: Random, seed: int) -> Case:
    """Return a case of ``data``, which reads no tables, or of ``demo``, refused because it takes long."""
    unknown = rng.choice(["nothing", "", "\x1b[31m", "../x", "x" * 3000, "caf\udce9"])
    words = rng.choice(
        [
            ("data", "list"),
            ("data", "path", rng.choice(["a9a", "bank", "celeba"])),
            ("data", "path", unknown),
            ("data", "fetch", unknown),
            ("data", "path"),
            ("data",),
            ("data", unknown),
            ("demo", "--out", rng.choice(["file.txt", "/dev/null", "fifo"])),
            ("demo", "--seed", rng.choice(["x", "-1", "9" * 20])),
            ("demo", unknown),
        ]
    )
    return Case(
        seed, "data", Arguments(words), {"file.txt": b"mine\n"}, (), directories=(), fifos=("fifo",), links={}
    )


def write_case(case: Case, directory: Path) -> None:
    """Write a case's files into an empty directory."""
    for name, content in case.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name in case.directories:
        (directory / name).mkdir()
    for name in case.fifos:
        os.mkfifo(directory / name)
    for name, target in case.links.items():
        (directory / name).symlink_to(target)
