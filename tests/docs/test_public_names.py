"""The public names, module by module: each has a docstring by numpydoc's rules, with an example that runs."""

import doctest
import importlib
import inspect

import pytest

PUBLIC = {
    "partialfair": [
        "FitOptions",
        "PartialFairClassifier",
        "PartialFairRegressor",
        "choose_interval",
        "fairness_path",
        "load_model",
        "make_table_pipeline",
        "save_model",
    ],
    "partialfair.constraints": [
        "DemographicParity",
        "EqualOpportunity",
        "EqualizedOdds",
        "GroupAUC",
        "StatisticalParity",
    ],
    "partialfair.datasets": [
        "fetch_a9a",
        "fetch_acs_income",
        "fetch_bank",
        "fetch_law_school",
        "load_adult",
        "make_admissions",
    ],
    "partialfair.exceptions": [
        "DataFetchError",
        "InputError",
        "InputTypeError",
        "MissingExtraError",
        "PenalizedFeatureWarning",
        "SmallGroupWarning",
        "SmallSampleGapWarning",
        "SurrogateWarning",
        "ThresholdOutsideIntervalWarning",
        "UncenteredFeatureWarning",
        "UndefinedGapWarning",
        "UninformativeModelWarning",
    ],
    "partialfair.metrics": [
        "calibration_by_group",
        "compare_gaps",
        "detectable_gap",
        "fairness_report",
        "inter_group_pairwise_difference",
        "interval_changes",
        "interval_membership",
        "intra_group_pairwise_difference",
        "partial_demographic_parity_difference",
        "partial_equal_opportunity_difference",
        "partial_equalized_odds_difference",
        "partial_group_auc_difference",
        "partial_statistical_parity_difference",
        "rank_curve",
        "sample_size",
        "unfairness_map",
    ],
    "partialfair.onnx": ["to_onnx"],
    "partialfair.plotting": ["plot_score_densities"],
    "partialfair.postprocessing": ["PartialParityAdjuster"],
    "partialfair.torch": [
        "GroupBatchSampler",
        "IndexedDataset",
        "PartialFairness",
        "ScoreConstraints",
        "refit_head",
    ],
    "partialfair.trees": ["PartialFairTrees"],
}
"""What users import. Packages that extend partialfair import `partialfair.extension` besides."""

THEORY = [
    "GapBound",
    "IdcaBudget",
    "NearThresholds",
    "ObjectiveBound",
    "describe_bound",
    "describe_generalization",
    "dkw_bound",
    "gap_bound",
    "idca_budget",
    "near_thresholds",
    "objective_bound",
    "uniform_deviation_bound",
]
"""Public names of ``partialfair.theory``, for readers of the paper."""

SUBPACKAGES = {
    "constraints",
    "datasets",
    "metrics",
    "onnx",
    "plotting",
    "postprocessing",
    "theory",
    "trees",
}
INTERNAL = ["data", "estimators", "optimization", "report", "training", "utils"]

UNCHECKED = {
    "GL01": "a summary begins on the line of the quotes, as pydocstyle's rules for numpydoc allow",
    "ES01": "a summary, formulas and parameters can be enough",
}
"""Rules of `numpydoc.validate` that are off, each with the reason."""

NAMES = [f"{module}.{name}" for module, names in PUBLIC.items() for name in names]
DOCUMENTED = [*NAMES, *(f"partialfair.theory.{name}" for name in THEORY if name[0].islower())]


def load(name):
    module, _, last = name.rpartition(".")
    if module in ("partialfair.torch", "partialfair.onnx"):
        pytest.importorskip(module.rpartition(".")[2])
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_exports_its_public_names(module):
    exported = importlib.import_module(module).__all__
    own = SUBPACKAGES if module == "partialfair" else set()
    assert sorted(exported) == sorted({*PUBLIC[module], *own})


def test_theory_exports_bounds_and_budgets():
    assert sorted(importlib.import_module("partialfair.theory").__all__) == THEORY


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_packages_say_so_and_export_nothing(name):
    module = importlib.import_module(f"partialfair.{name}")
    assert "internal" in module.__doc__
    assert not hasattr(module, "__all__")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_follow_numpydoc(name):
    validate = pytest.importorskip("numpydoc.validate")
    load(name)
    errors = validate.validate(name)["errors"]
    assert not [f"{code}: {text}" for code, text in errors if code not in UNCHECKED]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_have_an_example(name):
    """`--doctest-modules` runs the examples; those of ``fetch_*`` need files and are skipped there."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(load(name)) or "")
    runs = [example for example in examples if doctest.SKIP not in example.options]
    assert any(f"{name.rpartition('.')[2]}" in example.source for example in runs)
