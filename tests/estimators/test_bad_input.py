"""Bad input is one sentence that names the culprit, before any long work."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.surrogates import Ramp
from partialfair.exceptions import InputError
from partialfair.optimization.objectives import PartialAUC
from partialfair.optimization.solvers import IDCA, Solver


class Untouched(Solver):
    """A solver that must not be reached."""

    def solve(self, *_, **__):
        raise AssertionError("long work was begun before the input was checked")


def fit(people, settings=None, **data):
    clf = PartialFairClassifier(enforce="surrogate", interval=(0, 1), solver=Untouched()).set_params(
        **(settings or {})
    )
    arguments = {"X": people.X, "y": people.y, "sensitive_features": people.groups, **data}
    return clf.fit(**arguments)


def refuses(people, match, settings=None, **data):
    with pytest.raises(InputError, match=match) as caught:
        fit(people, settings, **data)
    assert "\n" not in str(caught.value)


def with_value(X, row, column, value):
    X = X.copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"enforce": "loosely"}, r"enforce must be one of 'exact', 'surrogate', 'population', not 'loosely'"),
        ({"constraint": "parity"}, r"constraint must be 'statistical_parity'.* not 'parity'"),
        ({"constraint": ["statistical_parity", "parity"]}, r"constraint must be .* not 'parity'"),
        ({"constraint": 3}, r"constraint must be .* not 3"),
        ({"constraint": []}, r"constraint must be .* not \[\]"),
        (
            {"constraint": StatisticalParity((0, 1)), "interval": None, "max_gap": 0.1},
            r"so max_gap must not be given",
        ),
        ({"constraint": StatisticalParity(), "options__n_points": 5}, r"so options.n_points must not be"),
        ({"constraint": StatisticalParity((0, 1))}, r"so interval must not be given"),
        ({"interval": None}, r"interval is missing: .* interval=\(0, 1\) for the whole range"),
        ({"constraint": StatisticalParity(), "interval": None}, r"interval is missing: .*\(0, 1\)"),
        (
            {"constraint": [StatisticalParity((0, 0.5)), DemographicParity()], "interval": None},
            r"interval is missing: .*\(0, 1\)",
        ),
        ({"max_gap": 1.5}, r"max_gap must lie in \[0, 1\], not 1.5"),
        ({"max_gap": "0.1"}, r"max_gap must lie in \[0, 1\], not '0.1'"),
        ({"max_gap": None}, r"max_gap must lie in \[0, 1\], not None"),
        ({"max_gap": -0.1}, r"max_gap must lie in \[0, 1\], not -0.1"),
        ({"max_gap": float("nan")}, r"max_gap must lie in \[0, 1\], not nan"),
        ({"interval": (0.5, 0.2)}, r"0.5.*0.2"),
        (
            {"interval": (0.5, 0.505)},
            r"no group is large enough .* 'f' has 0 and .* lower min_gr",
        ),
        ({"min_group_size": 0}, r"min_group_size must be at least 1, not 0"),
        ({"min_group_size": 2.5}, r"min_group_size must be a whole number, not 2.5"),
        ({"higher_is_better": "no"}, r"higher_is_better must be True or False, not 'no'"),
        ({"interval": {"f": (0, 1)}}, r"no interval for group 'm', only for \['f'\]"),
        ({"interval": {"f": (0, 1), "m": (0, 1), "x": (0, 1)}}, r"names group 'x'"),
        ({"gap_scale": "relative"}, r"gap_scale must be one of"),
        ({"interval": {"f": (0, 0.5), "m": (0, 1)}, "gap_scale": "absolute"}, r"'absolute' has no meaning"),
        ({"options__n_points": 0}, r"options.n_points must be at least 1"),
        ({"options__n_points": 2.5}, r"options.n_points must be a whole number, not 2.5"),
        ({"options__n_starts": 0}, r"options.n_starts must be at least 1"),
        ({"options__allow_ties": 1}, r"options.allow_ties must be True or False, not 1"),
        ({"options__n_point": 5}, r"options has no field 'n_point'; its fields are n_points, surrogate"),
        ({"options": {"n_points": 5}}, r"options must be a FitOptions, .* not"),
        (
            {"constraint": "demographic_parity", "constraint_threshold": float("nan")},
            r"constraint_threshold must be a finite number, not nan",
        ),
        ({"alpha": -1.0}, r"alpha must be at least 0, not -1"),
        ({"alpha": "strong"}, r"alpha must be a finite number of at least 0, not 'strong'"),
        ({"alpha": float("inf")}, r"alpha must be a finite number of at least 0, not inf"),
        ({"callback": 3}, r"callback must be a function of one record, not 3"),
        ({"loss": []}, r"loss must be 'logistic', .* or a loss such as PartialAUC\(.*\), not \[\]"),
        ({"solver": IDCA}, r"solver must be an object, IDCA\(\), not its class"),
        ({"loss": "zero-one"}, r"loss must be 'logistic', .*, not 'zero-one'"),
        ({"loss": PartialAUC}, r"loss must be an object, PartialAUC\(\), not its class"),
        ({"loss": "auc", "class_weight": {"hired": 0.0}}, r"both classes, and no negative row has weight"),
        ({"solver": "simplex"}, r"solver must be one of 'auto', 'idca', 'idca-switching', 'switching'"),
        ({"solver": 7}, r"solver must be a name or a Solver of partialfair.optimization.solvers, not 7"),
        ({"solver": IDCA(), "max_iter": 5}, r"so max_iter must not be given"),
        (
            {"options__surrogate": "step"},
            r"options.surrogate must be one of 'ramp', 'rounded_ramp', 'sigmoid', not 'step'",
        ),
        (
            {"options__surrogate": Ramp(0.5), "options__surrogate_width": 1.0},
            r"so options.surrogate_width must not be given",
        ),
        ({"options__surrogate_width": -1.0}, r"options.surrogate_width must be positive, not -1"),
        (
            {"options__surrogate_width": "wide"},
            r"options.surrogate_width must be a finite number above 0, not 'wide'",
        ),
        ({"group_terms": "all"}, r"group_terms must be None, 'intercept' or 'interactions', not 'all'"),
        ({"missing_groups": "drop"}, r"missing_groups must be one of 'error', 'ignore', not 'drop'"),
        ({"class_weight": "even"}, r"class_weight must be None, 'balanced' or a mapping, not 'even'"),
        ({"class_weight": {"maybe": 2.0}}, r"class_weight names class 'maybe', which is not in y"),
        ({"class_weight": {"passed over": -2.0}}, r"class_weight must hold weights of at least 0"),
        ({"options__surrogate_halvings": -1}, r"options.surrogate_halvings must be at least 0, not -1"),
        ({"options__surrogate_halvings": 0.5}, r"options.surrogate_halvings must be a whole number, not 0.5"),
        ({"options__search_steps": -1}, r"options.search_steps must be at least 0, not -1"),
        ({"tol": 0.0}, r"tol must be positive, not 0"),
        ({"time_limit": -3.0}, r"time_limit must be positive, not -3"),
        ({"solver": "auto", "max_iter": 0}, r"max_iter must be at least 1, not 0"),
    ],
)
def test_settings(people, settings, match):
    refuses(people, match, settings)


def test_groups(people):
    refuses(
        people, r"a constraint needs the group of every row: pass sensitive_features", sensitive_features=None
    )
    refuses(
        people,
        r"sensitive_features has 299 rows, but there are 300 rows of X",
        sensitive_features=people.groups[:-1],
    )
    refuses(people, r"only group 'f'; a constraint needs at least two groups", sensitive_features=["f"] * 300)
    holes = people.groups.astype(object)
    holes[7] = None
    refuses(
        people, r"1 missing values, the first in row 7; missing_groups='ignore'", sensitive_features=holes
    )
    refuses(people, r"one group per row, not the name 'sex'", sensitive_features="sex")
    refuses(
        people,
        r"group_terms='intercept' needs the group of every row",
        {"constraint": None, "group_terms": "intercept"},
        sensitive_features=None,
    )


def test_tables(people):
    refuses(
        people,
        r"X contains NaN: 1 values are not finite, the first in row 5, column 1",
        X=with_value(people.X, 5, 1, np.nan),
    )
    refuses(people, r"X contains infinity: .* row 5, column 0", X=with_value(people.X, 5, 0, -np.inf))
    frame = pd.DataFrame(with_value(people.X, 2, 1, np.nan), columns=["merit", "income"])
    refuses(people, r"row 2, column 'income'", X=frame)
    refuses(people, r"row 2, column 1", X=sparse.csr_matrix(with_value(people.X, 2, 1, np.nan)))
    refuses(people, r"column 'sex' of X holds '[fm]', which is not a number; encode it", X=people.frame)
    refuses(people, r"column 1 of X holds '[fm]', which is not", X=people.frame.to_numpy())
    refuses(people, r"feature 1 of X holds values too large to square", X=people.X * [1, 1e200])
    refuses(people, r"y has 299 rows, but there are 300 rows of X", y=people.y[:-1])
    refuses(people, r"y has only one class, 'no'; a classifier needs two", y=["no"] * 300)
    refuses(people, r"y has 3 classes: 'a', 'b', 'c'", y=np.resize(["a", "b", "c"], 300))
    labels = people.y.astype(object)
    labels[4] = None
    refuses(people, r"y has 1 values that are NaN or infinite, the first in row 4", y=labels)
    refuses(people, r"sample_weight has 2 rows, but there are 300 rows of X", sample_weight=[1, 2])
    refuses(people, r"sample_weight has 300 negative values", sample_weight=-np.ones(300))
    refuses(people, r"sample_weight is zero in every row", sample_weight=np.zeros(300))


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ("gender", r"names 'gender', which is not a column of X; it has 'merit', 'sex' and 'income'"),
        (5, r"sensitive_columns is 5, which is not a column of X"),
        ([], r"sensitive_columns is empty"),
        (True, r"sensitive_columns is True, which is not a column of X"),
        (["sex", 1], r"sensitive_columns lists a column twice"),
        (["merit", "sex", "income"], r"all columns of X, so no feature is left"),
    ],
)
def test_sensitive_columns(people, columns, match):
    refuses(people, match, {"sensitive_columns": columns}, X=people.frame, sensitive_features=None)


def test_sensitive_columns_of_something_flat(people):
    refuses(people, r"X must have two dimensions, not 1", {"sensitive_columns": 0}, X=people.X[:, 0])


def test_groups_given_twice_must_agree(people):
    settings = {"sensitive_columns": "sex"}
    refuses(
        people, r"give different groups", settings, X=people.frame, sensitive_features=people.groups[::-1]
    )
    renamed = np.where(people.groups == "f", 1, 0)
    with pytest.raises(AssertionError, match="long work"):  # the same groups under other names are fine
        fit(people, settings, X=people.frame, sensitive_features=renamed)


def test_lists_that_contradict_themselves(people):
    twice = [StatisticalParity((0.1, 0.5), 0.05), StatisticalParity([(0.1, 0.3), (0.3, 0.5)], 0.1)]
    refuses(
        people,
        r"the list asks for StatisticalParity.*max_gap=0.05.* and for .*max_gap=0.1.*; keep one",
        {"constraint": twice, "interval": None},
    )
    # The best tenth of f like the middle of m, and the middle of f like the best tenth of m.
    crossed = [
        StatisticalParity({"f": (0.0, 0.1), "m": (0.5, 0.6)}, 0.05),
        StatisticalParity({"f": (0.5, 0.6), "m": (0.0, 0.1)}, 0.05),
    ]
    refuses(people, r"no scores can satisfy both", {"constraint": crossed, "interval": None})
    compatible = [
        StatisticalParity((0.1, 0.5), 0.05),
        StatisticalParity((0.2, 0.8), 0.1),
        DemographicParity((0.1, 0.5), 0.05),
    ]
    with pytest.raises(AssertionError, match="long work"):
        fit(people, {"constraint": compatible, "interval": None})


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)
def test_prediction(people):
    clf = PartialFairClassifier(
        interval=(0, 1),
        enforce="surrogate",
        options=FitOptions(n_points=2),
        max_iter=1,
        group_terms="intercept",
    )
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    with pytest.raises(InputError, match=r"group 'x' was not seen in fit, which saw 'f' and 'm'"):
        clf.predict(people.X[:2], sensitive_features=["f", "x"])
    with pytest.raises(InputError, match="needs the group of every row"):
        clf.predict(people.X)
    with pytest.raises(InputError, match=r"group 0 was not seen in fit, which saw 'f' and 'm'"):
        clf.predict(people.X[:2], sensitive_features=[0, 0])
    with pytest.raises(InputError, match="sensitive_features has 3 rows, but there are 2 rows of X"):
        clf.predict(people.X[:2], sensitive_features=["f", "m", "f"])
    with pytest.raises(InputError, match="X contains NaN"):
        clf.predict([[np.nan, 0.0]], sensitive_features=["f"])
    with pytest.raises(ValueError, match="expecting 2 features"):
        clf.predict([[0.0]], sensitive_features=["f"])


@pytest.mark.parametrize(
    ("replace", "match"),
    [
        (lambda X: pd.DataFrame(X, columns=["same"] * X.shape[1]), "X has several columns named 'same'"),
        (lambda X: with_value(X.astype(object), 3, 1, {"a": 1}), r"column 1 of X holds \{'a': 1\}"),
        (lambda X: "text", "X must have two dimensions, not 0"),
        (lambda X: [[1.0, 2.0], [1.0]], "X has rows of different lengths"),
    ],
)
def test_features_that_are_not_a_table_of_numbers(people, replace, match):
    refuses(people, match, X=replace(people.X))


@pytest.mark.parametrize(
    ("replace", "match"),
    [
        (lambda y: pd.DataFrame({0: y, 1: y}).set_axis(["same"] * 2, axis=1), "y has several columns named"),
        (
            lambda y: np.array(["no", 1] * (len(y) // 2), dtype=object),
            r"y holds labels of different types \(int, str\)",
        ),
        (lambda y: [[1, [2]]] * len(y), "y must have one dimension, not rows of different lengths"),
        (lambda y: np.zeros(len(y), dtype=[("a", "i4"), ("b", "f8")]), "y must be one column, not records"),
    ],
)
def test_targets_that_are_not_a_column(people, replace, match):
    refuses(people, match, y=replace(people.y))


def test_an_infinity_of_each_sign_does_not_warn(people):
    infinite = with_value(with_value(people.X, 0, 0, np.inf), 1, 0, -np.inf)
    refuses(people, "X contains infinity: 2 values are not finite", X=infinite)


@pytest.mark.parametrize("bad", [np.array(0.5), b"ab", np.zeros((2, 2, 2)), (0, 10**400)])
def test_intervals_that_are_not_two_ranks(people, bad):
    refuses(people, "interval", {"interval": bad})


@pytest.mark.parametrize("bad", [-1, 2**63, "0"])
def test_seeds(people, bad):
    refuses(people, "random_state must be None, a whole number", {"random_state": bad, "solver": "auto"})


@pytest.mark.parametrize("bad", [0.5, np.array(0.5)])
def test_sensitive_columns_that_name_nothing(people, bad):
    refuses(people, "sensitive_columns must name columns", {"sensitive_columns": bad})
