"""The training loop: what it optimises, which epoch it ends with, and that stopping it loses nothing."""

import csv
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from partialfair.constraints import EqualOpportunity, StatisticalParity
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from partialfair.torch import GroupBatches, Indexed, PartialFairness, PartialFairTrainer  # noqa: E402

ROOT = Path(__file__).parents[2]
INTERVAL, MAX_GAP = (0.2, 0.6), 0.15
CONSTRAINT = StatisticalParity(INTERVAL, MAX_GAP, n_points=5)


def made(n=600, seed=0, rare=0.3):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n, p=[1 - rare, rare])
    X = np.column_stack([rng.normal(size=(n, 2)), rng.normal(size=n) + (groups == "a")])
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(np.int64)
    return torch.from_numpy(X).float(), torch.from_numpy(y), groups


def loader_of(X, y, batch_size=50, seed=0, **options):
    rng = torch.Generator().manual_seed(seed)
    options = {"batch_size": batch_size, "shuffle": True, "generator": rng, **options}
    return DataLoader(Indexed(TensorDataset(X, y)), **options)


def network(n_outputs=1, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, n_outputs))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def gap_of(model, X, groups):
    model.eval()
    with torch.no_grad():
        scores = model(X).squeeze(1).double().numpy()
    return partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=INTERVAL)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_network_is_that_of_the_most_accurate_epoch_that_keeps_the_constraint(n_outputs):
    X, y, groups = made()
    V, v, held_out = made(seed=1)
    model = network(n_outputs)
    seen = {}

    def remember(record):
        seen[record.epoch] = {name: value.clone() for name, value in model.state_dict().items()}

    trainer = PartialFairTrainer(
        model, CONSTRAINT, epochs=25, optimizer=adam, fairness={"dual_step": 0.05}, callback=remember
    )
    training = trainer.fit(loader_of(X, y), groups, validation=(loader_of(V, v), held_out))
    kept = [record for record in training.history if record.validation.kept]
    assert training.kept
    assert 0 < len(kept) < 25
    assert training.best.validation.accuracy == max(record.validation.accuracy for record in kept)
    assert training.ended == "epochs"
    for name, value in model.state_dict().items():
        assert torch.equal(value, seen[training.best.epoch][name])
    if n_outputs == 1:
        assert training.best.validation.gaps[0] == pytest.approx(gap_of(model, V, held_out), abs=1e-12)
    assert all(record.validation.gaps[0] > MAX_GAP for record in training.history if record not in kept)
    assert "the network is that of epoch" in str(training)
    assert len(training.to_frame()) == 25


def test_if_no_epoch_keeps_the_constraint_the_nearest_is_taken():
    X, y, groups = made(200)
    constraint = StatisticalParity(INTERVAL, 0.0, n_points=5)
    training = PartialFairTrainer(network(), constraint, epochs=3, optimizer=adam).fit(
        loader_of(X, y), groups, validation=(loader_of(X, y), groups)
    )
    assert training.kept is False
    gaps = [record.validation.gaps[0] for record in training.history]
    assert training.best.validation.gaps[0] == min(gaps)
    assert "no epoch kept the constraints" in str(training)


SETTINGS = [
    {},
    {"schedule": lambda optimizer, n: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=n)},
    {"clip_norm": 0.5, "deterministic": True},
    {"precision": "bfloat16"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "schedule", "clipped", "bfloat16"])
