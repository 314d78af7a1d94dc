"""Model files of every kind with something changed in them: they load and score rows, or are refused.

A changed number may lead compiled code to memory that is not its own, or in circles, so each file is read in
a process of its own, forked from one that has imported the libraries and run none of their code.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import skops.io  # noqa: F401 - by load_model, in every child if not here
import xgboost
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partialfair import PartialFairClassifier, load_model
from partialfair.exceptions import InputError
from partialfair.persistence import model_bytes
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees
from tests.fuzz.formats import zipped
from tests.fuzz.models import Members, array_bytes, array_members, canonical, hostile_model

__all__ = ["Edited", "bad_nodes", "broken_by", "edit", "model_files", "serve_edited"]

_SCHEMA = "schema.json"
_CPU_SECONDS, _WALL_SECONDS = 10, 120
_N_ROWS = 120


@dataclass(frozen=True)
class Edited:
    """A model file with something changed.

    Attributes
    ----------
    kind
        Of the model, a key of `model_files`.
    change
        What was changed.
    content
        The file.
    """

    kind: str
    change: str
    content: bytes
    is_bad: bool = False
    """Whether it must be refused: the change is known to be one that no model can have."""


def _rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, the last of which is a code of categories, labels and groups."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, _N_ROWS)
    codes = rng.integers(0, 6, _N_ROWS)
    X = np.column_stack([rng.normal(size=(_N_ROWS, 2)) + groups[:, None], codes])
    y = (X[:, 0] + (codes % 3 == 1) + rng.normal(size=_N_ROWS) > 0.5).astype(int)
    return X, y, groups


def _frame() -> pd.DataFrame:
    X = _rows()[0]
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": pd.Categorical(X[:, 2].astype(int))})


def _trees(model: Any, **settings: Any) -> PartialFairTrees:
    """Return what a refit of leaf values leaves in a file."""
    return PartialFairTrees(model, constraint=None, alpha=0.1, **settings)


def _lightgbm() -> Any:
    return lightgbm.LGBMClassifier(
        n_estimators=3,
        num_leaves=5,
        n_jobs=1,
        verbose=-1,
        min_child_samples=5,
        cat_smooth=1.0,
        min_data_per_group=5,
    )


def _xgboost() -> Any:
    return xgboost.XGBClassifier(
        n_estimators=3,
        max_depth=3,
        n_jobs=1,
        enable_categorical=True,
        max_cat_to_onehot=1,
        tree_method="hist",
    )


def _histograms(**settings: Any) -> Any:
    return HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=5, min_samples_leaf=5, **settings)


def _adjuster(scorer: Any) -> Any:
    X, _, groups = _rows()
    return PartialParityAdjuster(interval=(0, 1), max_gap=0.5, estimator=scorer).fit(
        X, sensitive_features=groups
    )


def _fitted(model: Any, n_classes: int = 2) -> Any:
    X, y, _ = _rows()
    return model.fit(X, y if n_classes == 2 else np.digitize(X[:, 0], [0.0, 1.0]))


def _refitted(model: Any, X: Any) -> Any:
    return _trees(model, validation_fraction=None).fit(X, _rows()[1])


_MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: _fitted(RandomForestClassifier(4, max_depth=3, random_state=0)),
    "extra trees in a pipeline": lambda: _fitted(
        make_pipeline(StandardScaler(), ExtraTreesRegressor(3, max_depth=3, random_state=0))
    ),
    "boosting": lambda: _fitted(GradientBoostingClassifier(n_estimators=4, max_depth=2)),
    "histograms in an adjuster": lambda: _adjuster(_fitted(_histograms())),
    "histograms of three classes": lambda: _fitted(_histograms(), 3),
    "lightgbm in a pipeline": lambda: _fitted(make_pipeline(StandardScaler(), _lightgbm())),
    "refitted lightgbm": lambda: _refitted(_lightgbm(), _frame()),
    "refitted xgboost": lambda: _refitted(_xgboost(), _frame()),
    "refitted histograms": lambda: _refitted(_histograms(categorical_features="from_dtype"), _frame()),
    "refitted boosting": lambda: _refitted(GradientBoostingClassifier(n_estimators=3), _rows()[0]),
    "refitted forest": lambda: _refitted(RandomForestClassifier(3, max_depth=3, random_state=0), _rows()[0]),
    "linear": lambda: _fitted(PartialFairClassifier(constraint=None)),
    "linear in an adjuster": lambda: _adjuster(
        _fitted(make_pipeline(StandardScaler(), LogisticRegression()))
    ),
}


def model_files() -> dict[str, Members]:
    """Return the members of a good file of each kind; models are fitted in a process of their own."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                warnings.simplefilter("ignore")
                pickle.dump({kind: canonical(model_bytes(make())) for kind, make in _MODELS.items()}, file)
                file.flush()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("the models to edit could not be fitted")
        file.seek(0)
        files: dict[str, Members] = pickle.load(file)
    return files


