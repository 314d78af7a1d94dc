"""Tiny problems: the global optimum by mixed-integer programming, with SciPy's HiGHS.

The exact gap is a function of binaries. For pSP, ``z_ij = 1`` means that row i scores above row j, and
``p_jr = 1`` that r members of j's group do. Let (r, c) be the numbers of members of groups a and b above a
threshold. As the threshold falls, the point moves on a path from (0, 0) to (n_a, n_b) in single steps,
because there are no ties, and the gap is at most κ if the path stays on feasible points. Those of column r
are the c from ``lo(r)`` to ``hi(r)``, both non-decreasing. So a path is feasible if at each member j of a,
the one after r others,

    lo(r + 1) ≤ c ≤ hi(r),     c = Σ_{i in b} z_ij.

For pDP, ``z_i = 1`` means that row i is selected, and ``q_kc = 1`` that c members of group k are. Both strict
orders hold with a margin of at least ``MARGIN``, in units of the scores.

Tangents replace the logistic loss and the squares of the penalty. The program must improve on the best model
by ``ACCURACY``. Each solution determines an order, for which the problem is convex. Its exact minimum may
become the best model, tangents are added there, and the order is excluded. When no solution is left, the best
model is the global optimum up to ``ACCURACY`` among models with that margin.

Big-M constants are the largest values on ``{f ≤ best}``, a small convex set. By weak duality,

    max {c · v : f(v) ≤ F} ≤ c · v_λ + (F − f(v_λ)) / λ,     v_λ = argmin f(v) − λ c · v,

for every λ > 0. Many orders are the same on the whole set and need no binary.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp, minimize, nnls

from _judging import ROUNDING, Case, Model
from _references import GLOBAL, References
from _two_features import unconstrained

MARGIN = 1e-4
"""Smallest difference of ordered scores, and smallest distance of a score from the threshold."""
FINER_MARGIN = 1e-7
"""The same for the final refinement of the optimum's order."""
N_TANGENTS = 25
"""Number of initial tangents of every loss and square, over its range."""
TILTED = 1e-12
"""Accuracy of the minima from which bounds are computed."""
ACCURACY = 1e-6
"""Accuracy of global optima."""


