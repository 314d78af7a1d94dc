"""What an unconstrained model scores on the paper's data: this pins down the absolute scale."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from partialfair.datasets import fetch_a9a, fetch_bank, fetch_law_school
from partialfair.metrics import partial_statistical_parity_difference

pytestmark = pytest.mark.real_data


def dense_features(data):
    if sparse.issparse(data.X):
        return data.X.toarray()
    return StandardScaler().fit_transform(data.X.to_numpy(dtype=float))


def scores_of_the_papers_model(X, y, group, split, alpha):
    """Logistic regression with cross terms (1, ξ, γ, γξ): one separate linear model per group."""
    scores = np.empty(len(y))
    for label in np.unique(group):
        member = group == label
        train = split.train[member[split.train]]
        model = LogisticRegression(C=1 / (alpha * len(train)), solver="newton-cholesky", max_iter=200)
        scores[member] = model.fit(X[train], y[train]).decision_function(X[member])
    return scores


@pytest.mark.parametrize(
    ("load", "options", "alpha", "n_splits", "fairness", "within", "accuracy"),
    [
        # Measured with another implementation: a9a .5967 ± .003, law school .5515 ± .014, bank .408 ± .017;
        # the paper reports .5970, .5397 and .4366.
        (fetch_a9a, {"drop_sensitive": True}, 1e-6, 2, 0.597, 0.005, 0.8497),
        (fetch_law_school, {}, 1e-4, 5, 0.5515, 0.014, 0.9011),
        (fetch_bank, {}, 1e-4, 5, 0.408, 0.017, 0.8991),
    ],
)
def test_absolute_scale_matches_the_papers_tables(
    data_dir, load, options, alpha, n_splits, fairness, within, accuracy
):
    data = load(path=data_dir, **options)
    X, group = dense_features(data), data.sensitive_features.to_numpy()
    found, correct = [], []
    for seed in range(n_splits):
        split = data.split(seed)
        scores = scores_of_the_papers_model(X, data.y, group, split, alpha)[split.test]
        gap = partial_statistical_parity_difference(
            None,
            scores,
            sensitive_features=group[split.test],
            interval=data.interval,
            gap_scale="absolute",
        )
        found.append(1 - gap)
        correct.append(np.mean((scores > 0) == data.y[split.test]))
    assert np.mean(found) == pytest.approx(fairness, abs=within)
    assert np.mean(correct) == pytest.approx(accuracy, abs=0.003)
