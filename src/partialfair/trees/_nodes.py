"""Values inside trees: what explainers take a node to predict for the rows that reach it."""

from __future__ import annotations

import numpy as np

from partialfair._typing import Floats, Ints

__all__ = ["fill_inner_nodes"]


def fill_inner_nodes(values: Floats, left: Ints, right: Ints, cover: Floats) -> Floats:
    """Set every inner node to the cover-weighted mean of its children, from the leaves up.

    ``values[i] = (cover[l] values[l] + cover[r] values[r]) / (cover[l] + cover[r])``, so that the root holds
    the mean over the rows that the tree was grown on: the base value of SHAP-type contributions.

    Parameters
    ----------
    values
        One a node, node 0 being the root; those of leaves are read.
    left, right
        The children of each node; negative for leaves.
    cover
        How much weight of rows reached each node. Children that nobody reached count alike.

    Returns
    -------
    Floats
        A copy of ``values`` with the inner nodes filled in.
    """
    filled = np.array(values, dtype=np.float64)
    levels = []
    nodes = np.zeros(1, dtype=np.int64)
    while (inner := nodes[left[nodes] >= 0]).size:
        levels.append(inner)
        nodes = np.concatenate([left[inner], right[inner]])
    for inner in reversed(levels):
        below = np.stack([left[inner], right[inner]])
        weights = np.asarray(cover, dtype=np.float64)[below]
        weights[:, weights.sum(axis=0) == 0.0] = 1.0
        filled[inner] = (weights * filled[below]).sum(axis=0) / weights.sum(axis=0)
    return filled
