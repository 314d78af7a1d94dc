"""Who is held out and in which fold: in proportion, by chance, and never through a cluster."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from partialfair.data.samples import apply_splitter, draw_folds, draw_rows, strata_of
from partialfair.exceptions import InputError


@pytest.fixture
def people():
    """Strata of very different sizes, and clusters of one to four rows, of which some are in two strata."""
    rng = np.random.default_rng(0)
    strata = rng.choice(6, 900, p=[0.4, 0.3, 0.2, 0.06, 0.03, 0.01])
    clusters = rng.permutation(np.repeat(np.arange(360), rng.integers(1, 5, 360))[:900])
    return strata, np.unique(clusters, return_inverse=True)[1]


def test_strata_are_groups_and_two_labels():
    codes = np.array([0, 0, 1, -1])
    assert len(np.unique(strata_of(codes, np.array([0, 1, 1, 0])))) == 4
    np.testing.assert_array_equal(strata_of(codes, np.array([0, 1, 2, 3])), codes)  # numbers to predict


def test_a_share_of_every_stratum_is_drawn(people):
    strata, _ = people
    drawn = draw_rows(strata, 0.25, seed=1)
    for stratum in range(6):
        assert drawn[strata == stratum].sum() == round(0.25 * (strata == stratum).sum())
    np.testing.assert_array_equal(drawn, draw_rows(strata, 0.25, seed=1))
    assert (drawn != draw_rows(strata, 0.25, seed=2)).any()


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_folds_are_even_in_every_stratum(people, n_folds):
    strata, _ = people
    folds = draw_folds(strata, n_folds, seed=0)
    for part in (slice(None), *(strata == stratum for stratum in range(6))):
        sizes = np.bincount(folds[part], minlength=n_folds)
        assert np.ptp(sizes) <= 1
    np.testing.assert_array_equal(folds, draw_folds(strata, n_folds, seed=0))
    assert (folds != draw_folds(strata, n_folds, seed=1)).any()


@pytest.mark.parametrize(
    "parts_of", [lambda s, c: draw_rows(s, 0.3, 0, c), lambda s, c: draw_folds(s, 5, 0, c)]
)
def test_clusters_stay_together(people, parts_of):
    strata, clusters = people
    parts = parts_of(strata, clusters)
    together = [np.unique(parts[clusters == cluster]).size for cluster in np.unique(clusters)]
    assert together == [1] * len(together)


def test_clusters_of_rare_strata_are_spread(people):
    strata, clusters = people
    folds = draw_folds(strata, 3, 0, clusters)
    # Every cluster with a row of the rarest stratum counts as one of that stratum.
    rare = np.unique(clusters[strata == 5])
    assert np.ptp(np.bincount([folds[clusters == one][0] for one in rare], minlength=3)) <= 1


@pytest.mark.parametrize(
    "splitter", [KFold(4), KFold(3, shuffle=True, random_state=0), StratifiedKFold(5), GroupKFold(3)]
)
def test_splitters_of_scikit_learn(people, splitter):
    strata, clusters = people
    labels = strata % 2
    given = clusters if isinstance(splitter, GroupKFold) else None
    folds = apply_splitter(splitter, labels, given)
    for fold, (_, test) in enumerate(splitter.split(np.zeros((900, 1)), labels, given)):
        assert (folds[test] == fold).all()


@pytest.mark.parametrize(
    ("splitter", "clustered", "message"),
    [
        (ShuffleSplit(3, random_state=0), False, "must hold out every row just once"),
        (TimeSeriesSplit(3), False, "leaves rows out of both parts"),
        (KFold(4, shuffle=True, random_state=0), True, "parts rows of one cluster"),
    ],
)
def test_splitters_that_cannot_be_folds(people, splitter, clustered, message):
    strata, clusters = people
    with pytest.raises(InputError, match=message):
        apply_splitter(splitter, strata % 2, clusters if clustered else None)


def test_more_folds_than_rows_or_clusters(people):
    strata, clusters = people
    with pytest.raises(InputError, match="901 folds need at least as many rows, and there are 900"):
        draw_folds(strata, 901, 0)
    with pytest.raises(InputError, match="400 folds need at least as many clusters"):
        draw_folds(strata, 400, 0, clusters)