_FIELDS = {
    "feature": ("feature", "feature_idx"),
    "left": ("left_child", "left"),
    "right": ("right_child", "right"),
}
_BAD_VALUES = (("feature", 10**8), ("left", 0), ("left", -5), ("right", 10**6), ("feature", -1))


def bad_nodes(files: dict[str, Members]) -> list[Edited]:
    """Give all trees of each kind of model a root that no tree has, in two ways by turns."""
    words = ("forest", "tree", "boosting", "histograms")
    with_nodes = [kind for kind in files if any(word in kind for word in words)]
    return [
        _with_roots(kind, files[kind], *_BAD_VALUES[(place + turn) % len(_BAD_VALUES)])
        for place, kind in enumerate(with_nodes)
        for turn in (0, 2)
    ]


def _with_roots(kind: str, members: Members, field: str, value: int) -> Edited:
    members = dict(members)
    for member in array_members(members):
        array = np.load(io.BytesIO(members[member]), allow_pickle=False)
        for column in set(_FIELDS[field]) & set(array.dtype.names or ()):
            array[column][0] = np.array(value).astype(array.dtype[column])  # -5 may become a large one
            members[member] = array_bytes(array)
    return Edited(kind, f"{field} {value}", zipped(members), is_bad=True)


def edit(seed: int, files: dict[str, Members]) -> Edited:
    """Make the file of a seed."""
    rng = Random(seed)
    kind = rng.choice(sorted(files))
    members = files[kind]
    changes = [_number, _number, _number, _array, _byte, _leaf, _hostile]
    if kind.endswith(("lightgbm", "lightgbm in a pipeline")):
        changes += [_lightgbm_text] * 7
    if kind.endswith("xgboost"):
        changes += [_xgboost_text] * 7
    change = rng.choice(changes)
    return Edited(kind, change.__name__.strip("_"), change(rng, members))


_WHOLE = (-5, -2, -1, 0, 1, 2, 3, 7, 100, 255, 256, 10**8, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**62)
_REAL = (np.nan, np.inf, -np.inf, 0.0, -1.0, 0.5, 2.0, 1e308, -1e308, 1e-320, 1e8)


def _number(rng: Random, members: Members) -> bytes:
    """Change one number of an array, or one field of a node; those with fields more often."""
    arrays = {name: np.load(io.BytesIO(members[name]), allow_pickle=False) for name in array_members(members)}
    names = [name for name, array in arrays.items() if array.size]
    records = [name for name in names if arrays[name].dtype.names]
    name = rng.choice(records if records and rng.random() < 0.8 else names)
    array = np.array(arrays[name])
    field = rng.choice(array.dtype.names) if array.dtype.names else None
    column = array.reshape(-1) if field is None else array.reshape(-1)[field]
    place = rng.randrange(column.size)
    if column.dtype.kind in "iu":
        limits = np.iinfo(column.dtype)
        near = (*_WHOLE, place, place + 1, array.size, array.size - 1, limits.max, limits.min)
        column[place] = rng.choice([value for value in near if limits.min <= value <= limits.max])
    elif column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            column[place] = rng.choice(_REAL)
    elif column.dtype.kind == "b":
        column[place] = not column[place]
    else:
        column[place] = rng.choice(["", "x", "women"])
    return zipped({**members, name: array_bytes(array)})


