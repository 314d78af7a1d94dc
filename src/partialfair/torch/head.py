"""The last layer of a network, fitted again by the certified engine on the network's own features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from partialfair._typing import Floats
from partialfair.estimators import PartialFairClassifier
from partialfair.exceptions import InputError

__all__ = ["refit_head"]


def refit_head(
    model: nn.Module,
    head: nn.Linear,
    batches: Iterable[tuple[Any, Any, Any]],
    classifier: PartialFairClassifier,
) -> PartialFairClassifier:
    """Fit the last linear layer with a promise, and write it back into the network.

    The layer's inputs, in evaluation mode, are the features of a linear model: the engine finds coefficients
    whose exact gap on these rows is at most ``max_gap``, with a certificate, or says what is in the way. The
    rows should be ones that the network was not trained on: on its own rows features know the labels, and a
    head that is fitted to them does worse on others.

    Parameters
    ----------
    model
        The network; its mode is left as it was.
    head
        Its last layer, with one output, the score, or two, whose difference (second less first) is.
    batches
        Of inputs, labels 0 or 1, and groups.
    classifier
        What to fit, with its constraint; without group terms, which a layer does not have.

    Returns
    -------
    PartialFairClassifier
        The fitted classifier, with ``result_``. Its `decision_function` of features is the network's score up
        to the precision of the layer; judge the network itself where thousandths of a gap matter.
    """
    if classifier.group_terms is not None:
        raise InputError("refit_head needs group_terms=None: a last layer knows nothing of groups")
    if head.out_features not in (1, 2):
        raise InputError(f"the last layer must have one or two outputs, and it has {head.out_features}")
    if head.bias is None:
        raise InputError("the last layer must have a bias")
    features, y, groups = _features(model, head, batches)
    classifier.fit(features, y, sensitive_features=groups)
    coefficients = torch.from_numpy(np.ravel(classifier.coef_)).to(head.weight)
    intercept = torch.as_tensor(float(np.ravel(classifier.intercept_)[0])).to(head.weight)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        head.weight[-1] = coefficients
        head.bias[-1] = intercept
    return classifier


@torch.no_grad()
def _features(
    model: nn.Module, head: nn.Linear, batches: Iterable[tuple[Any, Any, Any]]
) -> tuple[Floats, Any, Any]:
    """Return what the last layer sees of all batches, labels, and groups."""
    seen: list[Tensor] = []
    watched = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().double().cpu()))
    was_training, labels, groups = model.training, [], []
    device = head.weight.device
    model.eval()
    try:
        for X, y, group in batches:
            model(X.to(device))
            labels.append(np.asarray(y))
            groups.append(np.asarray(group))
    finally:
        watched.remove()
        model.train(was_training)
    if not seen:
        raise InputError("there are no batches to fit the last layer on")
    if len(seen) != len(labels):
        raise InputError(
            f"the last layer was called {len(seen)} times in {len(labels)} batches, not once each"
        )
    return torch.cat(seen).numpy(), np.concatenate(labels), np.concatenate(groups)
