"""Surrogates σ(x): continuous approximations of the indicator 1[x > 0], differences of convex functions.

A surrogate is written ``σ = σ⁺ − σ⁻`` with both parts convex and non-decreasing: composed with scores
``h_w(ξ) − θ`` that are linear in (w, θ), each part is then convex in (w, θ), and no ρ-shift is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from partialfair.constraints.dc.pieces import Pieces, hinge_pieces, look_up, moments, sums_of_differences
from partialfair.utils.checks import check_choice, check_number
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

__all__ = [
    "SURROGATES",
    "Kernels",
    "Kink",
    "Ramp",
    "RoundedRamp",
    "Sigmoid",
    "Surrogate",
    "Terms",
    "slabs_of_rows",
    "surrogate",
]

_ROWS_AT_ONCE = 4096
"""Rows of a dense matrix of slopes or bends at a time, which fit into the cache."""

Terms: TypeAlias = Callable[[float], tuple[float, float, float, float]]
"""Compiled ``x → (σ⁺(x), σ⁻(x), a slope of σ⁺ at x, a slope of σ⁻ at x)`` for width 1."""


# Inlined: numba caches a caller that contains these loops, not one that passes a function.
@njit(inline="always", nogil=True)
def _means(
    terms: Terms, width: float, scores: Floats, weights: Floats, codes: Ints, thetas: Floats, n_groups: int
) -> Floats:
    """Weighted group sums of σ± at every threshold in one pass; (2, n_groups, n_thetas)."""
    out = np.zeros((2, n_groups, thetas.size))
    for i in range(scores.size):
        k = codes[i]
        if k >= 0:
            for j in range(thetas.size):
                plus, minus, _, _ = terms((scores[i] - thetas[j]) / width)
                out[0, k, j] += weights[i] * plus
                out[1, k, j] += weights[i] * minus
    return out


@njit(inline="always", nogil=True)
def _pull_back(
    terms: Terms,
    width: float,
    coefficients: Floats,
    scores: Floats,
    weights: Floats,
    codes: Ints,
    thetas: Floats,
) -> tuple[Floats, Floats]:
    """Gradients in scores and thresholds of ``Σ coefficients · means``, in one pass."""
    # Multipliers of most thresholds are 0: their terms are not evaluated.
    used = np.zeros((coefficients.shape[1], thetas.size), dtype=np.bool_)
    for k in range(coefficients.shape[1]):
        for j in range(thetas.size):
            used[k, j] = coefficients[0, k, j] != 0.0 or coefficients[1, k, j] != 0.0
    by_score, by_theta = np.zeros(scores.size), np.zeros(thetas.size)
    for i in range(scores.size):
        k = codes[i]
        if k >= 0:
            for j in range(thetas.size):
                if used[k, j]:
                    _, _, up, down = terms((scores[i] - thetas[j]) / width)
                    # σ±((s − θ) / width) has the slope σ±' / width in s, and minus that in θ.
                    slope = weights[i] * (coefficients[0, k, j] * up + coefficients[1, k, j] * down) / width
                    by_score[i] += slope
                    by_theta[j] -= slope
    return by_score, by_theta


@njit(inline="always", nogil=True)
def _slopes(terms: Terms, width: float, scores: Floats, weights: Floats, thetas: Floats) -> Floats:
    """Weighted slopes of σ⁺, then of σ⁻, at every threshold: (n, 2 n_thetas)."""
    out = np.empty((scores.size, 2 * thetas.size))
    for i in range(scores.size):
        for j in range(thetas.size):
            _, _, up, down = terms((scores[i] - thetas[j]) / width)
            out[i, j] = weights[i] * up / width
            out[i, thetas.size + j] = weights[i] * down / width
    return out


@njit(inline="always", nogil=True)
def _bends(
    terms: Terms,
    width: float,
    reach: float,
    coefficients: Floats,
    scores: Floats,
    weights: Floats,
    codes: Ints,
    thetas: Floats,
) -> Floats:
    """Curvature of ``Σ coefficients · means`` in ``s_i − θ_j``, averaged over ``reach`` widths each way."""
    out = np.zeros((scores.size, thetas.size))
    for i in range(scores.size):
        k = codes[i]
        if k >= 0:
            for j in range(thetas.size):
                if coefficients[0, k, j] != 0.0 or coefficients[1, k, j] != 0.0:
                    # A difference quotient of slopes: at a kink it is the jump, spread over 2 reach widths.
                    x = (scores[i] - thetas[j]) / width
                    _, _, up, down = terms(x + reach)
                    _, _, up_before, down_before = terms(x - reach)
                    out[i, j] = (
                        weights[i]
                        * (
                            coefficients[0, k, j] * (up - up_before)
                            + coefficients[1, k, j] * (down - down_before)
                        )
                        / (2 * reach * width * width)
                    )
    return out


@njit(inline="always", nogil=True)
def _pair_sums(
    terms: Terms, order: int, width: float, reach: float, targets: Floats, sources: Floats, weights: Floats
) -> Floats:
    """Weighted sums of σ± (order 0), of slopes (1) or of bends (2) over all differences; (2, C, n)."""
    out = np.zeros((2, weights.shape[0], targets.size))
    for i in range(targets.size):
        for m in range(sources.size):
            x = (targets[i] - sources[m]) / width
            plus, minus, up, down = terms(x)
            if order == 1:
                plus, minus = up / width, down / width
            elif order == 2:
                _, _, up, down = terms(x + reach)
                _, _, up_before, down_before = terms(x - reach)
                plus = (up - up_before) / (2 * reach * width * width)
                minus = (down - down_before) / (2 * reach * width * width)
            for c in range(weights.shape[0]):
                out[0, c, i] += weights[c, m] * plus
                out[1, c, i] += weights[c, m] * minus
    return out


def slabs_of_rows(n_rows: int) -> Iterator[slice]:
    """Yield consecutive rows, few enough for a dense matrix of them."""
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        yield slice(first, min(first + _ROWS_AT_ONCE, n_rows))


class Kernels(NamedTuple):
    """Compiled loops over scores, for a surrogate with loops of its own."""

    means: Callable[..., Any]
    pull_back: Callable[..., Any]
    slopes: Callable[..., Any]
    bends: Callable[..., Any]
    pair_sums: Callable[..., Any]


class Kink(NamedTuple):
    """A jump of the slope of one convex part, 0 for σ⁺ and 1 for σ⁻, of a surrogate of width 1, at some x."""

    part: int
    at: float
    jump: float


@dataclass(frozen=True)
class Surrogate:
    """A surrogate of some width: ``σ_s(x) = σ(x / s)``.

    A new surrogate is a subclass with compiled ``terms`` and an entry in ``SURROGATES``. The loops over
    scores are compiled for it in each process, unless it has ``kernels`` that numba can cache. If its parts
    have kinks, solvers and KKT certificates use those listed in ``kinks`` exactly.

    Parameters
    ----------
    width
        The width s, in units of the scores.
    """

    width: float = 1.0

    terms: ClassVar[Terms]
    kernels: ClassVar[Kernels | None] = None
    kinks: ClassVar[tuple[Kink, ...]] = ()

    def __post_init__(self) -> None:
        check_number(self.width, "surrogate_width", above=0.0)

    def __call__(self, x: Floats) -> Floats:
        """Return σ(x)."""
        plus, minus = self.parts(x)
        return np.asarray(plus - minus)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Return σ⁺(x) and σ⁻(x)."""
        flat = np.atleast_1d(np.asarray(x, dtype=np.float64))
        both = np.array([type(self).terms(value / self.width)[:2] for value in flat.ravel()])
        return both[:, 0].reshape(np.shape(x)), both[:, 1].reshape(np.shape(x))

    def pieces(self, thetas: Floats) -> Pieces | None:
        """Return the polynomials of the parts between the edges of all thresholds, or None without such."""
        return None

    def level(self, share: float) -> float:
        """Return the x with σ(x) = share, for 0 < share < 1 (σ must be continuous and non-decreasing)."""

        def below(x: float) -> bool:
            plus, minus, _, _ = type(self).terms(x / self.width)
            return plus - minus < share

        # An interval around it, then bisection to the last bit.
        low, high = -1.0, 1.0
        while not below(low):
            low *= 2
        while below(high):
            high *= 2
        middle = (low + high) / 2
        while low < middle < high:
            low, high = (middle, high) if below(middle) else (low, middle)
            middle = (low + high) / 2
        return middle

    def means(self, scores: Floats, weights: Floats, codes: Ints, thetas: Floats, n_groups: int) -> Floats:
        """Return ``Σ_{i in k} weights_i σ±(scores_i − θ_j)``: (2, n_groups, n_thetas), σ⁺ first."""
        loop = self._loop("means", _means)
        return np.asarray(loop(self.width, scores, weights, codes, thetas, n_groups))

    def pull_back(
        self, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
    ) -> tuple[Floats, Floats]:
        """Return the (sub)gradients of ``Σ coefficients · means`` in the scores and in the thresholds."""
        loop = self._loop("pull_back", _pull_back)
        by_score, by_theta = loop(self.width, coefficients, scores, weights, codes, thetas)
        return by_score, by_theta

    def curvature(
        self, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
    ) -> Floats:
        """Return second derivatives of ``Σ coefficients · means`` in each score."""
        by_score = np.empty(scores.size)
        for rows in slabs_of_rows(scores.size):  # bends of all thresholds are a dense matrix
            bends = self.bends(coefficients, scores[rows], weights[rows], codes[rows], thetas)
            by_score[rows] = bends.sum(axis=1)
        return by_score

    def bends(
        self, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
    ) -> Floats:
        """Return second derivatives of ``Σ coefficients · means`` in all ``s_i − θ_j``: (n, n_thetas).

        Kinks have none; differences of slopes over a fifth of the width approximate their density.
        """
        loop = self._loop("bends", _bends)
        return np.asarray(loop(self.width, self._reach, coefficients, scores, weights, codes, thetas))

    def slopes(self, scores: Floats, weights: Floats, thetas: Floats) -> Floats:
        """Return ``weights_i σ±'(scores_i − θ_j)``: (n, 2 n_thetas), σ⁺ first."""
        return np.asarray(self._loop("slopes", _slopes)(self.width, scores, weights, thetas))

    def pair_sums(self, order: int, targets: Floats, sources: Floats, weights: Floats) -> Floats:
        """Return ``Σ_m weights[c, m] φ(targets_i − sources_m)`` for φ = σ⁺ and σ⁻: (2, n_columns, n_targets).

        For order 1 and 2 φ is the first and the (smoothed) second derivative of those. Targets and sources
        are ascending. O(n_targets · n_sources), unless a surrogate has a faster method.
        """
        loop = self._loop("pair_sums", _pair_sums)
        return np.asarray(loop(order, self.width, self._reach, targets, sources, weights))

    def _loop(self, name: str, generic: Callable[..., Any]) -> Callable[..., Any]:
        """Return the compiled loop of the surrogate, or the generic one with its terms."""
        if self.kernels is not None:
            own: Callable[..., Any] = getattr(self.kernels, name)
            return own
        return partial(generic, type(self).terms)

    @property
    def _reach(self) -> float:
        """Number of widths on both sides over which bends are averaged."""
        return 0.1 if self.kinks else 1e-3


