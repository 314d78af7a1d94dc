"""Rows of the data in blocks, and reductions over them.

A `Reduction` is mapped over all blocks, and its results are combined into one. Everything that solvers need
from a problem, its value, gradients and Hessians, is a reduction. So the rows may be in this process, in
files or on other machines: solvers see results whose size does not depend on the number of rows.

::

    Problem ── at(w) ──> ScoredRows ── reduce(reduction, reduction, ...) ──> answers
                            │                                       ▲
                            ├─ Shard: scores, objective, members ─ map ─┐
                            ├─ Shard: scores, objective, members ─ map ─┤  combine, in order
                            └─ Shard: scores, objective, members ─ map ─┘

Rounding errors of sums depend on the order of the additions, and a search on an exact metric can amplify
them. So blocks depend on the model only, not on the number of threads, and results are combined in the order
of the blocks: a fit gives the same model, bit by bit, for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from threading import Condition
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from partialfair.constraints.block import Ranks
from partialfair.constraints.dc.row_columns import RowColumns, single_column
from partialfair.data.groups import Members, members_of
from partialfair.exceptions import InputError
from partialfair.optimization.models import LinearScores, Parameters, ScoreModel
from partialfair.optimization.objectives import Objective, split_loss
from partialfair.optimization.problems.ranks import Cells, Counts, SortedRanks
from partialfair.utils.checks import check_count
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats

Answer = TypeVar("Answer")

_FEWEST_MEMBERS = 1000
"""Smallest number of rows of each group in a sample, or all of them: with fewer the problem would differ."""


class Capability(StrEnum):
    """Computations that rows support; solvers state which they require."""

    GRADIENT = "gradients"
    JACOBIAN = "Jacobians"
    HESSIAN = "Hessians"
    ROWS = "rows of the Jacobian"
    LINEAR = "scores that are linear in the parameters"
    WHOLE = "all rows in one place"
    SAMPLES = "samples of the rows"


def check_capabilities(
    rows: Rows,
    required: frozenset[Capability],
    who: str,
    advice: str = "",
    *,
    reason: str = "which this model does not give",
) -> None:
    """Raise `InputError` that names the required capabilities that rows lack, if there are any."""
    missing = [str(one) for one in Capability if one in required - rows.capabilities]
    if missing:
        raise InputError(f"{who} needs {listed(missing, len(Capability))}, {reason}{advice}")


@dataclass(frozen=True, eq=False)
class ShardRows:
    """Some rows of the data, independent of the parameters.

    Attributes
    ----------
    model
        The model that scores these rows.
    objective
        The loss with the rows' targets and shares, which are normalized over all rows.
    members
        For each bank of atoms the groups of the rows, and their shares of all rows of the bank.
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
    """Some rows at parameters w, as one thread or worker sees them."""

    data: ShardRows
    w: Floats

    @cached_property
    def scores(self) -> Floats:
        """Scores of the rows, computed on first use."""
        # Values, slopes and curvature of a shard at one w use the same scores, which are computed once.
        scores, n_rows = self.data.model.scores(self.w), self.data.objective.targets.size
        if scores.shape != (n_rows,):  # compiled loops would read beyond the end of the array
            raise InputError(f"the model must return {n_rows:,} scores, not an array of shape {scores.shape}")
        return scores

    @property
    def deployed_scores(self) -> Floats:
        """Scores as the model's users will compute them; they may differ by rounding errors."""
        deploy = getattr(self.data.model, "deployed_scores", None)
        return self.scores if deploy is None else deploy(self.w, self.scores)

    @cached_property
    def losses(self) -> tuple[tuple[float, Floats], tuple[float, Floats] | None]:
        """Value and slopes in the scores of the loss's convex part, and of the subtracted part, if any."""
        tied = self.data.objective
        plus, minus = split_loss(tied.loss)
        known = self.scores, tied.targets, tied.shares
        return plus.value_and_slopes(*known), None if minus is None else minus.value_and_slopes(*known)

    def vjp(self, columns: RowColumns) -> Floats:
        """Return ``Jᵀ C``, and sums of the columns as last entries: (n_blocks, n_columns, n_params + 1)."""
        return self.data.model.vjp(self.w, columns)

    def vjp_vector(self, by_score: Floats) -> Floats:
        """Return ``Jᵀ v``: (n_params,)."""
        return np.asarray(self.vjp(single_column(by_score))[0, 0, :-1])

    @property
    def linear(self) -> LinearScores:
        """The model, whose scores must be linear in the parameters."""
        if self.data.linear is None:
            raise InputError(f"scores of {type(self.data.model).__name__} are not linear in the parameters")
        return self.data.linear


