import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from partialfair.constraints.dc.row_columns import RowColumns, single_column
from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.optimization.models import (
    FirstOrderModel,
    LinearModel,
    LinearScores,
    Parameters,
    ScoreModel,
    _kernels,
    designs,
    linear_model,
)
from partialfair.optimization.models.designs import as_design
from partialfair.utils.clock import OutOfTime, deadline
from tests.sizes import examples

N, N_GROUPS, FIRST = 40, 3, 7
KINDS = ["dense", "fortran", "float32", "csr", "csc", "one-hot csr", "codes", "codes of many fields"]
TERMS = [(None, True), (None, False), ("intercept", True), ("interactions", True), ("interactions", False)]
SEEDS = st.integers(0, 10_000)


def codes_of(n_levels, rng, n=N):
    """Return fields of so many levels each."""
    codes = np.column_stack([rng.integers(levels, size=n) for levels in n_levels])
    names = tuple(f"field {number}" for number in range(len(n_levels)))
    return CategoricalCodes(codes, tuple(map(np.arange, n_levels)), names)


def features(kind, rng, n=N):
    """Return features of one kind, and the same as a dense array."""
    if kind.startswith("codes"):
        n_levels = [4, 3] if kind == "codes" else [2] * 35  # more than are summed up one by one
        coded = codes_of(n_levels, rng, n)
        return coded, coded.to_csr().toarray()
    dense = rng.normal(size=(n, 5)).astype(np.float32).astype(float) * (rng.random((n, 5)) < 0.5)
    if kind == "one-hot csr":
        dense = (dense != 0).astype(float)
    made = {
        "dense": lambda: dense,
        "fortran": lambda: np.asfortranarray(dense),
        "float32": lambda: dense.astype(np.float32),
        "csr": lambda: sparse.csr_matrix(dense),
        "csc": lambda: sparse.csc_matrix(dense),
        "one-hot csr": lambda: sparse.csr_matrix(dense),
    }
    return made[kind](), dense


def units(rng, d, scaled, centred, offset):
    """Return settings of a model: units of the features, and where features and scores begin."""
    return {
        "scales": rng.uniform(0.5, 2, size=d) if scaled else 1.0,
        "centres": rng.normal(size=d) if centred else 0.0,
        "offset": {"none": 0.0, "number": 0.7, "rows": rng.normal(size=N)}[offset],
    }


def written_out(dense, codes, terms, scales=1.0, centres=0.0, **_):
    """J with all group terms and centred features written out: what must never be formed."""
    group_terms, fit_intercept = terms
    features, member = (dense - centres) / scales, np.eye(N_GROUPS)[codes]
    intercepts = np.ones((len(codes), 1)) if group_terms is None else member
    if group_terms == "interactions":
        features = np.hstack([features * member[:, [k]] for k in range(N_GROUPS)])
    return np.hstack([features, intercepts]) if fit_intercept else features


def columns_of(kind, codes, rng):
    """Return columns over the rows of some groups, of one of the kinds that formulas make."""
    n = codes.size
    if kind == "single":
        return single_column(rng.normal(size=n) * (rng.random(n) < 0.7))
    if kind == "several":
        return RowColumns(rng.normal(size=(n, 3)))
    if kind == "one cell, with a table":
        return RowColumns(rng.normal(size=(n, 2)), None, rng.normal(size=(1, 1, 2, 4)))
    outside = rng.random(n) < 0.2
    if kind == "bins of groups":
        cells = np.where(outside, -1, codes * 6 + rng.integers(6, size=n))
        return RowColumns(rng.normal(size=(n, 2)), cells, rng.normal(size=(N_GROUPS, 6, 2, 4)), N_GROUPS)
    if kind == "values by group":
        return RowColumns(rng.normal(size=(n, 4)), np.where(outside, -1, codes), None, N_GROUPS)
    if kind == "mixed cells":
        cells = rng.integers(-1, 8, size=n).astype(np.int32)
        return RowColumns(rng.normal(size=(n, 1)), cells, None, 8)
    assert kind == "mixed cells, many values"
    cells = rng.integers(-1, 8, size=n)
    return RowColumns(rng.normal(size=(n, 3)), cells, rng.normal(size=(2, 4, 3, 2)), 2)


