"""The constraints as plain tensors, in the hands of other libraries for constrained training."""

import pytest

from partialfair.constraints import DemographicParity
from partialfair.metrics import partial_demographic_parity_difference

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from partialfair.torch import ScoreConstraints  # noqa: E402
from tests.torch.test_fairness import bce, made  # noqa: E402

INTERVAL, MAX_GAP = (0.0, 1.0), 0.1
STEPS = 600


def begun():
    X, y, groups = made(400)
    torch.manual_seed(0)
    functions = ScoreConstraints(DemographicParity(INTERVAL, MAX_GAP), groups, surrogate="sigmoid")
    return X.float(), y.float(), groups, functions, functions.codes(groups), nn.Linear(2, 1)


def gap_of(net, X, groups):
    with torch.no_grad():
        scores = net(X).squeeze(1).numpy()
    return partial_demographic_parity_difference(
        None, scores, sensitive_features=groups, interval=INTERVAL, threshold=0.0
    )


def free_gap():
    X, y, groups, *_, net = begun()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(STEPS):
        optimizer.zero_grad()
        bce(net(X).squeeze(1), y).backward()
        optimizer.step()
    return gap_of(net, X, groups)


def test_cooper_takes_the_violations():
    cooper = pytest.importorskip("cooper")
    X, y, groups, functions, codes, net = begun()

    class Problem(cooper.ConstrainedMinimizationProblem):
        def __init__(self):
            super().__init__()
            multiplier = cooper.multipliers.DenseMultiplier(num_constraints=functions.m)
            self.parity = cooper.Constraint(
                constraint_type=cooper.ConstraintType.INEQUALITY,
                formulation_type=cooper.formulations.Lagrangian,
                multiplier=multiplier,
            )

        def compute_cmp_state(self):
            scores = net(X).squeeze(1)
            violations = cooper.ConstraintState(violation=functions(scores, codes))
            return cooper.CMPState(loss=bce(scores, y), observed_constraints={self.parity: violations})

    problem = Problem()
    optimizer = cooper.optim.SimultaneousOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.Adam(net.parameters(), lr=0.02),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=0.05, maximize=True),
    )
    for _ in range(STEPS):
        optimizer.roll()
    assert gap_of(net, X, groups) < free_gap() / 2


def test_humancompatible_train_takes_the_violations():
    methods = pytest.importorskip("humancompatible.train.dual_optim")
    X, y, groups, functions, codes, net = begun()
    primal = torch.optim.Adam(net.parameters(), lr=0.02)
    dual = methods.ALM(m=functions.m, lr=0.05, penalty=1.0, is_ineq=True)
    for _ in range(STEPS):
        scores = net(X).squeeze(1)
        primal.zero_grad()
        dual.forward_update(bce(scores, y), functions(scores, codes)).backward()
        primal.step()
    assert gap_of(net, X, groups) < free_gap() / 2
