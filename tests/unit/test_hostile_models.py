"""Small files that ask for much, or hold models that are none: one sentence, little memory, little time."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from partialfair import PartialFairClassifier, load_model, save_model
from partialfair.estimators.regressor import PartialFairRegressor
from partialfair.exceptions import InputError
from partialfair.tables import CategoryColumn, GroupColumn, NumberColumn, TableModel

SAVED = Path(__file__).parent / "saved_models"
NOTE = json.dumps({"format": 1, "partialfair": "0"})


def archive(path, schema, members=(), *, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("partialfair.json", NOTE)
        file.writestr("schema.json", schema if isinstance(schema, str | bytes) else json.dumps(schema))
        for name, content in dict(members).items():
            file.writestr(name, content)
    return path


def node(kind, module, name, **content):
    return {"__class__": name, "__module__": module, "__loader__": kind, "protocol": 2, **content}


def items(*nodes, **more):
    return node("ListNode", "builtins", "list", content=list(nodes), **more)


def array(file="x.npy", **more):
    return node("NdArrayNode", "numpy", "ndarray", type="numpy", file=file, **more)


def npy(values):
    stored = io.BytesIO()
    np.save(stored, values)
    return stored.getvalue()


def claiming(shape, dtype="<f8", data=b""):
    """An array whose header says more than there is."""
    stored = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stored, header)
    return stored.getvalue() + data


def npz(**arrays):
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in arrays.items():
            file.writestr(f"{name}.npy", content)
    return stored.getvalue()


def csr(shape=(1, 4), indices=(0, 3), n_values=2):
    """A sparse matrix as SciPy writes it, but for what is wrong with it."""
    return npz(
        format=npy(np.array(b"csr")),
        shape=npy(np.array(shape)),
        data=npy(np.zeros(n_values)),
        indices=npy(np.array(indices, dtype=np.int32)),
        indptr=npy(np.array([0, 2], dtype=np.int32)),
    )


SPARSE = node("SparseMatrixNode", "scipy.sparse._csr", "csr_matrix", type="scipy", file="x.npz")


def laughs(depth=60):
    """Lists of two that are the same list of two, and so on."""
    inner = items(__id__=1)
    for level in range(2, depth):
        inner = items(inner, {**items(), "__id__": level - 1}, __id__=level)
    return inner


def generator(pool_size):
    text = lambda value: node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)  # noqa: E731
    keys = lambda *names: items(*(node("TypeNode", "builtins", "str") for _ in names))  # noqa: E731
    dictionary = lambda **values: node(  # noqa: E731
        "DictNode", "builtins", "dict", content=values, key_types=keys(*values)
    )
    return node(
        "RandomGeneratorNode",
        "numpy.random._generator",
        "Generator",
        content={
            "bit_generator": dictionary(bit_generator=text("PCG64")),
            "seed_seq": dictionary(entropy=text(1), pool_size=text(pool_size)),
        },
    )


HOSTILE = {
    "a bomb": lambda path: archive(
        path, items(array()), {"x.npy": claiming((1 << 25,), data=bytes(1 << 28))}
    ),
    "a bomb that nobody mentions": lambda path: archive(path, items(), {"x.npy": bytes(1 << 28)}),
    "one array a thousand times": lambda path: archive(
        path, items(*[array()] * 1000), {"x.npy": npy(np.zeros(1 << 20))}
    ),
    "lists of lists": lambda path: archive(path, laughs()),
    "a list in itself": lambda path: archive(path, items({**items(), "__id__": 1}, __id__=1)),
    "a cached list": lambda path: archive(path, items(node("CachedNode", "", "", __id__=1), __id__=1)),
    "many nodes": lambda path: archive(path, items(*[items()] * 300_000)),
    "many brackets": lambda path: archive(path, "[" + "[]," * 5_000_000 + "[]]"),
    "brackets in text": lambda path: archive(
        path, node("JsonNode", "builtins", "str", content="[" + "[]," * 5_000_000 + "[]]", is_json=True)
    ),
    "a long schema": lambda path: archive(path, b" " * (1 << 28)),
    "a deep schema": lambda path: archive(path, '{"content": ' * 100_000),
    "a vast array": lambda path: archive(path, items(array()), {"x.npy": claiming((10**12,))}),
    "a vaster array": lambda path: archive(path, items(array()), {"x.npy": claiming((2**40, 2**40))}),
    "values without bytes": lambda path: archive(path, items(array()), {"x.npy": claiming((10**12,), "|V0")}),
    "a vast value": lambda path: archive(path, items(array()), {"x.npy": claiming((1,), "|V2000000000")}),
    "a negative shape": lambda path: archive(path, items(array()), {"x.npy": claiming((-1,))}),
    "objects": lambda path: archive(path, items(array()), {"x.npy": claiming((1,), "|O", bytes(8))}),
    "an archive of arrays": lambda path: archive(path, items(array()), {"x.npy": npz(a=npy(np.zeros(3)))}),
    "no array": lambda path: archive(path, items(array())),
    "text for a number": lambda path: archive(path, items(array(file=["x.npy"]))),
    "bytes": lambda path: archive(
        path, node("BytearrayNode", "builtins", "bytearray", file="x"), {"x": bytes(1 << 26)}
    ),
    "a sparse matrix": lambda path: archive(path, items(SPARSE), {"x.npz": npz(data=npy(np.ones(2)))}),
    "indices that lead astray": lambda path: archive(path, items(SPARSE), {"x.npz": csr(indices=(0, 10**9))}),
    "a vast sparse matrix": lambda path: archive(path, items(SPARSE), {"x.npz": csr(shape=(1, 2**40))}),
    "a sparse matrix of zeros": lambda path: archive(
        path, items(SPARSE), {"x.npz": csr(n_values=1 << 25)}, compression=zipfile.ZIP_STORED
    ),
    "another compression": lambda path: archive(path, items(), compression=zipfile.ZIP_LZMA),
    "random numbers": lambda path: archive(path, items(generator(10**6))),
    "a loader that is no text": lambda path: archive(path, {**items(), "__loader__": ["x"]}),
    "a class that is no text": lambda path: archive(path, {**items(), "__class__": 3}),
    "a long class": lambda path: archive(path, {**items(), "__class__": "x" * 10**6}),
    "a list": lambda path: archive(path, "[1, 2]"),
    "members of one name": lambda path: _twice(path),
    "another size than it has": lambda path: _understated(path),
}


def _twice(path):
    with zipfile.ZipFile(archive(path, "{}"), "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("schema.json", "{}")
    return path


def _understated(path):
    """A member of 256 MiB that says it has 100 bytes; NumPy's header is right for those."""
    archive(path, items(array()), {"x.npy": claiming((1 << 25,), data=bytes(1 << 28))})
    content = bytearray(path.read_bytes())
    size = ((1 << 28) + 128).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    return path


