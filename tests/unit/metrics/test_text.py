"""Numbers as people read them."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair.data.intervals import span_text
from partialfair.utils.text import fixed, percent, short_percent


@pytest.mark.parametrize("value", [0.4065, 0.0625, 0.1875, 0.2995, 0.9995])
def test_the_last_bits_do_not_decide(value):
    assert len({fixed(near) for near in (value, np.nextafter(value, 2), np.nextafter(value, 0))}) == 1


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-17])
def test_there_is_no_minus_before_zero(value):
    assert fixed(value) == "0.000"
    assert percent(value) == "0.0%"


def test_other_numbers_are_rounded_to_the_nearest():
    for value in np.random.default_rng(0).random(1000):
        assert float(fixed(value)) == pytest.approx(value, abs=5e-4)
        assert percent(value) == f"{100 * value:.1f}%"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.95, "95%"), (1, "100%"), (0, "0%"), (-0.0, "0%"), (0.125, "12.5%"), (1 / 3, "33.33%"), (0.29, "29%")],
)
def test_percents_have_as_many_digits_as_they_need(fraction, text):
    assert short_percent(fraction) == text


def test_a_confidence_below_1_is_not_written_as_certain():
    assert short_percent(0.99999) == "99.999%"
    assert short_percent(1 - 1e-16) == "100%"  # rounding


def test_ends_of_an_interval_share_one_sign():
    assert span_text(0.05, 0.3) == "5–30%"
    assert span_text(0.0, 0.125) == "0–12.5%"