class Reduction(Protocol[Answer]):
    """A computation on all rows, shard by shard."""

    def map(self, shard: Shard, reference: Shard | None, /) -> Answer:
        """Return the result for one shard; ``reference`` has the same rows at other parameters, if given."""

    def combine(self, first: Answer, second: Answer, /) -> Answer:
        """Combine two results, the second of which may be added to the first in place.

        The first is for all shards up to some one, the second for the next shard.
        """


class ScoredRows(Protocol):
    """All rows at parameters w."""

    def reduce(self, *reductions: Reduction[Any], reference: Any = None) -> list[Any]:
        """Return the results of some reductions, in one pass over the data.

        Parameters
        ----------
        reductions
            The computations.
        reference
            The same rows at other parameters, if some reduction compares the two.
        """

    def ranks(self, bank: int) -> Ranks:
        """Return the ranks of the scores of a bank's rows in their groups."""

    def counts(self) -> Counts:
        """Return the distribution of weight over the scores, for exact metrics."""


class Rows(Protocol):
    """All rows of a training set."""

    @property
    def parameters(self) -> Parameters:
        """Length and parts of w."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Computations that the rows support."""

    def at(self, w: Floats) -> ScoredRows:
        """Return the rows at parameters w; nothing is computed yet."""

    def sample(self, size: int, seed: int) -> Sample:
        """Return about this many rows, weighted to represent all; requires `Capability.SAMPLES`."""


class Sample(NamedTuple):
    """Some rows, and the fraction of all rows that they are."""

    rows: Rows
    share: float


class TrainingData(Protocol):
    """A training set, wherever its rows are stored."""

    @property
    def cells(self) -> Cells | None:
        """The rows, or cells of rows, to which constraints apply, with their numbers of rows and weights."""

    def rows(self, members: tuple[Members, ...] = (), *, additive: bool = True) -> Rows:
        """Return the rows, with the members of each bank of atoms among the cells.

        Formulas that are not sums over rows need all rows in one place; otherwise raises `InputError`.
        """


@dataclass(frozen=True, eq=False)
class InMemoryRows:
    """Rows in this process, in shards that threads work on.

    Parameters
    ----------
    shards
        Consecutive rows.
    cells
        Weights, groups and labels of the rows; only `ScoredRows.counts` needs them.
    whole
        All rows in one piece, if they can be sampled.
    """

    shards: tuple[ShardRows, ...]
    cells: Cells | None = None
    whole: ShardRows | None = None

    @cached_property
    def parameters(self) -> Parameters:
        """Length and parts of w."""
        return self.shards[0].model.parameters

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """Gradients; Jacobians and Hessians of linear scores; all rows in one place if that is one shard."""
        capabilities = {Capability.GRADIENT}  # any differentiable model has scores and Jᵀv
        if all(shard.linear is not None for shard in self.shards):
            capabilities |= {Capability.JACOBIAN, Capability.HESSIAN, Capability.ROWS, Capability.LINEAR}
        if len(self.shards) == 1:  # which pairwise losses and constraints need
            capabilities.add(Capability.WHOLE)
        if self.whole is not None:
            capabilities.add(Capability.SAMPLES)
        return frozenset(capabilities)

    def at(self, w: Floats) -> InMemoryScores:
        """Return the rows at parameters w."""
        return InMemoryScores(self, tuple(Shard(shard, w) for shard in self.shards))

    def sample(self, size: int, seed: int) -> Sample:
        """Return some rows, in one shard; they have no `counts`.

        Row i is drawn with a probability π_i, and its shares of the loss and of its groups are divided by π_i
        and then scaled, so that they add up to what they do among all rows.
        """
        assert self.whole is not None
        model: Any = self.whole.model
        objective, n_rows = self.whole.objective, self.whole.objective.shares.size
        chances = np.full(n_rows, min(1.0, size / n_rows))
        for groups in self.whole.members:  # rows of small groups are drawn with higher probability
            inside = groups.codes >= 0
            counts = np.bincount(groups.codes[inside])
            enough = np.minimum(_FEWEST_MEMBERS / np.maximum(counts, 1), 1.0)
            chances[inside] = np.maximum(chances[inside], enough[groups.codes[inside]])
        drawn = np.flatnonzero(np.random.default_rng(seed).random(n_rows) < chances)
        shares = objective.shares[drawn] / chances[drawn]
        shares *= objective.shares.sum() / shares.sum()
        members = tuple(
            members_of(
                groups.codes[drawn],
                groups.shares[drawn] / chances[drawn],
                int(groups.codes.max(initial=0)) + 1,
            )
            for groups in self.whole.members
        )
        shard = ShardRows(
            model.take(drawn), Objective(objective.loss, objective.targets[drawn], shares), members
        )
        return Sample(InMemoryRows((shard,)), drawn.size / n_rows)


