"""Who enters and leaves: what a page holds of it gives the library's numbers on every interval."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import fairness_report, interval_changes
from partialfair.metrics.membership import GridPlaces, grid_stays
from partialfair.report.page_data import N_GRID, collect_changes, pack_stays
from partialfair.report.pages import audit_page

UPPER = np.triu_indices(N_GRID)
KINDS = ("distinct", "rounded", "grades", "equal", "one heavy")


def two_models(kind, n, seed=0):
    """Scores of the same people by two models that agree somewhat."""
    rng = np.random.default_rng(seed)
    before = rng.normal(size=n)
    after = before + 0.5 * rng.normal(size=n)
    weights = np.ones(n)
    if kind == "rounded":
        before, after = before.round(1), after.round(1)
    elif kind == "grades":
        before, after = before.round(), after.round(1)
    elif kind == "equal":
        after = np.zeros(n)
    elif kind == "one heavy":
        weights = rng.choice([0.1, 0.3, 0.7], n)
        weights[: n // 50] = 0.0
        weights[n // 2] = n / 20
    return before, after, weights


@pytest.mark.parametrize("n", [37, 400, 1037])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_stay_are_those_of_the_definition_on_every_grid_interval(kind, n):
    before, after, weights = two_models(kind, n)
    some = weights > 0
    n_grid = 10
    places = [GridPlaces.of(scores[some], weights[some], n_grid) for scores in (before, after)]
    stays = grid_stays(*places, weights[some])
    for place, (i, last) in enumerate(zip(*np.triu_indices(n_grid), strict=True)):
        wanted = interval_changes(
            before,
            after,
            sensitive_features=np.zeros(n),
            interval=(i / n_grid, (last + 1) / n_grid),
            sample_weight=weights,
        )
        assert stays[place] == pytest.approx(wanted["stays"].item(), abs=1e-9 * weights.sum())
    for one in places:
        assert one.low.size < 2 * n_grid


def unpacked(text):
    """Weights that stay, by adding up cells: S(i, j) is the sum of T(a, b) over i ≤ a ≤ b < j."""
    numbers, stream = [], iter(base64.b64decode(text))

    def following():
        number, unit = 0, 1
        for byte in stream:
            number, unit = number + byte % 128 * unit, 128 * unit
            if byte < 128:
                break
        return number

    while len(numbers) < UPPER[0].size:
        number = following()
        numbers.append(-(number + 1) // 2 if number % 2 else number // 2)
        if number == 0:
            numbers += [0] * following()
    assert next(stream, None) is None
    cells = np.zeros((N_GRID, N_GRID), dtype=np.int64)
    cells[UPPER] = numbers
    from_below = cells[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)
    return from_below[UPPER]


@pytest.mark.parametrize("kind", KINDS)
def test_packing_loses_half_a_step_at_most(kind):
    before, after, weights = two_models(kind, 1037)
    some = weights > 0
    places = [GridPlaces.of(scores[some], weights[some], N_GRID) for scores in (before, after)]
    steps = grid_stays(*places, weights[some]) * 1000
    assert np.abs(unpacked(pack_stays(steps)) - steps).max() <= 0.5 + 1e-6


def test_packed_numbers_may_be_large_and_of_either_sign():
    rng = np.random.default_rng(0)
    steps = np.rint(rng.normal(size=UPPER[0].size) * 10.0 ** rng.integers(-2, 12, UPPER[0].size))
    assert (unpacked(pack_stays(steps)) == steps).all()


def changes_of(sizes, n_models=2, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"group {k}" for k in range(len(sizes))], sizes)
    scores = {f"model {k}": rng.normal(size=groups.size) for k in range(n_models)}
    return collect_changes(scores, sensitive_features=groups, interval=(0.1, 0.4)), scores, groups


def test_small_groups_are_told_for_the_audited_interval_only():
    changes, _, _ = changes_of([200, 201])
    record = changes.record(shown=1, room=10**6)
    assert [group["name"] for group in record["groups"]] == ["group 1"]
    assert (record["leftOut"], record["most"]) == (1, 200)
    assert [row[1] for row in changes.section.rows] == ["group 0", "group 1"]


def test_where_room_is_short_the_model_shown_and_large_groups_come_first():
    changes, _, _ = changes_of([300, 900, 600], n_models=4)
    whole = changes.record(shown=2, room=10**7)["tables"]
    order = [(*table["models"], k) for table in whole for k in table["stays"]]
    pairs = [(0, 2), (0, 1), (0, 3), (1, 2), (2, 3), (1, 3)]
    assert order == [(*pair, k) for pair in pairs for k in ("1", "2", "0")]
    sizes = [len(text) for table in whole for text in table["stays"].values()]
    for n_kept in (0, 1, 4, 17):
        room = sum(sizes[: n_kept + 1]) - 1  # one character too few for one more
        kept = changes.record(shown=2, room=room)["tables"]
        assert sum(len(table["stays"]) for table in kept) == n_kept


def test_one_model_has_no_changes():
    assert changes_of([300, 300], n_models=1)[0] is None


def test_changes_of_other_models_are_refused():
    changes, scores, groups = changes_of([300, 300])
    report = fairness_report(
        None, scores["model 0"], sensitive_features=groups, interval=(0.1, 0.4), n_resamples=100
    )
    with pytest.raises(InputError, match="changes has the models"):
        audit_page({"model 0": report, "other": report}, changes=changes)
