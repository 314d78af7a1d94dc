"""Trees beside peers: what goes to FairGBM and comes back, what a frontier is made of, what a line says."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import _fairgbm
    from _tree_tables import Tables
    from engine import averaged_score
    from tree_peers import AIMS, Asked, Model, Way, _known, _measured, frontier_of, rows_of
finally:
    sys.path.remove(str(BENCHMARKS))

STAND_IN = """
import numpy as np

__version__ = "0"


class FairGBMClassifier:
    def __init__(self, **settings):
        self.settings = settings

    def fit(self, X, y, constraint_group, categorical_feature, verbose):
        self.sums = [np.nansum(X), y.sum(), constraint_group.sum()]
        self.categories = -1 if categorical_feature == "auto" else categorical_feature[0]
        return self

    def predict(self, X, raw_score):
        assert raw_score
        return np.array([*self.sums, self.categories, np.isnan(X).sum(), self.settings["tolerance"]])
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A FairGBM for this Python that tells what it was given."""
    (tmp_path / "fairgbm.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Path(sys.executable)


def test_rows_go_to_another_environment_and_scores_come_back_in_order(stand_in):
    X = pd.DataFrame({"number": [1.0, 2.0, np.nan], "word": pd.Categorical(["b", "a", None])})
    train = (X, np.array([1, 0, 1]), np.array(["men", "women", "men"]))
    grown = _fairgbm.grow(stand_in, train, X, [{"tolerance": 0.5}, {"tolerance": 0.25}])
    # numbers 1 + 2, codes 1 + 0; two positives; one of group 1; column 1 has categories; two gaps
    assert [list(scores) for scores in grown.scores] == [[4, 2, 1, 1, 2, 0.5], [4, 2, 1, 1, 2, 0.25]]
    assert len(grown.seconds) == 2
    assert grown.versions.startswith("fairgbm 0, scikit-learn")
    assert _fairgbm.versions_of(stand_in) == grown.versions


def test_tables_without_categories_leave_them_to_lightgbm(stand_in):
    X = pd.DataFrame({"number": [1.0, 2.0]})
    (scores,) = _fairgbm.grow(stand_in, (X, np.array([0, 1]), np.array([0, 1])), X, [{"tolerance": 0}]).scores
    assert scores[3] == -1


@pytest.mark.parametrize("python", ["nowhere/python", sys.executable])
def test_an_environment_without_fairgbm_is_refused_in_one_sentence(python, tmp_path, monkeypatch):
    (tmp_path / "fairgbm.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        SystemExit, match="cannot import FairGBM: `make bench-comparison` creates that environment"
    ):
        _fairgbm.versions_of(Path(python))


def people(groups, y):
    n = len(y)
    return Tables(
        np.zeros((n, 1)), pd.DataFrame({"c0": np.zeros(n)}), np.array(y), np.array(groups), (0.0, 0.5)
    )


def test_models_that_decide_worse_than_a_constant_are_left_out_but_the_first():
    test = people([0, 0, 0, 1, 1, 1], [1, 1, 0, 1, 1, 0])
    right = np.where(test.y == 1, 1.0, -1.0)
    models = [Model(-right, 1.0), Model(right, 1.0), Model(-right, 1.0), Model(np.ones(6), 1.0)]
    points = frontier_of(models, AIMS["decisions"], test)
    assert [point["accuracy"] for point in points] == [0, 1, pytest.approx(2 / 3)]


def gaps_of(first, second):
    """All gaps of two groups of four, of whom the first two have the label 1."""
    test = people([0] * 4 + [1] * 4, [1, 1, 0, 0] * 2)
    return {name: aim.gap(np.array([*first, *second], dtype=float), test) for name, aim in AIMS.items()}


def test_gaps_are_those_of_scores_of_decisions_and_of_errors():
    # All of the first and half of the second are selected, all and none of those with the label 0.
    gaps = gaps_of((4, 3, 2, 1), (4, 3, -1, -2))
    assert (gaps["decisions"], gaps["errors"]) == (0.5, 1.0)
    assert gaps["pSP, interval"] == 0  # upper halves are alike
    # Of the upper halves, two of four, all of the first and half of the second score above 0.
    gaps = gaps_of((4, 3, -1, -2), (4, -1, -1, -2))
    assert (gaps["pSP, interval"], gaps["pSP, absolute"]) == (0.5, 0.25)


def test_a_score_of_a_randomised_classifier_is_the_mean_of_its_predictors():
    class Randomised:
        weights_ = (0.25, 0.5, 0.25, 0.0)
        predictors_ = tuple(
            DummyClassifier(strategy="prior").fit(np.zeros((len(y), 1)), y)
            for y in ([0, 1, 1, 1], [1, 1], [0, 0], [0, 1])  # reductions may ask for one label alone
        )

    assert list(averaged_score(Randomised, np.zeros((2, 1)))) == [0.25 * 0.75 + 0.5 - 0.5] * 2


def test_a_line_says_by_how_much_ours_is_better():
    def answer(*points):
        frontier = [{"gap": gap, "accuracy": right, "auc": right - 0.1} for gap, right in points]
        told = {"trees": 10, "models": 3, "seconds": 1.0, "floors": {"decisions": 0.01}}
        return told | {"frontiers": {"decisions": frontier}}

    ways = {"ours, decisions": Way("this gap", "", None, ("decisions",)), "peer": Way("errors", "", None)}
    answers = {
        "ours, decisions": [answer((0.04, 0.8), (0.2, 0.88)), answer((0.04, 0.82))],
        "peer": [answer((0.08, 0.79), (0.2, 0.85)), answer((0.12, 0.8))],
    }
    own, beside = rows_of("people", ["decisions"], ways, answers)
    assert own["0.05"] == "0.8125 / 0.7125"
    assert own["what"] == "ours"
    assert beside["what"] == "ours − peer"
    assert beside["bounds"] == "errors"
    assert beside["0.05"] == "reached in 0 of 2"
    assert beside["0.2"] == "+0.0250 ± 0.0050 / +0.0250 ± 0.0050"
    assert beside["least test gaps"] == "0.080, 0.120"
    assert beside["models"] == "3 of 6"


def test_what_was_measured_is_known_to_the_next_run(tmp_path):
    asked = Asked("peer", "settings", "law_school", 100, 8, 0)
    assert _known(tmp_path / "none.jsonl") == {}
    (tmp_path / "begun.jsonl").write_text(
        '{"asked": {"way": "peer", "settings": "settings", "table": "law_school", "rows": 100, "leaves": 8, '
        '"split": 0}, "answer": {"trees": 5}}\n'
    )
    assert _known(tmp_path / "begun.jsonl") == {asked: {"trees": 5}}
    assert _measured({}, {}, None, tmp_path / "begun.jsonl") == {}
