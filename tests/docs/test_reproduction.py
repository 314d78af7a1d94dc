"""The pages of the reproduction are what the generator writes of the numbers that they show."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from partialfair import __version__
from partialfair_paper import report
from partialfair_paper.claims import Answer, compare_ends, rank_worst, verdicts
from partialfair_paper.published import CLAIMS, DATASETS
from partialfair_paper.store import Store
from partialfair_paper.target import Scope
from partialfair_paper.targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction.md").read_text()
FINDING = r"(?m)^- (.+?): \*\*(.+?)\*\*; (.*)$"


def rows_of(name):
    """The table of a figure or table on the page."""
    section = re.split(r"\n## ", PAGE[PAGE.index(f"\n## {name}:") + 1 :])[0]
    lines = [
        [cell.strip() for cell in line[1:-1].split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def findings_of(where):
    """What the page says of a claim, by data set: the answer and why."""
    (block,) = [part for part in re.split(r"(?m)^(?=\*\*)", PAGE) if f"({where})" in part.splitlines()[0]]
    return {name: (answer, why) for name, answer, why in re.findall(FINDING, block)}


def test_the_page_begins_as_the_generator_writes():
    trained = {}
    for row in rows_of("fig1"):
        if row["protocol"] == "paper":
            labels = trained.setdefault(row["dataset"], {}).setdefault(row["fairness of"], [])
            labels += [] if row["method"] in labels else [row["method"]]
    title, _, trainers, heading, remarks, claims = PAGE.split("\n\n")[:6]
    assert title == "# Results"
    assert (heading, claims) == ("## How to read it", "## The paper's claims")
    assert trainers == f"**{report.write_trainers(trained)}**"
    assert "in full only on law_school (" in trainers
    assert remarks == report._bullets(report._remarks(Scope((*DATASETS, "acs_income"))))


def test_all_answers_are_in_the_generators_words():
    """Of every claim, on every data set; that it is nowhere lower shows nothing higher."""
    on_page = [claim for claim in CLAIMS if f"**{claim.sentence}** ({claim.where})" in PAGE]
    assert {claim.name for claim in CLAIMS} - {claim.name for claim in on_page} == {
        "networks-partial",
        "networks-points",
    }
    lines = re.findall(FINDING, PAGE)
    assert len(lines) == 31
    for _, answer, why in lines:
        assert answer in {one.value for one in Answer}
        assert (answer == "not worse") == why.startswith("nowhere less accurate")


@pytest.mark.parametrize("name", ["10", "11"])
def test_ends_of_idca_and_ssg_are_evaluated_by_the_rule(name):
    found = findings_of(f"Section G.7, Figure {name}")
    assert set(found) == set(DATASETS)
    for dataset in DATASETS:
        idca, ssg = (
            (float(row["objective"]), float(row["infeasibility"]))
            for method in ("partial parity by IDCA", "SSG, directly")
            for row in rows_of(f"fig{name}")
            if (row["dataset"], row["method"]) == (dataset, method)
        )
        better = {("10", "law_school"): "IDCA", ("11", "bank"): "SSG"}.get((name, dataset))
        answer, why = compare_ends(idca, ssg, better=better)
        assert found[dataset] == (answer.value, why)


def test_the_worst_intervals_are_ranked_by_the_rule():
    found = findings_of("Section G.6, Figure 9")
    assert set(found) == set(DATASETS)
    for dataset, (answer, why) in found.items():
        worst = {}
        for row in rows_of("fig9"):
            if row["dataset"] == dataset:
                value, error = map(float, row["fairness"].split(" ± "))
                worst[row["method"]] = min(worst.get(row["method"], (2.0, 0.0)), (value, error))
        ours = worst.pop("partial parity")
        low = re.findall(r"([^;:]+?) [0-9.]+ or more [^;]*too low to compare", why)
        others = {name: value for name, (value, _) in worst.items() if name not in map(str.strip, low)}
        expected, ties = rank_worst(*ours, others)
        assert answer == expected.value
        assert why.startswith(f"tied with {', '.join(ties)}: ") == bool(ties)


def test_no_gain_within_two_standard_errors_is_superior():
    for dataset, (answer, why) in findings_of("Section G.10, Table 3").items():
        gain, error = map(float, re.search(r"([+-][0-9.]+) ± ([0-9.]+)", why).groups())
        if dataset != "a9a":
            surely = "holds" if gain > 0 else "does not hold"
            assert answer == ("comparable" if abs(gain) <= 2 * error else surely)


def test_the_page_of_faces_is_what_the_generator_writes(tmp_path):
    """Every word and number of it, from the record of networks."""
    path = ROOT / "benchmarks" / "celeba.py"
    spec = importlib.util.spec_from_file_location("celeba_benchmark", path)
    sys.path.insert(0, str(path.parent))
    try:
        benchmark = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(benchmark)
        benchmark.put_into_store(tmp_path / "store")
    finally:
        sys.path.remove(str(path.parent))
    store, scope = Store(tmp_path / "store", __version__), Scope(("celeba",))
    found, figure = verdicts(scope, store), TARGETS["fig12"]
    text = report.reproduction_text([figure], scope, store, found, {"fig12": ["fig12"]})
    page = (ROOT / "docs" / "reproduction_faces.md").read_text()
    assert text == page.replace("](images/reproduction/fig12.png)", "](fig12.png)")