@dataclass(frozen=True, eq=False)
class InMemoryScores:
    """Rows in this process at some parameters; scores are cached in this object."""

    rows: InMemoryRows
    shards: tuple[Shard, ...]

    def reduce(self, *reductions: Reduction[Any], reference: InMemoryScores | None = None) -> list[Any]:
        """Map the reductions over the shards in threads, and combine in the order of the shards.

        A thread that has finished a shard waits until all shards before it are combined. So there are at most
        as many results as threads, plus the combined one: Hessians are large.
        """
        others: Sequence[Shard | None] = [None] * len(self.shards) if reference is None else reference.shards
        totals: list[Any] = []
        if len(self.shards) == 1:  # for small data, synchronization would take a tenth of a fit
            for reduction in reductions:
                totals.append(reduction.map(self.shards[0], others[0]))
            return totals

        def work(number: int, turns: Turns) -> None:
            nonlocal totals
            answers = [reduction.map(self.shards[number], others[number]) for reduction in reductions]
            with turns.turn_of(number):  # in the order of the shards, so that rounding is reproducible
                triples = zip(reductions, totals, answers, strict=True)
                totals = [one.combine(*two) for one, *two in triples] if number else answers

        in_threads(work, len(self.shards))
        return totals

    def ranks(self, bank: int) -> Ranks:
        """Return the ranks of the scores of a bank's rows."""
        codes = self._of_all_rows(lambda shard: shard.data.members[bank].codes)
        shares = self._of_all_rows(lambda shard: shard.data.members[bank].shares)
        return SortedRanks(self._of_all_rows(attrgetter("scores")), Members(codes, shares))

    def counts(self) -> Counts:
        """Return the score of every row, as users will compute it, with its weight, group and label."""
        assert self.rows.cells is not None
        return self.rows.cells.with_scores(self._of_all_rows(attrgetter("deployed_scores")))

    def _of_all_rows(self, of_shard: Callable[[Shard], Any]) -> Any:
        """Return the concatenated arrays of all shards; that of a single shard is not copied."""
        if len(self.shards) == 1:
            return of_shard(self.shards[0])
        return np.concatenate(map_in_threads(of_shard, self.shards))


def _n_threads() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


class Turns:
    """Lets threads that work on numbers 0, 1, ... pass one after the other, until one of them fails."""

    def __init__(self) -> None:
        self._condition, self._next, self.has_failed = Condition(), 0, False

    @contextmanager
    def turn_of(self, number: int) -> Iterator[None]:
        """Wait until all lower numbers have passed."""
        with self._condition:
            self._condition.wait_for(lambda: self._next == number or self.has_failed)
            if self.has_failed:
                raise CancelledError
            yield
            self._next += 1  # not after an error, so that all others give up
            self._condition.notify_all()

    def fail(self) -> None:
        """Release all threads that wait."""
        with self._condition:
            self.has_failed = True
            self._condition.notify_all()


def in_threads(work: Callable[[int, Turns], None], n_items: int) -> None:
    """Call ``work`` with 0, 1, ..., n_items − 1, started in this order, in threads; deadlines hold in all.

    This thread is one of them: a thread keeps memory that it has freed, so a waiting thread would double the
    memory of a working one.
    """
    # Threads draw numbers from one iterator, which the interpreter's lock protects.
    numbers, turns = iter(range(n_items)), Turns()
    n_threads = 1 if n_items == 1 else min(n_items, _n_threads())

    def work_on() -> None:
        try:
            for number in numbers:
                if turns.has_failed:
                    return
                work(number, turns)
        except CancelledError:  # another thread raises the error
            return
        except BaseException:
            turns.fail()
            raise

    if n_threads == 1:
        return work_on()
    with ThreadPoolExecutor(n_threads - 1) as pool:
        futures = [pool.submit(copy_context().run, work_on) for _ in range(n_threads - 1)]
        try:
            work_on()
            for future in futures:
                future.result()
        except BaseException:  # an interrupt may come at any step
            turns.fail()
            raise