@dataclass(eq=False)
class Program:
    """Variables, rows and bounds of a mixed-integer program."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def variable(self, low: float, high: float, whole: bool = False) -> int:
        """Add a variable; return its position."""
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(whole))
        return len(self.low) - 1

    def row(self, terms: dict[int, float], low: float, high: float = np.inf) -> None:
        """Add ``low ≤ Σ terms ≤ high``."""
        self.rows.append((terms, low, high))

    def solve(self, costs: dict[int, float], below: float, seconds: float) -> Any:
        """Minimize a sum that must be at most ``below``; return None if that is impossible."""
        rows = [*self.rows, (costs, -np.inf, below)]
        data = [(i, j, a) for i, (terms, _, _) in enumerate(rows) for j, a in terms.items()]
        i, j, a = (np.array(part) for part in zip(*data, strict=True))
        places = i.astype(np.int32), j.astype(np.int32)  # older versions of SciPy accept only these
        matrix = sparse.csr_array((a, places), shape=(len(rows), len(self.low)))
        limits = LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
        c = np.zeros(len(self.low))
        c[list(costs)] = list(costs.values())
        options = {"time_limit": max(seconds, 1.0), "mip_rel_gap": 1e-4}
        found = milp(
            c, constraints=limits, bounds=Bounds(self.low, self.high), integrality=self.whole, options=options
        )
        if found.status == 2:
            return None
        if found.x is None:
            raise TimeoutError(found.message)
        return found.x


@dataclass(eq=False)
class Search:
    """A case with its rows as ``Z v``, where v is the coefficients and the intercept."""

    case: Case

    def __post_init__(self) -> None:
        X = self.case.X
        self.Z = np.column_stack([X, np.ones(len(X))])
        self.penalties = np.append(np.full(X.shape[1], self.case.alpha), 0.0)

    def value(self, v: Any) -> float:
        """Return the objective."""
        return float(np.logaddexp(0.0, -self.case.signs * (self.Z @ v)).mean() + 0.5 * self.penalties @ v**2)

    def gradient(self, v: Any) -> Any:
        """Return its gradient."""
        chances = 1.0 / (1.0 + np.exp(np.clip(self.case.signs * (self.Z @ v), -700, 700)))
        return -(self.Z.T @ (self.case.signs * chances)) / len(self.Z) + self.penalties * v

    def model(self, v: Any) -> Model:
        """Return the model; equal rows get equal scores."""
        return Model(v[None, :-1].copy(), v[-1:].copy(), (self.Z * v).sum(axis=1))

    def largest(self, direction: Any, below: float) -> float:
        """Return a bound on ``direction · v`` where the objective is at most ``below``."""
        v, bounds = np.zeros(self.Z.shape[1]), []
        for lam in np.geomspace(1e-3, 1.0, 13) / max(np.linalg.norm(direction), 1e-12):
            v, short = self._tilted_minimum(lam * direction, v)
            if short > TILTED:  # the slope of the loss is bounded, so there is no minimum for a steep tilt
                break
            bounds.append(direction @ v + (below - self.value(v) + 2 * short) / lam)
        return float(min(bounds)) + 1e-6

    def _tilted_minimum(self, tilt: Any, v: Any) -> tuple[Any, float]:
        """Minimize ``f(v) − tilt · v`` by Newton's method; also return an estimate of the remaining error."""

        def worth(at: Any) -> float:
            return self.value(at) - tilt @ at

        short = np.inf
        for _ in range(60):
            chances = 1.0 / (1.0 + np.exp(np.clip(self.case.signs * (self.Z @ v), -700, 700)))
            curved = self.Z.T @ (self.Z * (chances * (1 - chances))[:, None]) / len(self.Z)
            slope = self.gradient(v) - tilt
            step = -np.linalg.solve(curved + np.diag(self.penalties) + 1e-12 * np.eye(v.size), slope)
            short = -slope @ step
            if short < TILTED:
                break
            size = 1.0
            while size > 1e-6 and worth(v + size * step) > worth(v) - 0.1 * size * short:
                size /= 2
            v = v + size * step
        return v, float(short)

    def is_minimum(self, differences: Any, margin: float, v: Any) -> bool:
        """Whether v minimizes the objective subject to ``differences @ v ≥ margin``: KKT, to 1e-6.

        The gradient is a non-negative combination of the constraints that hold with equality.
        """
        slack = differences @ v - margin
        active = differences[slack < 1e-7]
        rest = nnls(active.T, self.gradient(v))[1] if len(active) else np.linalg.norm(self.gradient(v))
        return bool(slack.min() > -1e-9 and rest < 1e-6)

    def refined(self, differences: Any, margin: Any, start: Any) -> Any:
        """Minimize the objective subject to ``differences @ v ≥ margin``, with one margin or one per row."""
        found = minimize(
            self.value,
            start,
            jac=self.gradient,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda v: differences @ v - margin,
                "jac": lambda v: differences,
            },
            options={"maxiter": 500, "ftol": 1e-13},
        )
        return found.x


def tiny_optimum(case: Case, seconds: float = 300.0) -> tuple[Model | None, bool]:
    """Return the best model, and whether it is proven to be the global optimum; None if there is none."""
    search, end = Search(case), time.perf_counter() + seconds
    best = _good_start(search)
    first_bound = search.value(best) if best is not None else float(np.log(2.0)) + 1e-9
    program = _Tangents(search, first_bound)
    order = _selection if case.kind == "pDP" else _ranking
    read = order(program, first_bound)
    value = np.inf if best is None else first_bound
    while read is not None:
        below = first_bound if best is None else value - ACCURACY
        try:
            x = program.solve(program.costs, below, end - time.perf_counter())
        except TimeoutError:
            return (None if best is None else search.model(best)), False
        if x is None:
            break
        v, differences = program.parameters(x), read(x)
        program.touch(v)
        exact = search.refined(differences, MARGIN, v)
        program.touch(exact)
        if search.is_minimum(differences, MARGIN, exact):  # otherwise the tangents must exclude the order
            program.exclude(x)
        if case.judged_gap(search.model(exact).scores) > case.max_gap + ROUNDING:
            exact = v
        if case.keeps(search.model(exact).scores) and search.value(exact) < value:
            best, value = exact, search.value(exact)
    if best is None:
        return None, True
    return _inside_its_order(search, best), True


