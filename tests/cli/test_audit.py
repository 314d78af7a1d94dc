from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from partialfair import metrics
from partialfair.metrics import fairness_report
from partialfair.metrics.catalogue import report_metrics
from tests.cli.conftest import COLUMNS

FILES = {
    "audit.json",
    "metrics.csv",
    "pairs.csv",
    "rank_curve.png",
    "score_densities.png",
    "unfairness_map.png",
}
BAND = ("--interval", 0.05, 0.45)
CHOICES = (*COLUMNS, "--label", "hired", "--threshold", 0.5, *BAND)


def write_arrow(frame, path):
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "semicolons.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "tabs.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "bars.txt": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "packed.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.to_csv(index=False).encode())),
    "from_excel.csv": lambda frame, path: path.write_text(frame.to_csv(index=False), encoding="utf-8-sig"),
    "ends_in_commas.csv": lambda frame, path: path.write_text(frame.to_csv(index=False).replace("\n", ",\n")),
    "UPPER.CSV": lambda frame, path: frame.to_csv(path, index=False),
    "table.parquet": lambda frame, path: frame.to_parquet(path),
    "table.feather": lambda frame, path: frame.to_feather(path),
    "table.arrow": write_arrow,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_numbers(run, people, scores, tmp_path, name):
    WRITERS[name](people, tmp_path / name)
    columns = (*CHOICES, "--group", "code", "--weight", "weight", "--json")
    expected, found = (run("audit", path, *columns).json for path in (scores, name))
    assert found.pop("file") == name
    assert expected.pop("file") == str(scores)
    assert found == expected


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize(("pos_label", "rank_within"), [("yes", "group"), ("no", "group_and_label")])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_the_numbers_are_those_of_the_metrics(run, people, scores, gap_scale, rank_within, pos_label, weight):
    options = ["--pos-label", pos_label, "--gap-scale", gap_scale]
    options += ["--rank-within", rank_within, *([] if weight is None else ["--weight", weight])]
    found = run("audit", scores, *CHOICES, *options, "--json").json
    arrays = (people["hired"], people["score"])
    shared = {
        "sensitive_features": people["sex"],
        "sample_weight": None if weight is None else people[weight],
    }
    band = {**shared, "interval": (0.05, 0.45)}
    scaled = {**band, "gap_scale": gap_scale}
    labelled = {**scaled, "threshold": 0.5, "pos_label": pos_label, "rank_within": rank_within}
    expected = {
        "statistical_parity": metrics.partial_statistical_parity_difference(*arrays, **scaled),
        "demographic_parity": metrics.partial_demographic_parity_difference(*arrays, threshold=0.5, **scaled),
        "group_auc": metrics.partial_group_auc_difference(*arrays, **band),
        "equal_opportunity": metrics.partial_equal_opportunity_difference(*arrays, **labelled),
        "equalized_odds": metrics.partial_equalized_odds_difference(*arrays, **labelled),
        "inter_group_pairwise": metrics.inter_group_pairwise_difference(
            *arrays, pos_label=pos_label, **shared
        ),
        "intra_group_pairwise": metrics.intra_group_pairwise_difference(
            *arrays, pos_label=pos_label, **shared
        ),
    }
    assert {name: row["gap"] for name, row in found["metrics"].items()} == pytest.approx(expected)
    assert all(row["ci_low"] <= row["gap"] <= row["ci_high"] for row in found["metrics"].values())
    assert (found["gap_scale"], found["pos_label"], found["omitted"]) == (gap_scale, pos_label, {})
    assert {group["group"] for group in found["groups"]} == set("fm")


def test_without_labels_and_threshold_the_metrics_that_need_them_are_left_out_with_the_reason(run, scores):
    found = run("audit", scores, *COLUMNS, "--json").json
    assert set(found["metrics"]) == {"statistical_parity", "group_auc"}
    assert found["omitted"]["equal_opportunity"] == "needs labels and a threshold"
    assert found["pos_label"] is None
    # One line for all that lack the same.
    said = " ".join(run("audit", scores, *COLUMNS).out.split())
    assert "(needs labels and a threshold): equal opportunity (pEOP) and equalized odds (pEOD)" in said


