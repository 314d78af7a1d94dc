"""A constraint that is registered at runtime is treated like the library's own, wherever one has a name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from partialfair import PartialFairClassifier, PartialFairRegressor, fairness_path, persistence, save_model
from partialfair.constraints import StatisticalParity
from partialfair.constraints.base import Constraint
from partialfair.exceptions import InputError
from partialfair.metrics import fairness_report, partial_demographic_parity_difference
from partialfair.metrics.catalogue import report_metrics
from partialfair.report.pages import audit_page
from partialfair.training.named_constraints import (
    NAMED_CONSTRAINTS,
    NamedConstraint,
    record_of,
    register_constraint,
)
from partialfair_paper.quadratic import QuadraticGroupAUC
from tests.new_constraint import NAME, TITLE, PercentParity, registered

BAND = (0.1, 0.9)


@pytest.fixture(autouse=True)
def known():
    with registered():
        yield


@pytest.fixture(scope="module")
def applicants() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 800
    sex, merit = rng.choice(["f", "m"], n), rng.normal(size=n)
    return pd.DataFrame(
        {
            "sex": sex,
            "test": merit - 0.8 * (sex == "f") + 0.3 * rng.normal(size=n),
            "interview": merit + 0.8 * rng.normal(size=n),
            "hired": np.where(merit + 0.3 * rng.normal(size=n) > 0.1, "yes", "no"),
        }
    )


def features(applicants):
    return applicants[["test", "interview"]].to_numpy(), (applicants["hired"] == "yes").to_numpy()


def percents(model, applicants):
    X, _ = features(applicants)
    return 100 * partial_demographic_parity_difference(
        None, model.decision_function(X), sensitive_features=applicants["sex"], threshold=0.0, interval=BAND
    )


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_an_estimator_keeps_its_exact_promise(applicants):
    X, y = features(applicants)
    clf = PartialFairClassifier(NAME, interval=BAND, max_gap=5).fit(
        X, y, sensitive_features=applicants["sex"]
    )
    assert isinstance(clf.result_.constraints[0], PercentParity)
    assert clf.result_.gap == pytest.approx(percents(clf, applicants))
    assert clf.result_.satisfied
    assert clf.result_.gap <= 5
    free = PartialFairClassifier(None).fit(X, y)
    assert percents(free, applicants) > 10


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
@pytest.mark.parametrize(("by", "n_jobs"), [("name", None), ("object", 2)])
def test_a_path_is_judged_by_its_metric(applicants, by, n_jobs):
    X, y = features(applicants)
    stated = {"constraint": NAME, "interval": BAND} if by == "name" else {"constraint": PercentParity(BAND)}
    path = fairness_path(
        PartialFairClassifier(**stated, tol=1e-3),
        X,
        y,
        sensitive_features=applicants["sex"],
        max_gaps=[5, 15],
        alphas=[1e-3],
        validation=(X, y, applicants["sex"]),
        n_jobs=n_jobs,
        random_state=0,
    )
    assert path.record.metric == NAME
    for point in path.points:
        assert path.gap(point).gap == pytest.approx(percents(point.model, applicants))
        assert point.training_gap == pytest.approx(percents(point.model, applicants))
        assert point.unconstrained or point.training_gap <= point.max_gap + 1e-9
    page = path.to_html()
    assert TITLE in page
    lines = [model["audited"][NAME] for model in data_of(page)["models"]]
    assert [line[1] for line in lines] == [f"{path.gap(point).gap:.4g}" for point in path.points]
    chosen = path.best(20)  # percents: more than 1 may be asked for
    assert next(path.gap(point).ci_high for point in path.points if point.model is chosen) <= 20


def test_a_report_and_its_page_have_a_line_for_the_metric_if_asked(applicants):
    scores, people = applicants["test"], applicants["sex"]
    settings = {"sensitive_features": people, "interval": BAND, "threshold": 0.0, "random_state": 0}
    usual = fairness_report(None, scores, **settings)
    assert NAME not in [row.metric for row in usual.metrics]
    assert NAME not in usual.omitted
    report = fairness_report(None, scores, **settings, metrics=report_metrics(NAME))
    assert [row.metric for row in report.metrics] == [*(row.metric for row in usual.metrics), NAME]
    assert report.joint_confidence < usual.joint_confidence
    row, share = report[NAME], report["demographic_parity"]
    assert row.gap == pytest.approx(100 * share.gap)
    assert row.ci_low <= row.gap <= row.ci_high
    assert report.worst.metric != NAME  # percents are not comparable with shares
    page = audit_page(report)
    assert data_of(page)["models"][0]["audited"][NAME][:2] == [TITLE, f"{row.gap:.4g}"]
    assert f'<th scope="row">{TITLE}</th><td>{row.gap:.4g}</td>' in page  # without a script, too
    alone = fairness_report(None, scores, sensitive_features=people, metrics=["group_auc", NAME])
    assert [row.metric for row in alone.metrics] == ["group_auc"]
    assert alone.omitted == {NAME: "needs a threshold"}
    for unknown in ("group_auc", ["group_auk"]):
        with pytest.raises(InputError, match="metrics must be a list of some of statistical_parity"):
            fairness_report(None, scores, sensitive_features=people, metrics=unknown)


def test_the_command_line_trains_by_it_and_reports_it(run, applicants, tmp_path, monkeypatch):
    # As if the class were partialfair's own: a model of another package's is not written, see below.
    monkeypatch.setattr(persistence, "TRUSTED", (*persistence.TRUSTED, "tests.new_constraint.PercentParity"))
    applicants.to_csv(tmp_path / "table.csv", index=False)
    table = ("table.csv", "--target", "hired", "--group", "sex", "--interval", *BAND, "--constraint", NAME)
    outcome = run("train", *table, "--max-gap", 5, "--report", "train.html")
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert f"{TITLE} gap at most 5" in said
    assert "Constraint satisfied: training gap" in said
    scored = run("predict", "model", "table.csv", "--out", "scored.csv")
    assert scored.code == 0, scored.err
    assert data_of((tmp_path / "train.html").read_text())["models"][1]["audited"][NAME][0] == TITLE
    record = run("train", *table, "--max-gap", 5, "--test-size", 0, "--json").json
    rows = record["models"]["with the constraint"]["training"]["metrics"]
    assert record["fit"]["training_gap"] == pytest.approx(rows[NAME]["gap"])
    assert rows[NAME]["gap"] == pytest.approx(100 * rows["demographic_parity"]["gap"])
    assert rows[NAME]["gap"] <= 5
    outcome = run("path", *table, "--max-gaps", "5,20", "--report", "path.html")
    assert outcome.code == 0, outcome.err
    assert f"{TITLE} at ranks" in " ".join(outcome.out.split())
    assert f"{TITLE} gap, held out" in (tmp_path / "path.html").read_text()


def test_the_command_line_refuses_a_strangers_class_before_any_fit(run, no_fits, applicants, tmp_path):
    applicants.to_csv(tmp_path / "table.csv", index=False)
    table = ("table.csv", "--target", "hired", "--group", "sex", "--interval", *BAND, "--constraint", NAME)
    for command in (("train",), ("path", "--best", 50, "--max-gaps", 20)):
        outcome = run(command[0], *table, *command[1:])
        outcome.assert_refused(f"--constraint {NAME} is a class of another package")


def test_the_command_line_audits_by_it(run, applicants, tmp_path):
    applicants.to_csv(tmp_path / "table.csv", index=False)
    audit = ("audit", "table.csv", "--score", "test", "--group", "sex", "--threshold", 0)
    assert NAME not in run(*audit, "--json").json["metrics"]
    gated = run(*audit, "--json", "--fail-metric", NAME, "--fail-above", 100)
    gap = gated.json["metrics"][NAME]["gap"]
    for limit, code in ((gap + 0.1, 0), (gap - 0.1, 1)):
        outcome = run(*audit, "--fail-metric", NAME, "--fail-above", limit)
        assert outcome.code == code
        assert f"gate: {TITLE} gap {gap:.4g}, limit" in outcome.out
    run(*audit, "--fail-metric", NAME, "--fail-above", -1).assert_refused("--fail-above must be at least 0")


def test_what_needs_a_threshold_asks_a_regressor_for_one(applicants):
    X, _ = features(applicants)
    with pytest.raises(InputError, match=f"'{NAME}' needs constraint_threshold"):
        PartialFairRegressor(NAME).fit(X, applicants["test"], sensitive_features=applicants["sex"])


def test_a_file_cannot_hold_a_strangers_class(applicants, tmp_path):
    X, y = features(applicants)
    clf = PartialFairClassifier(NAME, interval=BAND, max_gap=50).fit(
        X, y, sensitive_features=applicants["sex"]
    )
    with pytest.raises(InputError, match=r"holds .*PercentParity, which load_model would not trust"):
        save_model(clf, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class NoThreshold(Constraint):
    def build(self, groups, weights, surrogate, positive=None):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (NamedConstraint("mine", dict, "statistical_parity"), "needs a subclass of Constraint"),
        (NamedConstraint("none", NoThreshold, "statistical_parity"), "'none' cannot be a constraint's name"),
        (NamedConstraint("no name", NoThreshold, "statistical_parity"), "'no name' cannot be a constraint's"),
        (NamedConstraint("mine", NoThreshold, "mine"), "'mine' bounds 'mine', which is not a metric"),
        (NamedConstraint("mine", NoThreshold, "demographic_parity"), "NoThreshold has no such field"),
        (NamedConstraint(NAME, NoThreshold, "statistical_parity"), "a name has one class"),
        (NamedConstraint("mine", StatisticalParity, "statistical_parity"), "a class has one name"),
    ],
)
def test_records_that_cannot_be_right_are_refused(record, complaint):
    before = dict(NAMED_CONSTRAINTS)
    with pytest.raises(InputError, match=complaint):
        register_constraint(record)
    assert before == NAMED_CONSTRAINTS


def test_a_class_that_is_defined_again_takes_the_place_of_the_former():
    again = type(PercentParity.__name__, (PercentParity,), {"__module__": PercentParity.__module__})
    register_constraint(NamedConstraint(NAME, again, NAME))
    assert NAMED_CONSTRAINTS[NAME].kind is again


def test_subclasses_and_baselines_bound_no_metric():
    class Narrower(StatisticalParity):
        pass

    assert record_of(Narrower()) is None
    assert record_of(QuadraticGroupAUC(1.0)) is None
