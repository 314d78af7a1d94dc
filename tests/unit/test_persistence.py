"""Models in files: the same to the last bit, and nothing in a hostile file runs."""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from skops import io as skops

from partialfair import FitOptions, PartialFairClassifier, constraints, load_model, save_model
from partialfair.constraints import DemographicParity, StatisticalParity, surrogates
from partialfair.constraints.base import Constraint
from partialfair.constraints.surrogates import Ramp, Sigmoid
from partialfair.exceptions import InputError
from partialfair.optimization import solvers
from partialfair.optimization.solvers import IDCA, SQP, DirectSwitching, NewtonSteps, Status
from partialfair.persistence import FORMAT, TRUSTED, model_bytes
from partialfair.tables import CategoryColumn, TableModel
from partialfair.training.result import FitResult
from partialfair.utils.model_files.scikit_learn import check_models
from tests.traps import Trap

pytestmark = pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
SAVED = Path(__file__).parent / "saved_models"
CROSSED = pd.DataFrame({"sex": np.tile(["f", "m"], 60), "old": np.repeat([True, False], 60)})
SEX = CROSSED["sex"].to_numpy()
BY_GROUP = {
    ("f", True): (0.0, 0.5),
    ("f", False): (0, 0.6),
    ("m", True): [(0, 0.2), (0.3, 0.6)],
    ("m", False): (0, 1),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3)) + np.outer(SEX == "f", [0.5, 0, 0])
    return X, X.sum(axis=1) + rng.normal(size=120) > 0


def again(model, tmp_path):
    save_model(model, tmp_path / "model.skops")
    return load_model(tmp_path / "model.skops")


def quick(**settings):
    return PartialFairClassifier(**{"enforce": "surrogate", "interval": (0, 0.5), "max_gap": 0.3, **settings})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.UninformativeModelWarning")
@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({"constraint": None, "interval": None, "max_gap": 0.05}, None),
        ({}, SEX),
        ({"class_weight": {False: 1.0, True: 3.0}, "random_state": 0}, SEX),
        ({"group_terms": "intercept"}, CROSSED),
        ({"group_terms": "interactions", "random_state": np.random.RandomState(1)}, CROSSED),
        ({"interval": BY_GROUP}, CROSSED),
        ({"interval": [(0, 0.2), (0.4, 0.8)], "solver": SQP(max_iter=30)}, SEX),
        (
            {"solver": IDCA(inner=NewtonSteps(), max_iter=5), "options": FitOptions(surrogate=Sigmoid(0.5))},
            SEX,
        ),
        ({"solver": DirectSwitching(max_iter=50), "options": FitOptions(surrogate=Ramp(1.0))}, SEX),
        ({"constraint": "demographic_parity", "constraint_threshold": 0.1}, SEX),
    ],
)
def test_a_model_comes_back_whole(tmp_path, rows, settings, groups):
    X, y = rows
    model = quick(**settings).fit(X, y, sensitive_features=groups)
    other = again(model, tmp_path)
    assert type(other) is PartialFairClassifier
    np.testing.assert_array_equal(other.decision_function(X, groups), model.decision_function(X, groups))
    assert other.classes_.dtype == model.classes_.dtype
    assert (other.predict(X, groups) == model.predict(X, groups)).all()
    assert isinstance(other.result_, FitResult)
    assert other.result_.status is model.result_.status
    assert other.result_.history == model.result_.history
    assert other.result_.constraints == model.result_.constraints
    assert other.result_.gaps == model.result_.gaps
    assert other.result_.surrogate == model.result_.surrogate
    assert str(other.result_) == str(model.result_)
    np.testing.assert_array_equal(other.result_.kkt.multipliers, model.result_.kkt.multipliers)
    loaded = other.get_params()
    for name, value in model.get_params().items():
        if name != "random_state":
            assert repr(loaded[name]) == repr(value)
    if groups is not None:
        assert other.groups_.tolist() == model.groups_.tolist()