def test_where_the_worst_pair_differs_is_explained(run, scores):
    arguments = ("audit", scores, *COLUMNS, "--label", "hired", "--threshold", 0.5, *BAND)
    lines = run(*arguments).out.splitlines()
    (head,) = [line for line in lines if line.startswith("metric")]
    assert head.split("  ")[-2:] == ["at score", "proportion above"]
    row = run(*arguments, "--json").json["metrics"]["statistical_parity"]
    (line,) = [line for line in lines if line.startswith("statistical parity (pSP)  ")]
    above = " / ".join(f"{100 * rank:.1f}%" for rank in row["ranks_from_top"])
    assert line.rstrip().endswith(f"{row['at_score']:.4g}  {above}")
    assert "“at score”: the score at which the worst pair differs most" in " ".join(" ".join(lines).split())


def test_the_table_says_what_was_measured(run, scores):
    outcome = run("audit", scores, *COLUMNS, "--label", "hired", "--threshold", 0.5, "--interval", 0.05, 0.3)
    shown = " ".join(outcome.out.split())
    for text in (
        "ranks 5–30% from the top (score percentiles 70–95); gaps on the interval scale; positive label: ",
        "statistical parity (pSP)",
        "95% interval",
        "group members in the interval tied scores",
        "Of the members there, ",
        "band, simultaneous for all 210 intervals",
    ):
        assert text in shown
    assert outcome.code == 0
    assert outcome.err == ""


def test_on_the_absolute_scale_the_sentence_is_about_thresholds(run, scores):
    shown = " ".join(run("audit", scores, *COLUMNS, *BAND, "--gap-scale", "absolute").out.split())
    assert "differ" in shown or "worse off" in shown
    assert "Of all members, " in shown


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_equal_scores_are_told_without_made_up_thresholds(run, people, scores, gap_scale):
    people.assign(score=0.5).to_csv(scores, index=False)
    outcome = run("audit", scores, *COLUMNS, *BAND, "--gap-scale", gap_scale)
    assert "no threshold separates the groups: a gap of 0.000" in " ".join(outcome.out.split())
    assert "inf" not in outcome.out.replace("interval", "")
    assert "100.0%" in outcome.out  # tied


def test_few_members_are_noted(run, people, scores):
    people.head(100).to_csv(scores, index=False)
    outcome = run("audit", scores, *COLUMNS, *BAND)
    assert "note: few in the interval: 'f' (about " in outcome.out
    (note,) = run("audit", scores, *COLUMNS, *BAND, "--json").json["notes"]
    assert "'m' (about " in note
    assert "mostly noise" in note
    assert run("audit", scores, *COLUMNS, "--weight", "weight", *BAND, "--json").json["notes"]


def test_bare_codes_are_named_by_their_column(run, scores):
    found = run("audit", scores, "--score", "score", "--group", "code", "--json").json
    assert [group["group"] for group in found["groups"]] == ["code=0", "code=1"]


def test_a_group_column_named_twice_counts_once(run, scores):
    once, twice = (run("audit", scores, *COLUMNS, *more, "--json").out for more in ([], ["--group", "sex"]))
    assert once == twice


@pytest.mark.parametrize(
    ("groups", "expected"),
    [("NA nan", ["NA", "nan"]), ("01 1", ["sex=01", "sex=1"]), ("1e3 x", ["1e3", "x"])],
)
def test_groups_are_read_as_written(run, people, scores, groups, expected):
    people.assign(sex=np.resize(groups.split(), len(people))).to_csv(scores, index=False)
    found = run("audit", scores, *COLUMNS, "--json").json
    assert [group["group"] for group in found["groups"]] == expected


def test_the_seed_decides_the_intervals_and_nothing_else(run, scores):
    first, again, other = (run("audit", scores, *COLUMNS, "--json", "--seed", s).json for s in (3, 3, 4))
    assert first == again
    rows = [found["metrics"]["statistical_parity"] for found in (first, other)]
    assert rows[0]["gap"] == rows[1]["gap"]
    assert rows[0]["ci_high"] != rows[1]["ci_high"]


