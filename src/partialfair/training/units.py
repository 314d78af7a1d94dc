"""Units and origins of features and scores that suit the solver.

Distances between parameters, tolerances, proximal terms and KKT certificates mean something in them only.

**Features.** With intercepts, they are measured from their means in standard deviations: neither another unit
nor another origin of a feature then changes the problem that is solved. Without, an origin is part of the
model, and features are measured in root mean squares from 0. Sparse features cannot be centered, but sums
over their rows can be corrected for that: see `LinearModel`. This costs digits where a mean is large compared
with the standard deviation. Such sparse features are not centered.

**Scores** are of the order of 1 in units of the spread of a regression's targets. Where low scores are good,
scores in a negative unit are high where they are good: constraints, which count ranks from the top, need not
know. Units are powers of two, or minus one, so that scaling rounds nothing.
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
        Mean in standard deviations up to which dense features are centered silently: predictions, which are
        made of features as they are, lose as many of their 16 digits.
    at_zero
        Means of fewer standard deviations are those of features that were centered already: so little is left
        that subtracting it would cost time and change nothing.
    narrow
        Sparse features are far from zero only if all values are within this fraction of the mean. An
        indicator that one in a million lacks is not: it needs no centering.
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
    """How features are measured: ``(x − centers) / scales``.

    Attributes
    ----------
    centers, scales : (d,)
        Origins and units. The unit of a feature that counts nothing next to the intercepts is infinite.
    far
        Features that are too far from zero.
    dense
        Whether features are dense: then those that are far are centered all the same.
    """

    centers: Floats
    scales: Floats
    far: tuple[int, ...] = ()
    dense: bool = True

    def penalties(self, alpha: float) -> Floats:
        """Return what makes ``½ Σ penalties w²`` the penalty ``½ alpha ‖coef‖²`` of parameters w."""
        # Nothing moves the parameter of a feature that counts nothing; 1 keeps Hessians regular.
        return np.where(np.isfinite(self.scales), alpha / self.scales**2, 1.0)

    def remark(self, name_of: Callable[[int], str]) -> UncenteredFeatureWarning | None:
        """Say which features are too far from zero."""
        if not self.far:
            return None
        who = listed([name_of(column) for column in self.far])
        limit = _SETTINGS.farthest_dense if self.dense else FARTHEST_CORRECTED
        advice = "subtract means" if self.dense else "subtract means, or pass X as a dense array"
        return UncenteredFeatureWarning(
            f"{who}: a mean more than {limit:g} standard deviations from 0 leaves too few digits to tell "
            f"values apart; {advice}"
        )


def penalized_warning(
    name_of: Callable[[int], str], X: Features, units: ColumnUnits, alpha: float
) -> PenalizedFeatureWarning | None:
    """Say which features the penalty disables; None if there are none.

    In units of a feature's scale s the penalty is ``alpha / s²``, and the loss bends by at most about 1: the
    best coefficient shrinks by that factor. A rare indicator has a small s as well, and deserves it; there
    a coefficient of ordinary size still moves some scores. So the largest deviation from the centre has to be
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
        # A column as it is: sums of squares lose what is far below the mean.
        values, mean = design.forward(np.eye(1, means.size, column)), means[column]
        if values.min() == values.max():
            means[column], spreads[column] = 0.0, np.inf  # the intercepts absorb it
            continue
        # Digits are lost only where all values are near the mean.
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
    """Another model of the same features, ``s_i = coef · x_i + intercept``, at which coefficients are 0.

    The penalty ``½ alpha ‖coef − origin‖²`` then shrinks towards that model, and not towards scores of 0.

    Attributes
    ----------
    scores : (n,)
        Of the rows that have weight, by that model.
    coef, intercept : (1, d), (1,)
        Its own parameters.
    level : (1, d)
        Coefficients whose scores are all 1.
    bounds
        The least and the largest value that coefficients, those of this model included, may have.
    deploy
        From coefficients and intercepts, those of this model included, to the numbers that a user's library
        adds up for a row, (1, d), and to what makes scores of their sums.
    """

    scores: Floats
    coef: Floats
    intercept: Floats
    level: Floats
    bounds: tuple[float, float]
    deploy: Callable[[Floats, Floats], tuple[Floats, DeployedScores]]

    def in_units(self, unit: float) -> Offset:
        """Return the same model, with scores in other units."""

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
        """Return where the parameters of a linear model that is counted from here may lie.

        Its features must not be centred, or every parameter would move the intercept.
        """
        if np.isinf(self.bounds).all():
            return EVERYWHERE
        assert not model.n_intercepts
        # Bounds are about the sum with the other model's coefficients.
        low, high = (model.pack(bound - self.coef, np.empty(0)) for bound in self.bounds)
        return Box(low, high)

    def moved(self, model: LinearModel) -> OffsetModel:
        """Return a linear model whose parameters are counted from here."""
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
    """A linear model whose parameters are counted from another's, and whose scores a library computes."""

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
        The rows as problems are stated about them.
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
    """Measure the columns, tie the loss to the rows, and build the model.

    Parameters
    ----------
    samples, loss, loss_factors, unit
        As in `fit_linear`.
    alpha, fit_intercept, group_terms
        As in `FitSettings`.
    offset
        Another model that coefficients are counted from, in the unit of the fit.
    """
    weights, groups = samples.row_weights, samples.groups
    # Class weights count in the loss only, and never in the distributions of groups.
    in_loss = weights if loss_factors is None else weights * loss_factors
    if samples.positive is None:
        objective = loss.build(samples.y / unit, in_loss, anchored=fit_intercept)
    else:
        objective = loss.build(np.where(samples.positive, 1.0, -1.0), in_loss, anchored=fit_intercept)
        if unit < 0:  # low scores are good: the loss is mirror_loss
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
    # With a model per group each has its own coefficients, and all are penalized alike.
    penalties = np.tile(columns.penalties(alpha), model.n_vectors)
    data = InMemoryData(model, objective, Cells(weights, groups.codes, samples.positive))
    return PreparedRows(samples, objective, columns, model, penalties, data)


def unit_of(targets: Floats, weights: Floats) -> float:
    """Return the power of two at the weighted standard deviation; if that is 0, at the mean's size; or 1."""
    # Powers of two: dividing by them rounds nothing.
    mean = float(np.average(targets, weights=weights))
    spread = float(np.sqrt(np.average((targets - mean) ** 2, weights=weights)))
    size = spread if spread > 1e-9 * abs(mean) else abs(mean)
    return float(2.0 ** np.round(np.log2(size))) if 1e-150 < size < 1e150 else 1.0


def score_rows(X: Features, coef: Floats, intercept: Floats, groups: Groups | None = None) -> Floats:
    """Return the scores of a fitted linear model; with group terms, of rows of the groups of its terms."""
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