def test_a_training_that_is_stopped_goes_on_exactly(tmp_path, settings):
    """Dropout, shuffling and NumPy's generator included."""
    X, y, groups = made(300)
    file = tmp_path / "training.pt"

    def trained(stop_after=None, resume=False, seed=0):
        np.random.seed(seed)  # noqa: NPY002
        model = network(seed=seed)

        def callback(record):
            np.random.random()  # noqa: NPY002
            if record.epoch == stop_after:
                raise KeyboardInterrupt

        trainer = PartialFairTrainer(
            model, CONSTRAINT, epochs=6, optimizer=adam, callback=callback, checkpoint=file, **settings
        )
        validation = loader_of(X, y, shuffle=False), groups
        training = trainer.fit(loader_of(X, y, seed=seed), groups, validation=validation, resume=resume)
        return model, training, np.random.random()  # noqa: NPY002

    whole = trained()
    file.unlink()
    with pytest.raises(KeyboardInterrupt):
        trained(stop_after=4)
    resumed = trained(resume=True, seed=5)
    for one, two in zip(whole[0].state_dict().values(), resumed[0].state_dict().values(), strict=True):
        assert torch.equal(one, two)
    for one, two in zip(whole[1].history, resumed[1].history, strict=True):
        assert (one.loss, one.violation, one.multiplier) == (two.loss, two.violation, two.multiplier)
        assert one.validation == two.validation
    assert whole[1].best.epoch == resumed[1].best.epoch
    assert whole[2] == resumed[2]


def test_an_earlier_training_is_not_lost(tmp_path):
    X, y, groups = made(200)
    file = tmp_path / "training.pt"

    def fit(epochs=2, constraint=CONSTRAINT, **options):
        trainer = PartialFairTrainer(network(), constraint, epochs=epochs, checkpoint=file)
        return trainer.fit(loader_of(X, y), groups, **options)

    fit()
    before = file.read_bytes()
    with pytest.raises(
        InputError, match="holds an earlier training: fit with resume=True to go on, or remove"
    ):
        fit()
    with pytest.raises(InputError, match="another training: its number of epochs is 2, and here it is 3"):
        fit(epochs=3, resume=True)
    with pytest.raises(InputError, match="another training: its constraints"):
        fit(constraint=StatisticalParity(INTERVAL, 0.2), resume=True)
    assert file.read_bytes() == before
    assert len(fit(resume=True).history) == 2
    file.write_bytes(before[: len(before) // 2])
    with pytest.raises(InputError, match="no checkpoint that can be read"):
        fit(resume=True)


def test_patience_and_callback_end_it():
    X, y, groups = made(200)
    validation = loader_of(X, y, shuffle=False), groups
    stopped = PartialFairTrainer(network(), CONSTRAINT, callback=lambda record: record.epoch == 2).fit(
        loader_of(X, y), groups
    )
    assert (stopped.ended, len(stopped.history), stopped.best.epoch, stopped.kept) == ("callback", 2, 2, None)
    still = PartialFairTrainer(
        network(), CONSTRAINT, patience=2, optimizer=lambda p: torch.optim.SGD(p, lr=1e-30)
    ).fit(loader_of(X, y), groups, validation=validation)
    assert (still.ended, len(still.history), still.best.epoch) == ("patience", 3, 1)


def test_a_loss_that_is_no_number_ends_it_with_the_best_weights():
    X, y, groups = made(200)
    model, epoch = network(), [0]

    def loss(scores, y):
        plain = nn.functional.binary_cross_entropy_with_logits(scores, y.float(), reduction="none")
        return plain / 0 if epoch[0] == 2 else plain

    def count(record):
        epoch[0] = record.epoch

    training = PartialFairTrainer(model, CONSTRAINT, loss=loss, callback=count).fit(loader_of(X, y), groups)
    assert (training.ended, len(training.history), training.best.epoch) == ("nonfinite", 3, 2)
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


def test_logs_are_tables(tmp_path, capsys):
    X, y, groups = made(200)
    trainer = PartialFairTrainer(network(), CONSTRAINT, epochs=2, log_dir=tmp_path / "logs", verbose=1)
    training = trainer.fit(loader_of(X, y), groups, validation=(loader_of(X, y), groups))
    with (tmp_path / "logs" / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["validation_accuracy"]) for row in rows] == [
        record.validation.accuracy for record in training.history
    ]
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_tensorboard_has_every_number_of_every_epoch(tmp_path, monkeypatch):
    """By a stand-in for its writer: the real one is no dependency of the tests."""
    written = []

    class Writer:
        def __init__(self, folder):
            assert folder == str(tmp_path)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            written.append("closed")

        def add_scalar(self, name, value, epoch):
            written.append((name, value, epoch))

    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    stand_in = ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    X, y, groups = made(200)
    trainer = PartialFairTrainer(network(), CONSTRAINT, epochs=2, log_dir=tmp_path, tensorboard=True)
    training = trainer.fit(loader_of(X, y), groups)
    expected = [(name, value, one.epoch) for one in training.history for name, value in one.flat().items()]
    assert written == [*expected, "closed"]
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"needs tensorboard.*pip install 'partialfair\[tensorboard\]'"):
        trainer.fit(loader_of(X, y), groups)


