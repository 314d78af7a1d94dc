"""What an audit claims of its gaps: bounds, gates on them, gaps of all pairs, and rows of one person."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from partialfair import metrics
from tests.cli.conftest import COLUMNS

BAND = ("--interval", 0.05, 0.45)
CHOICES = (*COLUMNS, "--label", "hired", "--threshold", 0.5, *BAND)
CROSSED = (*CHOICES, "--group", "age")


def line_of(run, scores, metric, *options):
    return run("audit", scores, *CHOICES, *options, "--json").json["metrics"][metric]


class TestGate:
    @pytest.mark.parametrize("metric", ["statistical_parity", "demographic_parity"])
    @pytest.mark.parametrize(
        ("fail_on", "decided_by"),
        [("estimate", "gap"), ("exceeds", "lower_bound"), ("inconclusive", "upper_bound")],
    )
    def test_one_number_decides(self, run, scores, metric, fail_on, decided_by):
        line = line_of(run, scores, metric)
        assert (
            0 < line["ci_low"] < line["lower_bound"] < line["gap"] < line["upper_bound"] < line["ci_high"] < 1
        )
        options = (*CHOICES, "--fail-metric", metric, "--fail-on", fail_on)
        for number in ("lower_bound", "gap", "upper_bound"):
            for limit in (0.999 * line[number], line[number], 1.001 * line[number]):
                outcome = run("audit", scores, *options, "--fail-above", limit, "--json")
                gate, passed = outcome.json["gate"], line[decided_by] <= limit
                assert outcome.code == (0 if passed else 1)
                assert (gate["fail_on"], gate["decided_by"], gate["passed"]) == (fail_on, decided_by, passed)
                assert gate["decisive_value"] == line[decided_by]
                assert 0 <= gate["p_value"] <= 1

    def test_the_bounds_follow_the_confidence(self, run, scores):
        unsure, sure = (line_of(run, scores, "statistical_parity", "--confidence", p) for p in (0.6, 0.95))
        assert sure["lower_bound"] < unsure["lower_bound"]
        assert unsure["upper_bound"] < sure["upper_bound"]

    @pytest.mark.parametrize(
        ("fail_on", "limit", "words"),
        [
            ("exceeds", 0.01, "FAIL, above the limit with this confidence (p = "),
            ("exceeds", 0.99, "pass, not above the limit with this confidence (p = "),
            ("inconclusive", 0.01, "FAIL, not within the limit with this confidence (p = "),
            ("inconclusive", 0.99, "pass, within the limit with this confidence (p = "),
        ],
    )
    def test_the_verdict_says_what_decided(self, run, scores, fail_on, limit, words):
        line = line_of(run, scores, "statistical_parity")
        outcome = run("audit", scores, *CHOICES, "--fail-above", limit, "--fail-on", fail_on)
        shown = " ".join(outcome.out.split())
        side = {"exceeds": "lower bound", "inconclusive": "upper bound"}[fail_on]
        number = line[{"exceeds": "lower_bound", "inconclusive": "upper_bound"}[fail_on]]
        bound = f"{side} {number:.3f} with 95% confidence"
        gap = f"gate (--fail-on {fail_on}): statistical parity (pSP) gap {line['gap']:.3f}"
        assert f"{gap}, {bound}, limit {limit}: {words}" in shown

    @pytest.mark.parametrize("fail_on", ["estimate", "exceeds", "inconclusive"])
    def test_an_undefined_gap_does_not_pass(self, run, people, scores, fail_on):
        people.assign(hired=np.where(people["sex"] == "f", "no", people["hired"])).to_csv(scores, index=False)
        gate = ("--fail-metric", "equal_opportunity", "--fail-above", 1, "--fail-on", fail_on)
        outcome = run("audit", scores, *CHOICES, "--small-groups", "keep", *gate)
        assert outcome.code == 1
        assert "equal opportunity (pEOP) gap undefined, limit 1: FAIL\n" in outcome.out

    def test_it_needs_a_limit(self, run, scores):
        words = "--fail-on says when --fail-above fails: give --fail-above as well"
        run("audit", scores, *COLUMNS, "--fail-on", "estimate").assert_refused(words)
        run("audit", scores, *COLUMNS, "--fail-above", 0.1, "--fail-on", "luck").assert_refused("luck")

    @pytest.mark.usefixtures("no_fits")
    def test_of_training_rows_bounds_decide_nothing(self, run, scores):
        train = (
            "train",
            scores,
            "--target",
            "hired",
            "--group",
            "sex",
            "--drop",
            "person",
            *BAND,
            "--out",
            "out",
        )
        gate = ("--fail-above", 0.1, "--fail-on", "inconclusive")
        run(*train, *gate, "--test-size", 0).assert_refused(
            "--fail-on inconclusive", "--test-size must be above 0"
        )
        run(*train, "--fail-on", "exceeds").assert_refused("give --fail-above as well")

    def test_train_has_it_too(self, run, scores):
        train = ("train", scores, "--target", "hired", "--group", "sex", "--drop", "person", "--out", "out")
        gate = ("--constraint", "none", "--fail-above", 0.3, "--fail-on", "inconclusive", "--json")
        outcome = run(*train, *gate)
        line = outcome.json["models"]["without a constraint"]["held out"]["metrics"]["statistical_parity"]
        assert outcome.json["gate"]["decisive_value"] == line["upper_bound"]
        assert outcome.code == (0 if line["upper_bound"] <= 0.3 else 1)


class TestPairs:
    def test_each_is_the_gap_of_two_groups_alone(self, run, people, scores):
        found = run("audit", scores, *CROSSED, "--json").json["metrics"]
        crossed = people["sex"] + " × " + people["age"]
        names = sorted(set(crossed))
        for line in found.values():
            pairs = line["pairs"]
            assert {frozenset(pair["groups"]) for pair in pairs} == {*map(frozenset, combinations(names, 2))}
            assert len(pairs) == 6
            values = [pair["gap"] for pair in pairs]
            assert values == sorted(values, reverse=True)
            assert values[0] == pytest.approx(line["gap"])
            assert {*pairs[0]["groups"]} == {*line["worst_pair"]}
            assert pairs[0]["among"] == line["among"]
            assert all(pair["ci_low"] <= pair["gap"] <= pair["ci_high"] for pair in pairs)
        for pair in found["statistical_parity"]["pairs"]:
            rows = crossed.isin(pair["groups"])
            alone = metrics.partial_statistical_parity_difference(
                None, people["score"][rows], sensitive_features=crossed[rows], interval=(0.05, 0.45)
            )
            assert pair["gap"] == pytest.approx(alone)
        for pair in found["equalized_odds"]["pairs"]:
            rows = crossed.isin(pair["groups"])
            by_label = {
                kind: metrics.partial_equal_opportunity_difference(
                    people["hired"][rows],
                    people["score"][rows],
                    sensitive_features=crossed[rows],
                    interval=(0.05, 0.45),
                    threshold=0.5,
                    pos_label=label,
                )
                for kind, label in (("positives", "yes"), ("negatives", "no"))
            }
            assert pair["among"] == max(by_label, key=by_label.__getitem__)
            assert pair["gap"] == pytest.approx(by_label[pair["among"]])

    def test_only_equalized_odds_compares_both_labels(self, run, scores):
        found = run("audit", scores, *CHOICES, "--json").json["metrics"]
        among = {name: line["among"] for name, line in found.items()}
        assert among.pop("equalized_odds") in ("positives", "negatives")
        assert {*among.values()} == {None}

    def test_their_file_has_them_all(self, run, scores, tmp_path):
        found = run("audit", scores, *CROSSED, "--json", "--out", "out").json["metrics"]
        table = pd.read_csv(tmp_path / "out" / "pairs.csv", keep_default_na=False)
        written = [
            (
                line.metric,
                [line.group_a, line.group_b],
                line.gap,
                line.ci_low,
                line.ci_high,
                line.among or None,
            )
            for line in table.itertuples()
        ]
        assert written == [
            (name, pair["groups"], pair["gap"], pair["ci_low"], pair["ci_high"], pair["among"])
            for name, line in found.items()
            for pair in line["pairs"]
        ]
        lines = pd.read_csv(tmp_path / "out" / "metrics.csv", index_col="metric")
        for bound in ("lower_bound", "upper_bound"):
            assert lines[bound].to_dict() == {name: line[bound] for name, line in found.items()}

    def test_compare_and_train_have_them(self, run, scores):
        compared = run("compare", scores, scores, *CROSSED, "--json").json["models"]
        assert [len(model["metrics"]["group_auc"]["pairs"]) for model in compared] == [6, 6]
        train = ("train", scores, "--target", "hired", "--group", "sex", "--drop", "person", "--json")
        parts = run(*train, "--constraint", "none").json["models"]["without a constraint"]
        assert len(parts["held out"]["metrics"]["group_auc"]["pairs"]) == 1
        assert "pairs" not in parts["training"]["metrics"]["group_auc"]

    def test_the_widest_are_printed_with_what_they_claim(self, run, scores):
        gaps = run("audit", scores, *CROSSED, "--json").json["metrics"]
        for gate, metric, title in (
            ([], "statistical_parity", "statistical parity (pSP)"),
            (["--fail-above", 1, "--fail-metric", "group_auc"], "group_auc", "group AUC (pGAUC)"),
        ):
            shown = run("audit", scores, *CROSSED, *gate).out
            table = shown.split(f"The 5 largest gaps of 6 pairs by {title}:\n")[1].splitlines()
            for line, pair in zip(table[1:6], gaps[metric]["pairs"], strict=False):
                assert line.split("  ")[0] == " / ".join(pair["groups"])
                assert f"{pair['gap']:.3f}  {pair['ci_low']:.3f} – {pair['ci_high']:.3f}" in line
            assert "95% interval, this pair alone" in table[0]
            assert table[6].startswith(
                "The confidence interval of a pair is valid if the pair was chosen in advance"
            )
        of_two = run("audit", scores, *CHOICES).out
        assert "pairs by" not in of_two
        assert "this pair alone" not in of_two

    def test_who_drives_equalized_odds_is_printed(self, run, scores):
        among = line_of(run, scores, "equalized_odds")["among"]
        (line,) = [
            line
            for line in run("audit", scores, *CHOICES).out.splitlines()
            if line.startswith("equalized odds")
        ]
        assert f"among {among}" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            CHOICES,
            "Each interval by itself holds with 95% confidence; all 7 hold simultaneously with at least 65% "
            "confidence.",
        ),
        (
            (*CHOICES, "--confidence", 0.9),
            "with 90% confidence; all 7 hold simultaneously with at least 30% confidence.",
        ),
        (
            (*CHOICES, "--confidence", 0.8),
            "Each interval by itself holds with 80% confidence.",
        ),  # 1 − 7 · .2 < 0
    ],
)
def test_how_sure_all_lines_are_at_once(run, scores, options, words):
    assert words in " ".join(run("audit", scores, *options).out.split())


class TestClusters:
    COPIES = 5

    @pytest.fixture
    def repeated(self, people, tmp_path):
        """Everybody five times: as many rows say no more than one."""
        rows = pd.concat([people] * self.COPIES, ignore_index=True)
        rows.sample(frac=1, random_state=0).to_csv(tmp_path / "repeated.csv", index=False)
        return "repeated.csv"

    def test_rows_of_one_person_count_as_one(self, run, scores, repeated):
        once, many = (line_of(run, file, "statistical_parity") for file in (scores, repeated))
        found = run("audit", repeated, *CHOICES, "--clusters", "person", "--json").json
        together = found["metrics"]["statistical_parity"]
        assert found["clusters"] == {"column": "person", "n": 600}
        assert together["gap"] == pytest.approx(once["gap"])
        width, alone, wrong = (line["ci_high"] - line["ci_low"] for line in (together, once, many))
        assert width == pytest.approx(alone, rel=0.25)
        assert wrong < 0.7 * width
        shown = " ".join(run("audit", repeated, *CHOICES, "--clusters", "person").out.split())
        assert "600 clusters of rows by person" in shown

    def test_compare_takes_those_of_the_first_file(self, run, people, repeated, tmp_path):
        pd.read_csv(repeated).assign(person="nobody").to_csv(tmp_path / "new.csv", index=False)
        options = (*CHOICES, "--clusters", "person", "--json")
        outcome = run("compare", repeated, "new.csv", *options).json
        assert outcome["clusters"] == {"column": "person", "n": 600}
        expected = run("audit", repeated, *options).json["metrics"]
        assert [model["metrics"] for model in outcome["models"]] == [expected, expected]

    def test_names_are_read_as_they_are_written(self, run, people, scores):
        people.assign(person=np.resize(["01", "1", "NA", "nan"], len(people))).to_csv(scores, index=False)
        assert run("audit", scores, *COLUMNS, "--clusters", "person", "--min-group-size", 1, "--json").json[
            "clusters"
        ] == {"column": "person", "n": 4}

    def test_a_row_of_nobody_is_refused(self, run, people, scores):
        people.assign(person=people["person"].where(people.index != 6)).to_csv(scores, index=False)
        words = f"column 'person' of {scores} has an empty cell in data row 7"
        run("audit", scores, *COLUMNS, "--clusters", "person").assert_refused(words)
        run("compare", scores, scores, *COLUMNS, "--clusters", "person").assert_refused(words)
        run("audit", scores, *COLUMNS, "--clusters", "absent").assert_refused("'absent'")


@pytest.mark.parametrize(
    ("column", "labels", "options", "doubted"),
    [
        ("default", (0, 1), ("--lower-is-better",), True),
        ("outcome", ("repaid", "defaulted"), ("--lower-is-better", "--pos-label", "repaid"), False),
        ("outcome", ("clean", "fraud"), ("--lower-is-better",), True),
        ("two_year_recid", (0, 1), ("--lower-is-better", "--pos-label", 1), False),
        ("default", (0, 1), (), False),
        ("hired", (0, 1), ("--lower-is-better",), False),
    ],
)
def test_a_bad_outcome_as_the_positive_label_is_doubted(
    run, people, tmp_path, column, labels, options, doubted
):
    table = people.assign(**{column: np.where(people["hired"] == "yes", labels[1], labels[0])})
    table.to_csv(tmp_path / "t.csv", index=False)
    notes = run("audit", "t.csv", *COLUMNS, *BAND, "--label", column, *options, "--json").json["notes"]
    asked = [note for note in notes if "is a bad outcome" in note]
    assert len(asked) == doubted
    if doubted:
        assert asked[0].endswith(f"--pos-label {labels[0]}")
