"""Models in files: skops archives with a note about the writer, opened without running code from them."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.parameters import is_rows
from partialfair.exceptions import InputError
from partialfair.tables import TableModel
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair.utils.extras import PAPER_PACKAGE, import_quickly, load_extensions, missing_paper
from partialfair.utils.files import write_file
from partialfair.utils.model_files.archive import rewrite_archive
from partialfair.utils.model_files.scikit_learn import check_models

__all__ = [
    "FORMAT",
    "TRUSTED",
    "is_trusted",
    "load_model",
    "model_bytes",
    "register_saved_classes",
    "save_model",
]

FORMAT = 1  # version of the file format, increased when older versions of partialfair could not read it

_CLASSES = {
    "partialfair.estimators.classifier": ["PartialFairClassifier"],
    "partialfair.training.options": ["FitOptions"],
    "partialfair.training.result": ["FitResult"],
    "partialfair.tables": ["CategoryColumn", "GroupColumn", "NumberColumn", "TableEncoder", "TableModel"],
    "partialfair.estimators.regressor": ["PartialFairRegressor"],
    "partialfair.postprocessing.adjuster": ["PartialParityAdjuster"],
    "partialfair.postprocessing.fitting": ["Adjustment"],
    "partialfair.postprocessing.maps": ["ScoreMap"],
    "partialfair.metrics.calibration": ["CalibrationByGroup", "GroupCalibration"],
    "partialfair.optimization.objectives.settings": ["AUC", "Hinge", "Logistic", "PartialAUC", "Squared"],
    "partialfair.constraints.surrogates": ["Ramp", "RoundedRamp", "Sigmoid"],
    "partialfair.optimization.solvers.augmented_lagrangian": ["AugmentedLagrangian"],
    "partialfair.optimization.solvers.switching": ["DirectSwitching", "Switching"],
    "partialfair.optimization.solvers.idca": ["IDCA"],
    "partialfair.optimization.solvers.multistart": ["MultiStartSQP"],
    "partialfair.optimization.solvers.newton": ["Newton"],
    "partialfair.optimization.solvers.sqp": ["SQP", "NewtonSteps"],
    "partialfair.optimization.problems.certificate": ["Certificate"],
    "partialfair.metrics.partial": ["WorstGap"],
    "partialfair.utils.state": ["Pairs"],
    "partialfair.trees.estimator": ["PartialFairTrees"],
    # Models whose leaf values are refitted; their libraries read their trees.
    "partialfair.trees.stored": ["StoredXGBoost"],
    "lightgbm.basic": ["Booster"],
    "lightgbm.sklearn": ["LGBMClassifier", "LGBMRegressor"],
    "xgboost.sklearn": ["XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor"],
    "collections": ["OrderedDict", "defaultdict"],
    "sklearn.tree._tree": ["Tree"],
    "sklearn.ensemble._hist_gradient_boosting.predictor": ["TreePredictor"],
    # Sparse matrices that scikit-learn's estimators hold.
    **{
        f"scipy.sparse._{layout}": [f"{layout}_matrix", f"{layout}_array"]
        for layout in ("csr", "csc", "coo", "bsr", "dia")
    },
    # Plain objects that scikit-learn's estimators hold; newer versions do not have the last one.
    "numpy": ["dtype"],
    "sklearn.compose._column_transformer": ["make_column_selector", "_RemainderColsList"],
}


def _path_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


TRUSTED = (
    *(f"{module}.{name}" for module, names in _CLASSES.items() for name in names),
    *(
        _path_of(record.kind)
        for record in NAMED_CONSTRAINTS.values()
        if record.kind.__module__.startswith("partialfair.")  # users may have registered constraints by now
    ),
)
"""Classes that a model may consist of, besides those of NumPy, SciPy and scikit-learn that skops trusts.