COLUMNS = [
    "single",
    "several",
    "one cell, with a table",
    "bins of groups",
    "values by group",
    "mixed cells",
    "mixed cells, many values",
]


def matrix_of(columns, n):
    """C by its definition, number by number: (n, n_blocks, n_columns)."""
    C = np.zeros((n, columns.n_blocks, columns.n_columns))
    n_cells = 1 if columns.table is None else columns.table.shape[1]
    for i, values in enumerate(columns.values):
        block, cell = divmod(0 if columns.cells is None else int(columns.cells[i]), n_cells)
        if block < 0:
            continue
        for c in range(columns.n_columns):
            if columns.table is None:
                C[columns.first + i, block, c] = values[c]
            else:
                C[columns.first + i, block, c] = sum(values * columns.table[block, cell, :, c])
    return C


def products_by_definition(J, C):
    """``Jᵀ C``, and the columns' sums last."""
    with_ones = np.hstack([J, np.ones((len(J), 1))])
    return np.einsum("ibc,ip->bcp", C, with_ones)


@st.composite
def models(draw, kind, terms):
    """Return a linear model, its rows of J written out, its settings, and what drew them."""
    rng = np.random.default_rng(draw(SEEDS))
    X, dense = features(kind, rng)
    codes = rng.integers(N_GROUPS, size=N)
    scaled, centred = draw(st.booleans()), draw(st.booleans()) and terms[1]
    offset = draw(st.sampled_from(["none", "number", "rows"]))
    options = units(rng, dense.shape[1], scaled, centred, offset)
    model = linear_model(
        X, codes=codes, n_groups=N_GROUPS, group_terms=terms[0], fit_intercept=terms[1], **options
    )
    return model, written_out(dense, codes, terms, **options), codes, options, rng


every_model = pytest.mark.parametrize(("kind", "terms"), [(kind, terms) for kind in KINDS for terms in TERMS])


@every_model
@examples(5)
@given(data=st.data())
def test_scores_are_affine_in_the_parameters(kind, terms, data):
    model, J, _, options, rng = data.draw(models(kind, terms))
    w, v, weights = rng.normal(size=J.shape[1]), rng.normal(size=N), rng.random(N)
    assert model.parameters.n == J.shape[1]
    assert model.scores(w) == pytest.approx(options["offset"] + J @ w, abs=1e-10)
    assert model.along(w) == pytest.approx(J @ w, abs=1e-10)
    which = rng.integers(N, size=9)
    assert model.rows(which) == pytest.approx(J[which], abs=1e-12)
    assert v @ model.along(w) == pytest.approx(model.vjp(w, single_column(v))[0, 0, :-1] @ w)
    gram = model.gram(weights)
    assert gram.merged().blocks[0] == pytest.approx(J.T @ (J * weights[:, None]), abs=1e-10)
    assert max(len(block) for block in gram.blocks) <= model.parameters.block_size


@pytest.mark.no_cover
@every_model
@examples(3)
@given(data=st.data())
def test_columns_are_pulled_as_defined(kind, terms, data):
    model, J, codes, _, rng = data.draw(models(kind, terms))
    for shape in COLUMNS:
        first, stop = data.draw(st.sampled_from([(0, N), (FIRST, N), (FIRST, 2 * FIRST), (FIRST, FIRST)]))
        columns = columns_of(shape, codes[first:stop], rng)
        piece = RowColumns(columns.values, columns.cells, columns.table, columns.n_blocks, first=first)
        expected = products_by_definition(J, matrix_of(piece, N))
        products = model.vjp(np.zeros(J.shape[1]), piece)
        assert products.shape == expected.shape, shape
        assert products == pytest.approx(expected, abs=1e-10), shape