def test_a_rare_group_in_batches_of_its_own(tmp_path):
    """With `GroupBatches` the trainer weights rows; constraints that need labels have them."""
    X, y, groups = made(2000, rare=0.03)
    batches = GroupBatches(groups, 64)
    loader = DataLoader(Indexed(TensorDataset(X, y)), batch_sampler=batches)
    model = network()
    constraint = [CONSTRAINT, EqualOpportunity((0.0, 1.0), 0.3)]
    held = {"method": "augmented_lagrangian"}
    training = PartialFairTrainer(model, constraint, epochs=20, optimizer=adam, fairness=held).fit(
        loader, groups, y.numpy()
    )
    free = network()
    free_training = PartialFairTrainer(
        free, constraint, epochs=20, optimizer=adam, fairness={"free_passes": 100}
    ).fit(loader, groups, y.numpy())
    assert gap_of(model, X, groups) < gap_of(free, X, groups) / 2
    assert free_training.history[-1].multiplier == 0 < training.history[-1].multiplier


def test_tangents_of_all_rows_are_those_without_group_batches():
    """Batches hold more of the rare group than all rows do; a refresh looks at all rows."""
    X, _, groups = made(300, rare=0.1)
    scores = X.sum(1)
    plain = PartialFairness(CONSTRAINT, groups)
    batched = PartialFairness(CONSTRAINT, groups, batch_shares=GroupBatches(groups, 40, least=16).shares)
    for fair in (plain, batched):
        fair.functions.place_thresholds(scores, fair.codes(groups))
        fair.refresh(scores)
    assert torch.equal(plain.tangent_values, batched.tangent_values)
    assert torch.equal(plain.running, batched.running)


@pytest.mark.parametrize("options", [{"compile": True}, {"precision": "float16"}], ids=["compile", "float16"])
def test_the_same_in_other_ways(options, monkeypatch):
    """A network that is compiled, or has half precision, learns the same up to rounding."""
    X, y, groups = made(300)
    # What is traced is run as it is: a test needs no compiler.
    monkeypatch.setattr(torch, "compile", _eagerly(torch.compile))
    losses = []
    for given in ({}, options):
        trainer = PartialFairTrainer(network(), CONSTRAINT, epochs=3, optimizer=adam, **given)
        losses.append([record.loss for record in trainer.fit(loader_of(X, y), groups).history])
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert losses[0][-1] < 0.9 * losses[0][0]


def _eagerly(compile):
    return lambda model: compile(model, backend="eager")