A new public estimator, surrogate or solver is one entry; named constraints are included. Other distributions
call `register_saved_classes`.
"""

_registered: set[str] = set()

_NOTE = "partialfair.json"
_LONGEST_NOTE = 1 << 12  # characters; save_model writes fifty


def register_saved_classes(*kinds: type) -> None:
    """Allow model files to hold objects of an extension's classes, such as constraints and solvers."""
    _registered.update(map(_path_of, kinds))


def is_trusted(kind: type) -> bool:
    """Whether a file may hold objects of a class of partialfair or of an extension."""
    return _path_of(kind) in TRUSTED or _path_of(kind) in _registered


def _untrusted(content: bytes) -> list[str]:
    """Return the classes in an archive that are not trusted, after extensions have registered theirs."""
    types = {*_skops().get_untrusted_types(data=content)} - {*TRUSTED}
    if types:
        load_extensions()
    return sorted(types - _registered)


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file that `load_model` reads: a skops archive with the version of the format.

    Parameters
    ----------
    model : estimator
        An estimator of partialfair, a scikit-learn estimator that contains one (such as a pipeline), or a
        model of ``partialfair train``. All objects in it must be of classes that `load_model` trusts: your
        own constraints, surrogates and solvers cannot be saved, nor can a callback.
    path : str or path-like
        The file, usually with the extension ``.skops``. An existing file is replaced atomically.

    See Also
    --------
    load_model : Read the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, load_model, save_model
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 0, 1]
    >>> clf = PartialFairClassifier(constraint=None, alpha=0.1).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(clf, f"{directory}/model.skops")
    ...     again = load_model(f"{directory}/model.skops")
    >>> bool((again.decision_function(X) == clf.decision_function(X)).all())
    True
    """
    write_file(path, model_bytes(model))


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save_model` wrote.

    Only objects of listed classes are created (`TRUSTED`, classes of NumPy, SciPy and scikit-learn that skops
    trusts, and classes that installed extensions register). The list is checked before any object is created,
    nothing is unpickled, and a file with any other class raises `InputError`. Data that compiled code would
    use without checks (nodes of trees, LightGBM's text, XGBoost's JSON, neighbors, support vectors) is
    checked before, wherever it is in the model.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        The model; its scores equal those of the saved model to the last bit.

    See Also
    --------
    save_model : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, load_model, save_model
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 0, 1]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(PartialFairClassifier(constraint=None).fit(X, y), f"{directory}/model.skops")
    ...     model = load_model(f"{directory}/model.skops")
    >>> model.predict(X).shape
    (4,)
    """
    # Imported here: only models that are read may be adjusters, and writing should not wait for it.
    from partialfair.postprocessing.adjuster import PartialParityAdjuster

    path = Path(path)
    if not path.is_file():
        kind = "directory" if path.is_dir() else "pipe or a device"
        raise InputError(f"{path} is a {kind}, not a model" if path.exists() else f"there is no file {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise InputError(
            f"{path} is not a model that save_model wrote, or only part of one; pickles are never opened"
        )
    _check_note(content, path)
    model = _unpack(content, path)
    if not isinstance(model, BaseEstimator | TableModel):
        raise InputError(f"{path} holds {_describe(model)}, which is not a fitted model")
    with _name_damage(path):
        check_models(model)
        if isinstance(model, PartialFairEstimator):
            model._check_stored()
        elif isinstance(model, TableModel | PartialParityAdjuster):
            model.check()
    return model


def _skops() -> Any:
    """Return skops.io, imported without torch, which it does not need.

    It imports all packages of scikit-learn to list their estimators, among them adapters to other array
    libraries, each of which imports its library: seconds for torch. Adapters contain no estimators. An entry
    of None makes their import fail, which that search allows; afterwards the entries are restored.
    """
    adapters = [f"sklearn.externals.array_api_compat.{name}" for name in ("torch", "dask", "cupy")]
    hidden = [name for name in adapters if not {name, "skops.io"} & sys.modules.keys()]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        with import_quickly():
            from skops import io
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
    return io