def test_a_loaded_model_can_be_fitted_again(tmp_path, rows):
    X, y = rows
    settings = {"group_terms": "intercept", "interval": None, "max_gap": 0.05}
    demands = [StatisticalParity(BY_GROUP, 0.3), DemographicParity((0, 0.5), 0.3)]
    other = again(quick(**{**settings, "constraint": demands}), tmp_path)
    assert other.constraint == demands
    assert other.fit(X, y, sensitive_features=CROSSED).result_.status is Status.CONVERGED


def test_sparse_features(tmp_path, rows):
    X, y = rows
    sparse_X = sparse.csr_matrix(np.where(X > 0, X, 0))
    model = quick().fit(sparse_X, y, sensitive_features=SEX)
    other = again(model, tmp_path)
    np.testing.assert_array_equal(other.decision_function(sparse_X), model.decision_function(sparse_X))


def test_a_pipeline(tmp_path, rows):
    X, y = rows
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        old=CROSSED["old"], town=np.tile(["x", "y", None, "z"], 30)
    )
    table.loc[3, "a"] = np.nan
    model = make_pipeline(
        make_column_transformer(
            (
                make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
                make_column_selector(dtype_include="number"),
            ),
            (OneHotEncoder(handle_unknown="ignore"), ["town"]),
            remainder="passthrough",
        ),
        quick(),
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(table, y, sensitive_features=SEX)
    other = again(model, tmp_path)
    np.testing.assert_array_equal(other.decision_function(table), model.decision_function(table))
    assert other[-1].result_.gap == model[-1].result_.gap


def test_another_process_predicts_the_same_bits(tmp_path, rows):
    X, y = rows
    model = quick(group_terms="interactions").fit(X, y, sensitive_features=CROSSED)
    save_model(model, tmp_path / "model.skops")
    np.save(tmp_path / "X.npy", X)
    CROSSED.to_pickle(tmp_path / "groups.pkl")
    code = (
        "import numpy, pandas, partialfair; model = partialfair.load_model('model.skops'); "
        "scores = model.decision_function(numpy.load('X.npy'), pandas.read_pickle('groups.pkl')); "
        "numpy.save('scores.npy', scores)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert np.load(tmp_path / "scores.npy").tobytes() == model.decision_function(X, CROSSED).tobytes()


@pytest.mark.filterwarnings(f"ignore::{InconsistentVersionWarning.__module__}.InconsistentVersionWarning")
@pytest.mark.parametrize("path", sorted(SAVED.glob("*.skops")), ids=lambda path: path.stem)
def test_models_of_releases_load_and_predict_what_they_did(path):
    model, expected = load_model(path), json.loads(path.with_suffix(".json").read_text())
    table = pd.DataFrame(expected["table"])
    features = table[expected["features"]] if expected["features"] else table
    groups = table[expected["groups"]] if expected["features"] else None
    arguments = (features,) if groups is None else (features.to_numpy(), groups)
    np.testing.assert_allclose(model.decision_function(*arguments), expected["scores"], rtol=1e-12)
    assert [str(label) for label in model.predict(*arguments)] == expected["labels"]


def test_there_is_a_model_of_this_format():
    assert any(path.name.startswith(f"format{FORMAT}-") for path in SAVED.glob("*.skops"))


class TestTrust:
    @pytest.mark.parametrize("module", [constraints, solvers, surrogates])
    def test_every_public_setting_can_be_saved(self, module):
        """A constraint, solver or surrogate that is public and not on the list would fail at saving."""
        public = [getattr(module, name) for name in module.__all__]
        classes = [one for one in public if inspect.isclass(one) and not inspect.isabstract(one)]
        bases = (solvers.Solver, surrogates.Surrogate)
        settings = [
            one
            for one in classes
            if one not in bases
            and (hasattr(one, "solve") or issubclass(one, Constraint | surrogates.Surrogate))
        ]
        assert settings
        assert {f"{one.__module__}.{one.__name__}" for one in settings} <= set(TRUSTED)

    @pytest.mark.parametrize("name", [name for name in TRUSTED if name.startswith("partialfair.")])
    def test_the_list_names_classes(self, name):
        module, _, kind = name.rpartition(".")
        assert inspect.isclass(getattr(import_module(module), kind))


class TestSavingRefuses:
    def test_a_callback(self, tmp_path):
        with pytest.raises(InputError, match=r"callback is a function.*set_params\(callback=None\)"):
            save_model(quick(callback=print), tmp_path / "model.skops")
        with pytest.raises(InputError, match=r"set_params\(partialfairclassifier__callback=None\)"):
            save_model(make_pipeline(StandardScaler(), quick(callback=print)), tmp_path / "model.skops")
        assert not list(tmp_path.iterdir())

    def test_classes_of_ones_own(self, tmp_path):
        class Mine(StatisticalParity):
            pass

        with pytest.raises(InputError, match=r"the model holds .*Mine, which load_model would not trust"):
            save_model(quick(constraint=Mine()), tmp_path / "model.skops")
        with pytest.raises(InputError, match="the model holds"):
            save_model(make_pipeline(FunctionTransformer(os.system), quick()), tmp_path / "model.skops")
        with sklearn.config_context(enable_metadata_routing=True):
            model = quick().set_fit_request(sample_weight=True)
        for one in (model, make_pipeline(StandardScaler(), model)):
            with pytest.raises(InputError, match="PartialFairClassifier has its own metadata requests"):
                save_model(one, tmp_path / "model.skops")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("thing", [None, {"a": 1}, PartialFairClassifier])
    def test_what_is_not_a_model(self, tmp_path, thing):
        with pytest.raises(
            InputError, match=r"save_model needs a fitted model, not (an object of type|the class)"
        ):
            save_model(thing, tmp_path / "model.skops")

    def test_a_place_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match=r"cannot be written: there is no directory .*nowhere"):
            save_model(quick(), tmp_path / "nowhere" / "model.skops")

    def test_keeping_the_old_file(self, tmp_path):
        save_model(quick(), tmp_path / "model.skops")
        before = (tmp_path / "model.skops").read_bytes()
        with pytest.raises(InputError):
            save_model(quick(callback=print), tmp_path / "model.skops")
        assert (tmp_path / "model.skops").read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 1


def note(**changes):
    return json.dumps({"format": FORMAT, "partialfair": "0", **changes})


def archive(path, schema, *, with_note=True, **members):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("schema.json", schema if isinstance(schema, str) else json.dumps(schema))
        if with_note:
            file.writestr("partialfair.json", note())
        for name, content in members.items():
            file.writestr(name, content)
    return path


def node(kind, module, name, **content):
    return {"__class__": name, "__module__": module, "__loader__": kind, "protocol": 2, **content}


def text(value):
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


def sequence(*values):
    return node("TupleNode", "builtins", "tuple", content=list(values))


def hostile_schemas(target):
    """Every kind of node that could be made to call something, told to create the file ``target``."""
    command = f"touch {target}"
    opened = sequence(text(str(target)), text("w"))
    empty = node(
        "DictNode", "builtins", "dict", content={}, key_types=node("ListNode", "builtins", "list", content=[])
    )
    system = node("FunctionNode", "os", "system")
    keys = node("ListNode", "builtins", "list", content=[node("TypeNode", "os", "system")])
    owner = node("ObjectNode", "pathlib", "Path")
    yield "function", system
    yield "type", node("TypeNode", "os", "system")
    yield "constructor", node("ConstructorFromReduceNode", "os", "system", content=sequence(text(command)))
    yield "open", node("ConstructorFromReduceNode", "builtins", "open", content=opened)
    yield "object", node("ObjectNode", "subprocess", "Popen", content=empty)
    yield "own class", node("ObjectNode", "tests.traps", "Trap")
    yield "list", node("ListNode", "os", "system", content=[text(command)])
    yield "dictionary", node("DictNode", "builtins", "dict", content={command: text("x")}, key_types=keys)
    yield (
        "partial",
        node(
            "PartialNode",
            "functools",
            "partial",
            content={"func": system, "args": sequence(text(command)), "kwds": empty, "namespace": empty},
        ),
    )
    yield "method", node("MethodNode", "pathlib", "Path", content={"func": "touch", "obj": owner})
    yield "operator", node("OperatorFuncNode", "operator", "methodcaller", attrs=opened)
    yield (
        "loss",
        node("LossNode", "os", "system", content=empty, __reduce__={"args": sequence(text(command))}),
    )
    yield "array", node("NdArrayNode", "os", "system", type="json", content=[], shape=sequence())
    yield (
        "inside a model",
        node(
            "ObjectNode",
            "partialfair.estimators.classifier",
            "PartialFairClassifier",
            content=node(
                "DictNode",
                "builtins",
                "dict",
                content={"callback": system},
                key_types=node("ListNode", "builtins", "list", content=[node("TypeNode", "builtins", "str")]),
            ),
        ),
    )


class TestHostileFiles:
    @pytest.fixture
    def target(self, tmp_path):
        """A file that must not appear."""
        path = tmp_path / "pwned"
        yield path
        assert not path.exists()

    @pytest.mark.parametrize("kind", [kind for kind, _ in hostile_schemas("")])
    def test_schemas_that_name_something_to_call(self, tmp_path, target, kind):
        path = archive(tmp_path / "model.skops", dict(hostile_schemas(target))[kind])
        with pytest.raises(InputError, match=r"model\.skops") as refused:
            load_model(path)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("kind", [kind for kind, _ in hostile_schemas("")])
    @pytest.mark.parametrize("protocol", [0, 1])
    def test_and_in_older_protocols(self, tmp_path, target, kind, protocol):
        schema = {**dict(hostile_schemas(target))[kind], "protocol": protocol}
        with pytest.raises(InputError):
            load_model(archive(tmp_path / "model.skops", schema))

    def test_the_message_names_the_culprit(self, tmp_path, target):
        path = archive(tmp_path / "model.skops", dict(hostile_schemas(target))["inside a model"])
        with pytest.raises(
            InputError, match=r"holds os\.system, which is not part of a model; nothing in it was"
        ):
            load_model(path)

    @pytest.mark.parametrize("write", [pickle.dump, joblib.dump])
    def test_pickles(self, tmp_path, target, write):
        with (tmp_path / "model.skops").open("wb") as file:
            write(Trap(target), file)
        with pytest.raises(InputError, match="pickles are never opened"):
            load_model(tmp_path / "model.skops")

    def test_a_pickle_inside(self, tmp_path, target):
        """NumPy's own files may hold pickles."""
        stored = io.BytesIO()
        np.save(stored, np.array([Trap(target)], dtype=object), allow_pickle=True)
        schema = node("NdArrayNode", "numpy", "ndarray", type="numpy", file="x.npy")
        path = archive(tmp_path / "model.skops", schema, **{"x.npy": stored.getvalue()})
        with pytest.raises(InputError, match="damaged"):
            load_model(path)

    @pytest.mark.parametrize(
        "schema",
        ["", "{", "[]", "null", "3", "{}", '{"protocol": true}', '{"protocol": 99}', "[" * 100_000],
    )
    def test_nonsense(self, tmp_path, schema):
        with pytest.raises(InputError, match=r"model\.skops is damaged"):
            load_model(archive(tmp_path / "model.skops", schema))

    def test_what_is_trusted_but_not_a_model(self, tmp_path):
        with pytest.raises(InputError, match="holds an object of type str, which is not a fitted model"):
            load_model(archive(tmp_path / "model.skops", text("hello")))


class TestOtherFiles:
    def test_none(self, tmp_path):
        with pytest.raises(InputError, match="there is no file"):
            load_model(tmp_path / "absent.skops")
        with pytest.raises(InputError, match="is a directory"):
            load_model(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"score,sex\n1,f\n", bytes(5000)])
    def test_not_an_archive(self, tmp_path, content):
        (tmp_path / "model.skops").write_bytes(content)
        with pytest.raises(InputError, match="not a model that save_model wrote"):
            load_model(tmp_path / "model.skops")

    def test_skops_files_of_others(self, tmp_path):
        skops.dump(LogisticRegression(), tmp_path / "model.skops")
        with pytest.raises(
            InputError, match=r"not a model that save_model wrote: it has no partialfair\.json"
        ):
            load_model(tmp_path / "model.skops")

    @pytest.mark.parametrize(
        "content",
        [
            "{",
            "[1]",
            "{}",
            '{"format": 1}',
            '{"format": "x", "partialfair": ""}',
            '{"format": 1e999, "partialfair": "0"}',
            '{"format": -1, "partialfair": "0"}',
            '{"format": true, "partialfair": "0"}',
            '{"format": [1], "partialfair": "0"}',
            '{"format": 1, "partialfair": {}}',
            '{"format": 1, "partialfair": "' + "9" * 10**7 + '"}',
            "[" * 10**6,
            "9" * 4000,
        ],
        ids=lambda content: content[:30],
    )
    def test_a_note_that_says_nothing(self, tmp_path, content):
        with zipfile.ZipFile(tmp_path / "model.skops", "w") as file:
            file.writestr("partialfair.json", content)
        with pytest.raises(InputError, match=r"damaged: its partialfair\.json does not name its writer"):
            load_model(tmp_path / "model.skops")

    def test_a_later_format(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "model.skops", "w") as file:
            file.writestr("partialfair.json", note(format=FORMAT + 1, partialfair="9.9"))
        with pytest.raises(InputError, match=rf"written by partialfair 9\.9 in format {FORMAT + 1}.*upgrade"):
            load_model(tmp_path / "model.skops")

    def test_truncated_or_changed(self, tmp_path, rows):
        """Any part of a file, and a file with any byte changed, is refused or is the same model."""
        X, y = rows
        model = quick(constraint=None).fit(X, y)
        path = tmp_path / "model.skops"
        save_model(model, path)
        content = path.read_bytes()
        for length in np.linspace(0, len(content) - 1, 40).astype(int):
            path.write_bytes(content[:length])
            with pytest.raises(InputError):
                load_model(path)
        rng = np.random.default_rng(0)
        for place in rng.integers(0, len(content), 150):
            path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
            try:
                other = load_model(path)
            except InputError as error:
                assert "\n" not in str(error)  # noqa: PT017
            else:
                np.testing.assert_array_equal(other.coef_, model.coef_)