class _Tangents(Program):
    """The program without its binaries: parameters, losses and squares, bounded by tangents."""

    def __init__(self, search: Search, below: float) -> None:
        super().__init__()
        self.search = search
        n, d = search.case.X.shape
        identity = np.eye(d + 1)
        bounds = [[-search.largest(-row, below), search.largest(row, below)] for row in identity]
        self.v = [self.variable(low, high) for low, high in bounds]
        self.losses = [self.variable(0.0, 50.0) for _ in range(n)]
        self.squares = [self.variable(0.0, max(low**2, high**2) + 1.0) for low, high in bounds[:d]]
        self.costs = dict.fromkeys(self.losses, 1.0 / n)
        self.costs |= dict.fromkeys(self.squares, 0.5 * search.case.alpha)
        self.orders: list[int] = []
        signed = search.case.signs[:, None] * search.Z
        least = np.array([-search.largest(-row, below) for row in signed])
        most = np.array([search.largest(row, below) for row in signed])
        lows, highs = np.array(bounds[:d]).T
        for share in np.linspace(0, 1, N_TANGENTS):
            self._touch_losses(least + share * (most - least))
            self._touch_squares(lows + share * (highs - lows))

    def parameters(self, x: Any) -> Any:
        """Return v of a solution."""
        return np.asarray(x[self.v])

    def touch(self, v: Any) -> None:
        """Add the tangents at a point."""
        self._touch_losses(self.search.case.signs * (self.search.Z @ v))
        self._touch_squares(v[:-1])

    def exclude(self, x: Any) -> None:
        """Exclude the order of a solution: one of its binaries must change."""
        ones = [z for z in self.orders if round(x[z])]
        terms = {z: -1.0 if round(x[z]) else 1.0 for z in self.orders}
        self.row(terms, 1.0 - len(ones))

    def _touch_losses(self, margins: Any) -> None:
        """Add ``t_i ≥ ℓ(m) + ℓ'(m) (y_i s_i − m)``."""
        for i, margin in enumerate(margins):
            slope = -1.0 / (1.0 + np.exp(min(margin, 700.0)))
            along = slope * self.search.case.signs[i] * self.search.Z[i]
            terms = {self.losses[i]: 1.0}
            terms |= {place: -a for place, a in zip(self.v, along.tolist(), strict=True)}
            self.row(terms, float(np.logaddexp(0.0, -margin) - slope * margin))

    def _touch_squares(self, w: Any) -> None:
        """Add ``q_j ≥ 2 u w_j − u²``."""
        for j, at in enumerate(w.tolist()):
            self.row({self.squares[j]: 1.0, self.v[j]: -2.0 * at}, -(at**2))

    def decided(self, direction: Any, below: float) -> tuple[int | None, int]:
        """Return a binary that is 1 if ``direction · v ≥ MARGIN`` and 0 if it is ``≤ −MARGIN``.

        If only one is possible, return None and that value.
        """
        high, low = self.search.largest(direction, below), -self.search.largest(-direction, below)
        if high < MARGIN or low > -MARGIN:
            return None, int(low > -MARGIN)
        z = self.variable(0, 1, whole=True)
        self.orders.append(z)
        terms = {place: a for place, a in zip(self.v, direction.tolist(), strict=True) if a}
        self.row({**terms, z: -(MARGIN - low)}, low)  # z = 1: at least MARGIN
        self.row({**terms, z: -(MARGIN + high)}, -np.inf, -MARGIN)  # z = 0: at most −MARGIN
        return z, 0


def _selection(program: _Tangents, below: float) -> Any:
    """Add the constraint of pDP; return a function that reads signed directions from a solution."""
    case, Z = program.search.case, program.search.Z
    low, high = case.interval
    decided = [program.decided(row, below) for row in Z]
    shares = []
    for code, size in enumerate(case.sizes):
        counts = [program.variable(0, 1, whole=True) for _ in range(size + 1)]
        program.row(dict.fromkeys(counts, 1.0), 1.0, 1.0)
        members = [decided[i] for i in np.flatnonzero(case.codes == code)]
        fixed = sum(value for z, value in members if z is None)
        total = {z: 1.0 for z, _ in members if z is not None}
        total |= {count: -float(c) for c, count in enumerate(counts)}
        program.row(total, -fixed, -fixed)
        share = np.clip(np.arange(size + 1) / size - low, 0, high - low)
        share = share if case.scale == "absolute" else share / (high - low)
        shares.append({count: float(s) for count, s in zip(counts, share, strict=True)})
    for one, other in combinations(shares, 2):
        terms = {**one, **{count: -s for count, s in other.items()}}
        program.row(terms, -case.max_gap - ROUNDING, case.max_gap + ROUNDING)

    def read(x: Any) -> Any:
        signs = [2 * round(x[z]) - 1 if z is not None else 2 * value - 1 for z, value in decided]
        return np.array(signs)[:, None] * Z

    return read


