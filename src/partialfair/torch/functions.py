"""The constraints of `partialfair.constraints` as torch functions of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from partialfair.constraints.base import Constraint, Positive, check_compatible
from partialfair.constraints.block import join
from partialfair.constraints.dc import DCSystem
from partialfair.constraints.parity import OnAGrid
from partialfair.constraints.surrogates import Surrogate
from partialfair.constraints.surrogates import surrogate as surrogate_named
from partialfair.data.groups import Groups, Members, encode_groups
from partialfair.exceptions import InputError
from partialfair.torch._atoms import AtomsAt, AtomsOfBank, JoinedAt, atoms_of_bank
from partialfair.utils.checks import check_flag, check_number, shown
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel

_SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_POSITIONS = (torch.int32, torch.int64)
_NEEDS_LABELS = "these constraints compare members with the same label: give y, too"


class ScoreConstraints(nn.Module):
    """The functions ``f_i(scores, θ) ≤ 0`` of constraints, with thresholds θ as parameters.

    A call returns a tensor of values, which any method for constrained training can use. On a batch the
    values are estimates: rows are weighted by the sizes of their groups among all training rows, so that
    means over batches equal the values on all rows.

    Parameters
    ----------
    constraints : Constraint or list of Constraint
        The constraints, from `partialfair.constraints`.
    groups : array-like of shape (n_rows,)
        The group of every training row; several columns form intersectional groups.
    y : array-like of shape (n_rows,), default=None
        Labels 0 and 1 of every training row, for constraints that compare rows with the same label.
    surrogate : str or Surrogate, default="rounded_ramp"
        The surrogate of the indicator, as in `partialfair.FitOptions`.
    surrogate_width : float, default=1.0
        The width of the surrogate in units of the scores, which are often logits.
    reaching : bool, default=True
        Whether constraints on a grid of ranks, unless their points are given, use ranks on the whole interval
        ``[max(0, α − κ), β)`` of the exact gap. The paper's points leave out the ends, where scores then
        accumulate.
    batch_shares : dict, default=None
        The proportion of each group in a batch, from `GroupBatchSampler.shares`, if it differs from the
        proportion among all rows. Sums are divided by it, so that they are unbiased.
    dtype : torch.dtype, default=None
        The type of all numbers, ``torch.float32`` or ``torch.float64``. If None, the default type of torch.

    Attributes
    ----------
    theta : Parameter
        The thresholds θ.
    labels : tuple
        The groups, in the order of their codes.
    names : tuple of str
        The name of each function.

    See Also
    --------
    PartialFairness : A hook for training loops that uses these functions.

    Examples
    --------
    >>> import torch
    >>> from partialfair.constraints import StatisticalParity
    >>> from partialfair.torch import ScoreConstraints
    >>> groups, scores = ["a", "b"] * 50, torch.linspace(-1, 1, 100)
    >>> functions = ScoreConstraints(StatisticalParity((0.1, 0.5), max_gap=0.2), groups)
    >>> codes = functions.codes(groups)
    >>> functions.place_thresholds(scores, codes)
    >>> values = functions(scores, codes)
    >>> len(values) == functions.m
    True
    """

    shares: Tensor
    shares_in_batches: Tensor

    def __init__(
        self,
        constraints: Constraint | Sequence[Constraint],
        groups: ArrayLike,
        y: ArrayLike | None = None,
        *,
        surrogate: str | Surrogate = "rounded_ramp",
        surrogate_width: float = 1.0,
        reaching: bool = True,
        batch_shares: Mapping[GroupLabel, float] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        known = encode_groups(groups)
        positive = None if y is None else _read_positive(y, known.codes.size)
        stated = [constraints] if isinstance(constraints, Constraint) else constraints
        is_list = isinstance(stated, list | tuple) and all(isinstance(each, Constraint) for each in stated)
        if not (is_list and stated):
            raise InputError(
                f"constraints must be one of partialfair.constraints or a list, not {shown(constraints)}"
            )
        check_flag(reaching, "reaching")
        if dtype not in (None, torch.float32, torch.float64):
            raise InputError(f"dtype must be torch.float32 or torch.float64, not {shown(dtype)}")
        if len(known.labels) < 2:
            raise InputError(f"there is only group {known.labels[0]!r}; a gap needs at least two groups")
        check_compatible(stated, known)
        if reaching:
            stated = [
                each.on_grid(each.grid)
                if isinstance(each, OnAGrid) and getattr(each, "points", None) is None
                else each
                for each in stated
            ]
        # All rows have weight 1: weights of rows belong to the loss.
        weights, shape = np.ones(known.codes.size), surrogate_named(surrogate, surrogate_width)
        block = join([each.build(known, weights, shape, positive) for each in stated])
        self.labels, self.n_rows, self.names = known.labels, known.codes.size, block.names
        self.joined_thresholds = block.joined_thresholds
        self.theta = nn.Parameter(torch.from_numpy(block.thresholds.starts))
        self.banks = nn.ModuleList(atoms_of_bank(bank) for bank in block.joined_bank.banks)
        self.maxima: _Maxima = _Maxima(block.system)
        shares = _weights_by_group(known, positive, block.all_members)
        self.uses_labels = shares.shape[-1] == 2
        # Rows contribute to the sums of their own group only: (n_banks, n_groups, n_groups · n_labels).
        shares = np.eye(len(known.labels))[None, :, :, None] * shares[:, None]
        in_batches = shares * _corrections(known, batch_shares)[:, None]
        shape_of_table = *shares.shape[:2], -1
        self.register_buffer("shares", torch.from_numpy(shares.reshape(shape_of_table)))
        self.register_buffer("shares_in_batches", torch.from_numpy(in_batches.reshape(shape_of_table)))
        self.to(dtype or torch.get_default_dtype())

    @property
    def m(self) -> int:
        """The number of functions."""
        return len(self.names)

    def codes(self, groups: ArrayLike) -> Tensor:
        """Return the codes of groups, which calls need: positions in ``labels``."""
        given = encode_groups(groups)
        unknown = [label for label in given.labels if label not in self.labels]
        if unknown:
            raise InputError(f"group {unknown[0]!r} is not a group of the training set, {self.labels}")
        positions = np.array([self.labels.index(label) for label in given.labels], dtype=np.int64)
        return torch.from_numpy(positions[given.codes])

    def forward(self, scores: Tensor, groups: Tensor, y: Tensor | None = None) -> Tensor:
        """Return the values ``f_i``, which are positive for violated constraints.

        Parameters
        ----------
        scores : Tensor of shape (n,)
            Scores of a batch or of all rows.
        groups : Tensor of shape (n,)
            The codes of their groups, from `codes`.
        y : Tensor of shape (n,), default=None
            Their labels 0 and 1, for constraints that need them.

        Returns
        -------
        Tensor of shape (m,)
            The values.
        """
        scores = score_vector(scores, self.theta)
        self.check_batch(scores, groups, y)
        plus, minus, _ = self.maxima.parts_and_pieces(self.at(scores, self.weights(groups, y)).values)
        return plus - minus

    def check_batch(self, scores: Tensor, groups: Tensor, y: Tensor | None) -> None:
        """Raise an error for an invalid batch; values are checked on the host only."""
        if len(scores) == 0:
            raise InputError("the batch is empty; it must have at least one row")
        check_positions(groups, "groups", scores, len(self.labels), "as codes() returns them")
        if not self.uses_labels:
            return
        if y is None:
            raise InputError(_NEEDS_LABELS)
        check_labels(y, groups)

    def weights(self, groups: Tensor, y: Tensor | None, *, of_all_rows: bool = False) -> Tensor:
        """Return the weights of rows in the sums of each group, (n_banks, n_groups, n).

        A row of a batch represents n_rows / n rows, and more if batches have fewer rows of its group. With
        ``of_all_rows`` the rows are all rows, or were drawn from them with equal probabilities.
        """
        if self.uses_labels:
            if y is None:
                raise InputError(_NEEDS_LABELS)
            groups = 2 * groups + (y > 0).to(groups.dtype)  # the columns of `shares`
        shares = self.shares if of_all_rows else self.shares_in_batches
        return shares[:, :, groups] * (self.n_rows / len(groups))

    def at(self, scores: Tensor, weights: Tensor, theta: Tensor | None = None) -> AtomsAt:
        """Return all atoms at the scores of some rows, with the given thresholds if any."""
        theta = precise(self.theta) if theta is None else theta
        banks = cast("list[AtomsOfBank]", list(self.banks))
        if len(banks) == 1:  # constraints of one kind need no join, which saves kernels
            return banks[0].at(scores, weights[0], theta)
        own_theta = torch.split(theta, [bank.n_theta for bank in banks])
        by_bank = zip(banks, weights, own_theta, strict=True)
        return JoinedAt(banks, [bank.at(scores, of_bank, own) for bank, of_bank, own in by_bank])

    @torch.no_grad()
    def place_thresholds(self, scores: Tensor, groups: Tensor, y: Tensor | None = None) -> None:
        """Initialize the thresholds θ from the scores of all rows, or of many rows."""
        scores = score_vector(scores, self.theta)
        self.check_batch(scores, groups, y)
        if not scores.isfinite().all():
            raise InputError("scores must be finite where thresholds are placed")
        # This runs once per training, so it uses the code of linear models on the host.
        on_host = precise(scores).double().cpu().numpy()
        ranked = [_RankedScores(on_host, own.double().cpu().numpy()) for own in self.weights(groups, y)]
        values = self.joined_thresholds.at(ranked.__getitem__)
        self.theta.copy_(torch.from_numpy(values))


def scores_of(outputs: Tensor) -> Tensor:
    """Return the scores of a network: its only output, or the second output minus the first."""
    check_scores(outputs, "the output of a network")
    if outputs.ndim == 1:
        return outputs
    if outputs.ndim == 2 and outputs.shape[1] in (1, 2):
        return outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0]
    raise InputError(f"a network must have one or two outputs for each row, not shape {tuple(outputs.shape)}")


def score_vector(scores: Tensor, theta: Tensor) -> Tensor:
    """Return scores in a suitable type; double precision with θ in single precision is an error."""
    check_scores(scores, "scores")
    if scores.dtype == torch.float64 and theta.dtype != torch.float64:
        raise InputError(
            f"scores are torch.float64 and the constraints are {theta.dtype}: give dtype=torch.float64 to "
            "the constraints, or scores.float()"
        )
    if scores.ndim != 1:
        raise InputError(f"scores must be a vector, not of shape {tuple(scores.shape)}")
    if scores.device != theta.device:
        raise InputError(
            f"scores are on {scores.device} and the constraints on {theta.device}; move one of them"
        )
    return precise(scores)


def check_scores(given: object, name: str) -> None:
    """Raise an error unless this is a dense tensor of floating-point numbers."""
    check_tensor(given, name, "floating-point numbers", _SCORES)


def check_tensor(given: object, name: str, what: str, dtypes: Collection[torch.dtype]) -> None:
    """Raise an error unless this is a dense tensor of one of the types."""
    if not isinstance(given, Tensor) or given.is_nested or given.layout != torch.strided:
        kind = "a sparse or nested tensor" if isinstance(given, Tensor) else type(given).__name__
    elif given.dtype in dtypes:
        return
    else:
        kind = str(given.dtype)
    raise InputError(f"{name} must be a tensor of {what}, not {kind}")


def check_positions(given: object, name: str, like: Tensor, most: int, meaning: str) -> None:
    """Raise an error unless this is a vector of positions; values are checked on the host only.

    It must have the length of ``like``, and be on its device or on the host.
    """
    check_tensor(given, name, f"whole numbers, {meaning}", _POSITIONS)
    given = cast("Tensor", given)
    if given.shape != like.shape[:1]:
        raise InputError(f"{name} has shape {tuple(given.shape)}, and there are {len(like)} scores")
    if given.device.type == "cpu" and len(given) and not (int(given.min()) >= 0 and int(given.max()) < most):
        odd = given[(given < 0) | (given >= most)][0].item()
        raise InputError(f"{name} must be from 0 to {most - 1}, {meaning}, and there is {odd}")
    if given.device.type != "cpu" and given.device != like.device:
        raise InputError(f"{name} is on {given.device}, and the scores on {like.device}")


def check_labels(y: object, like: Tensor | None = None) -> None:
    """Raise an error for labels other than 0 and 1 on the host; a check on a device would make it wait.

    Labels must have the shape of ``like``, and be on its device.
    """
    check_tensor(y, "y", "numbers", (*_SCORES, *_POSITIONS, torch.int8, torch.uint8, torch.int16, torch.bool))
    y = cast("Tensor", y)
    if like is not None and y.shape != like.shape:
        raise InputError(f"y has shape {tuple(y.shape)}, and there are {len(like)} scores")
    if like is not None and y.device != like.device:
        raise InputError(f"y is on {y.device}, and groups on {like.device}")
    if y.device.type == "cpu" and not ((y == 0) | (y == 1)).all():
        odd = y[(y != 0) & (y != 1)][0].item()
        raise InputError(f"y must be 0 or 1 everywhere, and there is {odd}")


def precise(x: Tensor) -> Tensor:
    """Return numbers in at least single precision, so that thousands can be added."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _read_positive(y: ArrayLike, n_rows: int) -> npt.NDArray[np.bool_]:
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InputError(f"y has shape {labels.shape}, and there are {n_rows} groups")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("y must be 0 or 1 everywhere")
    return np.asarray(labels == 1)