@pytest.mark.skipif(os.name != "posix", reason="devices as POSIX has them")
def test_devices_and_pipes_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(InputError, match="is a pipe or a device, not a model"):
            load_model(path)


def test_wide_tables_of_text_are_saved(rows):
    """600 columns of 100 levels, more than a small archive may have nodes of that length."""
    X, y = rows
    clf = PartialFairClassifier(constraint=None, alpha=0.1).fit(X, y)
    columns = tuple(
        CategoryColumn(f"column {j}", tuple(f"level {k} of {j}" for k in range(100)), gaps=False)
        for j in range(600)
    )
    clf.coef_, clf.n_features_in_ = np.zeros((1, 60_000)), 60_000
    assert len(model_bytes(TableModel("y", ("no", "yes"), columns, (), (), clf))) > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coef_", np.zeros((1, 4))),
        ("coef_", np.zeros((3, 3))),
        ("coef_", np.zeros((1, 3), dtype=int)),
        ("coef_", 1.0),
        ("intercept_", np.zeros(2)),
        ("n_features_in_", 4),
        ("n_features_in_", "3"),
        ("classes_", np.array([0])),
        ("classes_", np.array(0)),
        ("feature_names_in_", np.array(["a"], dtype=object)),
    ],
)
def test_a_linear_model_whose_parts_do_not_fit_is_refused(name, value):
    model = LogisticRegression().fit(np.eye(3), [0, 1, 1])
    check_models(model)
    setattr(model, name, value)
    with pytest.raises(InputError, match="its LogisticRegression has"):
        check_models(make_pipeline(StandardScaler(), model))


@pytest.mark.parametrize("name", ["mean_", "scale_", "n_features_in_"])
def test_a_scaler_whose_parts_do_not_fit_is_refused(name):
    scaler = StandardScaler().fit(np.eye(3))
    setattr(scaler, name, 4 if name == "n_features_in_" else np.ones(4))
    with pytest.raises(InputError, match="its StandardScaler has parts that do not fit"):
        check_models(scaler)
