"""``--interval`` in all its forms: one, several (a union), one for each group, or ``auto``.

``--interval 0.05 0.30`` has two words and ``--interval auto`` has one, but options of the parser have a fixed
number of words. This module therefore joins the words of each use before the line is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from partialfair.cli.help import HelpfulCommand
from partialfair.exceptions import InputError

if TYPE_CHECKING:
    from partialfair.data.groups import Groups
    from partialfair.utils.typing import GapScale, GroupLabel, IntervalLike

AUTO: Literal["auto"] = "auto"
WHOLE_GROUPS = (0.0, 1.0)

ANYWHERE = (0.0, 0.25)
"""An interval of the width that ``--interval auto`` uses, the default of `choose_interval`."""

RequestedInterval: TypeAlias = "IntervalLike | Literal['auto']"
"""The interval as typed; the keys of intervals by group are printed names, such as ``"Female × Black"``."""

_OPTION = "--interval"


class IntervalCommand(HelpfulCommand):
    """A command whose ``--interval`` may be followed by one word or by two."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the words of every ``--interval``, then parse as usual."""
        return super().parse_args(ctx, _join_interval_words(args))


def _join_interval_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with ``--interval 0.05 0.30`` as ``--interval "0.05 0.30"``."""
    joined: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":  # options end here
            return [*joined, word, *rest]
        # Both "--interval=0.05 0.30" and "--interval 0.05 0.30" are valid.
        name, equals, value = word.partition("=")
        if name != _OPTION:
            joined.append(word)
            continue
        if not equals:
            if not rest:
                return [*joined, word]  # the parser reports the missing value
            value = rest.pop(0)
        # A second number follows "0.05" and "Women=0.05", unless it has been joined already.
        continues = value != AUTO and " " not in value.rpartition("=")[2].strip()
        if continues and rest and not rest[0].startswith("--"):
            value = f"{value} {rest.pop(0)}"
        joined += [_OPTION, value]
    return joined


def read_interval(uses: Sequence[str] | None) -> RequestedInterval | None:
    """Return the interval that the uses of ``--interval`` request; None without any."""
    from partialfair.data.intervals import as_interval_set

    if not uses:
        return None
    if AUTO in uses:
        if len(uses) > 1:
            raise InputError(f"{_OPTION} auto chooses the interval, so no other can be given")
        return AUTO
    # The key "" stands for uses without a group.
    named: dict[GroupLabel, list[tuple[float, float]]] = {}
    for use in uses:
        # From the right: names of groups may contain "=", as "sex=1" does.
        group, _, ends = use.rpartition("=")
        try:
            low, high = map(float, ends.split())
        except ValueError:
            raise InputError(
                f"{_OPTION} must be two numbers LOW HIGH, GROUP=LOW HIGH, or auto, not {use!r}"
            ) from None
        named.setdefault(group, []).append((low, high))
    if "" in named and len(named) > 1:
        one_group = next(filter(None, named))
        raise InputError(
            f"{_OPTION} is given both for all groups and for group {one_group!r}; name the group in every "
            "use, or in none"
        )
    unions: dict[GroupLabel, Any] = {}
    for name, pairs in named.items():
        parts = as_interval_set(_union(pairs)).parts
        unions[name] = parts[0] if len(parts) == 1 else list(parts)
    requested: RequestedInterval = unions.get("", unions)
    return requested


def _union(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return disjoint intervals with the same union; invalid intervals are kept, and raise an error later."""
    disjoint: list[tuple[float, float]] = []
    for low, high in sorted(pairs):
        # Intervals that touch or overlap become one.
        if disjoint and disjoint[-1][0] < disjoint[-1][1] and low <= disjoint[-1][1] and low < high:
            disjoint[-1] = (disjoint[-1][0], max(high, disjoint[-1][1]))
        else:
            disjoint.append((low, high))
    return disjoint


def by_label(interval: IntervalLike, groups: Groups) -> IntervalLike:
    """Return the interval with labels of groups instead of names; raise an error for unknown names."""
    if not isinstance(interval, Mapping):
        return interval
    labels = dict(zip(groups.names, groups.labels, strict=True))
    for name in interval:
        if name not in labels:
            known = ", ".join(map(repr, list(labels)[:12])) + (", …" if len(labels) > 12 else "")
            raise InputError(
                f"{_OPTION} names group {name!r}, which is not in the data; the groups are {known}"
            )
    for name in labels:
        if name not in interval:
            raise InputError(f"{_OPTION} is missing for group {name!r}; give an interval for every group")
    return {labels[str(name)]: parts for name, parts in interval.items()}


def check_page(interval: RequestedInterval, report: object) -> None:
    """Raise an error, before any work, for intervals that HTML reports cannot show."""
    from partialfair.data.intervals import as_interval_set

    if report is None or interval == AUTO:
        return
    if isinstance(interval, Mapping) or len(as_interval_set(interval).parts) > 1:
        raise InputError(
            "--report shows one interval that is the same for all groups, not a union or one for each group; "
            f"leave --report out, or give one {_OPTION}"
        )


def check_scale(interval: RequestedInterval, gap_scale: GapScale) -> None:
    """Raise an error for intervals by group on the absolute scale, which has no meaning there."""
    if gap_scale == "absolute" and isinstance(interval, Mapping):
        raise InputError(f"--gap-scale absolute has no meaning when {_OPTION} differs by group")


def interval_words(interval: RequestedInterval, higher_is_better: bool) -> str:
    """Describe an interval in words, as ranks and as percentiles; intervals by group with their groups."""
    from partialfair.data.groups import group_name
    from partialfair.data.intervals import as_interval_set, interval_text

    if isinstance(interval, Mapping):
        return "; ".join(
            f"{group_name(group)}: {interval_text(as_interval_set(parts), higher_is_better)}"
            for group, parts in interval.items()
        )
    if interval == AUTO:
        return "an interval chosen by the scores"
    return interval_text(as_interval_set(interval), higher_is_better)


def interval_among(interval: IntervalLike, groups: Groups) -> IntervalLike:
    """Return the interval restricted to these groups."""
    if not isinstance(interval, dict):
        return interval
    return {label: interval[label] for label in groups.labels}


def interval_record(interval: RequestedInterval) -> Any:
    """Return plain data for JSON: ``[low, high]``, a list of those, a mapping from group name, or "auto"."""
    from partialfair.data.groups import group_name
    from partialfair.data.intervals import as_interval_set

    if isinstance(interval, Mapping):
        return {group_name(name): interval_record(parts) for name, parts in interval.items()}
    if interval == AUTO:
        return AUTO
    parts = [list(part) for part in as_interval_set(interval).parts]
    return parts[0] if len(parts) == 1 else parts
