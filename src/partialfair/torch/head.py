"""Refit the last layer of a network under a constraint, on the features of the network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from partialfair.constraints.base import Constraint
from partialfair.data.intervals import require_interval
from partialfair.estimators.classifier import PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import scored_groups
from partialfair.torch.functions import check_labels, scores_of
from partialfair.training.named_constraints import record_of
from partialfair.training.result import FitResult
from partialfair.utils.checks import shown

_MAX_FITS = 4
"""The largest number of fits until the network satisfies the constraint in its own precision."""
_ROUNDING = 1e-9
"""The tolerance by which an exact gap may exceed its limit."""
_MARGIN = 1.5
"""The next fit lowers its limit by this multiple of the last excess."""


@dataclass(frozen=True, eq=False)
class RefittedHead:
    """The result of `refit_head`.

    Attributes
    ----------
    classifier : PartialFairClassifier
        The fit on the features, with its KKT certificate in ``result_``.
    gaps : tuple of float
        The exact gap of each constraint on these rows, from the scores of the refitted network.
    satisfied : bool or None
        Whether no gap exceeds its limit; None without constraints.
    """

    classifier: PartialFairClassifier
    gaps: tuple[float, ...]
    satisfied: bool | None

    @property
    def result_(self) -> FitResult:
        """The result of the fit."""
        result: FitResult = self.classifier.result_
        return result

    def __str__(self) -> str:
        """Describe whether the constraint is satisfied."""
        outcome = {True: "satisfied", False: "NOT satisfied", None: "absent"}[self.satisfied]
        gaps = ", ".join(f"{gap:.4f}" for gap in self.gaps)
        return f"constraint {outcome} by the network on these rows: gap {gaps}\n{self.result_}"


def refit_head(
    model: nn.Module,
    head: nn.Linear,
    batches: Iterable[tuple[Any, Any, Any]],
    classifier: PartialFairClassifier,
) -> RefittedHead:
    """Refit the last linear layer of a network under a constraint, and write it back into the network.

    The inputs of the layer, in evaluation mode, are the features of a linear model. The fit finds
    coefficients whose exact gap on these rows is at most ``max_gap``, with a KKT certificate, or reports why
    it found none. The gap is then evaluated on the network in its own precision; if rounding lifts it above
    the limit, the layer is fitted again with a slightly lower limit. Use rows that the network was not
    trained on: on its training rows features are fitted to the labels, and the refitted layer does worse on
    new data.

    Parameters
    ----------
    model : torch.nn.Module
        The network; its training mode is unchanged.
    head : torch.nn.Linear
        The last layer of the network, with one output (the score) or two (the score is the second minus the
        first).
    batches : iterable of (inputs, labels, groups)
        The rows, with labels 0 and 1.
    classifier : PartialFairClassifier
        The classifier to fit, with its constraint, and without group terms, which a layer cannot have. A
        clone is fitted.

    Returns
    -------
    RefittedHead
        The fitted classifier, the exact gaps of the network, and whether the constraint is satisfied.

    See Also
    --------
    PartialFairness : Constrain a network during training.

    Examples
    --------
    >>> import torch
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.torch import refit_head
    >>> data = make_admissions(600, seed=0)
    >>> X = torch.tensor(data.X.select_dtypes("number").fillna(0).to_numpy()).float()
    >>> head = torch.nn.Linear(X.shape[1], 1)
    >>> classifier = PartialFairClassifier("statistical_parity", interval=(0.15, 0.4), max_gap=0.2)
    >>> batches = [(X, torch.tensor(data.y), data.sensitive_features)]
    >>> refit_head(torch.nn.Sequential(head), head, batches, classifier).satisfied
    True
    """
    for value, name, kind in (
        (model, "model", nn.Module),
        (classifier, "classifier", PartialFairClassifier),
        (batches, "batches", Iterable),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{name} must be of type {kind.__name__}, not {shown(value)}")
    if classifier.group_terms is not None:
        raise InputError("refit_head needs group_terms=None: a last layer has no input for groups")
    if classifier.decision_threshold != 0.0:
        raise InputError("refit_head needs decision_threshold=0.0: a network decides at the score 0")
    if not isinstance(head, nn.Linear):
        raise InputError(f"the last layer must be an nn.Linear, not {type(head).__name__}")
    if all(module is not head for module in model.modules()):
        raise InputError("the last layer must be a module of the network")
    if head.out_features not in (1, 2):
        raise InputError(f"the last layer must have one or two outputs, not {head.out_features}")
    if head.bias is None:
        raise InputError("the last layer must have a bias")
    features, y, groups = _read_features(model, head, batches)
    margin = 0.0
    for _ in range(_MAX_FITS):
        fitted = _lower_limits(classifier, margin)
        fitted.fit(features.double().numpy(), y, sensitive_features=groups)
        with torch.no_grad():  # the first of two outputs is 0
            head.weight.zero_()
            head.bias.zero_()
            head.weight[-1] = torch.from_numpy(np.ravel(fitted.coef_)).to(head.weight)
            head.bias[-1] = torch.as_tensor(float(np.ravel(fitted.intercept_)[0])).to(head.weight)
        refitted, excess = _evaluate(head, features, y, groups, fitted, margin)
        # A lower limit does not help an infeasible fit.
        if refitted.satisfied is not False or fitted.result_.infeasibility is not None or not excess > 0:
            break
        margin += _MARGIN * excess
    return refitted


def _lower_limits(classifier: PartialFairClassifier, by: float) -> PartialFairClassifier:
    """Return an unfitted classifier with lower limits, at least 0."""
    unfitted: PartialFairClassifier = clone(classifier)
    if not by:  # unchanged, so that fit reports invalid settings
        return unfitted

    def lower(constraint: Constraint) -> Constraint:
        return replace(constraint, max_gap=max(constraint.max_gap - by, 0.0))

    stated = classifier.constraint
    if isinstance(stated, str):
        unfitted.set_params(max_gap=max(classifier.max_gap - by, 0.0))
    elif isinstance(stated, Constraint):
        unfitted.set_params(constraint=lower(stated))
    elif stated is not None:
        unfitted.set_params(constraint=[lower(constraint) for constraint in stated])
    return unfitted


@torch.no_grad()
def _evaluate(
    head: nn.Linear, features: Tensor, y: Any, groups: Any, fitted: PartialFairClassifier, margin: float
) -> tuple[RefittedHead, float]:
    """Evaluate the scores of the layer; also return the largest excess of a gap over its limit."""
    result: FitResult = fitted.result_
    # The fit had lower limits; the network is evaluated by the stated ones.
    constraints = [replace(each, max_gap=each.max_gap + margin) for each in result.constraints]
    if not constraints:
        return RefittedHead(fitted, (), None), 0.0
    scores = scores_of(head(features.to(head.weight))).double().cpu().numpy()
    rows = np.array([group not in result.small_groups for group in groups])  # small groups are excluded
    scores, positive, groups = scores[rows], y[rows] == 1, groups[rows]
    gaps, excess = [], -np.inf
    for constraint in constraints:
        if (record := record_of(constraint)) is None:  # without a metric
            gaps.append(float("nan"))
            continue
        labels = positive if record.bounded.needs_labels else None
        scored = scored_groups(scores, groups, require_interval(constraint.interval), positive=labels)
        gaps.append(record.gap(scored, constraint).value)
        excess = np.maximum(excess, gaps[-1] - constraint.max_gap)  # nan if a gap is nan
    return RefittedHead(fitted, tuple(gaps), bool(excess <= _ROUNDING)), float(excess)


@torch.no_grad()
def _read_features(
    model: nn.Module, head: nn.Linear, batches: Iterable[tuple[Any, Any, Any]]
) -> tuple[Tensor, Any, Any]:
    """Return the inputs of the last layer for all batches, labels, and groups."""
    inputs: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, given: inputs.append(given[0].detach().cpu()))
    was_training, labels, groups = model.training, [], []
    model.eval()
    try:
        for batch in batches:
            if not isinstance(batch, list | tuple) or len(batch) != 3:
                raise InputError("batches must be (inputs, labels, groups)")
            X, y, group = batch
            model(_move(X, head.weight.device))  # the hook stores the features
            try:
                y = torch.as_tensor(y)
            except (TypeError, ValueError, RuntimeError):
                y = torch.empty(())
            if y.is_nested or y.ndim == 0:
                raise InputError(f"labels of a batch must be a vector of numbers, not {shown(batch[1])}")
            check_labels(y)
            labels.append(y.cpu().numpy())
            if np.ndim(group) == 0:
                raise InputError(f"groups of a batch must be a vector, not {shown(group)}")
            groups.append(np.asarray(group))
    finally:
        hook.remove()
        model.train(was_training)
    if not inputs:
        raise InputError("batches is empty; the last layer needs rows to fit")
    if len(inputs) != len(labels):
        raise InputError(
            f"the last layer was called {len(inputs)} times in {len(labels)} batches, not once each"
        )
    return torch.cat(inputs), np.concatenate(labels), np.concatenate(groups)


def _move(inputs: Any, device: torch.device) -> Any:
    """Move inputs to the device: a tensor, or tensors in lists, tuples and dicts."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, dict):
        return {name: _move(each, device) for name, each in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(_move(each, device) for each in inputs)
    return inputs