@pytest.mark.parametrize("kind", HOSTILE)
def test_small_files_that_ask_for_much(tmp_path, kind):
    path = HOSTILE[kind](tmp_path / "model.skops")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"model\.skops (is damaged|holds)") as refused:
        load_model(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("kind", HOSTILE)
def test_their_seconds(tmp_path, kind):
    path = HOSTILE[kind](tmp_path / "model.skops")
    start = time.process_time()
    with pytest.raises(InputError):
        load_model(path)
    assert time.process_time() - start < 5


def test_their_memory(tmp_path):
    """In a process of its own, whose largest memory can be seen."""
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process its largest memory since it began")
    for kind in (
        "another size than it has",
        "one array a thousand times",
        "many brackets",
        "many nodes",
        "bytes",
    ):
        HOSTILE[kind](tmp_path / f"{kind}.skops")
    code = (
        "import pathlib, re, sys, partialfair, partialfair.exceptions\n"
        "for path in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    try: partialfair.load_model(path)\n"
        "    except partialfair.exceptions.InputError: pass\n"
        "    else: raise SystemExit(f'{path} was loaded')\n"
        # Not ru_maxrss, which begins with that of the process that started this one.
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', pathlib.Path('/proc/self/status').read_text())[1])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    ).stdout
    assert int(printed) < 1 << 20  # KiB


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices_of_models_load(tmp_path, layout):
    scaler = StandardScaler().fit([[1.0], [2.0]])
    scaler.seen_ = sparse.eye(4, 3, k=1, format=layout)
    save_model(scaler, tmp_path / "model.skops")
    seen = load_model(tmp_path / "model.skops").seen_
    assert seen.format == layout
    assert (seen != scaler.seen_).nnz == 0


def test_random_generators_of_models_still_load(tmp_path):
    save_model(PartialFairClassifier(random_state=np.random.default_rng(3)), tmp_path / "model.skops")
    other = load_model(tmp_path / "model.skops")
    assert other.random_state.random() == np.random.default_rng(3).random()


@pytest.fixture(scope="module")
def table_model():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=80), "c": rng.choice(["u", "v"], 80)})
    sex = pd.DataFrame({"sex": rng.choice(["sex=0", "sex=1"], 80)})
    columns = (NumberColumn("x", 0.0, 0.0, 1.0, False), CategoryColumn("c", ("u", "v"), False))
    groups = (GroupColumn("sex", True),)
    features = np.column_stack([table["x"], table["c"] == "u", table["c"] == "v"])
    classifier = PartialFairClassifier(constraint=None, group_terms="intercept")
    classifier.fit(features, table["x"] > 0, sensitive_features=sex)
    return TableModel("hired", ("no", "yes"), columns, groups, ("id",), classifier)


