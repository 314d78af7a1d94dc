"""Rows of the data in shards, and questions about them whose answers add up.

A question (`Ask`) is put to every shard, and the answers become one: a *reduction*. What solvers need of a
problem, its value, gradients and Hessians, are such questions. So the rows may lie in threads, in batches or
on other machines: whoever asks sees answers whose size does not depend on the number of rows.

::

    Problem ── at(w) ──> ScoredRows ── reduce(ask, ask, ...) ──> totals
                            │                                       ▲
                            ├─ Shard: scores, objective, members ─ part ─┐
                            ├─ Shard: scores, objective, members ─ part ─┤  total
                            └─ Shard: scores, objective, members ─ part ─┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from partialfair._checks import check_count
from partialfair._row_columns import RowColumns, single_column
from partialfair._text import listed
from partialfair._typing import Floats, Ints
from partialfair.constraints.thresholds import Ranks
from partialfair.exceptions import InputError
from partialfair.groups import Members
from partialfair.models import LinearScores, Parameters, ScoreModel, TellsScores
from partialfair.models.blocks import BlockMatrix
from partialfair.objectives import Objective, parts
from partialfair.problems.ranks import Counts, People, SortedRanks
from partialfair.problems.sampling import chances_of, sampled_members, sampled_objective

__all__ = [
    "Ask",
    "Gives",
    "InMemoryData",
    "InMemoryRows",
    "Rows",
    "Sample",
    "ScoredRows",
    "Shard",
    "ShardRows",
    "TrainingData",
    "refuse_without",
]

_ENTRIES_PER_THREAD = 1_000_000
"""Fewer entries of rows are done before a thread has started."""
_USUAL_ENTRIES = 10
"""Of a row of a model that does not say how many entries it has."""

Answer = TypeVar("Answer")


class Gives(StrEnum):
    """What rows may be asked for; solvers say what they need of it."""

    GRADIENT = "gradients"
    JACOBIAN = "Jacobians"
    HESSIAN = "Hessians"
    ROWS = "rows of the Jacobian"
    LINEAR = "scores that are linear in the parameters"
    WHOLE = "all rows in one place"
    SAMPLES = "samples of the rows"


def refuse_without(rows: Rows, needs: frozenset[Gives], who: str, advice: str = "") -> None:
    """Refuse rows that do not give what somebody needs, and name what is missing."""
    missing = [str(need) for need in Gives if need in needs - rows.gives]
    if missing:
        raise InputError(f"{who} needs {listed(missing, len(Gives))}, which this model does not give{advice}")


@dataclass(frozen=True, eq=False)
class ShardRows:
    """Some rows of the data, whatever the parameters.

    Attributes
    ----------
    model
        Scores these rows.
    objective
        The loss with the rows' targets and shares, which are normalised over all rows.
    members
        For each bank of atoms the rows' groups, and their shares of all members.
    first
        Number of the first row among all.
    """

    model: ScoreModel
    objective: Objective
    members: tuple[Members, ...] = ()
    first: int = 0

    @cached_property
    def linear(self) -> LinearScores | None:
        """The model, if its scores are linear in the parameters."""
        return self.model if isinstance(self.model, LinearScores) else None


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows at parameters w: what one thread, batch or worker sees."""

    data: ShardRows
    w: Floats

    @cached_property
    def scores(self) -> Floats:
        """Scores of the rows, computed when they are first needed."""
        scores, n_rows = self.data.model.scores(self.w), self.data.objective.targets.size
        if scores.shape != (n_rows,):  # compiled loops would read beyond its end
            raise InputError(f"the model must return {n_rows:,} scores, not an array of shape {scores.shape}")
        return scores

    @property
    def told_scores(self) -> Floats:
        """Scores as the model's users will compute them: the same but for rounding errors, if they differ."""
        model = self.data.model
        return model.told_scores(self.w, self.scores) if isinstance(model, TellsScores) else self.scores

    @cached_property
    def losses(self) -> tuple[tuple[float, Floats] | None, ...]:
        """Value and slopes in the scores of the loss's convex part, and of what is subtracted, if any."""
        tied = self.data.objective
        return tuple(
            None if loss is None else loss.value_and_slopes(self.scores, tied.targets, tied.shares)
            for loss in parts(tied.loss)
        )

    def pull(self, columns: RowColumns) -> Floats:
        """Return ``Jᵀ C``, and sums of the columns as last entries: (n_blocks, n_columns, n_params + 1)."""
        return self.data.model.pull(self.w, columns)

    def pull_vector(self, by_score: Floats) -> Floats:
        """Return ``Jᵀ v``: (n_params,)."""
        return np.asarray(self.pull(single_column(by_score))[0, 0, :-1])

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``, where scores are linear."""
        return self._linear.gram(weights)

    def along(self, direction: Floats) -> Floats:
        """Return ``J direction``, where scores are linear."""
        return self._linear.along(direction)

    def jacobian_rows(self, which: Ints) -> Floats:
        """Return some rows of J, where scores are linear."""
        return self._linear.rows(which)

    @property
    def _linear(self) -> LinearScores:
        if self.data.linear is None:
            raise InputError(f"scores of {type(self.data.model).__name__} are not linear in the parameters")
        return self.data.linear


class Ask(Protocol[Answer]):
    """One question about all rows, answered shard by shard."""

    def part(self, shard: Shard, beside: Shard | None, /) -> Answer:
        """Answer for one shard; ``beside`` holds the same rows at other parameters, if they were given."""

    def total(self, parts: Sequence[Answer], /) -> Answer:
        """Make one answer of those of all shards."""


class ScoredRows(Protocol):
    """All rows at parameters w."""

    def reduce(self, *asks: Ask[Any], beside: Any = None) -> list[Any]:
        """Answer some questions in one pass over the data.

        Parameters
        ----------
        asks
            The questions.
        beside
            The same rows at other parameters, if some question compares the two.
        """

    def ranks(self, bank: int) -> Ranks:
        """Return where the scores of a bank's members stand in their groups."""

    def counts(self) -> Counts:
        """Return how much weight has which score, for the referee."""


