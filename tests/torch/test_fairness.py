"""The hook: what it adds to a loss, what it converges to, and that nothing is lost or doubled on the way."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import DemographicParity, EqualOpportunity, StatisticalParity
from partialfair.datasets import fetch_law_school, make_admissions
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from partialfair.torch import PartialFairness  # noqa: E402

ROOT = Path(__file__).parents[2]
bce = nn.functional.binary_cross_entropy_with_logits


def made(n=600, seed=0):
    """Two features, one of which tells the group."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n, p=[0.7, 0.3])
    X = np.column_stack([rng.normal(size=n) + (groups == "a"), rng.normal(size=n)])
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(float)
    return torch.from_numpy(X), torch.from_numpy(y), groups


def started(groups, seed=0, **options):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    constraint = StatisticalParity((0.2, 0.6), 0.1, "absolute", n_points=4)
    fair = PartialFairness(constraint, groups, dtype=torch.float64, **options)
    optimizer = torch.optim.Adam([*net.parameters(), *fair.parameters()], lr=0.01)
    return net, fair, optimizer


def epoch(net, fair, optimizer, X, y, codes, batches):
    for rows in batches:
        scores = net(X[rows]).squeeze(1)
        loss = fair(bce(scores, y[rows]), scores, codes[rows], y[rows], rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fair.step()


def test_majorants_touch_the_functions_where_tangents_are_taken_and_lie_above_elsewhere():
    X, _, groups = made()
    net, fair, _ = started(groups, ema_decay=0.0)
    codes, rows = fair.codes(groups), torch.arange(len(X))
    scores = net(X).squeeze(1).detach()
    fair.functions.place_thresholds(scores, codes)
    fair.refresh(scores)
    at = fair._majorants(scores, codes, None, rows).values
    assert at.numpy() == pytest.approx(fair.functions(scores, codes).detach().numpy(), abs=1e-12)
    moved = scores + torch.randn(len(X), dtype=torch.float64)
    above = fair._majorants(moved, codes, None, rows).values.numpy()
    assert (above >= fair.functions(moved, codes).detach().numpy() - 1e-12).all()


@pytest.mark.parametrize("method", ["primal_dual", "augmented_lagrangian"])
@pytest.mark.parametrize("tangents", [True, False])
def test_derivatives_are_those_of_the_term_that_is_added(method, tangents):
    X, _, groups = made(60)
    _, fair, _ = started(groups, ema_decay=0.0, warmup_epochs=0.0, method=method, surrogate="sigmoid")
    codes, rows = fair.codes(groups), torch.arange(len(X))
    fair(torch.zeros(()), X[:, 0], codes, None, rows)  # places the thresholds
    if tangents:
        fair.refresh(X[:, 0])
    fair._has_stepped = False
    fair.multipliers.copy_(torch.linspace(0.1, 1.0, len(fair.multipliers)))
    place = X.sum(1) if tangents else X[:, 0]

    def added(scores, theta):
        with torch.no_grad():
            fair.functions.theta.copy_(theta)
            return fair._term((scores, codes, None, rows if tangents else None))

    theta = fair.functions.theta.detach().clone()
    _, by_score, by_theta = added(place, theta)
    for direction, scale in ((torch.randn(len(X)).double(), 0.0), (torch.zeros(len(X)).double(), 1.0)):
        moves = scale * torch.randn(len(theta)).double()
        step = 1e-6
        ahead, back = (added(place + h * direction, theta + h * moves)[0] for h in (step, -step))
        expected = by_score @ direction + by_theta @ moves
        assert ((ahead - back) / (2 * step)).item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("method", ["primal_dual", "augmented_lagrangian"])
def test_a_linear_model_comes_to_the_optimum_of_the_engine(method):
    """All rows in each batch: the deterministic method, beside the certified solver of the same problem."""
    X, y, groups = made(400)
    constraint = DemographicParity((0.0, 1.0), 0.1)
    engine = PartialFairClassifier(
        constraint,
        alpha=1e-3,
        enforce="surrogate",
        options=FitOptions(surrogate="sigmoid", surrogate_width=1.0),
    ).fit(X.numpy(), y.numpy(), sensitive_features=groups)
    net = nn.Linear(2, 1).double()
    fair = PartialFairness(
        constraint,
        groups,
        method=method,
        dual_lr=0.1,
        ema_decay=0.0,
        surrogate="sigmoid",
        surrogate_width=1.0,
        dtype=torch.float64,
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    codes, rows = fair.codes(groups), torch.arange(len(X))

    def objective(scores):
        return bce(scores, y) + 5e-4 * net.weight.square().sum()

    for _ in range(1500):
        scores = net(X).squeeze(1)
        loss = fair(objective(scores), scores, codes, None, rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fair.step()
    scores = net(X).squeeze(1)
    free = PartialFairClassifier(None, alpha=1e-3).fit(X.numpy(), y.numpy()).result_.objective
    assert fair.functions(scores, codes).max().item() <= 2e-3
    price = engine.result_.objective - free
    assert price > 1e-3
    assert objective(scores).item() == pytest.approx(engine.result_.objective, abs=0.02 * price + 1e-4)


@pytest.mark.slow
def test_a_network_is_as_good_as_the_linear_model_on_law_school(data_dir):
    """Absolute-scale fairness of .9 and more on the test rows, beside the engine's model of the same κ."""
    data = fetch_law_school(path=data_dir)
    interval, X = data.interval, data.X.to_numpy(dtype=float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    groups, y = data.sensitive_features.to_numpy(), data.y
    inputs = torch.tensor(np.column_stack([X, groups == data.sensitive_features.cat.categories[0]])).float()
    labels = torch.from_numpy(y.astype(np.int64))
    constraint = StatisticalParity(interval, 0.05, "absolute")

    def judged(scores, rows):
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=groups[rows], interval=interval, gap_scale="absolute"
        )
        return 1 - gap, ((scores > 0) == (y[rows] == 1)).mean()

    def by_engine(split):
        linear = PartialFairClassifier(
            constraint,
            alpha=1e-4,
            group_terms="interactions",
            enforce="surrogate",
            options=FitOptions(surrogate="rounded_ramp"),
        ).fit(X[split.train], y[split.train], sensitive_features=groups[split.train])
        return judged(linear.decision_function(X[split.test], groups[split.test]), split.test)

    def by_network(split, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.Tanh(), nn.Linear(32, 1))
        X, y, n_epochs = inputs[split.train], labels[split.train].float(), 30
        fair = PartialFairness(constraint, groups[split.train])
        optimizer = torch.optim.Adam([*net.parameters(), *fair.parameters()], lr=0.005)
        orders = [rows for _ in range(n_epochs) for rows in torch.randperm(len(X)).split(256)]
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(orders))
        for rows in orders:
            epoch(net, fair, optimizer, X, y, fair.row_codes, [rows])
            schedule.step()
        with torch.no_grad():
            return judged(net(inputs[split.test]).squeeze(1).double().numpy(), split.test)

    linear, network = [], []
    for seed in range(3):
        split = data.split(seed)
        linear.append(by_engine(split))
        network.append(by_network(split, seed))
    assert min(fairness for fairness, _ in linear + network) >= 0.9
    assert np.mean(network, axis=0)[1] >= np.mean(linear, axis=0)[1] - 0.003


def test_training_that_is_stopped_goes_on_exactly():
    X, y, groups = made()
    orders = [torch.randperm(len(X), generator=torch.Generator().manual_seed(k)).split(50) for k in range(6)]
    whole = started(groups)
    for batches in orders:
        epoch(*whole, X, y, whole[1].codes(groups), batches)
    first = started(groups)
    for batches in orders[:3]:
        epoch(*first, X, y, first[1].codes(groups), batches)
    kept = copy.deepcopy([part.state_dict() for part in first])
    resumed = started(groups, seed=1)
    for part, state in zip(resumed, kept, strict=True):
        part.load_state_dict(state)
    for batches in orders[3:]:
        epoch(*resumed, X, y, resumed[1].codes(groups), batches)
    assert torch.equal(whole[0](X), resumed[0](X))
    assert torch.equal(whole[1].multipliers, resumed[1].multipliers)
    assert torch.equal(whole[1].functions.theta, resumed[1].functions.theta)


def trained(rank=0, size=1):
    """What one of several processes has after five epochs: scores, multipliers, thresholds."""
    X, y, groups = made()
    net, fair, optimizer = copy.deepcopy(started(groups))
    model = torch.nn.parallel.DistributedDataParallel(net) if size > 1 else net
    for k in range(5):
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(k)).split(100)
        batches = [rows[rank::size] for rows in order]
        epoch(model, fair, optimizer, X, y, fair.codes(groups), batches)
    return [net(X).detach(), fair.multipliers, fair.functions.theta.detach()]


PROCESSES = """
import sys
import torch
import torch.distributed as dist
from tests.torch.processes import leave_together
from tests.torch.test_fairness import trained

rank, address, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
torch.save(trained(rank, 2), f"{out}.{rank}")
leave_together(out)
"""


def test_two_processes_are_one(tmp_path):
    """Batches of two processes together are the batch of one."""
    script, out = tmp_path / "script.py", str(tmp_path / "out")
    script.write_text(PROCESSES)
    address = f"file://{tmp_path / 'meet'}"

    def begun(rank):
        command = [sys.executable, str(script), str(rank), address, out]
        path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})

    runs = [begun(0), begun(1)]
    alone = trained()
    assert [run.wait(timeout=600) for run in runs] == [0, 0]
    together = [torch.load(f"{out}.{rank}") for rank in (0, 1)]
    assert alone[1].max() > 0
    for other in together:
        for one, two in zip(alone, other, strict=True):
            assert two.numpy() == pytest.approx(one.numpy(), abs=1e-10)