def model_bytes(model: Any) -> bytes:
    """Return the bytes that `save_model` writes."""
    skops = _skops()
    if not isinstance(model, BaseEstimator | TableModel):
        raise InputError(f"save_model needs a fitted model, not {_describe(model)}")
    _refuse_unsavable(model)
    try:
        content = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
        rewrite_archive(content)  # a file that could not be loaded is not saved
        check_models(model)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:  # objects unknown to skops
        raise InputError(f"the model cannot be saved: {_one_line(error)}") from error
    if untrusted := _untrusted(content):
        raise InputError(
            f"the model holds {untrusted[0]}, which load_model would not trust; only models made of the "
            "classes of partialfair, scikit-learn, NumPy and SciPy can be saved"
        )
    archive = io.BytesIO(content)
    with zipfile.ZipFile(archive, "a") as file:
        note = {"format": FORMAT, "partialfair": version("partialfair")}
        file.writestr(_NOTE, json.dumps(note))
    return archive.getvalue()


def _unpack(content: bytes, path: Path) -> Any:
    """Create the model."""
    skops = _skops()
    with _name_damage(path):
        content = rewrite_archive(content)
        untrusted = _untrusted(content)
    if untrusted:
        if untrusted[0].startswith(f"{PAPER_PACKAGE}.") and find_spec(PAPER_PACKAGE) is None:
            raise InputError(str(missing_paper(str(path))))
        raise InputError(
            f"{path} holds {untrusted[0][:100]}, which is not part of a model; nothing in it was run, and it "
            "was not loaded"
        )
    with _name_damage(path):
        try:
            return skops.loads(content, trusted=[*TRUSTED, *_registered])
        except ModuleNotFoundError as error:
            library = error.name
    raise InputError(
        f"{path} holds a model of {library}, which is not installed; run: pip install 'partialfair[boosting]'"
    )


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    """Raise `InputError` for all errors of zipfile, json, NumPy and skops in damaged or forged files."""
    try:
        yield
    except Exception as error:
        raise InputError(f"{path} is damaged: {_one_line(error)}") from error


def _check_note(content: bytes, path: Path) -> None:
    """Raise `InputError` for archives that save_model, or this version of it, did not write."""
    text = None
    with _name_damage(path), zipfile.ZipFile(io.BytesIO(content)) as file:
        if _NOTE in file.namelist():
            with file.open(_NOTE) as stream:
                text = stream.read(_LONGEST_NOTE)
    if text is None:
        raise InputError(f"{path} is not a model that save_model wrote: it has no {_NOTE}")
    try:
        note = json.loads(text)
        written_in, writer = note["format"], note["partialfair"]
        if not (type(written_in) is int and written_in >= 1 and isinstance(writer, str)):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: its {_NOTE} does not name its writer") from error
    if written_in > FORMAT:
        later = f"partialfair {writer[:40]} in format {str(written_in)[:20]}"
        raise InputError(
            f"{path} was written by {later}, and partialfair {version('partialfair')} reads formats "
            f"up to {FORMAT}; upgrade partialfair"
        )


def _describe(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"


def _refuse_unsavable(model: Any) -> None:
    """Raise `InputError` for callbacks, held-out rows and metadata requests, with a remedy."""
    estimator = model.classifier if isinstance(model, TableModel) else model
    parameters = estimator.get_params()
    for name, value in parameters.items():
        if name.rpartition("__")[2] == "callback" and value is not None:
            raise InputError(
                f"{name} is a function, which a file cannot hold; call set_params({name}=None) before saving"
            )
        if name.rpartition("__")[2] == "validation" and is_rows(value):
            raise InputError(
                f"{name} holds data rows, which a model file must not contain; call set_params({name}=0.2) "
                "before saving"
            )
    for one in (estimator, *parameters.values()):
        if "_metadata_request" in getattr(one, "__dict__", {}):
            raise InputError(
                f"{type(one).__name__} has its own metadata requests (set_fit_request and so on), "
                "which a file cannot hold; fit an estimator without them"
            )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