class Rows(Protocol):
    """All rows of a training set."""

    @property
    def parameters(self) -> Parameters:
        """What w is made of."""

    @property
    def gives(self) -> frozenset[Gives]:
        """What may be asked for."""

    def at(self, w: Floats) -> ScoredRows:
        """Return the rows at parameters w; nothing is computed yet."""

    def sample(self, size: int, seed: int) -> Sample:
        """Return about so many rows, which count as if they were all; only if `gives` says so."""


class Sample(NamedTuple):
    """Some rows, and the share of all that they are."""

    rows: Rows
    share: float


class TrainingData(Protocol):
    """A training set, wherever its rows lie."""

    def rows(self, members: tuple[Members, ...] = (), *, additive: bool = True) -> Rows:
        """Return the rows with the members that each bank of atoms is about.

        Formulas that are not sums over rows need all of them in one place, or are refused.
        """


@dataclass(frozen=True, eq=False)
class InMemoryRows:
    """Rows in this process, in shards of about as many rows each, one for each thread.

    Parameters
    ----------
    shards
        Consecutive rows.
    people
        What the referee must know of them; only `ScoredRows.counts` needs it.
    whole
        All rows in one piece, if they can be sampled.
    """

    shards: tuple[ShardRows, ...]
    people: People | None = None
    whole: ShardRows | None = None

    @property
    def parameters(self) -> Parameters:
        """What w is made of."""
        return self.shards[0].model.parameters

    @cached_property
    def gives(self) -> frozenset[Gives]:
        """Gradients; Jacobians and Hessians of linear scores; all rows in one place if that is one shard."""
        gives = {Gives.GRADIENT}
        if all(shard.linear is not None for shard in self.shards):
            gives |= {Gives.JACOBIAN, Gives.HESSIAN, Gives.ROWS, Gives.LINEAR}
        if len(self.shards) == 1:
            gives.add(Gives.WHOLE)
        if self.whole is not None:
            gives.add(Gives.SAMPLES)
        return frozenset(gives)

    def at(self, w: Floats) -> InMemoryScores:
        """Return the rows at parameters w."""
        return InMemoryScores(self, tuple(Shard(shard, w) for shard in self.shards))

    def sample(self, size: int, seed: int) -> Sample:
        """Return some rows, in one shard; the referee cannot be asked about them."""
        assert self.whole is not None
        whole, n_rows = self.whole, self.whole.objective.shares.size
        chances = chances_of(whole.members, n_rows, size)
        kept = np.flatnonzero(np.random.default_rng(seed).random(n_rows) < chances)
        model: Any = whole.model
        shard = ShardRows(
            model.take(kept),
            sampled_objective(whole.objective, kept, chances),
            tuple(sampled_members(members, kept, chances) for members in whole.members),
        )
        return Sample(InMemoryRows((shard,)), kept.size / n_rows)


