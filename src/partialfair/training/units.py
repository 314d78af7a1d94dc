"""Units and origins of features and scores that suit the solver.

Distances between parameters, tolerances, proximal terms and KKT certificates have a meaning in these units
only.

**Features.** With intercepts, features are centered and divided by their standard deviations: the problem
that is solved then depends neither on the unit nor on the origin of a feature. Without intercepts, an origin
is part of the model, and features are divided by their root mean squares. Sparse features cannot be centered
in storage, but sums over their rows can be corrected for the means: see `LinearModel`. This loses digits if a
mean is large compared with the standard deviation; such sparse features are not centered.

**Scores** are of the order of 1 in units of the spread of a regression's targets. If low scores are
favorable, a negative unit makes them high, so constraints can always count ranks from the top. Units are
powers of two, or their negatives, so scaling causes no rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import Groups
from partialfair.data.samples import Features, Samples, n_rows_of
from partialfair.exceptions import InputError, PenalizedFeatureWarning, UncenteredFeatureWarning
from partialfair.optimization.models.designs import DenseDesign, as_design
from partialfair.optimization.models.linear import FARTHEST_CORRECTED, GroupTerms, LinearModel, linear_model
from partialfair.optimization.objectives import LossSettings, Objective, mirror_loss
from partialfair.optimization.problems import EVERYWHERE, Box, Cells, InMemoryData
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class UnitSettings:
    """Settings of `measure_columns` and `penalized_warning`.

    Attributes
    ----------
    farthest_dense
        Largest mean, in standard deviations, at which dense features are centered silently: predictions use
        uncentered features and lose as many of their 16 digits.
    at_zero
        Features with a mean below this many standard deviations count as centered: subtracting it would cost
        time and change nothing.
    narrow
        Sparse features are far from zero only if all values are within this fraction of the mean. An
        indicator that is 0 in one row of a million is not: it needs no centering.
    disabled
        Penalty, in units of a feature's scale, that leaves less than a hundredth of its best coefficient.
    """

    farthest_dense: float = 1e9
    at_zero: float = 1e-8
    narrow: float = 1e-3
    disabled: float = 100.0


_SETTINGS = UnitSettings()

DeployedScores: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class ColumnUnits:
    """Units and origins of features: ``(x − centers) / scales``.

    Attributes
    ----------
    centers, scales : (d,)
        Origins and units. The unit is infinite for a feature that the intercepts make redundant.
    far
        Features that are too far from zero.
    dense
        Whether features are dense: then those that are far are centered as well.
    """

    centers: Floats
    scales: Floats
    far: tuple[int, ...] = ()
    dense: bool = True

    def penalties(self, alpha: float) -> Floats:
        """Return penalties such that ``½ Σ penalties w²`` is ``½ alpha ‖coef‖²`` for parameters w."""
        # The parameter of a redundant feature stays at 0; a penalty of 1 keeps Hessians regular.
        return np.where(np.isfinite(self.scales), alpha / self.scales**2, 1.0)

    def remark(self, name_of: Callable[[int], str]) -> UncenteredFeatureWarning | None:
        """Warn of features that are too far from zero."""
        if not self.far:
            return None
        who = listed([name_of(column) for column in self.far])
        limit = _SETTINGS.farthest_dense if self.dense else FARTHEST_CORRECTED
        advice = "subtract means" if self.dense else "subtract means, or pass X as a dense array"
        return UncenteredFeatureWarning(
            f"{who}: a mean more than {limit:g} standard deviations from 0 leaves too few digits to "
            f"distinguish values; {advice}"
        )


def penalized_warning(
    name_of: Callable[[int], str], X: Features, units: ColumnUnits, alpha: float
) -> PenalizedFeatureWarning | None:
    """Warn of features that the penalty disables; None if there are none.

    In units of a feature's scale s the penalty is ``alpha / s²``, and the curvature of the loss is at most
    about 1, so the best coefficient shrinks by that factor. A rare indicator also has a small s, but a
    coefficient of usual size still changes some scores. So the largest deviation from the center has to be
    small, too.
    """
    if isinstance(X, CategoricalCodes) or not alpha > 0:
        return None
    columns = np.flatnonzero(np.isfinite(units.scales) & (alpha >= _SETTINGS.disabled * units.scales**2))
    if not columns.size:
        return None
    ends: list[Any] = [X[:, columns].max(axis=0), X[:, columns].min(axis=0)]
    ends = [np.asarray(end.toarray() if issparse(end) else end).ravel() for end in ends]
    largest = np.max(np.abs(np.stack(ends) - units.centers[columns]), axis=0)
    disabled = columns[(alpha >= largest**2) & (largest > 0)]
    if not disabled.size:
        return None
    who = listed([name_of(column)[:50] for column in disabled.tolist()], most=2)
    return PenalizedFeatureWarning(
        f"{who}: values this small need coefficients so large that alpha={alpha:g} keeps them near 0; "
        "standardize the features (StandardScaler), or lower alpha"
    )


def measure_columns(X: Features, weights: Floats, *, centered: bool) -> ColumnUnits:
    """Return weighted means and standard deviations of all features, or 0 and root mean squares."""
    design = as_design(X, np.zeros(n_rows_of(X), dtype=np.int8), 1)
    fractions = weights / weights.sum()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if centered:
            # Σ_i p_i x_i for the fractions p of the weight, without a copy of X.
            means = design.backward(fractions[:, None])[0, :, 0]
            # Rounding errors of differences may be negative.
            spreads = np.sqrt(np.maximum(design.squares(fractions, means), 0.0))
        else:
            spreads = np.sqrt(design.squares(fractions))
    if not np.isfinite(spreads).all():
        column = int(np.flatnonzero(~np.isfinite(spreads))[0])
        raise InputError(f"feature {column} of X holds values too large to square; rescale it")
    if not centered:
        return ColumnUnits(np.zeros(spreads.size), np.where(spreads > 0, spreads, 1.0))
    dense, far = isinstance(design, DenseDesign), []
    farthest = _SETTINGS.farthest_dense if dense else FARTHEST_CORRECTED
    for column in np.flatnonzero(np.abs(means) > farthest * spreads).tolist():
        # An uncentered column: sums of squares lose what is far below the mean.
        values, mean = design.forward(np.eye(1, means.size, column)), means[column]
        if values.min() == values.max():
            means[column], spreads[column] = 0.0, np.inf  # the intercepts absorb it
            continue
        # Digits are lost only if all values are near the mean.
        if np.abs(values - mean).max() < _SETTINGS.narrow * abs(mean):
            far.append(column)
        if not dense:
            # Sparse columns stay sparse: not centered, and measured in root mean squares from 0.
            means[column], spreads[column] = 0.0, np.hypot(mean, spreads[column])
    centers = np.where(np.abs(means) > _SETTINGS.at_zero * spreads, means, 0.0)
    # Features that are always 0 have no spread.
    return ColumnUnits(centers, np.where(spreads > 0, spreads, 1.0), tuple(far), dense)


@dataclass(frozen=True, eq=False)
class Offset:
    """Another model of the same features, ``s_i = coef · x_i + intercept``, from which parameters differ.

    The penalty ``½ alpha ‖coef − origin‖²`` then shrinks towards that model instead of towards scores of 0.

    Attributes
    ----------
    scores : (n,)
        Its scores of the rows that have weight.
    coef, intercept : (1, d), (1,)
        Its parameters.
    level : (1, d)
        Coefficients that give every row the score 1.
    bounds
        The smallest and the largest value of coefficients, this model's included.
    deploy
        Function from coefficients and intercepts, this model's included, to the numbers that the tree library
        adds up for a row, (1, d), and to the function that turns their sums into scores.
    """

    scores: Floats
    coef: Floats
    intercept: Floats
    level: Floats
    bounds: tuple[float, float]
    deploy: Callable[[Floats, Floats], tuple[Floats, DeployedScores]]

    def in_units(self, unit: float) -> Offset:
        """Return the same model with scores in other units."""

        def deploy(coef: Floats, intercept: Floats) -> tuple[Floats, DeployedScores]:
            summands, scores_of = self.deploy(unit * coef, unit * intercept)
            return summands, lambda sums: scores_of(sums) / unit

        # A negative unit swaps the two.
        low, high = sorted(bound / unit for bound in self.bounds)
        return replace(
            self,
            scores=self.scores / unit,
            coef=self.coef / unit,
            intercept=self.intercept / unit,
            bounds=(low, high),
            deploy=deploy,
        )

    def domain(self, model: LinearModel) -> Box:
        """Return the bounds of a linear model's parameters as differences from this model.

        Its features must not be centered, or every parameter would change the intercept.
        """
        if np.isinf(self.bounds).all():
            return EVERYWHERE
        assert not model.n_intercepts
        # Bounds apply to the sum with this model's coefficients.
        low, high = (model.pack(bound - self.coef, np.empty(0)) for bound in self.bounds)
        return Box(low, high)

    def moved(self, model: LinearModel) -> OffsetModel:
        """Return a linear model whose parameters are differences from this model."""
        given = {field.name: getattr(model, field.name) for field in fields(model)}
        given |= {
            "offset": self.scores,
            "flat": model.pack(-self.coef, -self.intercept[: model.n_intercepts]),
        }
        if not model.n_intercepts:
            given["level"] = model.pack(self.level, np.empty(0))
        return OffsetModel(**given, origin=self)


@dataclass(frozen=True, eq=False, kw_only=True)
class OffsetModel(LinearModel):
    """A linear model whose parameters are differences from another, and whose scores a library computes."""

    origin: Offset

    def deployed_scores(self, w: Floats, scores: Floats) -> Floats:
        """Return the scores that the library computes, to the last digit."""
        coef, intercept = self.unpack(w)
        if not self.n_intercepts:
            intercept = np.zeros(1)
        summands, scores_of = self.origin.deploy(self.origin.coef + coef, self.origin.intercept + intercept)
        return scores_of(self.design.forward(summands))


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Rows in units of a fit, and the model that scores them.

    Attributes
    ----------
    samples, objective
        Rows with weight, and the loss of their scores in the unit of the fit.
    columns, model, alpha
        Units of the columns, the model that scores them in these units, and its penalty.
    data
        The rows as problems use them.
    """

    samples: Samples
    objective: Objective
    columns: ColumnUnits
    model: LinearModel
    alpha: Floats
    data: InMemoryData


