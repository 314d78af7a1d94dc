"""No feasible descent from points that are certified, by the definition of the functions and by trying.

With λ, ŵ and ``M = μ (1 + Σ λ_i)`` of the certificate, and f split into f⁺ − f⁻ with nothing that stands in
both, every feasible v with ``‖v − x‖ = r`` has

    f_0(x) − f_0(v) ≤ stationarity · r + M/2 · distance² + Σ λ_i |f_i(x)|
                      + Σ λ_i (f⁻_i(v) − its tangent at x):

f_0(v) is at least the Lagrangian there, whose convex part is bounded by the certificate. The last sum is what
the definition of nearly KKT points does not see: kinks of f⁻ that lie between x and v.
"""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Problem, certify
from partialfair.optimization.solvers import MultiStartSQP, Newton, Status
from tests.solvers.problems import features, unconstrained

TOL, ALPHA, WIDTH = 1e-4, 1e-3, 0.5
UNION = ((0.1, 0.3), (0.4, 0.8))


def ramp_problem(seed, kind="demographic"):
    """A few people in two or three groups, and a sharp ramp."""
    rng = np.random.default_rng(seed)
    n, d, n_groups = int(rng.choice([60, 100, 150])), int(rng.choice([2, 3, 5])), int(rng.choice([2, 2, 3]))
    codes = rng.integers(0, n_groups, n)
    X = rng.normal(size=(n, d)) + (rng.normal(size=(n_groups, d)) * 0.8)[codes]
    y = np.where(X @ rng.normal(size=d) * 1.5 + rng.logistic(size=n) > 0, 1.0, -1.0)
    gap = float(rng.choice([0.05, 0.1, 0.2]))
    interval = [(0.0, 1.0), (0.1, 0.6), (0.2, 0.5)][rng.integers(3)]
    statement = {
        "demographic": DemographicParity(interval, gap),
        "union": DemographicParity(UNION, gap),
        "statistical": StatisticalParity(interval, gap, n_points=3),
    }[kind]
    block = statement.build(encode_groups(codes), np.ones(n), Ramp(WIDTH))
    return Problem.of(linear_model(X), Logistic().build(y, np.ones(n)), block, ALPHA)


def solved(task):
    free = unconstrained(task)
    w = Newton(tol=1e-8).solve(free, free.trivial_start).x
    return MultiStartSQP(tol=TOL).solve(task, task.start_at(w))


class Functions:
    """f_0, the atoms and f of many points at once, by their definitions."""

    def __init__(self, task):
        (rows,), (self.bank,) = task.rows.shards, task.bank.banks
        self.X, self.y, self.codes = features(task), rows.objective.targets, rows.members[0].codes
        self.functions = task.constraints.system.functions

    def objective(self, points):
        d = self.X.shape[1]
        losses = np.logaddexp(0, -self.y * self.scores(points))
        return losses.mean(axis=1) + 0.5 * ALPHA * (points[:, :d] ** 2).sum(axis=1)

    def scores(self, points):
        d = self.X.shape[1]
        return points[:, :d] @ self.X.T + points[:, [d]]

    def atoms(self, points):
        """Means of σ⁺, then of σ⁻, by group and threshold: (points, atoms)."""
        scores, d = self.scores(points), self.X.shape[1]
        free = [points[:, [d + 1 + j]] for j in range(self.bank.n_theta)]
        means = [
            np.maximum((scores - theta)[:, self.codes == k] / WIDTH + half, 0).mean(axis=1)
            for half in (0.5, -0.5)
            for k in range(self.bank.n_groups)
            for theta in (*free, *self.bank.fixed)
        ]
        return np.stack(means, axis=1)

    def heights(self, atoms, pieces):
        """Of all pieces of a maximum: (points, pieces)."""
        each = [sum(c * atoms[:, a] for a, c in piece.atoms) + piece.constant for piece in pieces]
        return np.stack(each, axis=1)

    def constraints(self, atoms):
        values = [
            f.constant + sum(c * self.heights(atoms, pieces).max(axis=1) for c, pieces in f.terms)
            for f in self.functions
        ]
        return np.stack(values, axis=1)

    def net(self, here):
        """Coefficients of the atoms in each f, near a point at which no two pieces meet."""
        net = np.zeros((len(self.functions), here.size))
        for i, f in enumerate(self.functions):
            for c, pieces in f.terms:
                highest = pieces[int(np.argmax(self.heights(here[None], pieces)))]
                for a, coefficient in highest.atoms:
                    net[i, a] += c * coefficient
        return net

    def same_pieces(self, here, atoms):
        """Which points have the same highest piece in every maximum."""
        same = np.ones(len(atoms), dtype=bool)
        for f in self.functions:
            for _, pieces in f.terms:
                highest = np.argmax(self.heights(here[None], pieces))
                same &= self.heights(atoms, pieces).argmax(axis=1) == highest
        return same


