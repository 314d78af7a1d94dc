"""The last layer of a network, fitted again by the certified engine on the network's own features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from partialfair.constraints import Constraint
from partialfair.estimators import FitResult, PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import scored_groups
from partialfair.torch.functions import check_labels, scores_of
from partialfair.training.named_constraints import record_of
from partialfair.utils.checks import shown
from partialfair.utils.typing import ArrayLike, Floats

_TRIES = 4
"""Fits until the network itself keeps the promise: rounding rarely breaks it twice."""
_SAME = 1e-9
"""By how much an exact gap may exceed what is allowed, for rounding."""
_FURTHER = 1.5
"""By how much more than it was exceeded the gap is narrowed for the next fit."""


@dataclass(frozen=True, eq=False)
class RefittedHead:
    """A last layer that was fitted again.

    Attributes
    ----------
    classifier
        The fit on the features, with its certificate in ``result_``.
    gaps
        The exact gap of each constraint, of the scores of the network itself, as it is now, on these rows.
    kept
        Whether none exceeds what was promised; None without constraints.
    """

    classifier: PartialFairClassifier
    gaps: tuple[float, ...]
    kept: bool | None

    @property
    def result_(self) -> FitResult:
        """How the fit ended."""
        result: FitResult = self.classifier.result_
        return result

    def __str__(self) -> str:
        """Say what is promised."""
        said = {True: "kept", False: "NOT kept", None: "no constraint"}[self.kept]
        gaps = ", ".join(f"{gap:.4f}" for gap in self.gaps)
        return f"promise {said} by the network on these rows: gap {gaps}\n{self.result_}"


def refit_head(
    model: nn.Module,
    head: nn.Linear,
    batches: Iterable[tuple[Any, Any, Any]],
    classifier: PartialFairClassifier,
) -> RefittedHead:
    """Fit the last linear layer with a promise, and write it back into the network.

    The layer's inputs, in evaluation mode, are the features of a linear model: the engine finds coefficients
    whose exact gap on these rows is at most ``max_gap``, with a certificate, or says what is in the way. The
    promise is judged on the network as it is written back, in its own precision; where rounding breaks it,
    a slightly smaller gap is asked for. The rows should be ones that the network was not trained on: on its
    own rows features know the labels, and a head that is fitted to them does worse on others.

    Parameters
    ----------
    model
        The network; its mode is left as it was.
    head
        Its last layer, with one output, the score, or two, whose difference (second less first) is.
    batches
        Of inputs, labels 0 or 1, and groups.
    classifier
        What to fit, with its constraint; without group terms, which a layer does not have. It is not fitted
        itself.
    """
    for value, name, kind in (
        (model, "model", nn.Module),
        (classifier, "classifier", PartialFairClassifier),
        (batches, "batches", Iterable),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{name} must be of type {kind.__name__}, not {shown(value)}")
    if classifier.group_terms is not None:
        raise InputError("refit_head needs group_terms=None: a last layer knows nothing of groups")
    if not isinstance(head, nn.Linear):
        raise InputError(f"the last layer must be an nn.Linear, not {type(head).__name__}")
    if all(module is not head for module in model.modules()):
        raise InputError("the last layer is not one of the network's")
    if head.out_features not in (1, 2):
        raise InputError(f"the last layer must have one or two outputs, and it has {head.out_features}")
    if head.bias is None:
        raise InputError("the last layer must have a bias")
    features, y, groups = _features(model, head, batches)
    asked, narrowed = clone(classifier), 0.0
    for _ in range(_TRIES):
        fitted = clone(asked)
        fitted.fit(features.double().numpy(), y, sensitive_features=groups)
        _write(head, fitted)
        refitted, excess = _judged(head, features, y, groups, fitted, narrowed)
        # What the fit itself could not keep is no matter of rounding.
        if refitted.kept is not False or fitted.result_.obstacle is not None or not excess > 0:
            break
        narrowed += _FURTHER * excess
        asked = _narrower(classifier, narrowed)
    return refitted


def _write(head: nn.Linear, fitted: PartialFairClassifier) -> None:
    """Make the fitted coefficients those of the layer; of two outputs the first is 0."""
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        head.weight[-1] = torch.from_numpy(np.ravel(fitted.coef_)).to(head.weight)
        head.bias[-1] = torch.as_tensor(float(np.ravel(fitted.intercept_)[0])).to(head.weight)


@torch.no_grad()
def _judged(
    head: nn.Linear, features: Tensor, y: Any, groups: Any, fitted: PartialFairClassifier, narrowed: float
) -> tuple[RefittedHead, float]:
    """Judge the layer on its inputs, by what was promised; return by how much the worst gap exceeds it."""
    result: FitResult = fitted.result_
    promised = [replace(one, max_gap=one.max_gap + narrowed) for one in result.constraints]
    if not promised:
        return RefittedHead(fitted, (), None), 0.0
    scores = scores_of(head(features.to(head.weight))).double().cpu().numpy()
    judged = np.array([group not in result.small_groups for group in groups])
    gaps = _exact_gaps(scores[judged], y[judged], groups[judged], promised)
    bounded = [
        gap - one.max_gap for gap, one in zip(gaps, promised, strict=True) if record_of(one) is not None
    ]
    excess = float(np.max(bounded, initial=-np.inf))
    return RefittedHead(fitted, gaps, excess <= _SAME), excess


def _exact_gaps(
    scores: Floats, y: ArrayLike, groups: ArrayLike, constraints: Sequence[Constraint]
) -> tuple[float, ...]:
    """Return the exact gap of each constraint; nan for one that bounds no metric."""
    positive, gaps = np.asarray(y) == 1, []
    for constraint in constraints:
        if (record := record_of(constraint)) is None:
            gaps.append(float("nan"))
            continue
        labels = positive if record.bounded.needs_labels else None
        scored = scored_groups(scores, groups, constraint.interval, positive=labels)
        gaps.append(record.gap(scored, constraint).value)
    return tuple(gaps)


def _narrower(classifier: PartialFairClassifier, by: float) -> PartialFairClassifier:
    """Return a classifier that is asked for smaller gaps."""
    stated = classifier.constraint

    def smaller(one: Constraint) -> Constraint:
        return replace(one, max_gap=max(one.max_gap - by, 0.0))

    if isinstance(stated, str):
        changes: dict[str, Any] = {"max_gap": max(classifier.max_gap - by, 0.0)}
    elif isinstance(stated, Constraint):
        changes = {"constraint": smaller(stated)}
    else:
        changes = {"constraint": [smaller(one) for one in stated or ()]}
    narrower: PartialFairClassifier = clone(classifier).set_params(**changes)
    return narrower


@torch.no_grad()
def _features(
    model: nn.Module, head: nn.Linear, batches: Iterable[tuple[Any, Any, Any]]
) -> tuple[Tensor, Any, Any]:
    """Return what the last layer sees of all batches, labels, and groups."""
    seen: list[Tensor] = []
    watched = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().cpu()))
    was_training, labels, groups = model.training, [], []
    device = head.weight.device
    model.eval()
    try:
        for batch in batches:
            if not isinstance(batch, list | tuple) or len(batch) != 3:
                raise InputError("batches must be (inputs, labels, groups)")
            X, y, group = batch
            model(_moved(X, device))
            y = _as_tensor(y, "labels")
            check_labels(y)
            labels.append(y.cpu().numpy())
            if np.ndim(group) == 0:
                raise InputError(f"groups of a batch must be a vector, not {shown(group)}")
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
    y = np.concatenate(labels)
    return torch.cat(seen), y, np.concatenate(groups)


def _as_tensor(values: Any, name: str) -> Tensor:
    """Return values of a batch as a tensor, or a complaint that names them."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.empty(())
    if tensor.is_nested or tensor.ndim == 0:
        raise InputError(f"{name} of a batch must be a vector of numbers, not {shown(values)}")
    return tensor


def _moved(inputs: Any, device: torch.device) -> Any:
    """Return inputs on the device: a tensor, or tensors in lists, tuples and dicts."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, dict):
        return {name: _moved(one, device) for name, one in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(_moved(one, device) for one in inputs)
    return inputs
