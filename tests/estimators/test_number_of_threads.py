"""The number of threads decides how long a fit takes, and not one bit of the model."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import EqualOpportunity, StatisticalParity
from partialfair.data.categoricals import CategoricalCodes
from partialfair.optimization.problems import InMemoryData
from partialfair.optimization.problems.rows import ShardSize
from partialfair.training import units

THREADS = (1, 2, 4)
# As many shards as large data have.
SMALL = ShardSize(entries=20_000, entries_of_many=20_000, entries_of_hessian=1)


def dense(rng):
    X = rng.normal(size=(20_011, 12))  # enough rows for BLAS to use its threads
    return X, rng.choice(["a", "b"], len(X)), {}, {}


def stored_sparsely(rng):
    X = sparse.random(9001, 100, density=0.09, format="csr", random_state=rng)
    return X, rng.choice(["a", "b", "c"], X.shape[0]), {}, {}


def categorical(rng):
    levels = (2, 5, 9, 4, 7, 3, 12, 6)
    codes = np.stack([rng.integers(n, size=12_007) for n in levels], axis=1)
    X = CategoricalCodes(codes, tuple(np.arange(n).astype(str) for n in levels), tuple("abcdefgh"))
    return X, rng.choice(["a", "b"], len(codes)), {}, {}


def weighted_with_two_constraints(rng):
    X = rng.normal(size=(15_013, 6))
    constraints = [StatisticalParity((0.1, 0.5), 0.08), EqualOpportunity((0.0, 0.6), 0.1)]
    given = {"sample_weight": rng.uniform(0.5, 2.0, len(X))}
    return X, rng.choice(["a", "b"], len(X)), {"constraint": constraints}, given


def twenty_groups_with_interactions(rng):
    X = rng.normal(size=(20_001, 6))
    settings = {"group_terms": "interactions", "max_gap": 0.1, "options": FitOptions(search_steps=20)}
    return X, rng.choice([f"g{k:02d}" for k in range(20)], len(X)), settings, {}


PROBLEMS = (
    dense,
    stored_sparsely,
    categorical,
    weighted_with_two_constraints,
    twenty_groups_with_interactions,
)


def digest(problem):
    """Fit a model; return the number of shards, and digests of all its numbers."""
    rng = np.random.default_rng(7)
    X, groups, settings, given = problem(rng)
    features = X.codes[:, :4].astype(float) if isinstance(X, CategoricalCodes) else X[:, :4]
    features = features.toarray() if sparse.issparse(features) else features
    scores = features.sum(axis=1) / features.std() + 0.7 * (groups == np.unique(groups)[0])
    y = scores + 1.5 * rng.normal(size=len(groups)) > np.median(scores)
    settings = {"interval": (0.1, 0.6), "max_gap": 0.05, "options": FitOptions(search_steps=40), **settings}
    if "constraint" in settings:
        settings = {name: settings[name] for name in settings if name not in ("interval", "max_gap")}
    shards = []

    def data(*arguments):
        made = InMemoryData(*arguments, size=SMALL)
        shards.append(len(made.rows().shards))
        return made

    with mock.patch.object(units, "InMemoryData", data):
        clf = PartialFairClassifier(**settings, random_state=0).fit(X, y, sensitive_features=groups, **given)
    result = clf.result_
    numbers = {
        "coefficients": [*clf.coef_, clf.intercept_],
        "thresholds": [result.thresholds],
        "objectives": [
            [result.objective, result.constant_objective],
            [one.objective for one in result.candidates],
        ],
        "gaps": [[gap.value for gap in result.gaps], [result.max_violation]],
        "ties and spread": [[result.tied_share, result.spread]],
    }
    digests = {
        name: hashlib.sha256(np.concatenate(part).tobytes()).hexdigest() for name, part in numbers.items()
    }
    return shards[0], {"status": str(result.status), **digests}


def with_all_threads(problem):
    """Return what `digest` returns with each number of threads, of blocks and of BLAS."""
    from numba import set_num_threads

    found = []
    for n_threads in THREADS:
        set_num_threads(n_threads)
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(digest(problem))
    return found


@pytest.mark.parametrize("problem", PROBLEMS)
def test_any_number_of_threads_gives_the_same_model(problem):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, problem.__name__],
        env={**os.environ, "NUMBA_NUM_THREADS": str(max(THREADS))},
        check=True,
        capture_output=True,
        text=True,
    )
    (n_shards, first), *others = json.loads(done.stdout)
    assert n_shards >= max(THREADS)
    assert others == [[n_shards, first]] * len(others)


if __name__ == "__main__":
    sys.stdout.write(
        json.dumps(with_all_threads(next(one for one in PROBLEMS if one.__name__ == sys.argv[1])))
    )