def _weights_by_group(groups: Groups, positive: Positive, members: Sequence[Members]) -> Floats:
    """Return the weight of a row in each bank by its group and label, (n_banks, n_groups, 1 or 2).

    The last axis has length 2 only if weights depend on labels in a group with both labels.
    """
    n_groups = len(groups.labels)
    table = np.zeros((len(members), n_groups, 2))
    for bank, of_bank in enumerate(members):
        if positive is None:  # weights do not depend on labels
            table[bank, groups.codes] = of_bank.shares[:, None]
        else:
            table[bank, groups.codes, positive.astype(int)] = of_bank.shares
    if positive is not None:
        counts = [np.bincount(groups.codes, rows, n_groups) for rows in (positive, ~positive)]
        if np.ptp(table, axis=-1)[:, np.minimum(*counts) > 0].any():
            return table
    return np.asarray(table.max(axis=-1, keepdims=True))


def _corrections(groups: Groups, batch_shares: Mapping[GroupLabel, float] | None) -> Floats:
    """Return the factor of the weights of each group that corrects its proportion in batches, (n_groups,)."""
    if batch_shares is None:
        return np.ones(len(groups.labels))
    if not isinstance(batch_shares, Mapping):
        raise InputError(f"batch_shares must map groups to shares, not {shown(batch_shares)}")
    if set(batch_shares) != set(groups.labels):
        odd = next(iter(set(batch_shares) ^ set(groups.labels)))
        raise InputError(f"batch_shares must have exactly the groups {groups.labels}; check {odd!r}")
    for label in groups.labels:
        check_number(batch_shares[label], f"batch_shares[{label!r}]", above=0.0)
    in_batches = np.array([batch_shares[label] for label in groups.labels], dtype=np.float64)
    if not (in_batches > 0).all() or not np.isclose(in_batches.sum(), 1):
        raise InputError(f"batch_shares must be positive and add up to 1, not {dict(batch_shares)}")
    return np.asarray(np.bincount(groups.codes, minlength=in_batches.size) / groups.codes.size / in_batches)


