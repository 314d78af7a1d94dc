"""The promise on the paper's data: the exact gap at the floor, at .05 and at .1, on both scales."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets import fetch_a9a, fetch_acs_income, fetch_bank, fetch_law_school
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.postprocessing import PartialParityAdjuster

LOADERS = [
    fetch_law_school,
    fetch_bank,
    fetch_a9a,
    pytest.param(fetch_acs_income, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=LOADERS, ids=lambda load: load.__name__)
def scored(request, data_dir):
    """Scores of a logistic regression on at most 60,000 training rows, with groups and interval."""
    data = request.param(path=data_dir)
    rows = data.split(0).train
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:60_000])
    if isinstance(data.X, CategoricalCodes):
        X = data.X.take(np.isin(np.arange(len(data.y)), rows)).to_csr()
    else:
        X = data.X.iloc[rows].to_numpy(dtype=float) if hasattr(data.X, "iloc") else data.X[rows]
    X = MaxAbsScaler().fit_transform(X)
    model = LogisticRegression(C=1.0, max_iter=2000).fit(X, data.y[rows])
    return model.decision_function(X), data.sensitive_features.to_numpy()[rows], data.interval


@pytest.mark.real_data
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("max_gap", ["floor", 0.05, 0.1])
def test_the_exact_gap_is_at_most_what_was_asked(scored, gap_scale, max_gap):
    scores, groups, interval = scored
    if max_gap == "floor":
        wide = PartialParityAdjuster(interval, 1.0, gap_scale=gap_scale).fit(
            scores, sensitive_features=groups
        )
        max_gap = wide.result_.floor
    adjuster = PartialParityAdjuster(interval, max_gap, gap_scale=gap_scale)
    adjusted = adjuster.fit_transform(scores, sensitive_features=groups)
    gap = partial_statistical_parity_difference(
        None, adjusted, sensitive_features=groups, interval=interval, gap_scale=gap_scale
    )
    assert gap <= max_gap + 1e-12
    for name in np.unique(groups):
        order = np.argsort(scores[groups == name], kind="stable")
        before, after = (np.diff(one[groups == name][order]) for one in (scores, adjusted))
        assert ((before > 0) == (after > 0)).all()