def changed(model, **changes):
    """The same model, with some fields of others' making; ``...`` takes one away."""
    other = object.__new__(type(model))
    fields = {name: value for name, value in {**vars(model), **changes}.items() if value is not ...}
    other.__dict__.update(fields)
    return other


NUMBER = NumberColumn("x", 0.0, 0.0, 1.0, False)
NO_MODELS = {
    "no target": {"target": ...},
    "a target that is a number": {"target": 3},
    "one label": {"labels": ("no",)},
    "labels alike": {"labels": ("no", "no")},
    "labels in a list": {"labels": ["no", "yes"]},
    "no columns": {"columns": ()},
    "columns in a list": {"columns": [NUMBER]},
    "columns of text": {"columns": ("x", "c")},
    "too few columns": {"columns": (NUMBER,)},
    "a scale of zero": {"columns": (changed(NUMBER, scale=0.0), CategoryColumn("c", ("u", "v"), False))},
    "a mean of text": {"columns": (changed(NUMBER, mean="0"), CategoryColumn("c", ("u", "v"), False))},
    "a median that is missing": {
        "columns": (changed(NUMBER, median=...), CategoryColumn("c", ("u", "v"), False))
    },
    "a mean that is none": {
        "columns": (changed(NUMBER, mean=np.nan), CategoryColumn("c", ("u", "v"), False))
    },
    "levels of numbers": {"columns": (NUMBER, CategoryColumn("c", (1, 2), False))},
    "levels in a list": {"columns": (NUMBER, CategoryColumn("c", ["u", "v"], False))},
    "a name that is a list": {"columns": (changed(NUMBER, name=[]), CategoryColumn("c", ("u", "v"), False))},
    "groups of text": {"groups": ("sex",)},
    "no groups": {"groups": ()},
    "ids of numbers": {"ids": (1,)},
    "no classifier": {"classifier": ...},
    "a classifier of text": {"classifier": "x"},
    "another classifier": {"classifier": PartialFairRegressor()},
    "one that is not fitted": {"classifier": PartialFairClassifier()},
}
NO_CLASSIFIERS = {
    "coef_": [..., None, "x", np.zeros(3), np.zeros((1, 0)), np.full((1, 3), np.nan), np.zeros((5, 3))],
    "intercept_": [..., 0.0, np.zeros((2, 1)), np.array(["a", "b"]), np.zeros(7)],
    "groups_": [None, "sex", np.array([["a"]]), np.array([1, 2]), np.array(["sex=0"])],
    "n_features_in_": [..., "3", -1, 10**30, True],
    "feature_names_in_": ["abc", np.array(["a"])],
    "group_terms": [None, "x", []],
    "classes_": [..., np.array([0, 1, 2]), "ab"],
    "result_": [..., "fine"],
    "sensitive_columns": ["x"],
    "_group_columns": ["ab"],
    "loss": [[], 3],
}


