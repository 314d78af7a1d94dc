"""What an import costs: heavy and optional packages are loaded when they are used, not before."""

import subprocess
import sys

import pytest


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


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
    assert partialfair.choose_interval is partialfair.metrics.choose_interval
    assert partialfair.datasets.__name__ == "partialfair.datasets"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = partialfair.nonsense


def test_a_missing_extra_is_one_sentence(monkeypatch):
    from partialfair._extras import require
    from partialfair.exceptions import MissingExtraError

    for name in ("matplotlib", "matplotlib.pyplot"):  # another test may have imported it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtraError, match=r"drawing needs matplotlib.*pip install 'partialfair\[cli\]'"
    ):
        require("matplotlib.pyplot", extra="cli", purpose="drawing")


def test_a_broken_dependency_is_not_called_missing(tmp_path, monkeypatch):
    from partialfair._extras import require

    (tmp_path / "halfway.py").write_text("import surely_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
        require("halfway", extra="cli", purpose="nothing")
