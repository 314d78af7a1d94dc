"""The whole fit ends in time, and when it is told to, with the best point so far."""

import os
import signal
import time
from importlib import import_module

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor
from partialfair.estimators.parameters import read_deadline
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.optimization.objectives import PartialAUC
from partialfair.optimization.problems import ProblemPoint
from partialfair.optimization.solvers import IDCA, MultiStartSQP, Solver, Status
from partialfair.utils.clock import OutOfTime, check_clock, deadline, deadline_in, ignore_deadline

CUT = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FLAT = pytest.mark.filterwarnings("ignore::partialfair.exceptions.SurrogateWarning")
STRICT = pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallSampleGapWarning")
pytestmark = [CUT, FLAT, STRICT]


@pytest.fixture(autouse=True)
def _interrupts_are_heard():
    """As Python does, also where the tests run as a job in the background, which Ctrl-C is not meant for."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def crowd(n_rows, n_features, n_groups, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 0] += 0.3 * groups
    signal_and_noise = X[:, :5].sum(axis=1) + rng.normal(size=n_rows)
    return X, signal_and_noise, groups


def seconds_of(estimator, X, y, groups):
    start = time.monotonic()
    estimator.fit(X, y, sensitive_features=groups)
    return time.monotonic() - start


def test_deadlines():
    check_clock()
    with deadline(deadline_in(None)):
        check_clock()
    with deadline(0.0):
        with pytest.raises(OutOfTime), deadline(deadline_in(60)):
            check_clock()  # the outer one comes first
        with ignore_deadline():
            check_clock()
    check_clock()


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float32])
def test_any_number_is_a_time_limit(kind, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    end = read_deadline(PartialFairClassifier(interval=(0, 1), time_limit=kind(6)))
    assert type(end) is float
    assert end == 106.0


SMALL = {
    "statistical parity": {"max_gap": 0.0, "options": FitOptions(n_points=50)},
    "group AUC": {"constraint": "group_auc", "max_gap": 0.001},
    "hinge": {"loss": "hinge", "max_gap": 0.001},
    "partial AUC": {"loss": PartialAUC((0.05, 0.3)), "max_gap": 0.001},
    "the paper's solver": {"solver": "idca-switching", "max_gap": 0.001},
}


@pytest.fixture(scope="module")
def compiled():
    """Kernels are compiled, or read from a cache, when they are first called: no fit's fault."""
    X, y, groups = crowd(200, 6, 2)
    for options in SMALL.values():
        PartialFairClassifier(interval=(0.1, 0.6), max_iter=3, **options | {"max_gap": 0.3}).fit(
            X, y > 0.5, sensitive_features=groups
        )
    PartialFairRegressor(interval=(0, 1), max_iter=3).fit(X, y, sensitive_features=groups)


def check_ends_in_time(options, n_rows, limit=0.3):
    X, y, groups = crowd(n_rows, 20, 8)
    clf = PartialFairClassifier(interval=(0.1, 0.6), time_limit=limit, tol=1e-9, **options)
    assert seconds_of(clf, X, y > 0.5, groups) <= limit + 1
    assert clf.result_.status is Status.TIME_LIMIT
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.usefixtures("ticking_clock")
@pytest.mark.parametrize("options", SMALL.values(), ids=SMALL)
def test_a_fit_ends_in_time_with_a_model(options):
    check_ends_in_time(options, n_rows=400, limit=0.05)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("options", SMALL.values(), ids=SMALL)
def test_a_fit_ends_in_seconds_with_a_model(options):
    check_ends_in_time(options, n_rows=3000)


def check_hardly_any_time(kind, constraint, seconds, size):
    X, y, groups = crowd(*size)
    model = kind(constraint, interval=(0, 1), time_limit=seconds, tol=1e-12, max_gap=0.001)
    assert seconds_of(model, X, y if kind is PartialFairRegressor else y > 0.5, groups) <= 1.02
    enough = constraint is None and seconds > 0.01
    assert enough or model.result_.status is Status.TIME_LIMIT
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.usefixtures("ticking_clock")
@pytest.mark.parametrize("seconds", [1e-9, 0.02])
@pytest.mark.parametrize("constraint", [None, "statistical_parity"])
@pytest.mark.parametrize("kind", [PartialFairClassifier, PartialFairRegressor])
def test_hardly_any_time_gives_a_model_too(kind, constraint, seconds):
    check_hardly_any_time(kind, constraint, seconds, (500, 8, 3))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seconds", [1e-9, 0.02])
@pytest.mark.parametrize("constraint", [None, "statistical_parity"])
@pytest.mark.parametrize("kind", [PartialFairClassifier, PartialFairRegressor])
def test_hardly_any_seconds_give_a_model_too(kind, constraint, seconds):
    check_hardly_any_time(kind, constraint, seconds, (20_000, 50, 3))


