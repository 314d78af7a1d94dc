"""Declare options of the command line: once, as fields of the dataclasses of `settings`.

A field holds its option's type, flag, default, help and panel. From a dataclass of such fields
`build_command` builds the function whose signature the parser reads. This function calls the command with
the settings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, fields
from enum import Enum, StrEnum
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import ArgumentInfo

COLUMNS, REQUEST, EVALUATION = "Columns", "Interval and limit", "Evaluation"
FIT, OUTPUT, EXPERT = "Model", "Output", "Expert options"
"""Headings of the options in a command's help; the last is printed last."""


# Choices, by the option that has them.
Scales = StrEnum("Scales", ["interval", "absolute"])  # --gap-scale
RankWithin = StrEnum("RankWithin", ["group", "group_and_label"])
GroupTerms = StrEnum("GroupTerms", ["none", "intercept", "interactions"])
SmallGroups = StrEnum("SmallGroups", ["list", "merge", "keep"])
MissingGroups = StrEnum("MissingGroups", ["error", "ignore"])
Enforcement = StrEnum("Enforcement", ["exact", "surrogate"])
Outside = StrEnum("Outside", ["free", "no_worse"])
FailureKinds = StrEnum("FailureKinds", ["estimate", "exceeds", "inconclusive"])  # --fail-on
Models = StrEnum("Models", ["linear", "lightgbm", "xgboost", "hist"])


def option(
    kind: Any,
    flag: str,
    help: str,
    panel: str | None = None,
    *,
    default: Any = MISSING,
    read: Callable[[Any], Any] | None = None,
    **limits: Any,
) -> Any:
    """Declare a field of settings as an option of the command line.

    Parameters
    ----------
    kind
        The type that the parser reads, in most cases the type of the field.
    flag
        The option as it is typed, followed by a word that stands for its value, such as ``--out DIR``.
    help, panel
        The text of ``--help``, and the heading under which it is printed.
    default
        The default of the field. Without it, flags default to False and optional types to None; other options
        are required.
    read
        A function from the parsed value (the text, for choices) to the value of the field.
    limits
        ``min`` and ``max`` of a number.
    """
    # Two words for options with two values: "--interval LOW HIGH".
    name, _, metavar = flag.partition(" ")
    parameter = typer.Option(name, metavar=metavar or None, help=help, rich_help_panel=panel, **limits)
    if default is MISSING and kind is bool:
        default = False
    elif default is MISSING and type(None) in get_args(kind):
        default = None
    return _declared(kind, parameter, default, read)


def argument(kind: Any, metavar: str, help: str) -> Any:
    """Declare a field of settings as an argument: a file, which the command opens itself."""
    return _declared(kind, typer.Argument(readable=False, metavar=metavar, help=help), MISSING, None)


def _declared(kind: Any, parameter: Any, default: Any, read: Callable[[Any], Any] | None) -> Any:
    metadata = {"kind": kind, "parameter": parameter, "read": read}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


Settings = TypeVar("Settings")


def build_command(
    settings: type[Settings], run: Callable[[Settings], None], order: Sequence[str]
) -> Callable[..., None]:
    """Return the function that the parser calls: its parameters are the fields of the settings.

    Arguments keep the order of their declaration. Help lists options in the given order of names.
    """
    declared: Any = settings
    # The parser assigns positional arguments in the order of parameters.
    arguments = [each for each in fields(declared) if isinstance(each.metadata["parameter"], ArgumentInfo)]
    options = [each for each in fields(declared) if each not in arguments]
    ordered = [*arguments, *sorted(options, key=lambda each: order.index(each.name))]

    def call(**given: Any) -> None:
        for each in ordered:
            read, value = each.metadata["read"], given[each.name]
            if isinstance(value, Enum):  # some versions of the parser give texts instead
                value = value.value
            given[each.name] = read(value) if read is not None else value
        run(settings(**given))

    annotated: Any = Annotated
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else _parsed_default(each),
            annotation=annotated[each.metadata["kind"], each.metadata["parameter"]],
        )
        for each in ordered
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__name__, call.__doc__ = run.__name__, run.__doc__
    return call


def _parsed_default(declared: Any) -> Any:
    """Return the default of a field as a parsed value, or None if `read` converts parsed values."""
    kind = declared.metadata["kind"]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(declared.default or "none")
    return None if declared.metadata["read"] is not None else declared.default


JSON_HELP = "Print the record as JSON instead of tables."

AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP, rich_help_panel=OUTPUT)]
"""``--json`` for commands of other distributions, whose options are parameters of functions."""