class TestTableModels:
    def refused(self, model, path):
        path.write_bytes(_bytes(model))
        with pytest.raises(InputError, match=r"model\.skops is damaged: .") as refused:
            load_model(path)
        assert "\n" not in str(refused.value)

    def test_a_good_one(self, tmp_path, table_model):
        save_model(table_model, tmp_path / "model.skops")
        table = pd.DataFrame({"x": [1.0], "c": ["u"], "sex": ["0"]})
        other = load_model(tmp_path / "model.skops")
        assert other.decision_function(table) == table_model.decision_function(table)

    @pytest.mark.parametrize("kind", NO_MODELS)
    def test_fields(self, tmp_path, table_model, kind):
        self.refused(changed(table_model, **NO_MODELS[kind]), tmp_path / "model.skops")

    @pytest.mark.parametrize("name", NO_CLASSIFIERS)
    def test_fields_of_the_classifier(self, tmp_path, table_model, name):
        for value in NO_CLASSIFIERS[name]:
            classifier = changed(table_model.classifier, **{name: value})
            self.refused(changed(table_model, classifier=classifier), tmp_path / "model.skops")


def _bytes(model):
    """What save_model would write if it took everything."""
    from skops import io as skops

    content = io.BytesIO(skops.dumps(model, compression=zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(content, "a") as file:
        file.writestr("partialfair.json", NOTE)
    return content.getvalue()


VALUES = [None, "x", "", 3, -1, 1e300, True, [], {}, [[]], "builtins", "JsonNode", "null", '"x"', "[1]", "-3"]


def mutated(schema, rng):
    """Change some places of a schema: another value, another place's value, or nothing at all."""
    places = []
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        keys = part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        places += [(part, key) for key in keys]
        waiting += [part[key] for key in keys]
    for _ in range(rng.integers(1, 4)):
        part, key = places[rng.integers(len(places))]
        other, other_key = places[rng.integers(len(places))]
        choice = rng.integers(3)
        if choice == 0:
            part[key] = VALUES[rng.integers(len(VALUES))]
        elif choice == 1 and other_key in (other if isinstance(other, dict) else range(len(other))):
            part[key] = json.loads(json.dumps(other[other_key]))
        elif isinstance(part, dict):
            part.pop(key, None)
    return schema


@pytest.mark.filterwarnings("ignore")  # numbers from nowhere overflow
@pytest.mark.parametrize("path", sorted(SAVED.glob("*.skops")), ids=lambda path: path.stem)
def test_schemas_with_changes_load_and_predict_or_are_refused(path, tmp_path):
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    expected = json.loads(path.with_suffix(".json").read_text())
    table = pd.DataFrame(expected["table"])
    n_loaded = 0
    for _ in range(60):
        schema = mutated(json.loads(members["schema.json"]), rng)
        others = {name: content for name, content in members.items() if name.endswith(".npy")}
        archive(tmp_path / "model.skops", schema, others)
        try:
            model = load_model(tmp_path / "model.skops")
            n_loaded += 1
            if isinstance(model, TableModel):
                model.decision_function(table)
                model.predict_proba(table)
                model.unseen_levels(table)
        except InputError as error:
            assert len(str(error)) < 1000  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
    assert n_loaded > 0