TOGETHER = """
import sys
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from partialfair.torch import GroupBatches, Indexed, PartialFairTrainer
from tests.torch.processes import leave_together
from tests.torch.test_trainer import CONSTRAINT, adam, made

dist.init_process_group("gloo")
rank, size, out = dist.get_rank(), dist.get_world_size(), sys.argv[1]
torch.set_default_dtype(torch.float64)
X, y, groups = made(400)
X = X.double()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
batches = GroupBatches(groups, 40 // size, least=4 // size, rank=rank, n_processes=size)
loader = DataLoader(Indexed(TensorDataset(X, y)), batch_sampler=batches)
held_out = DataLoader(Indexed(TensorDataset(X, y)), batch_size=100)
for resume in (False, True):
    trainer = PartialFairTrainer(
        model,
        CONSTRAINT,
        epochs=6,
        optimizer=adam,
        checkpoint=f"{out}.{size}.pt",
        fairness={"free_passes": 1.0},
        callback=lambda record: not resume and record.epoch == 3,
    )
    training = trainer.fit(loader, groups, validation=(held_out, groups), resume=resume)
if rank == 0:
    losses = torch.tensor([record.loss for record in training.history])
    torch.save(torch.cat([model(X).detach()[:, 0], losses]), f"{out}.{size}.scores")
leave_together(out)
"""


@pytest.mark.slow  # torchrun starts slowly
def test_torchrun_with_two_processes(tmp_path):
    """Two processes write one checkpoint, go on from it, and end with the network of one process."""
    script = tmp_path / "script.py"
    script.write_text(TOGETHER)
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    for start, variables in (([], alone), (torchrun, {})):
        path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
        done = subprocess.run(
            [sys.executable, *start, str(script), str(tmp_path / "out")],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    one, two = (torch.load(tmp_path / f"out.{size}.scores") for size in (1, 2))
    assert one.std() > 0.1
    assert two.numpy() == pytest.approx(one.numpy(), abs=1e-10)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"precision": "half"}, "precision must be one of"),
        ({"clip_norm": -1.0}, "clip_norm must be positive"),
        ({"tensorboard": True}, "tensorboard=True needs log_dir"),
        ({"fairness": {"memory": 2.0}}, "memory must lie in"),
    ],
)
def test_bad_settings_are_one_sentence(options, match):
    X, y, groups = made(60)
    with pytest.raises(InputError, match=match):
        PartialFairTrainer(network(), CONSTRAINT, **options).fit(loader_of(X, y), groups)


def test_bad_loaders_and_networks_are_one_sentence():
    X, y, groups = made(60)
    with pytest.raises(InputError, match="the loader must know how many batches"):
        PartialFairTrainer(network(), CONSTRAINT).fit((batch for batch in ()), groups)
    with pytest.raises(InputError, match=r"one or two outputs for each row, not shape \(50, 3\)"):
        PartialFairTrainer(network(3), CONSTRAINT).fit(loader_of(X, y), groups)
    with pytest.raises(InputError, match="resume=True needs checkpoint"):
        PartialFairTrainer(network(), CONSTRAINT).fit(loader_of(X, y), groups, resume=True)


def test_bad_rows_are_one_sentence():
    X, y, groups = made(60)
    plain = DataLoader(TensorDataset(X, y), batch_size=20)
    some = [(X[:20], y[:20], torch.arange(20) + 50)]
    none = loader_of(X, y, 100, drop_last=True)
    for loader, match in (
        (loader_of(X, 2 * y - 1), "y must be 0 or 1 everywhere, and there is -1"),
        (loader_of(X, y[:, None]), r"labels have shape \(50, 1\)"),
        (loader_of(X[:50], y[:50]), "there are 50 training rows, and groups of 60"),
        (some, "rows must be from 0 to 59, positions in groups, and there is 60"),
        (plain, "wrap the data set in Indexed"),
        (none, "the loader has no batch"),
    ):
        with pytest.raises(InputError, match=match):
            PartialFairTrainer(network(), CONSTRAINT).fit(loader, groups)
    with pytest.raises(InputError, match=r"a number for each row, not shape \(\)"):
        PartialFairTrainer(network(), CONSTRAINT, loss=lambda scores, y: scores.mean()).fit(
            loader_of(X, y), groups
        )
    with pytest.raises(InputError, match="no parameters"):
        PartialFairTrainer(nn.Identity(), CONSTRAINT).fit(loader_of(X, y), groups)