def directions(task, x, radius, rng, n_random=2000, n_sides=30):
    """Unit vectors: random ones, and those of steepest descent for many choices of sides of kinks at x."""
    at = task.at(x)
    gradient, active = at.objective_gradient(), np.flatnonzero(at.constraints > -20 * radius)
    steepest = []
    for _ in range(n_sides):
        nearby = task.at(x + 1e-3 * radius * rng.normal(size=x.size))
        rows = nearby.constraint_jacobian()[active]
        left = gradient + nnls(rows.T, -gradient)[0] @ rows if active.size else gradient
        # Kinks of f⁺ and rounding make the plain one infeasible: lean inwards, too.
        inwards = -rows.sum(axis=0) * np.linalg.norm(left)
        steepest += [-left + lean * inwards for lean in (0, 1e-3, 1e-2)]
    tried = [
        np.array(steepest) + noise * rng.normal(size=(len(steepest), x.size)) for noise in (0, 0.01, 0.1)
    ]
    each = np.vstack([rng.normal(size=(n_random, x.size)), *tried])
    lengths = np.linalg.norm(each, axis=1)
    return each[lengths > 0] / lengths[lengths > 0, None]


def falls(task, x, radius, seed=0):
    """How much lower the objective is at feasible points so far from x: points, falls."""
    functions = Functions(task)
    points = x + radius * directions(task, x, radius, np.random.default_rng(seed))
    values = functions.constraints(functions.atoms(points))
    feasible = points[values.max(axis=1, initial=-np.inf) <= 1e-12]
    return feasible, functions.objective(x[None])[0] - functions.objective(feasible)


def allowed(task, x, certificate, points, radius):
    """What the certificate allows feasible points to be lower by; infinite where other pieces are highest."""
    functions, at = Functions(task), task.at(x)
    subtracted = np.maximum(-functions.net(at.atoms), 0)
    atoms = functions.atoms(points)
    tangents = at.atoms + (points - x) @ at.atoms_jacobian.T
    concave = (atoms - tangents) @ subtracted.T @ certificate.multipliers
    curvature = certificate.mu * (1 + certificate.multipliers.sum())
    bound = (
        certificate.stationarity * radius
        + 0.5 * curvature * certificate.distance**2
        + certificate.multipliers @ np.abs(at.constraints)
        + concave
    )
    return np.where(functions.same_pieces(at.atoms, atoms), bound, np.inf)


def test_the_functions_are_those_of_the_problem():
    for kind in ("demographic", "union", "statistical"):
        task = ramp_problem(3, kind)
        functions, rng = Functions(task), np.random.default_rng(0)
        points = rng.normal(size=(5, task.n))
        atoms = functions.atoms(points)
        for point, values, objective in zip(
            points, functions.constraints(atoms), functions.objective(points), strict=True
        ):
            evaluation = task.evaluate(point)
            np.testing.assert_allclose(evaluation.constraints, values, atol=1e-12)
            assert evaluation.objective == pytest.approx(objective)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from(["demographic", "union", "statistical"]))
@example(7014, "demographic")
@example(7046, "demographic")
@example(7013, "union")
@example(20038, "union")
def test_nobody_falls_by_more_than_a_certificate_allows(seed, kind):
    task = ramp_problem(seed, kind)
    x = solved(task).x
    certificate = certify(task, x, tol=TOL)
    assume(certificate.holds(TOL))
    for radius in (1e-5, 1e-4, 1e-3):
        points, fall = falls(task, x, radius)
        assert (fall <= allowed(task, x, certificate, points, radius) + 1e-12).all()


def test_a_kink_that_stands_in_both_parts_certifies_nothing():
    """Two groups are saturated here; where kinks of their σ⁺ counted, descent of .004 per unit was left."""
    task = ramp_problem(7014)
    result = solved(task)
    assert result.status is Status.CONVERGED
    assert certify(task, result.x, tol=TOL).holds(TOL)
    for radius in (1e-4, 1e-3, 1e-2):
        assert falls(task, result.x, radius)[1].max(initial=0.0) <= TOL * radius


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 5e-5, 0.02]), st.sampled_from([1e-3, 0.1, 1.0]))
def test_f_plus_gains_no_less_than_its_kinks(seed, below, length):
    """Also where pieces of a maximum meet, and kinks of atoms and the change of pieces are passed at once."""
    rng, task = np.random.default_rng(seed), ramp_problem(seed)
    x = 0.3 * rng.normal(size=task.n)
    plus, minus = np.split(Functions(task).atoms(x[None])[0], 2)
    low = min(max(float((plus - minus)[0]) + below, 0.0), 0.9)
    (rows,) = task.rows.shards
    block = DemographicParity((low, min(low + 0.3, 1.0)), 0.05).build(
        encode_groups(rows.members[0].codes), np.ones(len(features(task))), Ramp(WIDTH)
    )
    task = Problem.of(rows.model, rows.objective, block, ALPHA)
    at, system = task.at(x), task.constraints.system
    kinks = at.kinks(np.ones(task.m), reach=length, limit=2000)
    slopes, before = system.slopes(at.atoms)[0] @ at.atoms_jacobian, system.parts(at.atoms)[0]
    for step in length * rng.normal(size=(50, x.size)):
        after = system.parts(task.at(x + step).atoms)[0]
        assert (after >= before + slopes @ step + kinks.gains(step) - 1e-10).all()


def test_a_minimum_where_pieces_meet_on_a_kink_is_certified():
    """A group's share is at an inner end of its intervals, and one of its scores on a kink that cancels."""
    task = ramp_problem(20089, "union")
    result = solved(task)
    assert certify(task, result.x, tol=TOL).holds(TOL)
    assert falls(task, result.x, 1e-3)[1].max(initial=0.0) <= 1e-3 * TOL
