"""What must not become a feature silently: protected attributes, identifiers, and the answer itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS

TRAIN = ("--target", "hired", "--group", "sex", "--interval", 0.05, 0.45, "--max-gap", 0.3)
LEFT_OUT = ("--drop", "person", "--drop", "weight")


@pytest.fixture
def notes_of(run, table, tmp_path):
    """The notes of a training with further columns, and other options."""

    def notes(more: dict[str, object], *options: object) -> list[str]:
        path = tmp_path / "table.csv"
        table.assign(**more).to_csv(path, index=False)
        return run("train", path, *TRAIN, *LEFT_OUT, "--json", "--out", tmp_path / "m", *options).json[
            "notes"
        ]

    return notes


def test_protected_attributes_are_named_once_with_the_options(notes_of, table):
    more = {"MaritalStatus": table["age"], "mileage": table["years"], "ethnic group": table["school"]}
    (note,) = [note for note in notes_of(more) if "protected" in note]
    assert "'age'" in note
    assert note.endswith(": --drop age --drop MaritalStatus --drop 'ethnic group' leaves them out")
    assert "mileage" not in note  # which has "age" in it, but not as a word


def test_the_group_and_columns_left_out_are_not_named(notes_of):
    assert not [note for note in notes_of({}, "--drop", "age") if "protected" in note]


@pytest.mark.parametrize("options", [(), ("--test-size", 0), ("--cv", 3)])
@pytest.mark.parametrize("kind", ["number", "category", "gap"])
def test_a_column_that_holds_the_answer(notes_of, table, kind, options):
    hired = (table["hired"] == "yes").to_numpy()
    noise = np.random.default_rng(1).normal(size=len(table))
    answers = {
        "number": np.where(hired, -9.0, 9.0) + noise,
        "category": np.where(hired, "left", np.where(noise > 0, "stayed", "unknown")),
        "gap": np.where(hired, noise.round(3), np.nan),
    }
    notes = [note for note in notes_of({"end": answers[kind]}, *options) if "almost perfectly" in note]
    (note,) = notes
    assert "column 'end' alone predicts hired" in note
    assert "--drop end" in note


def test_a_good_column_is_no_answer(notes_of, table):
    """An AUC of about 0.95 is what a good score has."""
    hired = (table["hired"] == "yes").to_numpy()
    score = 2.3 * hired + np.random.default_rng(1).normal(size=len(table))
    assert not [note for note in notes_of({"score": score}) if "almost perfectly" in note]


def test_ids_that_repeat_suggest_clusters(notes_of, table):
    rng = np.random.default_rng(0)
    (note,) = [
        note for note in notes_of({"customer_id": rng.integers(0, 400, len(table))}) if "customer_id" in note
    ]
    assert "--clusters customer_id" in note
    assert not [note for note in notes_of({"income": rng.integers(0, 400, len(table))}) if "income" in note]


def test_texts_that_repeat_suggest_clusters(run, table, tmp_path, no_fits):
    path = tmp_path / "table.csv"
    names = [f"n{k}" for k in np.random.default_rng(0).integers(0, 300, len(table))]
    pd.DataFrame(table).assign(client=names).to_csv(path, index=False)
    outcome = run("train", path, *TRAIN, *LEFT_OUT)
    assert "--clusters client if rows of one text belong together" in outcome.err
    assert outcome.code == 2


def test_columns_of_scores_are_not_screened(run, scores):
    """An audit trains nothing: its table may have any columns."""
    assert not run("audit", scores, *COLUMNS, "--json").json["notes"]
