"""The nodes of trees: which are leaves, and the values of inner nodes for explainers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Nodes:
    """A binary tree whose root is node 0.

    Attributes
    ----------
    left, right
        The children of each node; negative for a leaf.
    cover
        Weight of the training rows that reached each node.
    """

    left: Ints
    right: Ints
    cover: Floats

    @cached_property
    def _levels(self) -> list[Ints]:
        """The nodes that can be reached from the root, by depth; pruning leaves others in the arrays."""
        levels: list[Ints] = [np.zeros(1, dtype=np.int64)]
        while (inner := levels[-1][self.left[levels[-1]] >= 0]).size:
            levels.append(np.concatenate([self.left[inner], self.right[inner]]))
        return levels

    @cached_property
    def inner_ids(self) -> Ints:
        """The reachable nodes that split, in the order of their numbers, the root first."""
        reached = np.sort(np.concatenate(self._levels))
        return reached[self.left[reached] >= 0]

    @cached_property
    def leaf_ids(self) -> npt.NDArray[np.int64]:
        """The leaves, in the order of their numbers."""
        reached = np.sort(np.concatenate(self._levels))
        return reached[self.left[reached] < 0]

    @cached_property
    def leaf_positions(self) -> npt.NDArray[np.uint16]:
        """The position of each node among the leaves; 0 for inner nodes."""
        positions = np.zeros(len(self.left), dtype=np.uint16)
        positions[self.leaf_ids] = np.arange(len(self.leaf_ids))
        return positions

    def means(self, leaf_values: Floats) -> Floats:
        """Return the values of all nodes: an inner node has the cover-weighted mean of its children.

        ``value[i] = (cover[l] value[l] + cover[r] value[r]) / (cover[l] + cover[r])``, from the leaves up, so
        the root has the mean over the training rows of the tree: the base value of SHAP-type contributions.
        Children that no row reached have equal weights.
        """
        values = np.zeros(len(self.left))
        values[self.leaf_ids] = leaf_values
        for level in reversed(self._levels):
            inner = level[self.left[level] >= 0]
            children = np.stack([self.left[inner], self.right[inner]])
            weights = self.cover[children]
            # If no row reached either child, a plain mean avoids 0 / 0.
            weights[:, weights.sum(axis=0) == 0.0] = 1.0
            values[inner] = (weights * values[children]).sum(axis=0) / weights.sum(axis=0)
        return values


@dataclass(frozen=True, eq=False)
class Structure:
    """The nodes of all trees of an ensemble, which do not change when leaf values do."""

    trees: tuple[Nodes, ...]

    @property
    def n_leaves(self) -> tuple[int, ...]:
        """The number of leaves of each tree."""
        return tuple(len(nodes.leaf_ids) for nodes in self.trees)

    def leaf_values(self, node_values: Iterable[npt.ArrayLike]) -> Floats:
        """Return the leaf values, one tree after the other, from the values of all nodes of each tree."""
        pairs = zip(self.trees, node_values, strict=True)
        picked = [np.asarray(values, dtype=np.float64)[nodes.leaf_ids] for nodes, values in pairs]
        return np.concatenate(picked)

    def node_values(self, leaf_values: Floats) -> list[Floats]:
        """Return the values of all nodes of each tree, as :meth:`Nodes.means` does."""
        by_tree = np.split(leaf_values, np.cumsum(self.n_leaves)[:-1])
        return [nodes.means(values) for nodes, values in zip(self.trees, by_tree, strict=True)]

    def leaf_positions(self, reached: Ints) -> npt.NDArray[np.uint16]:
        """Return positions among each tree's leaves from the nodes that rows reach, one column per tree."""
        positions = np.empty(reached.shape, dtype=np.uint16)
        for tree, nodes in enumerate(self.trees):
            positions[:, tree] = nodes.leaf_positions[reached[:, tree]]
        return positions