def test_rows_that_never_come_do_not_count():
    """A loader may draw from some of the rows; those that it leaves out have no scores."""
    X, _, groups = made()
    scores, rows = X.sum(1) + 3, torch.arange(0, len(X), 2)
    functions = started(groups[rows.numpy()])[1].functions
    _, fair, _ = started(groups, warmup_epochs=2.0)
    for _ in range(5):
        fair(torch.zeros(()), scores[rows], fair.codes(groups)[rows], None, rows)
        fair.step()
    assert fair._has_tangents
    own = functions.weights(fair.codes(groups)[rows], None)
    expected = functions.at(scores[rows], own, fair.tangent_theta).values
    fair.refresh()
    assert fair.running[0].numpy() == pytest.approx(expected.detach().numpy(), abs=1e-12)


def test_what_is_recorded_on_a_gpu_is_recorded_anew_for_other_settings(monkeypatch):
    X, _, groups = made(100)
    _, fair, _ = started(groups, warmup_epochs=0.0)
    places = []

    def replays(work, batch, place):
        places.append(place)
        return work(batch)

    monkeypatch.setattr(fair, "_replays", replays)
    monkeypatch.setattr(fair, "_is_steady", lambda scores, rows: True)
    for dual_lr in (0.1, 0.1, 0.2):
        fair.dual_lr = dual_lr
        fair(torch.zeros(()), X[:, 0], fair.codes(groups), None, torch.arange(100))
        fair.step()
    assert places[0] == places[1] != places[2]