@pytest.mark.no_cover
@every_model
@examples(3)
@given(data=st.data())
def test_sums_over_shards_are_those_of_all_rows(kind, terms, data):
    model, J, codes, _, rng = data.draw(models(kind, terms))
    borders = [0, *sorted(data.draw(st.lists(st.integers(0, N), max_size=4))), N]
    shards = [slice(start, stop) for start, stop in pairwise(borders)]
    w, weights = rng.normal(size=J.shape[1]), rng.random(N)
    taken = [model.take(rows) for rows in shards]
    assert [shard.n_rows for shard in taken] == [rows.stop - rows.start for rows in shards]
    joined = np.concatenate([shard.scores(w) for shard in taken])
    assert joined == pytest.approx(model.scores(w), abs=1e-12)
    whole, total = model.gram(weights).merged(), np.zeros((w.size, w.size))
    for shard, rows in zip(taken, shards, strict=True):
        total += shard.gram(weights[rows]).merged().blocks[0]
        which = np.arange(rows.stop - rows.start)
        assert np.array_equal(shard.rows(which), model.rows(rows.start + which))
    assert total == pytest.approx(whole.blocks[0], abs=1e-12 * N)
    for shape in COLUMNS:
        columns = columns_of(shape, codes, rng)
        parts = [
            shard.vjp(
                w,
                RowColumns(
                    columns.values[rows],
                    None if columns.cells is None else columns.cells[rows],
                    columns.table,
                    columns.n_blocks,
                ),
            )
            for shard, rows in zip(taken, shards, strict=True)
        ]
        absolute = np.abs(matrix_of(columns, N)).sum() * np.abs(J).max()
        assert np.sum(parts, axis=0) == pytest.approx(model.vjp(w, columns), abs=1e-12 * max(1, absolute))


@pytest.mark.parametrize("kind", ["dense", "fortran", "float32", "csr", "one-hot csr", "codes"])
def test_shards_are_views(kind):
    X, _ = features(kind, np.random.default_rng(0))
    model = linear_model(X, offset=np.arange(N, dtype=float))
    shard = model.take(slice(FIRST, -FIRST))
    assert shard.n_rows == N - 2 * FIRST
    arrays = {name: value for name, value in vars(model.design).items() if isinstance(value, np.ndarray)}
    for name, array in arrays.items():
        assert not array.size or np.shares_memory(array, getattr(shard.design, name))
    assert np.shares_memory(shard.offset, model.offset)
    assert model.take(slice(None)) is model


@pytest.mark.parametrize("shape", COLUMNS)
@pytest.mark.parametrize("first", [0, FIRST])
@given(seed=SEEDS)
def test_two_functions_are_a_model(shape, first, seed):
    rng = np.random.default_rng(seed)
    X, codes, w = rng.normal(size=(N, 4)), rng.integers(N_GROUPS, size=N), rng.normal(size=4)

    def slopes(w):
        return (1 - np.tanh(X @ w) ** 2)[:, None] * X

    model: ScoreModel = FirstOrderModel(
        Parameters(4, 3, 4), lambda w: np.tanh(X @ w), lambda w, v: slopes(w).T @ v
    )
    columns = columns_of(shape, codes[first:], rng)
    piece = RowColumns(columns.values, columns.cells, columns.table, columns.n_blocks, first=first)
    expected = products_by_definition(slopes(w), matrix_of(piece, N))
    assert model.vjp(w, piece) == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(model.scores(w), np.tanh(X @ w))


def test_what_models_offer_can_be_asked():
    assert isinstance(linear_model(np.eye(3)), LinearScores)
    two_functions = FirstOrderModel(Parameters(1, 1, 1), lambda w: w, lambda w, v: v)
    assert not isinstance(two_functions, LinearScores)


