"""How much is checked: a little by `make test`, all of it by `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def examples(quick: int) -> settings:
    """``quick`` examples of a property that takes long to check; ten times as many in `make test-slow`."""
    factor = settings().max_examples // settings.get_profile("default").max_examples
    return settings(max_examples=quick * factor)


def quick_first(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The cases of a parameter: all but the first ``quick`` are slow, as they only say the same once more."""
    return [case if k < quick else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]