@njit(cache=True, nogil=True)
def _ramp_terms(x: float) -> tuple[float, float, float, float]:
    return max(x + 0.5, 0.0), max(x - 0.5, 0.0), 1.0 if x > -0.5 else 0.0, 1.0 if x > 0.5 else 0.0


@lru_cache(maxsize=64)  # a step needs values, slopes and bends at the same few thresholds
def _ramp_pieces(thetas: bytes, width: float, rounding: float) -> Pieces:
    """Return the pieces of a ramp at thresholds, which are the bytes of an array of floats."""
    centres = np.frombuffer(thetas)
    return hinge_pieces(np.concatenate([centres - width / 2, centres + width / 2]), width, rounding)


class _HingeRamp(Surrogate):
    """Base class of ramps: all sums are computed from sums over the scores between two edges."""

    rounding: ClassVar[float]

    def pieces(self, thetas: Floats) -> Pieces:
        """Return the polynomials that the parts are between the edges of all thresholds."""
        return _ramp_pieces(thetas.tobytes(), self.width, self.rounding)

    def means(self, scores: Floats, weights: Floats, codes: Ints, thetas: Floats, n_groups: int) -> Floats:
        """As in `Surrogate`, by one look-up per score."""
        pieces = self.pieces(thetas)
        # Polynomials of s: their sums over a bin are sums of its Σ ω, Σ ω s and Σ ω s².
        sums = moments(pieces.bins(scores), scores, weights, codes, n_groups, pieces.n_bins)
        means = np.einsum("mgb,mbj->gj", sums, pieces.values)
        return np.ascontiguousarray(means.reshape(n_groups, 2, -1).transpose(1, 0, 2))

    def pull_back(
        self, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
    ) -> tuple[Floats, Floats]:
        """As in `Surrogate`, by one look-up per score."""
        pieces = self.pieces(thetas)
        n_groups = coefficients.shape[1]
        # Columns in the order of the pieces: σ⁺ at all thresholds, then σ⁻.
        each = coefficients.transpose(1, 0, 2).reshape(n_groups, -1)
        bins = pieces.bins(scores)
        by_score = look_up(np.einsum("mbj,gj->mgb", pieces.slopes, each), bins, scores, weights, codes)
        sums = moments(bins, scores, weights, codes, n_groups, pieces.n_bins)[:2]
        totals = np.einsum("mgb,mbj,gj->j", sums, pieces.slopes, each)  # functions of s − θ_j
        return by_score, -totals.reshape(2, -1).sum(axis=0)

    def curvature(
        self, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
    ) -> Floats:
        """As in `Surrogate`, by one look-up per score."""
        pieces = self.pieces(thetas)
        each = coefficients.transpose(1, 0, 2).reshape(coefficients.shape[1], -1)
        table = np.einsum("bj,gj->gb", pieces.bends, each)
        levels = np.stack([table, np.zeros_like(table)])
        return np.asarray(look_up(levels, pieces.bins(scores), scores, weights, codes))

    def pair_sums(self, order: int, targets: Floats, sources: Floats, weights: Floats) -> Floats:
        """As in `Surrogate`, in O(n_targets + n_sources)."""
        # Functions of one difference: the pieces for a threshold at 0.
        pieces = self.pieces(np.zeros(1))
        polynomials = (pieces.values, pieces.slopes, pieces.bends[None])[order]
        # Edges that matter only for other derivatives are skipped.
        real = (polynomials[:, 1:] != polynomials[:, :-1]).any(axis=(0, 2))
        edges, polynomials = pieces.edges[real], polynomials[:, np.append(True, real)]
        return np.asarray(sums_of_differences(edges, polynomials, targets, sources, weights))