def test_without_rows_tangents_are_taken_at_each_batch():
    """Nothing is remembered of rows, so that values are those of the functions themselves."""
    X, y, groups = made()
    net, fair, optimizer = started(groups, ema_decay=0.0, warmup_epochs=1.0)
    codes = fair.codes(groups)
    for _ in range(30):
        scores = net(X).squeeze(1)
        loss = fair(bce(scores, y), scores, codes)
        functions = fair.functions(scores, codes).detach() / fair.functions.maxima.scales
        if fair.multipliers.any():
            assert fair.violations.numpy() == pytest.approx(functions.numpy(), abs=1e-12)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fair.step()
    assert fair.multipliers.any()
    assert not fair.row_scores.any()


def test_scores_in_half_precision_are_raised():
    X, y, groups = made(100)
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    fair = PartialFairness(StatisticalParity((0.2, 0.6), 0.1), groups)
    with torch.autocast("cpu", torch.bfloat16):
        scores = net(X.float()).squeeze(1)
    assert scores.dtype == torch.bfloat16
    loss = fair(bce(scores.float(), y.float()), scores, fair.codes(groups), None, torch.arange(100))
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(net.weight.grad).all()


def test_evaluation_and_overflows_leave_no_trace():
    X, y, groups = made(60)
    _, fair, _ = started(groups, warmup_epochs=0.0)
    codes, rows, scores = fair.codes(groups), torch.arange(60), X[:, 0].clone().requires_grad_()
    for _ in range(3):
        fair(bce(scores, y), scores, codes, None, rows)
        fair.step()
    before = copy.deepcopy(fair.state_dict())
    loss = bce(scores, y)
    with torch.no_grad():
        assert fair(loss, scores + 1, codes, None, rows) is loss
    fair.eval()
    assert fair(loss, scores + 1, codes, None, rows) is loss
    assert all(torch.equal(one, before[name]) for name, one in fair.state_dict().items() if name[0] != "_")
    fair.train()
    overflown = torch.where(rows == 7, torch.nan, scores)
    assert fair(bce(overflown, y), overflown, codes, None, rows).isnan()
    assert torch.isfinite(fair.running).all()
    assert torch.isfinite(fair.multipliers).all()
    assert fair.row_scores[7] == before["row_scores"][7]


