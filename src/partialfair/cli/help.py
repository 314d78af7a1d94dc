"""The text of ``--help``: usage, what the command does, an example, then its options under headings.

Plain lines, broken between words, have the same layout in all versions of the parser and on narrow terminals.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from enum import Enum
from typing import Any

from typer.core import TyperCommand, TyperGroup

from partialfair.cli.options import EXPERT, OUTPUT

_LONGEST_NAME = 26
"""Characters of an option and its value; longer ones stand on a line of their own, above their help."""


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(text.split()) for text in inspect.cleandoc(command.help or "").split("\n\n")]


def _default(parameter: Any) -> str:
    """Return the default of an option in brackets, or "" if its help text states the default."""
    if parameter.required:
        return " [required]"
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    return "" if value is None or value is False or callable(value) else f" [default: {value}]"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _row(parameter: Any) -> tuple[str, str]:
    """Return how a parameter is typed, and its help."""
    if not _is_option(parameter):
        return (
            f"{parameter.metavar or parameter.name}{'...' if parameter.nargs == -1 else ''}",
            parameter.help or "",
        )
    flag = ", ".join(sorted(parameter.opts, key=len))
    metavar = parameter.metavar or ("" if parameter.is_flag else parameter.name.upper())
    return f"{flag} {metavar}".strip(), f"{parameter.help}{_default(parameter)}"


def _fill(formatter: Any, text: str, column: int = 0, first: str = "") -> None:
    """Write a text, indented, in lines that break between words only and not within ``--max-gap``."""
    indent = " " * column
    first = f"  {first}".ljust(column) if first else indent
    lines = textwrap.wrap(
        text, formatter.width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
    formatter.write("".join(f"{line}\n" for line in lines))


def _write_lists(formatter: Any, panels: dict[str, list[tuple[str, str]]]) -> None:
    for title, rows in panels.items():
        formatter.write(f"\n{title}:\n")
        column = 4 + max((len(name) for name, _ in rows if len(name) <= _LONGEST_NAME), default=8)
        for name, text in rows:
            fits = len(name) <= _LONGEST_NAME
            if not fits:
                formatter.write(f"  {name}\n")
            _fill(formatter, text, column, name if fits else "")


def _write_beginning(command: Any, ctx: Any, formatter: Any) -> None:
    command.format_usage(ctx, formatter)
    for text in _paragraphs(command):
        formatter.write("\n")
        _fill(formatter, text)


class HelpfulCommand(TyperCommand):
    """A command whose help begins with an example, its ``epilog``, and ends with expert options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return arguments, required options and a place for the others."""
        required = [each for each in self.get_params(ctx) if each.required]
        return [*(_row(each)[0] for each in sorted(required, key=_is_option)), "[OPTIONS]"]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write_beginning(self, ctx, formatter)
        if self.epilog:
            formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in self.epilog.splitlines()))
        parameters: Iterable[Any] = self.get_params(ctx)
        titles = {each: getattr(each, "rich_help_panel", None) for each in parameters}
        rest = OUTPUT if OUTPUT in titles.values() else "Options"
        panels: dict[str, list[tuple[str, str]]] = {}
        for each, title in titles.items():
            panels.setdefault(title or (rest if _is_option(each) else "Arguments"), []).append(_row(each))
        if EXPERT in panels:
            panels[EXPERT] = panels.pop(EXPERT)
        _write_lists(formatter, panels)


class HelpfulGroup(TyperGroup):
    """Commands, each listed with the first paragraph of its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write_beginning(self, ctx, formatter)
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        _write_lists(
            formatter,
            {
                "Commands": [(name, _paragraphs(command)[0]) for name, command in commands.items()],
                "Options": [_row(each) for each in self.get_params(ctx)],
            },
        )
        if self.epilog:
            formatter.write("\n")
            _fill(formatter, self.epilog)