@dataclass(frozen=True)
class Ramp(_HingeRamp):
    """``σ(x) = clip(x/s + ½, 0, 1)``, with ``σ⁺ = max(x/s + ½, 0)`` and ``σ⁻ = max(x/s − ½, 0)``.

    The paper's choice (Example D.3, s = 1). Scores within s/2 of a threshold count partly.
    """

    terms: ClassVar[Terms] = staticmethod(_ramp_terms)
    rounding: ClassVar[float] = 0.0
    kinks: ClassVar[tuple[Kink, ...]] = (Kink(0, -0.5, 1.0), Kink(1, 0.5, 1.0))


_ROUNDING = 0.25


@njit(cache=True, nogil=True)
def _rounded_hinge(x: float) -> tuple[float, float]:
    if x <= -_ROUNDING:
        return 0.0, 0.0
    if x >= _ROUNDING:
        return x, 1.0
    return (x + _ROUNDING) ** 2 / (4 * _ROUNDING), (x + _ROUNDING) / (2 * _ROUNDING)


@njit(cache=True, nogil=True)
def _rounded_terms(x: float) -> tuple[float, float, float, float]:
    plus, up = _rounded_hinge(x + 0.5)
    minus, down = _rounded_hinge(x - 0.5)
    return plus, minus, up, down