def test_time_that_suffices_changes_nothing():
    X, y, groups = crowd(500, 5, 2)
    fits = [
        PartialFairClassifier(interval=(0.1, 0.6), enforce="surrogate", time_limit=limit).fit(
            X, y > 0.5, sensitive_features=groups
        )
        for limit in (None, 1e9)
    ]
    assert fits[0].coef_ == pytest.approx(fits[1].coef_, abs=0)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("limit", [1.0, 3.0, 6.0])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((200_000, 200, 2), {"max_gap": 0.01}),
        ((100_000, 20, 4), {"constraint": "group_auc", "max_gap": 0.001}),
        ((50_000, 20, 20), {"max_gap": 0.0, "options": FitOptions(n_points=50)}),
        ((3000, 3200, 2), {"max_gap": 0.01}),
        ((5000, 2000, 2), {"max_gap": 0.01}),
        ((100_000, 50, 3), {"max_gap": 0.01, "loss": "hinge"}),
        ((50_000, 30, 3), {"max_gap": 0.01, "loss": PartialAUC((0.05, 0.3))}),
        ((100_000, 50, 5), {"max_gap": 0.01, "loss": "squared"}),
    ],
)
def test_long_fits_end_in_time(size, options, limit):
    X, y, groups = crowd(*size)
    kind = PartialFairRegressor if options.get("loss") == "squared" else PartialFairClassifier
    model = kind(interval=(0.1, 0.6), time_limit=limit, tol=1e-9, **options)
    spent = seconds_of(model, X, y if kind is PartialFairRegressor else y > 0.5, groups)
    assert spent <= max(limit + 1, 1.2 * limit)


class Careless(Solver):
    """A solver that knows nothing of deadlines or interrupts."""

    def solve(self, problem, start, *, time_limit=None, callback=None):
        x = start
        while True:
            problem.at(x).objective_gradient()


@pytest.mark.usefixtures("ticking_clock")
def test_solvers_that_know_no_clock_are_ended():
    X, y, groups = crowd(500, 5, 2)
    clf = PartialFairClassifier(interval=(0, 1), solver=Careless(), time_limit=0.2)
    assert seconds_of(clf, X, y > 0.5, groups) <= 1.2
    assert clf.result_.status is Status.TIME_LIMIT


def interrupted_at(monkeypatch, name, call):
    """Press Ctrl-C at the n-th call of a function, by a signal, as the terminal does."""
    module, _, attribute = name.rpartition(".")
    target = ProblemPoint if module == "ProblemPoint" else import_module(module)
    original, calls = getattr(target, attribute), []

    def pressing(*arguments, **options):
        calls.append(None)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(target, attribute, pressing)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("ProblemPoint.objective_hessians", 1),  # in the unconstrained fit
        ("partialfair.training.statement.place_intervals", 1),  # between that and the first solve
        ("ProblemPoint.constraint_jacobian", 3),
        ("partialfair.training.attempts.certify", 1),
        ("partialfair.training.tightening.join", 1),  # after the first solve
    ],
)
def test_an_interrupt_at_any_moment_keeps_the_best_point(monkeypatch, name, call):
    X, y, groups = crowd(500, 5, 2)
    interrupted_at(monkeypatch, name, call)
    clf = PartialFairClassifier(interval=(0.1, 0.6), max_gap=0.05)
    clf.fit(X, y > 0.5, sensitive_features=groups)
    assert clf.result_.status is Status.STOPPED
    assert np.isfinite(clf.decision_function(X)).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_before_any_constrained_point_the_unconstrained_one_is_the_best(monkeypatch):
    X, y, groups = crowd(500, 5, 2)
    free = PartialFairClassifier(constraint=None).fit(X, y > 0.5)
    interrupted_at(monkeypatch, "partialfair.training.statement.place_intervals", 1)
    clf = PartialFairClassifier(interval=(0.1, 0.6)).fit(X, y > 0.5, sensitive_features=groups)
    assert clf.result_.status is Status.STOPPED
    assert clf.coef_ == pytest.approx(free.coef_, abs=1e-4)


def test_a_first_solve_that_is_stopped_is_not_thrown_away():
    """Its point may be much fairer than the model without constraints."""
    X, target, groups = crowd(2000, 6, 2)
    X[:, 0] += groups

    def feasible(line):
        return line.violation < 1e-5 and line.objective < 0.6  # not where all are alike, log 2

    settings = {"interval": (0.1, 0.5), "max_gap": 0.1}
    stopped = PartialFairClassifier(callback=feasible, **settings)
    stopped.fit(X, target > 0, sensitive_features=groups)
    assert stopped.result_.status is Status.STOPPED
    assert [one.how for one in stopped.result_.candidates][-1] == "surrogate constraints"
    free = PartialFairClassifier(constraint=None).fit(X, target > 0)
    gap = partial_statistical_parity_difference(
        None, free.decision_function(X), sensitive_features=groups, interval=(0.1, 0.5)
    )
    assert stopped.result_.gap < gap / 2


@pytest.mark.parametrize("solver", [MultiStartSQP(tol=1e-12), IDCA()])
def test_an_interrupt_that_a_callback_swallows_counts(solver):
    def swallow(line):
        if line.step == 1:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
            except KeyboardInterrupt:
                pass

    X, y, groups = crowd(500, 5, 2)
    clf = PartialFairClassifier(interval=(0.1, 0.6), solver=solver, callback=swallow)
    clf.fit(X, y > 0.5, sensitive_features=groups)
    assert clf.result_.status is Status.STOPPED
    assert clf.result_.history[-1].step == 1


def test_handlers_of_the_application_are_left_alone():
    X, y, groups = crowd(300, 5, 2)
    pressed = []

    def press(_):
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        clf = PartialFairClassifier(interval=(0, 1), max_gap=0.1, callback=press).fit(
            X, y > 0.5, sensitive_features=groups
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed
    assert clf.result_.status is Status.CONVERGED