def _array(rng: Random, members: Members) -> bytes:
    """Give an array another length, shape, type or place."""
    name = rng.choice(array_members(members))
    array = np.load(io.BytesIO(members[name]), allow_pickle=False)
    other = rng.choice(array_members(members))
    if (choice := rng.randrange(6)) == 0:
        return zipped({**members, name: members[other], other: members[name]})
    if choice == 1:
        return zipped({**members, name: members[other]})
    changed = [
        array.reshape(-1)[: max(0, array.size - 1)],
        np.concatenate([array.reshape(-1)] * 2),
        array[None],
        array.astype("f4") if array.dtype.names is None and array.dtype.kind in "iuf" else array[:0],
    ][choice - 2]
    return zipped({**members, name: array_bytes(changed)})


def _byte(rng: Random, members: Members) -> bytes:
    """Change a byte of a member that is not the schema."""
    name = rng.choice([name for name in members if name.endswith((".npy", ".bin"))])
    content = bytearray(members[name])
    content[rng.randrange(len(content))] = rng.randrange(256)
    return zipped({**members, name: bytes(content)})


def _hostile(rng: Random, members: Members) -> bytes:
    """Tamper with the schema or the archive as with other models."""
    return hostile_model(rng, members)


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """Return the objects of a schema."""
    found, waiting = [], [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found.append(part)
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    return found


def _leaf(rng: Random, members: Members) -> bytes:
    """Change one plain value of the schema to another of its kind."""
    tree = json.loads(members[_SCHEMA])
    leaves = [node for node in _nodes(tree) if node.get("__loader__") == "JsonNode"]
    node = rng.choice(leaves)
    held = json.loads(node["content"])
    if isinstance(held, bool) or held is None:
        held = rng.choice([True, False, None, 3])
    elif isinstance(held, int):
        held = rng.choice([*_WHOLE, held + 1, held - 1, 10**400])
    elif isinstance(held, float):
        held = rng.choice(_REAL)
    elif isinstance(held, str):
        held = rng.choice(["", "x", "zero", "predict", held[:-1], held * 2])
    node["content"] = json.dumps(held)
    return zipped({**members, _SCHEMA: json.dumps(tree).encode()})


_DIGITS = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKENS = (
    "-1",
    "-5",
    "0",
    "1",
    "2",
    "7",
    "1000",
    "100000000",
    "2147483647",
    "4294967295",
    "9" * 30,
    "1e308",
    "nan",
    "",
)


def _changed_text(rng: Random, text: str) -> str:
    """Change a number of a text, or else a character or a line."""
    choice = rng.random()
    if choice < 0.7:
        number = rng.choice(list(_DIGITS.finditer(text)))
        return text[: number.start()] + rng.choice(_TOKENS) + text[number.end() :]
    if choice < 0.85:
        place = rng.randrange(len(text))
        return text[:place] + rng.choice("0 9=-\n[],:e") + text[place + 1 :]
    lines = text.split("\n")
    place = rng.randrange(len(lines))
    lines[place : place + 1] = rng.choice([[], [lines[place]] * 2, [rng.choice(lines)]])
    return "\n".join(lines)


def _lightgbm_text(rng: Random, members: Members) -> bytes:
    """Change the text of a booster: its header and trees, seldom its parameters."""
    tree = json.loads(members[_SCHEMA])
    texts = [
        node
        for node in _nodes(tree)
        if node.get("__loader__") == "JsonNode" and node["content"].startswith('"tree\\n')
    ]
    node = rng.choice(texts)
    trees, end, rest = json.loads(node["content"]).partition("end of trees")
    if rng.random() < 0.9:
        trees = _changed_text(rng, trees)
    else:
        rest = _changed_text(rng, rest)
    node["content"] = json.dumps(trees + end + rest)
    return zipped({**members, _SCHEMA: json.dumps(tree).encode()})


def _xgboost_text(rng: Random, members: Members) -> bytes:
    """Change the JSON of a booster."""
    name = rng.choice([name for name in members if name.endswith(".bin")])
    text = members[name].decode().replace(",", ",\n")  # so that there are lines
    return zipped({**members, name: _changed_text(rng, text).replace(",\n", ",").encode()})


def serve_edited() -> None:
    """Answer seeds, and ``bad nodes`` for all of these, with the rules that edited files break."""
    files = model_files()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        for line in map(str.strip, sys.stdin):
            edits = bad_nodes(files) if line == "bad nodes" else [edit(int(line), files)]
            broken = [
                f"{edited.kind}, {edited.change}: {rule}"
                for edited in edits
                for rule in broken_by(edited, Path(directory))
            ]
            sys.stdout.write(json.dumps({"name": line, "command": "load_model", "broken": broken}) + "\n")
            sys.stdout.flush()


def broken_by(edited: Edited, directory: Path) -> list[str]:
    """Return what reading a file and scoring rows with it broke, each rule one line."""
    path = directory / "model.skops"
    path.write_bytes(edited.content)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _become_scorer(path, writer)
        finally:
            os._exit(3)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as stream:
        said = stream.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        rule = "time" if number in (signal.SIGXCPU, signal.SIGALRM) else "signal"
        return [f"{rule}: ended by {signal.Signals(number).name} after {said or 'nothing'}"]
    if os.WEXITSTATUS(status):
        return [f"exit code: {os.WEXITSTATUS(status)} after {said or 'nothing'}"]
    loaded = ["loaded: though it must be refused"] if edited.is_bad and said.startswith("loaded") else []
    return loaded + [line for line in said.splitlines() if line.startswith("raw")]


def _become_scorer(path: Path, writer: int) -> None:
    """Load a model and score rows, within limits, and tell what was raised; does not return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
    signal.alarm(_WALL_SECONDS)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    try:
        model = load_model(path)
    except InputError as error:
        os.write(writer, f"refused: {error}\n".encode("utf-8", "replace"))
        if len(str(error)) >= 1000 or "\n" in str(error):
            os.write(writer, b"raw: a long message\n")
        os._exit(0)
    except BaseException as error:
        os.write(
            writer, f"raw: load_model raised {type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
        )
        os._exit(0)
    os.write(writer, b"loaded\n")
    for call in _calls(model):
        try:
            call()
        except Exception as error:
            # Estimators of other libraries, with settings that do not fit, say so in their own way.
            if type(model).__module__.startswith("partialfair") and not isinstance(error, ValueError):
                message = f"raw: scoring raised {type(error).__name__}: {error}".replace("\n", " ")
                os.write(writer, f"{message[:500]}\n".encode("utf-8", "replace"))
    os._exit(0)


def _calls(model: Any) -> list[Callable[[], Any]]:
    """Return ways to score rows."""
    X, _, groups = _rows()
    tables: list[Any] = [X, _frame(), X.astype(np.float32)[:3]]
    if isinstance(model, PartialParityAdjuster):
        return [lambda: model.transform(X, sensitive_features=groups)]
    names = ("predict", "predict_proba", "decision_function", "apply", "decision_path", "score_samples")
    return [
        lambda name=name, table=table: getattr(model, name)(table)
        for name in names
        if _has(model, name)
        for table in tables
    ]


def _has(model: Any, name: str) -> bool:
    try:
        return hasattr(model, name)
    except Exception:
        return False
