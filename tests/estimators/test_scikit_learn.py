"""scikit-learn's own checks, on ordinary estimators and on the constrained path."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor


class GroupsFromFeatures:
    """Derives two groups from X, because scikit-learn's checks know nothing of sensitive features."""

    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        return super().fit(X, y, sensitive_features=two_groups(X), sample_weight=sample_weight)


class GroupedClassifier(GroupsFromFeatures, PartialFairClassifier):
    """The constrained classifier."""


class GroupedRegressor(GroupsFromFeatures, PartialFairRegressor):
    """The constrained regressor."""


def two_groups(X):
    """A row's group depends on that row alone, so that repeating rows and shuffling them change nothing."""
    try:
        dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
        groups = np.floor(10 * np.abs(np.nan_to_num(dense, posinf=0.0, neginf=0.0)).sum(axis=1)) % 2
    except Exception:  # not a table of numbers: the classifier is about to say so
        return None
    if np.bincount(groups.astype(int), minlength=2).min() < 2:  # a handful of rows, or equal ones
        return np.arange(len(dense)) % 2
    return groups


CONSTRAINED = {"interval": (0, 1), "enforce": "surrogate", "max_gap": 0.2, "max_iter": 4}
CONSTRAINED |= {"options": FitOptions(n_points=3)}


def upstream(_):
    """Return the checks that are wrong in old versions: they make labels binary in two different ways."""
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    fixed = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 7)
    return {} if fixed else dict.fromkeys(names, "scikit-learn's check is wrong for binary classifiers")


@parametrize_with_checks([PartialFairClassifier(constraint=None)], expected_failed_checks=upstream)
def test_ordinary_classifier(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)
@parametrize_with_checks([GroupedClassifier(**CONSTRAINED)], expected_failed_checks=upstream)
def test_constrained_classifier(estimator, check):
    check(estimator)


@parametrize_with_checks([PartialFairRegressor(constraint=None)])
def test_ordinary_regressor(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)
@parametrize_with_checks([GroupedRegressor(**CONSTRAINED)])
def test_constrained_regressor(estimator, check):
    check(estimator)
