"""The program: its commands, and what they have in common."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import partialfair
from partialfair.cli._data import data_app
from partialfair.cli._intervals import IntervalCommand
from partialfair.cli._score_commands import adjust, audit, compare, export, predict
from partialfair.cli._table_commands import demo, frontier, train
from partialfair.cli.output import echo
from partialfair.exceptions import InputError
from partialfair.utils.extras import PAPER_COMMANDS, command_plugins, missing_paper
from partialfair.utils.text import MessageFormatter, message_text

__all__ = ["app", "run"]

_UsageError: Any = typer.BadParameter.__base__
"""What the parser raises: a class of click, or of the copy of it that later versions of typer bring along."""

_LONGEST_COMPLAINT = 500
"""Characters of the parser's complaint, which repeats what was typed, however long; a hint follows it."""


class _Commands(TyperGroup):
    """The commands of this package, and those of other distributions, which are imported when called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*dict.fromkeys([*super().list_commands(ctx), *command_plugins()])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one of another distribution as it is listed, by the distribution's summary."""
        own = super().get_command(ctx, cmd_name)
        plugin = None if own is not None else command_plugins().get(cmd_name)
        if plugin is None:
            return own
        return TyperCommand(cmd_name, help=f"{plugin.dist.metadata['Summary']}." if plugin.dist else None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, and its arguments."""
        name = args[0]
        if name in self.commands:
            return super().resolve_command(ctx, args)
        plugin = command_plugins().get(name)
        if plugin is not None:
            return name, typer.main.get_command(plugin.load()), args[1:]
        if name in PAPER_COMMANDS:
            raise missing_paper(f"partialfair {name}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="partialfair",
    cls=_Commands,
    help="Audit scoring models, and train them, so that groups are alike on a chosen band of percentiles.",
    epilog="Exit codes: 0 fine, 1 a gate failed or a promise was not kept, 2 bad input, 130 interrupted. "
    "What messages mean and what to do: docs/in_the_way.md.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(
    cls=IntervalCommand,
    epilog="Example: partialfair audit scores.csv --score p --group sex --label hired --interval 0.05 0.30 "
    "--threshold 0.5 --report audit.html",
)(audit)
app.command(
    cls=IntervalCommand,
    epilog="Example: partialfair compare old.csv new.csv --score p --group sex --id person "
    "--interval 0.1 0.3",
)(compare)
app.command(
    cls=IntervalCommand,
    epilog="Example: partialfair train people.csv --target hired --group sex --interval 0.05 0.30 "
    "--max-gap 0.05 --id person --out model",
)(train)
app.command(
    "path",
    cls=IntervalCommand,
    epilog="Example: partialfair path people.csv --target hired --group sex --interval 0.05 0.30 "
    "--max-gaps 0.02,0.05,0.1,0.2 --best 0.1 --id person --out path",
)(frontier)
app.command(
    cls=IntervalCommand,
    epilog="Example: partialfair adjust scores.csv --score p --group sex --interval 0.05 0.30 --max-gap 0.05 "
    "--out adjusted, and for new people: partialfair adjust new.csv --score p --group sex "
    "--apply adjusted/map.json --out new",
)(adjust)
app.command(epilog="Example: partialfair predict model new.csv --out scores.csv")(predict)
app.command(epilog="Example: partialfair export model model.onnx")(export)
app.command(epilog="Example: partialfair demo --out demo")(demo)
app.add_typer(data_app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"partialfair {partialfair.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(MessageFormatter("partialfair"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("partialfair").setLevel(logging.INFO)


def run() -> int:
    """Parse the command line and run the command; return the exit code.

    The parser's own complaints are refusals as all others: one sentence, in which what was typed is visible.
    """
    try:
        code = app(prog_name="partialfair", standalone_mode=False)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed; older versions return 0
            return 2
        raise InputError(_complaint(error)) from None
    return code if isinstance(code, int) else 0


def _complaint(error: Any) -> str:
    """Return what the parser says, as the beginning of a sentence, and where to read on."""
    said = message_text(error.format_message().rstrip(". \n"), _LONGEST_COMPLAINT)
    command = "partialfair" if error.ctx is None else error.ctx.command_path
    return f"{said[:1].lower()}{said[1:]}; see {command} --help"
