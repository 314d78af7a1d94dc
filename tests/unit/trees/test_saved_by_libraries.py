"""Models that their own libraries save, loaded in a process in which nobody imports partialfair."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from partialfair.trees.ensembles import ensemble_of
from tests.tree_models import grown, scores_with

LOAD_AND_SCORE = {
    "lightgbm.Booster": "lightgbm.Booster(model_file=sys.argv[1]).predict(X, raw_score=True)",
    "xgboost.Booster": (
        "xgboost.Booster(model_file=sys.argv[1])"
        ".predict(xgboost.DMatrix(X, enable_categorical=True), output_margin=True)"
    ),
    "CatBoostClassifier": (
        "catboost.CatBoostClassifier().load_model(sys.argv[1]).predict(X, prediction_type='RawFormulaVal')"
    ),
    "XGBClassifier stopped": "model.predict(X, output_margin=True)",
    "LGBMClassifier": "joblib.load(sys.argv[1]).predict(X, raw_score=True)",
    "HistGradientBoostingClassifier": "joblib.load(sys.argv[1]).decision_function(X)",
    "GradientBoostingRegressor": "joblib.load(sys.argv[1]).predict(X)",
    "RandomForestClassifier": "joblib.load(sys.argv[1]).predict_proba(X)[:, 1]",
    "ExtraTreesRegressor": "joblib.load(sys.argv[1]).predict(X)",
}

PROGRAM = """
import sys
import joblib, numpy, pandas
{imports}
X = joblib.load(sys.argv[2])
numpy.save(sys.argv[3], {scores})
assert not any(name.partition(".")[0] == "partialfair" for name in sys.modules)
"""

IMPORTS = {
    "lightgbm.Booster": "import lightgbm",
    "xgboost.Booster": "import xgboost",
    "CatBoostClassifier": "import catboost",
    "XGBClassifier stopped": "import xgboost\nmodel = xgboost.XGBClassifier()\nmodel.load_model(sys.argv[1])",
}


@pytest.mark.parametrize("name", LOAD_AND_SCORE)
def test_the_loaded_model_scores_the_same(name, tmp_path):
    import joblib

    case = grown(name)
    ensemble = ensemble_of(case.model)
    values = ensemble.values * np.random.default_rng(1).uniform(0.2, 1.0, len(ensemble.values))
    written = ensemble.with_values(values)
    model, rows, scores = (str(tmp_path / file) for file in ("model.json", "rows", "scores.npy"))
    if name in IMPORTS:
        written.model.save_model(model)
    else:
        joblib.dump(written.model, model)
    joblib.dump(case.fresh, rows)
    program = PROGRAM.format(imports=IMPORTS.get(name, ""), scores=LOAD_AND_SCORE[name])
    subprocess.run([sys.executable, "-c", program, model, rows, scores], check=True, timeout=300)
    expected = scores_with(ensemble, values, ensemble.leaves(case.fresh))
    np.testing.assert_array_equal(np.load(scores).astype(np.float64), expected)


@pytest.mark.parametrize("name", ["lightgbm.Booster", "xgboost.Booster", "XGBClassifier stopped"])
def test_trees_beyond_the_best_iteration_are_dropped(name):
    ensemble = ensemble_of(grown(name).model)
    written = ensemble.with_values(ensemble.values).model
    original, booster = (
        model.get_booster() if hasattr(model, "get_booster") else model
        for model in (grown(name).model, written)
    )
    n_trees = booster.num_trees() if hasattr(booster, "num_trees") else booster.num_boosted_rounds()
    assert n_trees == ensemble.n_trees
    assert booster.best_iteration == original.best_iteration
    if hasattr(booster, "attributes"):
        assert booster.attributes() == original.attributes() != {}
        assert booster.feature_names == original.feature_names == ["a", "b", "c", "d", "e"]
        assert booster.feature_types == original.feature_types


def test_a_written_booster_runs_on_as_many_threads():
    pytest.importorskip("xgboost")
    model = grown("XGBRegressor").model
    written = ensemble_of(model).with_values(ensemble_of(model).values).model
    config = json.loads(written.get_booster().save_config())
    assert config["learner"]["generic_param"]["nthread"] == str(model.n_jobs) == "1"