@dataclass(frozen=True)
class RoundedRamp(_HingeRamp):
    """The ramp with corners rounded by parabolas, over a quarter of a width on both sides.

    As good a surrogate of the indicator as the ramp, and without its kinks, one per score and threshold,
    which take most of a solver's run time.
    """

    terms: ClassVar[Terms] = staticmethod(_rounded_terms)
    rounding: ClassVar[float] = _ROUNDING


@njit(cache=True, nogil=True)
def _sigmoid_terms(x: float) -> tuple[float, float, float, float]:
    small = np.exp(-abs(x))  # never overflows
    value = 1.0 / (1.0 + small) if x > 0 else small / (1.0 + small)
    slope = value * (1.0 - value)
    if x <= 0:  # convex up to 0: all of it is σ⁺
        return value, 0.0, slope, 0.0
    # Beyond, σ⁺ is the tangent at 0, and σ⁻ its difference from σ.
    return 0.5 + x / 4, 0.5 + x / 4 - value, 0.25, 0.25 - slope


@njit(cache=True, nogil=True)
def _sigmoid_means(
    width: float, scores: Floats, weights: Floats, codes: Ints, thetas: Floats, n_groups: int
) -> Floats:
    return _means(_sigmoid_terms, width, scores, weights, codes, thetas, n_groups)


