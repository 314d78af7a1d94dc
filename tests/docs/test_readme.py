"""The README: its length, and the figures of its example and its audit, which are computed here."""

import io
import re
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from statistics import mean

import pytest
from sklearn.model_selection import train_test_split

import partialfair
from partialfair import PartialFairClassifier, make_table_pipeline
from partialfair.datasets import load_adult
from partialfair.metrics import fairness_report, partial_statistical_parity_difference

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
ON_ONE_LINE = " ".join(README.split())
(CODE,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
(SHOWN,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)

GAP, ACCURACY = 0.02, 0.002
"""By how much versions of NumPy and scikit-learn may change figures of models that are trained here."""


def numbers_after(words, count):
    """Numbers that follow each other in a sentence, whatever is between them."""
    text = ON_ONE_LINE[ON_ONE_LINE.index(words) :]
    return [float(number) for number in re.findall(r"0\.\d+", text)[:count]]


def test_package_and_citation_say_the_same():
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    citation = (root / "CITATION.cff").read_text()
    description = project["description"]
    assert f"{description}." == partialfair.__doc__.splitlines()[0]
    assert f"partialfair: {description[0].lower()}{description[1:]}" in citation
    assert re.findall(r"^  - ([a-z -]+)$", citation, re.MULTILINE) == project["keywords"]


def test_it_is_read_in_two_minutes():
    prose = re.sub(r"```.*?```|<p>.*?</p>", "", README, flags=re.DOTALL)
    words = [word for word in prose.split() if re.search(r"\w", word)]
    assert len(words) < 700


def test_the_example_prints_what_is_shown():
    assert sum(bool(line.strip()) for line in CODE.splitlines()) <= 12
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(CODE, "README.md", "exec"), {"__name__": "page"})
    line = re.compile(r"(\w+): test gap ([0-9.]+), test accuracy ([0-9.]+)")
    for found, shown in zip(line.findall(printed.getvalue()), line.findall(SHOWN), strict=True):
        assert found[0] == shown[0]
        assert float(found[1]) == pytest.approx(float(shown[1]), abs=GAP)
        assert float(found[2]) == pytest.approx(float(shown[2]), abs=ACCURACY)


def test_the_figure_has_the_gaps_of_the_example():
    described = re.search(r'alt="(.*?)"', README)[1]
    assert re.findall(r"a gap of (0\.\d+)", described) == re.findall(r"test gap (0\.\d+)", SHOWN)


@pytest.mark.slow
def test_the_means_of_five_splits():
    data, means = load_adult(), []
    for constraint in (None, "statistical_parity"):
        model = make_table_pipeline(PartialFairClassifier(constraint, interval=data.interval, max_gap=0.1))
        figures = []
        for seed in range(5):
            split = train_test_split(
                data.X, data.y, data.sensitive_features, test_size=0.4, random_state=seed
            )
            X, X_test, y, y_test, sex, sex_test = split
            scores = model.fit(X, y, partialfairclassifier__sensitive_features=sex).decision_function(X_test)
            gap = partial_statistical_parity_difference(
                None, scores, sensitive_features=sex_test, interval=data.interval
            )
            figures.append((gap, model.score(X_test, y_test)))
        means.append([mean(column) for column in zip(*figures, strict=True)])
    (before, accuracy_before), (after, accuracy_after) = means
    quoted = numbers_after("Over five such splits the mean test gap falls", 4)
    assert [before, after] == pytest.approx(quoted[:2], abs=GAP)
    assert [accuracy_before, accuracy_after] == pytest.approx(quoted[2:], abs=ACCURACY)


def test_the_verdict_of_the_audit():
    data = load_adult()
    report = fairness_report(
        data.y,
        data.historical_score,
        sensitive_features=data.sensitive_features,
        interval=data.interval,
        random_state=0,
    )
    row = report["statistical_parity"]
    value, low, high = numbers_after("The output begins with the verdict", 3)
    assert row.gap == pytest.approx(value, abs=5e-4)
    assert (row.ci_low, row.ci_high) == pytest.approx((low, high), abs=5e-3)
    assert "Female is worse off" in str(report)
