"""Numbers as people read them."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair.utils.text import fixed, percent


@pytest.mark.parametrize("value", [0.4065, 0.0625, 0.1875, 0.2995, 0.9995])
def test_the_last_bits_do_not_decide(value):
    assert len({fixed(near) for near in (value, np.nextafter(value, 2), np.nextafter(value, 0))}) == 1


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-17])
def test_there_is_no_minus_before_zero(value):
    assert fixed(value) == "0.000"
    assert percent(value) == "0.0 %"


def test_other_numbers_are_rounded_to_the_nearest():
    for value in np.random.default_rng(0).random(1000):
        assert float(fixed(value)) == pytest.approx(value, abs=5e-4)
        assert percent(value) == f"{100 * value:.1f} %"
