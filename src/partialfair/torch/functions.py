"""Constraints as torch functions of scores: what `partialfair.constraints` states, on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from partialfair._typing import ArrayLike, Floats, Ints
from partialfair.constraints import Constraint, OnAGrid, check_compatible, join
from partialfair.constraints.base import Positive
from partialfair.dc import DCSystem
from partialfair.exceptions import InputError
from partialfair.groups import Groups, encode_groups
from partialfair.surrogates import Surrogate
from partialfair.surrogates import surrogate as surrogate_named
from partialfair.torch._atoms import AtomsOfBank, Rows, atoms_of_bank

__all__ = ["ScoreConstraints", "score_vector"]


class ScoreConstraints(nn.Module):
    """The functions ``f_i(scores, θ) ≤ 0`` of constraints, with thresholds θ as parameters.

    Calling it returns a plain tensor, which any method for constrained training takes. Of a batch it is an
    estimate: members count by the sizes that their groups have among all rows, and by how many rows a row of
    the batch stands for, so that means of batches are the means of all rows.

    Parameters
    ----------
    constraints
        One of `partialfair.constraints`, or a list of them.
    groups
        The group of every training row, in the forms that `partialfair.groups.encode_groups` takes.
    y
        Labels 0 and 1 of every training row, for constraints that compare members with the same label.
    surrogate, surrogate_width
        As in `PartialFairClassifier`; the width is in units of the scores, which here are often logits.
    reaching
        Look at ranks on ``[max(0, α − κ), β)``, everywhere the exact gap does, where a constraint has points
        and they are not given. The paper's points leave the ends out, and scores pile up there.
    dtype
        Of all numbers; by default that of new tensors.
    """

    shares: Tensor

    def __init__(
        self,
        constraints: Constraint | Sequence[Constraint],
        groups: ArrayLike,
        y: ArrayLike | None = None,
        *,
        surrogate: str | Surrogate = "rounded_ramp",
        surrogate_width: float = 2.0,
        reaching: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        known = encode_groups(groups)
        positive = None if y is None else _positive(y, known.codes.size)
        stated = [constraints] if isinstance(constraints, Constraint) else list(constraints)
        check_compatible(stated, known)
        if reaching:
            stated = [_reaching(one) for one in stated]
        weights, shape = np.ones(known.codes.size), surrogate_named(surrogate, surrogate_width)
        block = join([one.build(known, weights, shape, positive) for one in stated])
        self.labels, self.n_rows, self.names = known.labels, known.codes.size, block.names
        self.joined_thresholds = block.joined_thresholds
        self.theta = nn.Parameter(torch.from_numpy(block.thresholds.starts))
        self.banks = nn.ModuleList(atoms_of_bank(bank) for bank in block.joined_bank.banks)
        self.n_theta = [bank.n_theta for bank in block.joined_bank.banks]
        self.maxima: _Maxima = _Maxima(block.system)
        by_bank = [_share_table(known, positive, members.shares) for members in block.all_members]
        self.register_buffer("shares", torch.from_numpy(np.stack(by_bank)))
        self.to(dtype or torch.get_default_dtype())

    @property
    def m(self) -> int:
        """Number of functions."""
        return len(self.names)

    def codes(self, groups: ArrayLike) -> Tensor:
        """Return groups as the numbers that calls take: positions in ``labels``."""
        given = encode_groups(groups)
        unknown = [label for label in given.labels if label not in self.labels]
        if unknown:
            raise InputError(f"group {unknown[0]!r} is not among those of training, {self.labels}")
        positions = np.array([self.labels.index(label) for label in given.labels])
        return torch.from_numpy(positions[given.codes])

    def forward(self, scores: Tensor, groups: Tensor, y: Tensor | None = None) -> Tensor:
        """Return ``f_i``, (m,), positive where violated.

        Parameters
        ----------
        scores : (n,)
            Of some rows, or of all.
        groups : (n,)
            Their groups as `codes` returns them.
        y : (n,)
            Their labels, where the constraints need them.
        """
        scores = score_vector(scores)
        plus, minus = self.maxima.parts(self.atoms(scores, self.rows(scores, groups, y)))
        return plus - minus

    def rows(self, scores: Tensor, groups: Tensor, y: Tensor | None) -> list[Rows]:
        """Return who counts in each bank, and how much: a row of a batch stands for n_rows / n of all."""
        labels = torch.zeros_like(groups) if y is None else (y > 0).to(groups.dtype)
        shares = self.shares[:, groups, labels] * (self.n_rows / len(scores))
        return [Rows(groups, of_bank) for of_bank in shares]

    def atoms(self, scores: Tensor, rows: Sequence[Rows], theta: Tensor | None = None) -> Tensor:
        """Return the values of all atoms, with other thresholds if they are given."""
        theta = precise(self.theta) if theta is None else theta
        by_bank = zip(self._banks, rows, torch.split(theta, self.n_theta), strict=True)
        return torch.cat([bank.values(scores, of_bank, own) for bank, of_bank, own in by_bank])

    def atom_changes(
        self, at: tuple[Tensor, Tensor], rows: Sequence[Rows], moves: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return ``⟨subgradient of each atom at (scores, θ), moves⟩``."""
        parts = (torch.split(one, self.n_theta) for one in (at[1], moves[1]))
        by_bank = zip(self._banks, rows, *parts, strict=True)
        changes = [
            bank.changes(at[0], of_bank, theta, (moves[0], theta_moves))
            for bank, of_bank, theta, theta_moves in by_bank
        ]
        return torch.cat(changes)

    @torch.no_grad()
    def place_thresholds(self, scores: Tensor, groups: Tensor, y: Tensor | None = None) -> None:
        """Move θ to where they suit the scores of all rows, or of many."""
        rows = [_ranked(of_bank, scores) for of_bank in self.rows(precise(scores), groups, y)]
        values = self.joined_thresholds.at(rows.__getitem__)
        self.theta.copy_(torch.from_numpy(values))

    @property
    def _banks(self) -> list[AtomsOfBank]:
        return cast("list[AtomsOfBank]", list(self.banks))