def test_what_allows_everything_adds_nothing():
    X, y, groups = made(50)
    fair = PartialFairness(StatisticalParity((0.0, 1.0), 1.0), groups, warmup_epochs=0.0)
    loss = bce(X[:, 0].float(), y)
    assert fair(loss, X[:, 0].float(), fair.codes(groups), None, torch.arange(50)) is loss
    fair.step()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "best"}, "method must be one of 'primal_dual', 'augmented_lagrangian'"),
        ({"dual_lr": 0}, "dual_lr must be positive"),
        ({"ema_decay": 1.0}, "ema_decay must lie in"),
        ({"refresh_every": -1}, "refresh_every must be at least 0"),
    ],
)
def test_bad_settings_are_one_sentence(options, match):
    with pytest.raises(InputError, match=match):
        PartialFairness(StatisticalParity((0.2, 0.6), 0.1), made(50)[2], **options)


def test_bad_scores_are_one_sentence():
    fair = PartialFairness(StatisticalParity((0.2, 0.6), 0.1), made(50)[2])
    with pytest.raises(InputError, match=r"scores must be a vector, not of shape \(50, 1\)"):
        fair(torch.zeros(()), torch.zeros(50, 1), torch.zeros(50, dtype=torch.long))
    with pytest.raises(InputError, match="there are 50 rows"):
        fair.refresh(torch.zeros(49))


def test_bad_batches_are_one_sentence_before_constraints_join():
    """Groups and labels are not looked at in free passes, and would be found wrong after them."""
    _, y, groups = made(50)
    fair = PartialFairness(EqualOpportunity((0.0, 1.0), 0.1), groups, y)
    codes, scores, rows, loss = fair.codes(groups), torch.zeros(50), torch.arange(50), torch.zeros(())
    for batch, match in (
        ((loss, scores, codes, None, rows), "give y, too"),
        ((loss, scores, codes, y[:, None], rows), r"y has shape \(50, 1\), and there are 50 scores"),
        ((loss, scores, codes, y + 1, rows), "y must be 0 or 1 everywhere, and there is 2"),
        ((loss, scores, groups, y, rows), "groups must be a tensor of whole numbers, as codes"),
        ((loss, scores, codes.bool(), y, rows), "groups must be a tensor of whole numbers"),
        ((loss, scores, codes - 1, y, rows), "groups must be from 0 to 1, .* and there is -1"),
        ((loss, scores, codes[:40], y, rows), r"groups has shape \(40,\)"),
        ((loss, scores, codes, y, rows + 1), "rows must be from 0 to 49, .* and there is 50"),
        ((loss, scores, codes, y, rows[:10]), r"rows has shape \(10,\)"),
        ((scores, scores, codes, y, rows), r"loss must be one number, .* not of shape \(50,\)"),
        ((loss, scores[:0], codes[:0], y[:0], rows[:0]), "the batch is empty"),
    ):
        with pytest.raises(InputError, match=match):
            fair(*batch)
    assert not fair.steps