def _ranking(program: _Tangents, below: float) -> Any:
    """Add the constraint of pSP; return a function that reads signed directions from a solution.

    None if the constraint cannot be satisfied.
    """
    case, Z = program.search.case, program.search.Z
    codes = np.argsort(case.sizes, kind="stable")  # every group except the largest has positions
    members = [np.flatnonzero(case.codes == code) for code in codes]
    decided: dict[tuple[int, int], tuple[int | None, int]] = {}

    def above(i: int, j: int) -> tuple[dict[int, float], float]:
        """Return "i scores above j" as a sum of variables and a number."""
        first, second = min(i, j), max(i, j)
        if (first, second) not in decided:
            decided[first, second] = program.decided(Z[first] - Z[second], below)
        z, value = decided[first, second]
        if z is None:
            return {}, float(value if i < j else 1 - value)
        return ({z: 1.0}, 0.0) if i < j else ({z: -1.0}, 1.0)

    for a, own in enumerate(members[:-1]):
        positions = {j: [program.variable(0, 1, whole=True) for _ in own] for j in own}
        for j in own:
            program.row(dict.fromkeys(positions[j], 1.0), 1.0, 1.0)
            terms, number = _sum([above(i, j) for i in own if i != j])
            terms |= {place: -float(r) for r, place in enumerate(positions[j])}
            program.row(terms, -number, -number)
        for r in range(own.size):
            program.row({positions[j][r]: 1.0 for j in own}, 1.0, 1.0)
        for others in members[a + 1 :]:
            allowed = allowed_counts(case, own.size, others.size)
            if allowed is None:
                return None
            lo, hi = allowed
            for j in own:
                terms, number = _sum([above(i, j) for i in others])
                least = {place: -float(lo[r + 1]) for r, place in enumerate(positions[j])}
                most = {place: -float(hi[r]) for r, place in enumerate(positions[j])}
                program.row({**terms, **least}, -number)
                program.row({**terms, **most}, -np.inf, -number)

    def read(x: Any) -> Any:
        rows = []
        for (i, j), (z, value) in decided.items():
            rows.append((1 if (value if z is None else round(x[z])) else -1) * (Z[i] - Z[j]))
        return np.array(rows)

    return read


def _sum(parts: list[tuple[dict[int, float], float]]) -> tuple[dict[int, float], float]:
    """Add sums of variables and numbers that have no variable in common."""
    terms: dict[int, float] = {}
    for part, _ in parts:
        terms |= part
    return terms, sum(number for _, number in parts)


def allowed_counts(case: Case, n_a: int, n_b: int) -> tuple[Any, Any] | None:
    """Return ``lo(r)`` and ``hi(r)``, the feasible numbers of members of b above a threshold with r of a.

    None if no path of single steps from (0, 0) to (n_a, n_b) stays on points whose gap is at most κ.
    """
    low, high = case.interval
    rank_a, rank_b = np.arange(n_a + 1)[:, None] / n_a, np.arange(n_b + 1)[None] / n_b
    if case.scale == "interval":
        passed_a, passed_b = (np.clip(rank - low, 0, high - low) / (high - low) for rank in (rank_a, rank_b))
        fine = np.abs(passed_a - passed_b) <= case.max_gap + ROUNDING
    else:
        inside = [(rank >= low - 1e-12) & (rank < high - 1e-12) for rank in (rank_a, rank_b)]
        fine = ~(inside[0] | inside[1]) | (np.abs(rank_a - rank_b) <= case.max_gap + ROUNDING)
    on_a_path = _reached(fine) & _reached(fine[::-1, ::-1])[::-1, ::-1]
    if not on_a_path[-1, -1]:
        return None
    counts = [np.flatnonzero(column) for column in on_a_path]
    if any(np.ptp(count) + 1 != count.size for count in counts):
        raise ValueError(f"{case.key}: the counts that are allowed have holes")
    return np.array([count[0] for count in counts]), np.array([count[-1] for count in counts])


def _reached(fine: Any) -> Any:
    """Return the points that a path of single steps from the first corner can reach."""
    reached = np.zeros_like(fine)
    for r in range(fine.shape[0]):
        for c in range(fine.shape[1]):
            before = (r == c == 0) or (r > 0 and reached[r - 1, c]) or (c > 0 and reached[r, c - 1])
            reached[r, c] = fine[r, c] and before
    return reached


def _good_start(search: Search, tries: int = 20_000) -> Any:
    """Return a feasible v, by random steps from the unconstrained one; None if none occurs."""
    case, rng = search.case, np.random.default_rng(0)
    free = unconstrained(case)
    centre = np.append(free.coef[0], free.intercept)
    if case.keeps(free.scores):
        return centre
    best, value = None, np.inf
    for step in range(tries):
        size = rng.choice([1.0, 0.3, 0.1, 0.01])
        at = centre if best is None or step % 4 == 0 else best
        v = at + size * rng.normal(size=centre.size) * (1 + np.abs(centre))
        if search.value(v) < value and case.keeps(search.model(v).scores):
            best, value = v, search.value(v)
    return best