def prepare_rows(
    samples: Samples,
    loss: LossSettings,
    *,
    alpha: float,
    fit_intercept: bool,
    group_terms: GroupTerms,
    loss_factors: Floats | None = None,
    unit: float = 1.0,
    offset: Offset | None = None,
) -> PreparedRows:
    """Measure the columns, apply the loss to the rows, and build the model.

    Parameters
    ----------
    samples, loss, loss_factors, unit
        As in `fit_linear`.
    alpha, fit_intercept, group_terms
        As in `FitSettings`.
    offset
        Model whose scores are added, in the unit of the fit.
    """
    weights, groups = samples.row_weights, samples.groups
    # Class weights apply to the loss only, not to the distributions of groups.
    in_loss = weights if loss_factors is None else weights * loss_factors
    if samples.positive is None:
        objective = loss.build(samples.y / unit, in_loss, anchored=fit_intercept)
    else:
        objective = loss.build(np.where(samples.positive, 1.0, -1.0), in_loss, anchored=fit_intercept)
        if unit < 0:  # low scores are favorable: the loss is mirror_loss
            objective = replace(objective, loss=mirror_loss(objective.loss))
    columns = measure_columns(samples.X, weights, centered=fit_intercept)
    model = linear_model(
        samples.X,
        codes=None if group_terms is None else groups.codes,
        n_groups=1 if group_terms is None else len(groups.labels),
        group_terms=group_terms,
        fit_intercept=fit_intercept,
        scales=columns.scales,
        centres=columns.centers,
    )
    if offset is not None:
        model = offset.moved(model)
    # With one model per group each has its own coefficients, and all have the same penalty.
    penalties = np.tile(columns.penalties(alpha), model.n_vectors)
    data = InMemoryData(model, objective, Cells(weights, groups.codes, samples.positive))
    return PreparedRows(samples, objective, columns, model, penalties, data)


def unit_of(targets: Floats, weights: Floats) -> float:
    """Return the power of two near the weighted standard deviation; if that is 0, near the mean; or 1."""
    # Dividing by powers of two causes no rounding.
    mean = float(np.average(targets, weights=weights))
    spread = float(np.sqrt(np.average((targets - mean) ** 2, weights=weights)))
    size = spread if spread > 1e-9 * abs(mean) else abs(mean)
    return float(2.0 ** np.round(np.log2(size))) if 1e-150 < size < 1e150 else 1.0


def score_rows(X: Features, coef: Floats, intercept: Floats, groups: Groups | None = None) -> Floats:
    """Return the scores of a fitted linear model; with group terms, rows need their groups."""
    terms: GroupTerms = None
    if groups is not None:
        terms = "interactions" if len(coef) > 1 else "intercept"
    model = linear_model(
        X,
        codes=None if groups is None else groups.codes,
        n_groups=1 if groups is None else len(groups.labels),
        group_terms=terms,
    )
    if model.design.shape[1] != coef.shape[1]:
        raise InputError(
            f"X has {model.design.shape[1]} features, but there are {coef.shape[1]} coefficients"
        )
    return model.scores(model.pack(coef, intercept))
