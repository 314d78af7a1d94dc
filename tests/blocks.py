"""Banks with the members of some rows, as constraints' blocks have them, and what they say of scores."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

NOTHING = np.empty(0)


@dataclass(frozen=True)
class Block:
    bank: Any
    members: Any
    system: Any = field(default=None)

    def values(self, scores, theta=NOTHING):
        return self.bank.values(scores, self.members, theta)

    def by_score(self, order, coefficients, scores, theta=NOTHING):
        return self.bank.by_score(order, coefficients, scores, self.members, theta)


def atoms_of(block, scores, theta=NOTHING):
    return block.bank.values(scores, block.members, theta)


def functions_of(block, scores, theta=NOTHING):
    """All f_i."""
    return block.system.values(atoms_of(block, scores, theta))


def slopes_of(block, coefficients, scores, theta=NOTHING):
    """A subgradient of Σ coefficients · atoms."""
    return block.bank.by_score(1, coefficients, scores, block.members, theta)


def written_out(bank, scores, members, theta, curved=()):
    """Columns in full, row by row from their definition: by scores and by thresholds."""
    n_outputs = bank.n_atoms + len(curved) * bank.n_theta
    by_score, by_theta = np.zeros((n_outputs, scores.size)), np.zeros((n_outputs, bank.n_theta))
    for columns in bank.columns(scores, members, theta, curved):
        n_cells = columns.n_cells // columns.n_blocks
        for q, values in enumerate(columns.values):
            cell = 0 if columns.cells is None else int(columns.cells[q])
            if cell < 0:
                continue
            block = cell // n_cells
            for c in range(columns.n_columns):
                entry = (
                    values[c]
                    if columns.table is None
                    else values @ columns.table[block, cell % n_cells, :, c]
                )
                output = (
                    block * columns.n_columns + c if columns.outputs is None else columns.outputs[block, c]
                )
                by_score[output, columns.first + q] += entry
                if columns.thresholds is not None and columns.thresholds[block, c] >= 0:
                    by_theta[output, columns.thresholds[block, c]] -= entry
    return by_score, by_theta