def _inside_its_order(search: Search, v: Any) -> Any:
    """Return the best model with the order of v, for a smaller margin."""
    Z = search.Z
    if search.case.kind == "pDP":
        directions = Z
    else:
        first, second = np.triu_indices(len(Z), 1)
        directions = Z[first] - Z[second]
    signs = np.sign(directions @ v)
    # Several rows may lie near the threshold; different margins prevent ties there.
    margins = FINER_MARGIN * (1 + np.arange(len(directions)) / len(directions))
    finer = search.refined(signs[:, None] * directions, margins, v)
    better = search.value(finer) < search.value(v) and search.case.keeps(search.model(finer).scores)
    return search.model(finer if better else v)


def make_tiny(setting: list[Case], references: References, seconds: float) -> None:
    """Solve the mixed-integer programs."""
    for case in setting:
        references.begin(case, unconstrained(case))
        best, proven = tiny_optimum(case, seconds)
        if best is not None:
            references.offer(case, best, f"MIP, margin {MARGIN:g}", GLOBAL if proven else "")
        elif proven:
            references.prove(case)


# Random draws, without problems whose constraint costs less than 5e-4, is infeasible, or has no proof in a
# minute. Rows, features, groups, shift of the groups, kind, interval, scale, κ.
_SETTINGS: tuple[tuple[int, int, int, float, str, tuple[float, float], str, float], ...] = (
    (16, 2, 2, 1, "pSP", (0.1, 0.6), "interval", 0.4),
    (12, 3, 2, 1, "pSP", (0.1, 0.6), "absolute", 0.35),
    (12, 4, 3, 1, "pSP", (0.0, 1.0), "interval", 0.4),
    (12, 2, 2, 1, "pSP", (0.0, 0.5), "absolute", 0.3),
    (16, 3, 2, 1.6, "pSP", (0.0, 1.0), "interval", 0.2),
    (12, 4, 2, 1.6, "pSP", (0.0, 0.5), "absolute", 0.2),
    (16, 2, 2, 1, "pSP", (0.1, 0.6), "interval", 0.3),
    (14, 3, 2, 1, "pSP", (0.2, 0.8), "absolute", 0.3),
    (14, 4, 2, 1.6, "pSP", (0.1, 0.6), "interval", 0.4),
    (14, 2, 2, 1, "pSP", (0.0, 1.0), "absolute", 0.4),
    (12, 3, 2, 1.6, "pSP", (0.2, 0.8), "interval", 0.3),
    (25, 4, 2, 1.6, "pDP", (0.0, 0.6), "absolute", 0.1),
    (22, 2, 3, 1.6, "pDP", (0.0, 1.0), "interval", 0.2),
    (20, 3, 2, 0.6, "pDP", (0.2, 0.8), "absolute", 0.1),
    (25, 4, 3, 1, "pDP", (0.0, 0.6), "interval", 0.2),
    (20, 2, 3, 1.6, "pDP", (0.2, 0.8), "absolute", 0.2),
    (22, 3, 2, 1, "pDP", (0.0, 0.6), "interval", 0.1),
    (22, 4, 3, 1.6, "pDP", (0.2, 0.8), "absolute", 0.2),
    (25, 2, 3, 1, "pDP", (0.0, 0.6), "interval", 0.05),
    (22, 3, 2, 0.6, "pDP", (0.2, 0.8), "absolute", 0.1),
)


def tiny_cases() -> list[Case]:
    """Return the problems, one per seed."""
    return [_made(number, *settings) for number, settings in enumerate(_SETTINGS)]


def _made(
    seed: int,
    n: int,
    d: int,
    n_groups: int,
    shift: float,
    kind: str,
    interval: tuple[float, float],
    scale: str,
    max_gap: float,
    alpha: float = 0.02,
) -> Case:
    """Draw a few rows; the first feature separates the groups."""
    rng = np.random.default_rng([25, seed])
    groups = np.arange(n) % n_groups
    X = rng.normal(size=(n, d))
    X[:, 0] += shift * groups
    truth = X.sum(axis=1)
    y = (truth - truth.mean() + rng.logistic(scale=0.6, size=n) > 0).astype(int)
    key = f"tiny/{seed:02d} {kind} n={n} d={d} groups={n_groups} {scale} κ={max_gap:g}"
    return Case(key, X, y, np.array(list("abc"))[groups], kind, interval, scale, max_gap, alpha)
