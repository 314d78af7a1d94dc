"""Storage of objects whose settings may be mappings, in pickles, copies and model files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pairs:
    """A mapping as its keys and values: keys may be tuples or booleans, which JSON would lose."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]


class StoredAsPairs:
    """Mixin: attributes that are mappings are stored as `Pairs` and come back as dictionaries."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        # Lists and tuples are stored unchanged.
        return {
            name: Pairs(tuple(value.keys()), tuple(value.values())) if isinstance(value, Mapping) else value
            for name, value in (state or {}).items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        restored = {
            name: dict(zip(value.keys, value.values, strict=True)) if isinstance(value, Pairs) else value
            for name, value in state.items()
        }
        # scikit-learn's estimators have one, which checks versions; frozen dataclasses have none.
        getattr(super(), "__setstate__", self.__dict__.update)(restored)
