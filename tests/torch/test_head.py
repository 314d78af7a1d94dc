"""The last layer, fitted again with a promise."""

import numpy as np
import pytest

from partialfair import PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from partialfair.torch import refit_head  # noqa: E402

INTERVAL, MAX_GAP = (0.2, 0.6), 0.1


def made(n=800, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.normal(size=n) + (groups == "a")])
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(int)
    return torch.from_numpy(X).float(), y, groups


def network(n_outputs):
    torch.manual_seed(0)
    head = nn.Linear(8, n_outputs)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), head), head


def batches(X, y, groups, size=100):
    return [(X[k : k + size], y[k : k + size], groups[k : k + size]) for k in range(0, len(y), size)]


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_network_keeps_the_promise(n_outputs):
    """Judged on the float32 network as it is afterwards, in evaluation mode."""
    X, y, groups = made()
    model, head = network(n_outputs)
    model.train()
    refitted = refit_head(
        model, head, batches(X, y, groups), PartialFairClassifier(interval=INTERVAL, max_gap=MAX_GAP)
    )
    assert model.training
    assert refitted.satisfied
    assert refitted.result_.infeasibility is None
    assert "constraint satisfied by the network" in str(refitted)
    model.eval()
    with torch.no_grad():
        outputs = model(X).double().numpy()
        features = model[:-1](X).double().numpy()
    scores = outputs[:, 0] if n_outputs == 1 else outputs[:, 1] - outputs[:, 0]
    assert scores == pytest.approx(refitted.classifier.decision_function(features), abs=1e-5)
    gap = partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=INTERVAL)
    assert gap <= MAX_GAP + 1e-9
    assert refitted.gaps == pytest.approx((gap,), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_promise_is_judged_in_the_precision_of_the_network(dtype):
    """Rounding to three digits moves people past each other: the first fit's promise does not survive it."""
    X, y, groups = made()
    model, head = network(1)
    model.to(dtype)
    classifier = PartialFairClassifier(interval=INTERVAL, max_gap=MAX_GAP)
    refitted = refit_head(model, head, batches(X.to(dtype), y, groups), classifier)
    model.eval()
    with torch.no_grad():
        scores = (
            torch.cat([model(X[k : k + 100].to(dtype)) for k in range(0, 800, 100)]).double().numpy()[:, 0]
        )
    gap = partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=INTERVAL)
    assert refitted.gaps[0] == pytest.approx(gap, abs=1e-12)
    assert refitted.satisfied == (gap <= MAX_GAP + 1e-9)
    assert refitted.satisfied
    assert classifier.max_gap == MAX_GAP
    assert not hasattr(classifier, "coef_")


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (lambda: network(1), {"group_terms": "intercept"}, "needs group_terms=None"),
        (lambda: network(3), {}, "one or two outputs, not 3"),
        (lambda: (nn.Sequential(h := nn.Linear(4, 1, bias=False)), h), {}, "must have a bias"),
        (lambda: (network(1)[0], nn.Linear(8, 1)), {}, "the last layer must be a module of the network"),
        (lambda: (network(1)[0], network(1)[0][1]), {}, "must be an nn.Linear, not Tanh"),
    ],
)
def test_bad_input_is_one_sentence(make, options, match):
    model, head = make()
    clf = PartialFairClassifier(interval=INTERVAL, max_gap=MAX_GAP, **options)
    with pytest.raises(InputError, match=match):
        refit_head(model, head, batches(*made(100)), clf)


def test_other_labels_are_one_sentence():
    """A classifier would take the larger for the positive one, and who judges it takes 1."""
    model, head = network(1)
    X, y, groups = made(100)
    clf = PartialFairClassifier(interval=INTERVAL, max_gap=MAX_GAP)
    with pytest.raises(InputError, match="y must be 0 or 1 everywhere"):
        refit_head(model, head, batches(X, y + 1, groups), clf)
    with pytest.raises(InputError, match="batches is empty"):
        refit_head(model, head, [], clf)