class TestGate:
    @pytest.mark.parametrize("metric", ["statistical_parity", "group_auc", "equalized_odds"])
    def test_it_fails_only_above_the_limit(self, run, scores, metric):
        value = run("audit", scores, *CHOICES, "--json").json["metrics"][metric]["gap"]
        for limit, passed in ((1.0, True), (value, True), (0.99 * value, False), (0.0, False)):
            options = ("--fail-metric", metric, "--fail-above", limit, "--json")
            outcome = run("audit", scores, *CHOICES, *options)
            assert outcome.code == (0 if passed else 1)
            gate = outcome.json["gate"]
            assert (gate["metric"], gate["limit"], gate["passed"]) == (metric, limit, passed)
            assert 0 <= gate["p_value"] <= 1

    @pytest.mark.parametrize(("limit", "verdict"), [(0.01, "FAIL"), (0.99, "pass")])
    def test_the_verdict_is_printed(self, run, scores, limit, verdict):
        shown = run("audit", scores, *COLUMNS, "--fail-above", limit).out
        assert f"limit {limit}: {verdict} (p = " in shown

    def test_a_gap_of_too_few_people_is_refused(self, run, people, scores):
        people.assign(hired=np.where((people["sex"] == "f") | (people["score"] < 0), 0, 1)).to_csv(
            scores, index=False
        )
        gate = ("--fail-metric", "equal_opportunity", "--fail-above", 1)
        run("audit", scores, *CHOICES, *gate, "--json").assert_refused(
            "--fail-metric equal_opportunity compares groups with at least 10 effective positives", "only 1"
        )


def test_a_gate_on_a_metric_that_is_not_evaluated_says_so_and_fails(run, scores):
    options = ("--threshold", 50, *BAND, "--fail-metric", "demographic_parity", "--fail-above", 0.1)
    outcome = run("audit", scores, *COLUMNS, *options)
    said = " ".join(outcome.out.split())
    assert outcome.code == 1
    assert "demographic parity (pDP) n/a (threshold outside the interval)" in said
    assert "gap n/a (threshold outside the interval), limit 0.1: NOT EVALUATED" in said
    record = run("audit", scores, *COLUMNS, *options, "--json").json
    assert record["metrics"]["demographic_parity"]["gap"] is None
    assert record["metrics"]["demographic_parity"]["reason"] == "n/a (threshold outside the interval)"
    assert record["metrics"]["statistical_parity"]["reason"] is None
    assert record["gate"]["passed"] is None
    assert record["gate"]["reason"] == "threshold outside the interval"