def test_rows_held_out_are_looked_at_before_any_work():
    X, y, groups = made(60)
    batches = [(X, y, torch.arange(60))]

    def untouched(scores, y):
        raise AssertionError("a step was taken")

    for validation, match in (
        (batches, "validation must be a pair"),
        ((iter(batches), groups), "gone after one epoch"),
        ((batches, ["a"] * 60), "all rows held out are of group 'a'"),
        ((loader_of(X, y), groups[:50]), "there are 60 rows held out, and groups of 50"),
    ):
        with pytest.raises(InputError, match=match):
            PartialFairTrainer(network(), CONSTRAINT, loss=untouched).fit(
                loader_of(X, y), groups, validation=validation
            )


def test_losses_are_weighted_where_batches_are():
    """Groups in the order of a table's categories, which is not that of the batches."""
    X, y, groups = made(1000, rare=0.1)
    among = pd.Categorical(groups, categories=["b", "a"])
    loader = DataLoader(Indexed(TensorDataset(X, y)), batch_sampler=GroupBatches(groups, 100, least=40))
    trainer = PartialFairTrainer(
        network(),
        CONSTRAINT,
        epochs=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-30),
        loss=lambda scores, y: scores * 0 + torch.from_numpy(groups[drawn.pop(0)] == "a"),
    )
    loader.batch_sampler.set_epoch(1)
    drawn = list(loader.batch_sampler)
    training = trainer.fit(loader, among)
    assert training.best.loss == pytest.approx((groups == "a").mean(), abs=1e-6)


def test_the_network_ends_in_evaluation_mode():
    X, y, groups = made(60)
    model = network()
    PartialFairTrainer(model, CONSTRAINT, epochs=1).fit(loader_of(X, y), groups)
    assert not model.training


def test_scores_that_are_no_numbers_are_not_the_best():
    """On rows held out: infinite scores have no gap, and are not nearest to keeping the constraint."""
    X, y, groups = made(200)
    V = X.clone()
    V[0] = float("nan")
    held_out = [(X, y, torch.arange(200))]

    def spoil(record):
        held_out[0] = (V, y, torch.arange(200))

    strict = StatisticalParity(INTERVAL, 0.0, n_points=5)
    training = PartialFairTrainer(network(), strict, epochs=2, callback=spoil).fit(
        loader_of(X, y), groups, validation=(held_out, groups)
    )
    assert training.best.epoch == 1


@pytest.mark.filterwarnings("ignore:group")
def test_a_gap_that_is_not_defined_is_not_kept():
    X, y, groups = made(200)
    held_out = [(X, y * 0, torch.arange(200))]
    training = PartialFairTrainer(network(), EqualOpportunity((0.0, 1.0), 0.3), epochs=1).fit(
        loader_of(X, y), groups, y, validation=(held_out, groups)
    )
    assert np.isnan(training.best.validation.gaps[0])
    assert not training.kept


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("network", {"n_outputs": 2}),
        ("groups", {"groups": lambda groups: groups[::-1]}),
        ("groups", {"groups": lambda groups: np.char.upper(groups)}),
        ("number of batches", {"batch_size": 20}),
        ("validation", {"validation": True}),
        ("optimizer", {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.01)}),
        ("schedule", {"schedule": SETTINGS[1]["schedule"]}),
        ("fairness", {"fairness": {"dual_step": 1.0}}),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, name, options):
    X, y, known = made(100)

    def fit(n_outputs=1, groups=lambda groups: groups, batch_size=50, validation=False, **options):
        trainer = PartialFairTrainer(
            network(n_outputs), CONSTRAINT, epochs=1, checkpoint=tmp_path / "training.pt", **options
        )
        own = groups(known)
        held_out = ([(X, y, torch.arange(100))], own) if validation else None
        trainer.fit(loader_of(X, y, batch_size), own, validation=held_out, resume=True)

    fit()
    with pytest.raises(InputError, match=f"is of another training: its {name}"):
        fit(**options)