class _RankedScores:
    """Scores by group, for the placement of thresholds (`partialfair.constraints.Ranks`)."""

    def __init__(self, scores: Floats, weights: Floats) -> None:
        self.scores, self.weights = scores, weights

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores of a group at ranks from the top."""
        own = self.weights[group] > 0
        # If a batch has no row of a rare group, its thresholds start at those of all rows.
        return np.asarray(np.quantile(self.scores[own] if own.any() else self.scores, 1 - ranks))


class _Maxima(nn.Module):
    """``f_i = Σ c · max(pieces) + constant``: `partialfair.constraints.dc.DCSystem` on tensors."""

    matrix: Tensor
    offsets: Tensor
    firsts: Tensor
    plus: Tensor
    minus: Tensor
    constants: Tensor
    scales: Tensor

    def __init__(self, system: DCSystem) -> None:
        super().__init__()
        terms = [(i, c, pieces) for i, f in enumerate(system.functions) for c, pieces in f.terms]
        most = max((len(pieces) for _, _, pieces in terms), default=1)
        # Maxima with fewer pieces repeat the last one.
        padded = [(*pieces, *pieces[-1:] * (most - len(pieces))) for _, _, pieces in terms]
        # Piece p of term t is matrix[t, p] @ atoms + offsets[t, p].
        matrix = np.zeros((len(terms), most, system.n_atoms))
        for t, pieces in enumerate(padded):
            for p, piece in enumerate(pieces):
                for position, coefficient in piece.atoms:
                    matrix[t, p, position] += coefficient
        # Coefficients are split by sign: f = f⁺ − f⁻ with both convex.
        by_function = np.zeros((system.m, len(terms)))
        by_function[[i for i, _, _ in terms], np.arange(len(terms))] = [c for _, c, _ in terms]
        self.n_atoms, self.shape = system.n_atoms, (len(terms), most)
        tables = {
            "matrix": matrix.reshape(len(terms) * most, system.n_atoms),
            "offsets": np.array([piece.constant for pieces in padded for piece in pieces]),
            "firsts": np.arange(len(terms)) * most,
            "plus": np.maximum(by_function, 0),
            "minus": np.maximum(-by_function, 0),
            "constants": np.array([function.constant for function in system.functions]),
            "scales": np.abs(by_function).max(axis=1, initial=0.0),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table))

    def parts_and_pieces(self, atoms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return all f⁺, all f⁻, and the largest pieces, which are subgradients of the maxima in the atoms.

        ``plus @ pieces`` are subgradients of all f⁺, and ``minus @ pieces`` of all f⁻.
        """
        largest, pieces = torch.addmv(self.offsets, self.matrix, atoms), self.matrix
        if self.shape[1] > 1:
            # With equal pieces the first one gives the slope, as in NumPy.
            active = largest.detach().view(self.shape).argmax(dim=1) + self.firsts
            largest, pieces = largest[active], self.matrix[active]
        return torch.addmv(self.constants, self.plus, largest), self.minus @ largest, pieces
