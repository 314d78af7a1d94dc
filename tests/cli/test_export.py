"""``partialfair export``: saved models as ONNX that take the columns of a table."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from partialfair import FitOptions, PartialFairClassifier, load_model, save_model
from partialfair.postprocessing import PartialParityAdjuster

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

BASIC = (
    "train",
    "people.csv",
    "--target",
    "hired",
    "--interval",
    0.1,
    0.6,
    "--max-gap",
    0.4,
    "--out",
    "model",
)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Numbers and texts with gaps, codes for a group, and a column that is called as an output is."""
    rng = np.random.default_rng(1)
    n = 500
    merit, job = rng.normal(size=n), rng.choice(["clerk", "a b", "ünï, x"], n)
    hired = merit + (job == "clerk") + rng.normal(size=n) > 0.5
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice([1, 2], n),
            "test": np.where(rng.random(n) < 0.1, np.nan, merit.round(2)),
            "label": rng.integers(0, 4, n),
            "job": pd.Series(job, dtype=object).mask(rng.random(n) < 0.1),
            "hired": np.where(hired, "yes", "no"),
        }
    )


def scored(path, table):
    """Run an exported model on a table, as a stranger would from its inputs alone."""
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {}
    for one in session.get_inputs():
        column = table[one.name.removeprefix("column ")]
        texts = [("" if pd.isna(cell) else str(cell)) for cell in column]
        inputs[one.name] = column.to_numpy(float) if "double" in one.type else np.array(texts, dtype=object)
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        ("--group", "sex"),
        ("--group", "sex", "--group", "race", "--group-terms", "interactions"),
        ("--group", "sex", "--model", "hist"),
    ],
    ids=["linear", "group terms", "trees"],
)
def test_a_trained_model_scores_tables(run, people, options):
    people.to_csv("people.csv", index=False)
    assert run(*BASIC, *options).code == 0
    told = run("export", "model", "model.onnx", "--json").json
    assert set(told["inputs"]) >= {"test", "column label", "job"}
    assert told["inputs"]["job"] == "string (n)"
    assert set(told["outputs"]) == {"scores", "label", "probabilities"}
    fresh = people.assign(job=people["job"].replace({"a b": "never seen"}))
    fresh["test"] = fresh["test"].mask(np.arange(len(fresh)) % 5 == 0)
    model = load_model("model/model.skops")
    outputs = scored("model.onnx", fresh)
    np.testing.assert_allclose(outputs["scores"], model.decision_function(fresh), rtol=0, atol=1e-12)
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(fresh), rtol=0, atol=1e-12)
    assert outputs["label"].tolist() == model.predict(fresh).tolist()


def test_what_is_printed(run, people):
    people.to_csv("people.csv", index=False)
    assert run(*BASIC, "--group", "sex").code == 0
    printed = run("export", "model", "model.onnx").out
    assert "inputs: race: double (n), test: double (n), column label: double (n), job: string (n)" in printed
    assert "outputs: scores: double (n), label: string (n), probabilities: double (n, 2)" in printed


def test_models_of_python_are_exported_too(run):
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=200), rng.choice(["a", "b"], 200)
    adjuster = PartialParityAdjuster((0.1, 0.5), 0.1).fit(scores, sensitive_features=groups)
    run("--version")  # which changes to an empty directory
    save_model(adjuster, "adjuster.skops")
    told = run("export", "adjuster.skops", "adjuster.onnx", "--json").json
    assert told["inputs"] == {"unadjusted": "double (n)", "group": "string (n)"}
    assert told["metadata"]["needs_group"] == "true"


def test_a_model_that_breaks_its_promise_is_refused(run):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 1)), rng.choice(["a", "b"], 200)
    X[groups == "a"] += 2
    clf = PartialFairClassifier(max_gap=0.0, interval=(0.2, 0.4), options=FitOptions(search_steps=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, X[:, 0] + rng.normal(size=200) > 1, sensitive_features=groups)
    assert clf.result_.satisfied is False
    run("--version")
    save_model(clf, "model.skops")
    run("export", "model.skops", "model.onnx").assert_refused_elsewhere(
        "infeasible model", "--allow-infeasible exports it"
    )
    assert run("export", "model.skops", "model.onnx", "--allow-infeasible").code == 0


def test_bad_targets(run, people):
    run("export", "none.skops", "model.txt").assert_refused("model.txt must end in .onnx")
    run("export", "none.skops", "nowhere/model.onnx").assert_refused("directory that does not exist")
    run("export", "none.skops", "model.onnx").assert_refused_elsewhere("there is no file none.skops")