@njit(cache=True, nogil=True)
def _sigmoid_pull_back(
    width: float, coefficients: Floats, scores: Floats, weights: Floats, codes: Ints, thetas: Floats
) -> tuple[Floats, Floats]:
    return _pull_back(_sigmoid_terms, width, coefficients, scores, weights, codes, thetas)


@njit(cache=True, nogil=True)
def _sigmoid_slopes(width: float, scores: Floats, weights: Floats, thetas: Floats) -> Floats:
    return _slopes(_sigmoid_terms, width, scores, weights, thetas)


@njit(cache=True, nogil=True)
def _sigmoid_bends(
    width: float,
    reach: float,
    coefficients: Floats,
    scores: Floats,
    weights: Floats,
    codes: Ints,
    thetas: Floats,
) -> Floats:
    return _bends(_sigmoid_terms, width, reach, coefficients, scores, weights, codes, thetas)


@njit(cache=True, nogil=True)
def _sigmoid_pair_sums(
    order: int, width: float, reach: float, targets: Floats, sources: Floats, weights: Floats
) -> Floats:
    return _pair_sums(_sigmoid_terms, order, width, reach, targets, sources, weights)


@dataclass(frozen=True)
class Sigmoid(Surrogate):
    """``σ(x) = 1 / (1 + exp(−x/s))``, with σ⁺ = σ up to 0 and its tangent ``½ + x/(4s)`` beyond.

    σ is convex up to 0 and concave beyond, so both σ⁺ and σ⁻ = σ⁺ − σ are convex and non-decreasing: linear
    scorers need no ρ-shift, unlike in the paper's Example D.4.
    """

    terms: ClassVar[Terms] = staticmethod(_sigmoid_terms)
    kernels = Kernels(_sigmoid_means, _sigmoid_pull_back, _sigmoid_slopes, _sigmoid_bends, _sigmoid_pair_sums)


SURROGATES: dict[str, type[Surrogate]] = {"ramp": Ramp, "rounded_ramp": RoundedRamp, "sigmoid": Sigmoid}
"""Names that estimators accept."""


def surrogate(name: str | Surrogate, width: float = 1.0) -> Surrogate:
    """Return the surrogate of that name and width; an instance is returned unchanged."""
    if isinstance(name, Surrogate):
        return name
    check_choice(name, "surrogate", SURROGATES)
    return SURROGATES[name](width)
