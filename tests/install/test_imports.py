"""What an import costs: heavy and optional packages are loaded when they are used, not before."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from partialfair.cli import command

NUMERICAL = {"numpy", "pandas", "scipy", "sklearn", "numba", "pyarrow", "matplotlib", "torch", "skops"}


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def modules_of_command(*words, cwd=None):
    """Return what a command that ends well has imported, in that order."""
    code = """
import sys
from partialfair.cli import command
try:
    command()
except SystemExit as end:
    sys.stderr.write(" ".join(["modules:", *sys.modules]))
    sys.exit(end.code)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=cwd
    )
    return run.stderr.rpartition("modules:")[2].split()


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("train", "--help"), ("data", "--help")])
def test_help_waits_for_no_package_of_numbers(words):
    assert not {*modules_of_command(*words)} & NUMERICAL


def test_no_command_is_defined_among_numbers():
    """As above, of all commands: their help is made of what one module imports."""
    assert not modules_after("import partialfair.cli.app") & NUMERICAL


def test_predict_waits_for_neither_torch_nor_numba(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "sex": ["w", "m"] * 30, "city": [*"abc"] * 20})
    table["hired"] = (table["x"] > 0).astype(int)
    table.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    words = "train t.csv --target hired --group sex --constraint none --test-size 0 --out model"
    monkeypatch.setattr(sys, "argv", ["partialfair", *words.split()])
    with pytest.raises(SystemExit, match="0"):
        command()
    loaded = modules_of_command("predict", "model", "t.csv", "--out", "s.csv", cwd=tmp_path)
    assert "skops.io" in loaded
    assert loaded.index("scipy.special") < loaded.index("pandas")  # else skops searches pandas 300 times
    assert not {*loaded} & {"torch", "numba", "matplotlib", "dask", "lightgbm", "xgboost"}
    assert len(pd.read_csv(tmp_path / "s.csv")) == 60


@pytest.mark.slow
def test_what_skops_is_not_shown_is_there_afterwards():
    code = """
import sys
from partialfair.persistence import _skops
_skops()
assert None not in [sys.modules[name] for name in sys.modules if name.startswith("sklearn.externals")]
assert "torch" not in sys.modules
import sklearn.externals.array_api_compat.torch
"""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_skops_trusts_the_same_classes_as_ever():
    names = "; print(*sorted(io._trusted_types.SKLEARN_ESTIMATOR_TYPE_NAMES))"
    outputs = {
        subprocess.run([sys.executable, "-c", code + names], capture_output=True, check=True).stdout
        for code in (
            "import skops.io as io",
            "from partialfair.persistence import _skops; io = _skops()",
        )
    }
    assert len(outputs) == 1
    assert b"LogisticRegression" in outputs.pop()


def test_the_help_names_all_constraints():
    code = """
from partialfair.cli.settings import _CONSTRAINTS
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
assert _CONSTRAINTS == ", ".join(NAMED_CONSTRAINTS)
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # here other tests may have added some


def test_the_package_itself_loads_nothing():
    assert not modules_after("import partialfair") & {"numpy", "pandas", "scipy", "sklearn", "numba"}


def test_metrics_load_neither_scikit_learn_nor_extras():
    heavy = {"sklearn", "matplotlib", "torch", "typer", "rich", "pyarrow", "pooch", "scipy.stats"}
    assert not modules_after("from partialfair import metrics") & heavy


def test_datasets_and_plotting_wait_for_their_packages():
    heavy = {"sklearn", "matplotlib", "pooch", "pyarrow", "PIL", "torch"}
    assert not modules_after("import partialfair.datasets, partialfair.plotting") & heavy


def test_lazy_names():
    import partialfair

    assert set(partialfair.__all__) <= set(dir(partialfair))
    assert partialfair.choose_interval is partialfair.metrics.choice.choose_interval
    assert partialfair.datasets.__name__ == "partialfair.datasets"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = partialfair.nonsense


def test_a_missing_extra_is_one_sentence(monkeypatch):
    from partialfair.exceptions import MissingExtraError
    from partialfair.utils.extras import require

    for name in ("matplotlib", "matplotlib.pyplot"):  # another test may have imported it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtraError, match=r"drawing needs matplotlib.*pip install 'partialfair\[cli\]'"
    ):
        require("matplotlib.pyplot", extra="cli", purpose="drawing")


def test_a_broken_dependency_is_not_called_missing(tmp_path, monkeypatch):
    from partialfair.utils.extras import require

    (tmp_path / "halfway.py").write_text("import surely_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
        require("halfway", extra="cli", purpose="nothing")
