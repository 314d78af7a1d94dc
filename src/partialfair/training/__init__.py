"""The fit of a linear model as a function of samples, constraints and settings.

`fit.fit_linear` is the fit in the user's units; `search.find_model` defines the order of its steps.
"""

from partialfair.training.adjoining import check_outside
from partialfair.training.fit import fit_linear
from partialfair.training.named_constraints import (
    NAMED_CONSTRAINTS,
    Automatic,
    NamedConstraint,
    make_known,
    record_of,
    setting_of,
)
from partialfair.training.options import FitOptions
from partialfair.training.remarks import explain_unfinished, small_sample_gap_warning, uninformative_warning
from partialfair.training.result import FitResult, Population
from partialfair.training.settings import EarlierFits, FitSettings, WarmStart
from partialfair.training.statement import check_groups, group_constraints, measure_gap
from partialfair.training.units import Offset, penalized_warning, score_rows, unit_of

__all__ = [
    "NAMED_CONSTRAINTS",
    "Automatic",
    "EarlierFits",
    "FitOptions",
    "FitResult",
    "FitSettings",
    "NamedConstraint",
    "Offset",
    "Population",
    "WarmStart",
    "check_groups",
    "check_outside",
    "explain_unfinished",
    "fit_linear",
    "group_constraints",
    "make_known",
    "measure_gap",
    "penalized_warning",
    "record_of",
    "score_rows",
    "setting_of",
    "small_sample_gap_warning",
    "uninformative_warning",
    "unit_of",
]
