"""What a model says about itself in its metadata: texts, most of them JSON."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from partialfair.data.groups import group_name
from partialfair.onnx._reading import Exported

__all__ = ["facts_of", "settings_of"]


def settings_of(model: Any) -> dict[str, Any]:
    """Return what was asked of a model, and what became of it, where it knows."""
    result: Any = getattr(model, "result_", None)
    told: dict[str, Any] = {}
    if hasattr(result, "constraints"):
        told["constraints"] = [
            {
                "constraint": type(stated).__name__,
                "interval": stated.interval,
                "max_gap": stated.max_gap,
                "gap_scale": stated.gap_scale,
                "training_gap": found.value,
            }
            for stated, found in zip(result.constraints, result.gaps, strict=True)
        ]
    elif hasattr(model, "maps_"):
        told["constraints"] = [
            {
                "constraint": model.constraint,
                "interval": model.interval,
                "max_gap": model.max_gap,
                "gap_scale": model.gap_scale,
                "training_gap": None if result is None else result.gap,
            }
        ]
    if result is not None and result.satisfied is not None:
        told["satisfied"] = bool(result.satisfied)
    groups = getattr(model, "groups_", None)
    if groups is not None:
        told["groups"] = [group_name(label) for label in groups]
    return told


def facts_of(model: Any, held: Exported, *, codes: bool = True) -> dict[str, str]:
    """Return everything that goes into the metadata; what codes stand for where the inputs hold codes."""
    names = held.feature_names
    told = {
        "model": type(model).__name__,
        "partialfair": version("partialfair"),
        **settings_of(model),
        "needs_group": bool(held.scores.group_labels),
    }
    if names:
        told["features"] = list(names)
    if codes and held.scores.categories:
        told["categories"] = {
            names[place] if names else str(place): levels for place, levels in held.scores.categories.items()
        }
    if held.decision is not None:
        told["classes"] = held.decision.classes.tolist()
    return {key: value if isinstance(value, str) else _json(value) for key, value in told.items()}


def _json(value: Any) -> str:
    return json.dumps(_plain(value), default=str, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: mappings with groups for keys get their names."""
    if isinstance(value, dict):
        return {group_name(key): _plain(held) for key, held in value.items()}
    return value
