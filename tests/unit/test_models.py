import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from partialfair.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.models import linear_model
from partialfair.models._designs import as_design

N, N_GROUPS = 40, 3


def features(kind, rng):
    """Return features of one kind, and the same as a dense array."""
    if kind == "codes":
        codes = np.column_stack([rng.integers(4, size=N), rng.integers(3, size=N)]).astype(np.uint16)
        coded = CategoricalCodes(codes, (np.arange(4), np.arange(3)), ("a", "b"))
        return coded, coded.to_csr().toarray()
    dense = rng.normal(size=(N, 5)) * (rng.random((N, 5)) < 0.5)
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


def expanded(dense, codes, group_terms, fit_intercept):
    """The features with all group terms written out: what must never be formed."""
    member = np.eye(N_GROUPS)[codes]
    intercept = np.ones((N, 1)) if group_terms is None else member
    if group_terms == "interactions":
        dense = np.hstack([dense * member[:, [k]] for k in range(N_GROUPS)])
    return np.hstack([dense, intercept]) if fit_intercept else dense


@pytest.mark.parametrize("kind", ["dense", "fortran", "float32", "csr", "csc", "one-hot csr", "codes"])
@pytest.mark.parametrize("group_terms", [None, "intercept", "interactions"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@given(seed=st.integers(0, 100))
def test_products_are_those_of_the_expanded_matrix(kind, group_terms, fit_intercept, seed):
    if group_terms == "intercept" and not fit_intercept:
        return
    rng = np.random.default_rng(seed)
    X, dense = features(kind, rng)
    codes = rng.integers(N_GROUPS, size=N)
    model = linear_model(
        X, codes=codes, n_groups=N_GROUPS, group_terms=group_terms, fit_intercept=fit_intercept
    )
    matrix = expanded(dense, codes, group_terms, fit_intercept)
    assert model.n_params == matrix.shape[1]
    w, v = rng.normal(size=model.n_params), rng.normal(size=N) * (rng.random(N) < 0.7)
    tolerance = 1e-5 if kind == "float32" else 1e-10
    assert model.scores(w) == pytest.approx(matrix @ w, abs=tolerance)
    assert model.vjp(w, v) == pytest.approx(matrix.T @ v, abs=tolerance)


def test_the_penalised_part_is_the_coefficients():
    rng = np.random.default_rng(0)
    model = linear_model(
        rng.normal(size=(N, 5)),
        codes=rng.integers(3, size=N),
        n_groups=3,
        group_terms="interactions",
    )
    coefficients, intercepts = model.unpack(np.arange(model.n_params, dtype=float))
    assert coefficients.shape == (3, 5)
    assert intercepts.tolist() == [15, 16, 17]
    assert model.n_penalised == 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_terms": "all"}, "group_terms"),
        ({"group_terms": "interactions"}, "needs the group"),
        ({"group_terms": "intercept", "fit_intercept": False}, "fit_intercept"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        linear_model(np.ones((3, 2)), **options)


@pytest.mark.parametrize("kind", ["dense", "fortran", "float32", "csr", "csc", "one-hot csr", "codes"])
@pytest.mark.parametrize("n_codes", [1, N_GROUPS])
@settings(max_examples=10)
@given(seed=st.integers(0, 100))
def test_second_moments_are_those_of_the_matrix(kind, n_codes, seed):
    rng = np.random.default_rng(seed)
    X, dense = features(kind, rng)
    codes, groups = rng.integers(n_codes, size=N), rng.integers(-1, N_GROUPS, size=N)
    design, weights = as_design(X, codes, n_codes), rng.random(N)
    tolerance = 1e-5 if kind == "float32" else 1e-10
    for k, found in enumerate(design.gram(weights)):
        own = dense[codes == k]
        assert found == pytest.approx(own.T @ (own * weights[codes == k, None]), abs=tolerance)
    assert design.squares(weights) == pytest.approx(weights @ dense**2, abs=tolerance)
    first, vectors = 7, rng.normal(size=(N - 7, 4))
    out = np.ones((N_GROUPS, dense.shape[1], 4))
    design.backward_many(first, vectors, groups[first:], out)
    for k, found in enumerate(out):
        own = groups[first:] == k
        assert found == pytest.approx(1 + dense[first:][own].T @ vectors[own], abs=tolerance)


def test_parameters_are_coefficients_times_scales():
    rng = np.random.default_rng(0)
    X, scales = rng.normal(size=(N, 3)), np.array([0.1, 1.0, 20.0])
    plain, scaled = linear_model(X), linear_model(X, scales=scales)
    coefficients, intercepts = rng.normal(size=(1, 3)), rng.normal(size=1)
    w = scaled.pack(coefficients, intercepts)
    assert w[:3] == pytest.approx(coefficients[0] * scales)
    assert scaled.scores(w) == pytest.approx(plain.scores(plain.pack(coefficients, intercepts)))
    assert scaled.unpack(w)[0] == pytest.approx(coefficients)
    v, direction = rng.normal(size=N), rng.normal(size=4)
    assert scaled.vjp(w, v) @ direction == pytest.approx(v @ scaled.jvp(w, direction))