@pytest.mark.usefixtures("painted")
def test_out_writes_the_promised_files(run, scores, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    options = (*CHOICES, "--fail-above", 0.01)
    outcome = run("audit", scores, *options, "--out", tmp_path / "deep" / "out")
    out = tmp_path / "deep" / "out"
    assert outcome.code == 1
    assert {path.name for path in out.iterdir()} == FILES
    assert f"written to {out}: " in outcome.out
    text = (out / "audit.json").read_text(encoding="utf-8")
    record = json.loads(text, parse_constant=pytest.fail)
    assert record["schema"] == "partialfair.audit/1"
    assert {*record.pop("files")} == FILES - {"audit.json"}
    assert record == run("audit", scores, *options, "--json").json
    table = pd.read_csv(out / "metrics.csv", index_col="metric")
    assert table["gap"].to_dict() == {
        name: pytest.approx(row["gap"]) for name, row in record["metrics"].items()
    }
    for picture in out.glob("*.png"):
        pixels = image.imread(picture)[::3, ::3, :3]
        assert min(pixels.shape[:2]) > 100
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_out_beside_json_prints_nothing_but_json(run, scores, tmp_path):
    assert run("audit", scores, *COLUMNS, "--json", "--out", "out").json["schema"] == "partialfair.audit/1"
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


@pytest.mark.parametrize(("threshold", "rows"), [(-50, "every row"), (50, "no row")])
def test_a_threshold_outside_the_interval_is_pointed_out(run, scores, threshold, rows):
    notes = run("audit", scores, *COLUMNS, "--threshold", threshold, *BAND, "--json").json["notes"]
    assert any(
        f"the threshold {threshold} has rank" in note and f"{rows} inside is selected" in note
        for note in notes
    )
    notes = run("audit", scores, *COLUMNS, "--threshold", 0.5, *BAND, "--json").json["notes"]
    assert not any("inside is selected" in note for note in notes)


def test_the_audited_interval_wins_ties_for_the_widest(run, scores):
    widest = run("audit", scores, *COLUMNS, "--json").json["largest_gap"]["interval"]
    words = " ".join(run("audit", scores, *COLUMNS, "--interval", *widest).out.split())
    assert "No other interval of 25% of the ranks has a larger gap" in words
    words = " ".join(run("audit", scores, *COLUMNS, *BAND).out.split())
    assert "The largest gap of any interval of 25% of the ranks is" in words


def test_intervals_by_group_are_both_named(run, scores):
    intervals = ("--interval", "f=0.1", 0.2, "--interval", "m=0.1", 0.3)
    shown = " ".join(run("audit", scores, *COLUMNS, *intervals).out.split())
    ranks = {"f": "ranks 10–20% from the top (score percentiles 80–90) of f"}
    ranks["m"] = "ranks 10–30% from the top (score percentiles 70–90) of m"
    assert any(f"Among {ranks[a]} and {ranks[b]}, " in shown for a, b in ("fm", "mf"))


def test_intervals_of_crossed_groups_are_named_as_groups_are(run, scores):
    names = [f"{sex} × {age}" for sex in "fm" for age in ("old", "young")]
    intervals = [word for name in names for word in ("--interval", f"{name}=0.1 0.6")]
    options = (*COLUMNS, "--group", "age", *intervals)
    assert set(run("audit", scores, *options, "--json").json["interval"]) == {*names}
    assert "f × old: ranks 10–60%" in run("audit", scores, *options).out


def test_the_verdict_comes_first(run, scores):
    out = run("audit", scores, *COLUMNS, *BAND).out
    lines = [line for line in out.splitlines() if line]
    headline = next(
        place for place, line in enumerate(lines) if line.startswith("Gap detected: f is worse off")
    )
    assert headline < next(place for place, line in enumerate(lines) if line.startswith("metric"))
    assert "It may be claimed with 95% confidence" in out
    assert "At most:" not in out  # one pair of limits; the others are in the record


class TestMemo:
    def test_it_is_the_summary_of_the_report(self, run, people, scores, tmp_path):
        outcome = run("audit", scores, *COLUMNS, *BAND, "--memo", "audit.md")
        assert outcome.code == 0
        assert "paragraph for a memo: audit.md" in outcome.out
        memo = (tmp_path / "audit.md").read_text(encoding="utf-8")
        report = fairness_report(
            None,
            people["score"],
            sensitive_features=people["sex"],
            interval=BAND[1:],
            n_resamples=100,
            random_state=0,
            metrics=report_metrics(),
        )
        assert memo == f"Audit of scores.csv: {report.summary()}\n"
        assert memo.count("\n") == 1

    def test_a_chosen_interval_is_said_to_be(self, run, scores, tmp_path):
        run("audit", scores, *COLUMNS, "--label", "hired", "--interval", "auto", "--memo", "audit.md")
        assert "are not corrected for this choice" in (tmp_path / "audit.md").read_text(encoding="utf-8")

    def test_it_is_written_with_all_the_rest(self, run, scores, tmp_path):
        assert run("audit", scores, *COLUMNS, *BAND, "--out", "out", "--memo", "out/audit.txt").code == 0
        record = json.loads((tmp_path / "out" / "audit.json").read_text())
        assert "audit.txt" in record["files"]

    @pytest.mark.parametrize(
        ("memo", "words"),
        [
            ("audit.html", "--memo must name an .md file, not audit.html"),
            ("none/audit.md", "--memo none/audit.md cannot be written: there is no directory none"),
            ("scores.csv", "--memo must name an .md file"),
        ],
    )
    def test_what_cannot_be_one_is_refused(self, run, scores, memo, words):
        run("audit", scores, *COLUMNS, *BAND, "--memo", memo).assert_refused(words)