@pytest.mark.parametrize("constraints", [[], "statistical_parity", None])
def test_bad_constraints_are_one_sentence(constraints):
    with pytest.raises(InputError, match="constraints must be one of"):
        PartialFairness(constraints, made(50)[2])


def test_one_group_is_refused():
    with pytest.raises(InputError, match="there is only group 'a'; a gap needs at least two"):
        PartialFairness(StatisticalParity((0.2, 0.6), 0.1), ["a"] * 50)


def test_a_first_batch_may_hold_nobody_of_a_group():
    X, _, groups = made(100)
    fair = PartialFairness(StatisticalParity((0.2, 0.6), 0.1), groups, warmup_epochs=0.0)
    rows = torch.from_numpy(np.flatnonzero(groups == "a"))
    loss = fair(torch.zeros(()), X[rows, 0].float(), fair.codes(groups)[rows])
    assert torch.isfinite(loss)
    assert torch.isfinite(fair.functions.theta).all()


def test_a_group_that_never_comes_is_one_sentence():
    X, _, groups = made(100)
    fair = PartialFairness(StatisticalParity((0.2, 0.6), 0.1), groups, warmup_epochs=1.0)
    rows = torch.from_numpy(np.flatnonzero(groups == "a"))
    batch = torch.zeros(()), X[rows, 0].float(), fair.codes(groups)[rows], None, rows
    fair(*batch)
    fair(*batch)
    with pytest.raises(InputError, match="no batch contained a row of group 'b'"):
        fair(*batch)


def test_labels_that_make_no_difference_are_not_asked_for():
    """Also where a group has members of one label alone."""
    X, y, groups = made(100)
    y[groups == "b"] = 0
    constraint = StatisticalParity((0.2, 0.6), 0.1)
    told, untold = (PartialFairness(constraint, groups, given, warmup_epochs=0.0) for given in (y, None))
    codes = told.codes(groups)
    assert told(torch.zeros(()), X[:, 0].float(), codes) == untold(torch.zeros(()), X[:, 0].float(), codes)


def test_labels_may_be_a_column_of_a_table():
    _, y, groups = made(100)
    labels = pd.Series(y.numpy(), index=[f"row {i}" for i in range(100)])
    fair = PartialFairness(EqualOpportunity((0.0, 1.0), 0.1), groups, labels)
    assert torch.equal(fair.row_labels, y.long())


def test_the_hook_in_bfloat16():
    X, _, groups = made(100)
    fair = PartialFairness(StatisticalParity((0.2, 0.6), 0.1), groups, warmup_epochs=0.0).to(torch.bfloat16)
    assert torch.isfinite(fair(torch.zeros(()), X[:, 0].float(), fair.codes(groups), None, torch.arange(100)))


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"no module named {{name}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
import partialfair.torch
try:
    partialfair.torch.PartialFairness
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        (
            ("torch",),
            "partialfair.torch needs torch, which is not installed; run: pip install 'partialfair[torch]'",
        ),
        (("numba", "scipy", "sklearn", "pandas", "piqp", "clarabel", "skops", "pooch", "matplotlib"), ""),
    ],
)
def test_what_must_be_installed(absent, said):
    command = [sys.executable, "-c", WITHOUT.format(absent=absent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said


def test_groups_are_known_by_name():
    data = make_admissions(200)
    fair = PartialFairness(StatisticalParity((0.1, 0.5), 0.2), data.sensitive_features)
    codes = fair.codes(data.sensitive_features)
    assert [fair.labels[code] for code in codes.tolist()] == list(data.sensitive_features)