def test_the_penalised_part_is_the_coefficients():
    rng = np.random.default_rng(0)
    model = linear_model(
        rng.normal(size=(N, 5)),
        codes=rng.integers(3, size=N),
        n_groups=3,
        group_terms="interactions",
    )
    coefficients, intercepts = model.unpack(np.arange(model.parameters.n, dtype=float))
    assert coefficients.shape == (3, 5)
    assert intercepts.tolist() == [15, 16, 17]
    assert model.parameters == Parameters(18, 15, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_terms": "all"}, "group_terms"),
        ({"group_terms": "interactions"}, "needs the group"),
        ({"group_terms": "intercept", "fit_intercept": False}, "fit_intercept"),
        ({"centres": np.ones(2), "fit_intercept": False}, "fit_intercept"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        linear_model(np.ones((3, 2)), **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_codes", [1, N_GROUPS])
@examples(3)
@given(seed=SEEDS, centred=st.booleans())
def test_second_moments_are_those_of_the_matrix(kind, n_codes, seed, centred):
    rng = np.random.default_rng(seed)
    X, dense = features(kind, rng)
    codes = rng.integers(n_codes, size=N)
    centres = rng.normal(size=dense.shape[1]) if centred else None
    deviations = dense - centres if centred else dense
    design, weights = as_design(X, codes, n_codes), rng.random(N)
    for k, gram in enumerate(design.gram(weights)):
        members = codes == k
        expected = dense[members].T @ (dense[members] * weights[members, None])
        assert gram == pytest.approx(expected, abs=1e-10)
    assert design.squares(weights, centres) == pytest.approx(weights @ deviations**2, abs=1e-10)


@pytest.mark.parametrize("terms", [terms for terms in TERMS if terms[1]])
@pytest.mark.parametrize("kind", ["dense", "fortran", "float32"])
def test_centring_dense_features_far_from_0_costs_no_digits(kind, terms):
    rng = np.random.default_rng(0)
    dense, codes = rng.integers(-8, 9, size=(N, 3)) / 8, rng.integers(N_GROUPS, size=N)
    offset = 2.0**20  # single precision has 23 digits
    moved = {"dense": dense, "fortran": np.asfortranarray(dense), "float32": dense.astype(np.float32)}[kind]
    options = {"codes": codes, "n_groups": N_GROUPS, "group_terms": terms[0]}
    near = linear_model(dense, **options)
    far = linear_model(moved + moved.dtype.type(offset), centres=np.full(3, offset), **options)
    w, v, weights = rng.normal(size=near.parameters.n), rng.normal(size=N), rng.random(N)
    some = slice(FIRST, N)
    for found, expected in [
        (far.scores(w), near.scores(w)),
        (far.take(some).scores(w), near.scores(w)[some]),
        (far.gram(weights).merged().blocks[0], near.gram(weights).merged().blocks[0]),
        (far.rows(np.arange(N)), near.rows(np.arange(N))),
        (far.design.squares(weights), near.design.squares(weights)),
        (far.vjp(w, single_column(v)), near.vjp(w, single_column(v))),
        *(
            (far.vjp(w, one), near.vjp(w, one))
            for one in (columns_of(kind, codes, np.random.default_rng(1)) for kind in COLUMNS)
        ),
    ]:
        assert found == pytest.approx(expected, abs=1e-14 * N)
    told = far.deployed_scores(w, far.scores(w))
    coefficients, intercepts = far.unpack(w)
    plain = linear_model(moved + moved.dtype.type(offset), **options)
    assert np.array_equal(told, plain.scores(plain.pack(coefficients, intercepts)))
    assert told == pytest.approx(near.scores(w), abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terms", [terms for terms in TERMS if terms[1]])
def test_coefficients_and_intercepts_give_the_same_scores_to_the_last_digit(kind, terms):
    """So that what is promised of a model's scores holds for whoever computes them again."""
    rng = np.random.default_rng(0)
    X, dense = features(kind, rng)
    options = {"codes": rng.integers(N_GROUPS, size=N), "n_groups": N_GROUPS, "group_terms": terms[0]}
    model = linear_model(X, scales=dense.std(axis=0), centres=dense.mean(axis=0), **options)
    w, plain = rng.normal(size=model.parameters.n), linear_model(X, **options)
    assert np.array_equal(model.scores(w), plain.scores(plain.pack(*model.unpack(w))))
    assert model.pack(*model.unpack(w)) == pytest.approx(w, abs=1e-12)


def test_a_feature_of_infinite_unit_counts_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    model = linear_model(X, scales=np.array([1.0, np.inf, 2.0]), centres=np.array([0.5, 0.0, -3.0]))
    assert not model.rows(np.arange(N))[:, 1].any()
    assert not model.gram(rng.random(N)).blocks[0][1].any()
    coefficients, _ = model.unpack(np.ones(4))
    assert coefficients.tolist() == [[1.0, 0.0, 0.5]]
    assert model.pack(np.ones((1, 3)), np.zeros(1)).tolist() == [1.0, 0.0, 2.0, -2.5]


def test_parameters_are_coefficients_times_scales():
    rng = np.random.default_rng(0)
    X, scales = rng.normal(size=(N, 3)), np.array([0.1, 1.0, 20.0])
    plain, scaled = linear_model(X), linear_model(X, scales=scales)
    coefficients, intercepts = rng.normal(size=(1, 3)), rng.normal(size=1)
    w = scaled.pack(coefficients, intercepts)
    assert w[:3] == pytest.approx(coefficients[0] * scales)
    assert scaled.scores(w) == pytest.approx(plain.scores(plain.pack(coefficients, intercepts)))
    assert scaled.unpack(w)[0] == pytest.approx(coefficients)


@pytest.mark.parametrize("kind", ["dense", "csr", "codes"])
@pytest.mark.parametrize("terms", TERMS)
def test_long_passes_go_on_in_stretches_and_look_at_the_clock(kind, terms, monkeypatch):
    rng = np.random.default_rng(0)
    X, _ = features(kind, rng)
    codes = rng.integers(N_GROUPS, size=N)

    def model() -> LinearModel:
        return linear_model(X, codes=codes, n_groups=N_GROUPS, group_terms=terms[0], fit_intercept=terms[1])

    w, weights, columns = (
        rng.normal(size=model().parameters.n),
        rng.random(N),
        columns_of("bins of groups", codes, rng),
    )
    passes = [
        lambda model: model.scores(w),
        lambda model: model.vjp(w, columns),
        lambda model: model.vjp(w, single_column(weights)),
        lambda model: model.gram(weights).merged().blocks[0],
    ]
    at_once = [one_pass(model()) for one_pass in passes]
    monkeypatch.setattr(designs, "_MOST_AT_ONCE", 10.0)
    monkeypatch.setattr(designs, "_MOST_BY_BLAS", 10.0)
    monkeypatch.setattr(designs, "_FEWEST_BY_BLAS", 3)
    monkeypatch.setattr(designs, "_CHUNK", 3)
    for one_pass, expected in zip(passes, at_once, strict=True):
        assert one_pass(model()) == pytest.approx(expected, abs=1e-12)
        with deadline(time.monotonic() - 1), pytest.raises(OutOfTime):
            one_pass(model())


@pytest.mark.parametrize("name", [k for k, v in vars(_kernels).items() if hasattr(v, "dispatcher")])
def test_shards_can_be_worked_on_by_threads(name):
    assert getattr(_kernels, name).dispatcher.targetoptions["nogil"]


def test_codes_of_more_levels_than_two_bytes_count():
    rng = np.random.default_rng(0)
    coded = codes_of([40_000, 40_000], rng)
    design = as_design(coded, np.zeros(N, dtype=np.int32), 1)
    coefficients = rng.normal(size=(1, 80_000))
    np.testing.assert_allclose(design.forward(coefficients), coded.to_csr() @ coefficients[0], rtol=1e-15)