@dataclass(frozen=True, eq=False)
class InMemoryScores:
    """Rows in this process at some parameters; scores live as long as this object."""

    rows: InMemoryRows
    shards: tuple[Shard, ...]

    def reduce(self, *asks: Ask[Any], beside: InMemoryScores | None = None) -> list[Any]:
        """Put the questions to every shard, each in a thread of its own."""
        others: Sequence[Shard | None] = [None] * len(self.shards) if beside is None else beside.shards

        def answers(shard: Shard, other: Shard | None) -> list[Any]:
            return [ask.part(shard, other) for ask in asks]

        parts = in_threads(answers, self.shards, others)
        return [ask.total([answer[number] for answer in parts]) for number, ask in enumerate(asks)]

    def ranks(self, bank: int) -> Ranks:
        """Return where the scores of a bank's members stand."""
        members = [shard.data.members[bank] for shard in self.shards]
        codes, shares = (_joined([getattr(part, name) for part in members]) for name in ("codes", "shares"))
        return SortedRanks(self._scores, Members(codes, shares))

    def counts(self) -> Counts:
        """Return every row's score, as the model's users will compute it, with who it belongs to."""
        assert self.rows.people is not None
        return self.rows.people.with_scores(
            _joined(in_threads(lambda shard, _: shard.told_scores, self.shards, self.shards))
        )

    @cached_property
    def _scores(self) -> Floats:
        scores: Floats = _joined(in_threads(lambda shard, _: shard.scores, self.shards, self.shards))
        return scores


def _joined(arrays: Sequence[Any]) -> Any:
    """Return arrays one after the other; one alone is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _n_threads() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


def in_threads(
    work: Callable[[Any, Any], Answer], items: Sequence[Any], others: Sequence[Any]
) -> list[Answer]:
    """Do the work for all pairs of items, the first of them in this thread; deadlines hold in all."""
    if len(items) == 1:
        return [work(items[0], others[0])]
    with ThreadPoolExecutor(max(1, min(len(items), _n_threads()) - 1)) as pool:
        futures = [
            pool.submit(copy_context().run, work, item, other)
            for item, other in zip(items[1:], others[1:], strict=True)
        ]
        try:
            # A thread keeps what it has freed: one that waits would double the memory of the one that works.
            return [work(items[0], others[0]), *(future.result() for future in futures)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # nobody will look at their answers
            raise


@dataclass(frozen=True, eq=False)
class InMemoryData:
    """A training set in this process: what stays the same while constraints on it are corrected.

    Parameters
    ----------
    model
        Scores all rows; to be split it needs ``take``.
    objective
        The loss, tied to all rows.
    people
        What the referee must know of all rows.
    n_shards
        How many shards, for formulas that are sums over rows. By default as many as there are threads
        (``NUMBA_NUM_THREADS``), and fewer if rows are few.
    """

    model: Any
    objective: Objective
    people: People | None = None
    n_shards: int | None = None

    def __post_init__(self) -> None:
        if self.n_shards is not None:
            check_count(self.n_shards, "n_shards")
            if self.n_shards > 1 and not hasattr(self.model, "take"):
                raise InputError(f"{type(self.model).__name__} has no take(rows), so it cannot be split")

    def rows(self, members: tuple[Members, ...] = (), *, additive: bool = True) -> InMemoryRows:
        """Return the rows with the members that each bank of atoms is about.

        Formulas that are not sums over rows need all of them in one shard.
        """
        n_rows = self.objective.shares.size
        split = self._split if additive else [(slice(0, n_rows), self.model)]
        whole = ShardRows(self.model, self.objective, members)
        return InMemoryRows(
            tuple(
                ShardRows(
                    model, self.objective.take(rows), tuple(part.take(rows) for part in members), rows.start
                )
                for rows, model in split
            ),
            self.people,
            whole if hasattr(self.model, "take") and self.objective.loss.additive else None,
        )

    @cached_property
    def _split(self) -> list[tuple[slice, ScoreModel]]:
        """Consecutive rows, with the model of each."""
        n_rows = self.objective.shares.size
        n_shards = self.n_shards
        if n_shards is None:
            entries = getattr(self.model, "n_entries", _USUAL_ENTRIES * n_rows)
            n_shards = max(1, min(_n_threads(), entries // _ENTRIES_PER_THREAD))
        if n_shards == 1 or not hasattr(self.model, "take"):
            return [(slice(0, n_rows), self.model)]
        borders = np.linspace(0, n_rows, n_shards + 1).astype(int).tolist()
        slices = [slice(first, stop) for first, stop in pairwise(borders)]
        return [(rows, self.model.take(rows)) for rows in slices]