def map_in_threads(function: Callable[[Any], Answer], items: Sequence[Any]) -> list[Answer]:
    """Return the results for all items, computed `in_threads`."""
    if len(items) == 1:
        return [function(items[0])]
    results: list[Any] = [None] * len(items)

    def work(number: int, _: Turns) -> None:
        results[number] = function(items[number])

    in_threads(work, len(items))
    return results


@dataclass(frozen=True)
class ShardSize:
    """Number of rows per shard, which must not depend on the number of threads.

    Attributes
    ----------
    entries
        Smallest number of entries of the model in a shard: smaller shards end before a thread has started.
    entries_of_many
        The same with more than two shards: each needs the interpreter, which threads share.
    entries_of_hessian
        The same for each entry of a Hessian, with more than two shards: initializing and adding Hessians then
        takes at most a few hundredths of a pass.
    usual_entries
        Entries per row of a model without that number.
    multiple
        Rows of all shards but the last are a multiple of this: products of matrices treat the remaining rows
        in another way, with other rounding errors.
    """

    entries: int = 1_000_000
    entries_of_many: int = 1_500_000
    entries_of_hessian: int = 24
    usual_entries: int = 10
    multiple: int = 64

    def n_shards(self, n_entries: int, parameters: Parameters) -> int:
        """Return a power of 2, so that 2, 4 or 8 threads have as many shards each."""
        most = n_entries // self.entries  # shards that justify the start of a thread
        if most > 2:
            of_hessian = self.entries_of_hessian * parameters.n * parameters.block_size
            most = max(2, n_entries // max(self.entries_of_many, of_hessian))
        return 1 << max(0, most.bit_length() - 1)

    def slices(self, n_rows: int, n_shards: int) -> list[slice]:
        """Divide rows."""
        multiple = self.multiple if n_rows >= 2 * n_shards * self.multiple else 1
        # Borders are multiples, except for small data, where shards would be empty.
        borders = [n_rows * k // n_shards // multiple * multiple for k in range(n_shards)]
        return [slice(first, stop) for first, stop in pairwise([*borders, n_rows])]


@dataclass(frozen=True, eq=False)
class InMemoryData:
    """A training set in this process, which does not change while constraints on it are corrected.

    Parameters
    ----------
    model
        Scores all rows; splitting needs its method ``take``.
    objective
        The loss, applied to all rows.
    cells
        Weights, groups and labels of all rows, each of which is a cell; problems without an estimator may
        omit it.
    n_shards
        Number of shards, for formulas that are sums over rows; by default that of `size`.
    size
        Number of rows in a shard.
    """

    model: Any
    objective: Objective
    cells: Cells | None = None
    n_shards: int | None = None
    size: ShardSize = ShardSize()

    def __post_init__(self) -> None:
        if self.n_shards is not None:
            check_count(self.n_shards, "n_shards")
            if self.n_shards > 1 and not hasattr(self.model, "take"):
                raise InputError(f"{type(self.model).__name__} has no take(rows), so it cannot be split")

    def rows(self, members: tuple[Members, ...] = (), *, additive: bool = True) -> InMemoryRows:
        """Return the rows with the members of each bank of atoms.

        Formulas that are not sums over rows need all of them in one shard.
        """
        n_rows = self.objective.shares.size
        split = self._split if additive else [(slice(0, n_rows), self.model)]
        # Members are assigned here, so that constraints may change without dividing the rows again.
        whole = ShardRows(self.model, self.objective, members)
        return InMemoryRows(
            tuple(
                ShardRows(
                    model, self.objective.take(rows), tuple(part.take(rows) for part in members), rows.start
                )
                for rows, model in split
            ),
            self.cells,
            whole if hasattr(self.model, "take") and self.objective.loss.additive else None,
        )

    @cached_property
    def _split(self) -> list[tuple[slice, ScoreModel]]:
        """Consecutive rows, with the model of each part."""
        n_rows = self.objective.shares.size
        n_shards = self.n_shards
        if n_shards is None:
            entries = getattr(self.model, "n_entries", self.size.usual_entries * n_rows)
            n_shards = self.size.n_shards(entries, self.model.parameters)
        if n_shards == 1 or not hasattr(self.model, "take"):
            return [(slice(0, n_rows), self.model)]
        return [(rows, self.model.take(rows)) for rows in self.size.slices(n_rows, n_shards)]
