"""Losses as users meet them, in the classifier."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score, roc_curve

from partialfair import PartialFairClassifier
from partialfair.exceptions import SurrogateWarning
from partialfair.optimization.objectives import AUC, Hinge, Logistic, PartialAUC
from partialfair.optimization.solvers import Status

LOSSES = [
    "logistic",
    "hinge",
    "squared",
    "auc",
    AUC("logistic"),
    PartialAUC((0.0, 0.3)),
    PartialAUC((0.1, 0.5)),
]


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SurrogateWarning")  # people are too few
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_constrained_fits_converge(people, loss):
    clf = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.15, enforce="surrogate", loss=loss)
    free = clone(clf).set_params(constraint=None).fit(people.X, people.y)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is free.result_.status is Status.CONVERGED
    assert clf.result_.max_violation <= 1e-4
    assert clf.result_.objective > free.result_.objective
    assert free.score(people.X, people.y) > 0.8  # 0 lies between the classes, pairs or not
    assert roc_auc_score(people.y, free.decision_function(people.X)) > 0.9


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)
@pytest.mark.parametrize(
    "loss", ["hinge", Hinge(0.0), "squared", "auc", PartialAUC((0.1, 0.5), "hinge", 0.0)], ids=str
)
def test_the_papers_solver_takes_them_all(people, loss):
    clf = PartialFairClassifier(
        interval=(0.1, 0.5),
        max_gap=0.15,
        enforce="surrogate",
        loss=loss,
        solver="idca-switching",
        max_iter=10,
    )
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.max_violation <= 5e-3
    assert clf.result_.objective < clf.result_.history[0].objective - 0.02


def test_probabilities_only_with_the_logistic_loss(people):
    for loss in ("logistic", Logistic()):
        clf = PartialFairClassifier(None, loss=loss).fit(people.X, people.y)
        assert clf.predict_proba(people.X)[:, 1] == pytest.approx(expit(clf.decision_function(people.X)))
        assert clf.predict_log_proba(people.X) == pytest.approx(np.log(clf.predict_proba(people.X)))
    clf = PartialFairClassifier(None, loss="auc").fit(people.X, people.y)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(clf, name)
    with pytest.raises(AttributeError, match="predict_proba"):
        clf.predict_proba(people.X)


def hard_negatives(seed, n=1500):
    """Most negatives are told apart by the first feature, and the top ones by the second alone."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.45, 0.48, 0.07])  # positives, easy negatives, hard negatives
    centres = np.array([[1.0, 1.5], [-1.5, 1.5], [3.0, -0.5]])
    return centres[kind] + 0.7 * rng.normal(size=(n, 2)), kind == 0


def partial_auc(y, scores, most):
    fpr, tpr, _ = roc_curve(y, scores)
    grid = np.linspace(0, most, 200)
    return np.interp(grid, fpr, tpr).mean()


def test_partial_auc_is_what_it_improves():
    (X, y), (X_new, y_new) = hard_negatives(0), hard_negatives(1, 4000)
    found = {}
    for name, loss in [("logistic", "logistic"), ("partial", PartialAUC((0.0, 0.2)))]:
        clf = PartialFairClassifier(None, loss=loss).fit(X, y)
        found[name] = partial_auc(y_new, clf.decision_function(X_new), 0.2)
    assert found["partial"] > found["logistic"] + 0.02


def test_a_class_that_cannot_win_is_said():
    """With labels that are noise no direction puts positives above the top negatives."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.random(300) < 0.5
    with pytest.warns(SurrogateWarning, match=r"positives do not exceed the negatives of fpr=\(0.0, 0.1\)"):
        PartialFairClassifier(None, loss=PartialAUC((0.0, 0.1))).fit(X, y)


def test_class_weights_do_not_matter_to_pairs(people):
    one, other = (
        PartialFairClassifier(None, loss="auc", class_weight=weight).fit(people.X, people.y)
        for weight in (None, {"hired": 7.0})
    )
    assert one.coef_ == pytest.approx(other.coef_, rel=1e-6)
