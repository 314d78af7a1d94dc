"""`make test` draws the same examples every time, whatever ran before and wherever it runs."""

import importlib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

FIXED = settings.get_profile("default")


def drawn():
    """What the default profile draws, of kinds of which Hypothesis collects constants."""
    examples = []

    @settings(FIXED, max_examples=200)
    @given(st.integers(), st.floats())
    def property_of_all(integer, number):
        examples.append((integer, repr(number)))

    property_of_all()
    return examples


def test_no_clock_no_memory_and_no_chance():
    assert FIXED.derandomize
    assert FIXED.deadline is None
    assert FIXED.database is None


def test_examples_do_not_depend_on_what_ran_before(tmp_path, monkeypatch):
    before = drawn()
    random.seed(1)
    constants = ", ".join(str(7**k) for k in range(10, 300))
    (tmp_path / "a_module_of_constants.py").write_text(f"CONSTANTS = [{constants}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("a_module_of_constants")
    assert len(before) == 200
    assert drawn() == before