def score_vector(scores: Tensor) -> Tensor:
    """Return scores as functions of them take them; what is no vector is refused."""
    if scores.ndim != 1:
        raise InputError(f"scores must be a vector, not of shape {tuple(scores.shape)}")
    return precise(scores)


def precise(x: Tensor) -> Tensor:
    """Return numbers of which thousands can be added up: half precision is raised."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _reaching(constraint: Constraint) -> Constraint:
    has_points = getattr(constraint, "points", None) is not None
    if isinstance(constraint, OnAGrid) and not has_points:
        return constraint.on_grid(constraint.grid)
    return constraint


def _positive(y: ArrayLike, n_rows: int) -> npt.NDArray[np.bool_]:
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InputError(f"y has shape {labels.shape}, and there are {n_rows} groups")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("y must be 0 or 1 everywhere")
    return np.asarray(labels == 1)


def _share_table(groups: Groups, positive: Positive, shares: Floats) -> Floats:
    """Return the share of a row in a bank by its group and label, (n_groups, 2)."""
    table = np.zeros((len(groups.labels), 2))
    if positive is None:  # then labels, if calls have them, make no difference
        table[groups.codes] = shares[:, None]
    else:
        table[groups.codes, positive.astype(int)] = shares
    return table


class _Ranked:
    """Scores by group, as thresholds look at them (`partialfair.constraints.Ranks`)."""

    def __init__(self, scores: Floats, codes: Ints, shares: Floats) -> None:
        self.scores, self.codes, self.shares = scores, codes, shares

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores at which some shares of a group have been passed from the top."""
        mine = (self.codes == group) & (self.shares > 0)
        return np.asarray(np.quantile(self.scores[mine], 1 - ranks))


def _ranked(rows: Rows, scores: Tensor) -> _Ranked:
    arrays = (precise(scores).double(), rows.codes, rows.shares)
    return _Ranked(*(one.detach().cpu().numpy() for one in arrays))


class _Maxima(nn.Module):
    """``f_i = Σ c · max(pieces) + constant``: `partialfair.dc.DCSystem` on tensors."""

    matrix: Tensor
    offsets: Tensor
    plus: Tensor
    minus: Tensor
    constants: Tensor
    scales: Tensor

    def __init__(self, system: DCSystem) -> None:
        super().__init__()
        terms = [(i, c, pieces) for i, f in enumerate(system.functions) for c, pieces in f.terms]
        most = max((len(pieces) for _, _, pieces in terms), default=1)
        # Short maxima repeat their last piece.
        padded = [(*pieces, *pieces[-1:] * (most - len(pieces))) for _, _, pieces in terms]
        matrix = np.zeros((len(terms), most, system.n_atoms))
        for t, pieces in enumerate(padded):
            for p, piece in enumerate(pieces):
                for position, coefficient in piece.atoms:
                    matrix[t, p, position] += coefficient
        by_function = np.zeros((system.m, len(terms)))
        by_function[[i for i, _, _ in terms], np.arange(len(terms))] = [c for _, c, _ in terms]
        tables = {
            "matrix": matrix,
            "offsets": np.array([[piece.constant for piece in pieces] for pieces in padded]),
            "plus": np.maximum(by_function, 0),
            "minus": np.maximum(-by_function, 0),
            "constants": np.array([function.constant for function in system.functions]),
            "scales": np.abs(by_function).max(axis=1),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table))

    def parts(self, atoms: Tensor) -> tuple[Tensor, Tensor]:
        """Return all f⁺ and all f⁻."""
        heights = self._heights(atoms)
        # The first of equals, as in NumPy: its slope is the one that is taken.
        largest = heights.gather(1, heights.argmax(dim=1, keepdim=True))[:, 0]
        return self.plus @ largest + self.constants, self.minus @ largest

    def minus_slopes(self, atoms: Tensor) -> Tensor:
        """Return subgradients of all f⁻ in the atoms, (m, n_atoms)."""
        active = self._heights(atoms).argmax(dim=1)
        pieces = self.matrix[torch.arange(len(active), device=atoms.device), active]
        return self.minus @ pieces

    def _heights(self, atoms: Tensor) -> Tensor:
        return self.matrix @ atoms + self.offsets
