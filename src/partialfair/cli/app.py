"""The program: its commands, and the commands of other distributions.

Each command checks its settings, runs, presents its result and sets the exit code. Commands import what they
need when they run, so that neither ``--help`` nor another command waits for it.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

import partialfair
from partialfair.cli.help import HelpfulCommand, HelpfulGroup
from partialfair.cli.intervals import IntervalCommand, check_page
from partialfair.cli.options import build_command
from partialfair.cli.output import (
    Content,
    Outputs,
    announce,
    check_directory,
    command_name,
    console,
    echo,
    echo_data,
    json_text,
    note,
    printing,
    step,
)
from partialfair.cli.settings import (
    HELP_ORDER,
    AdjustSettings,
    AuditSettings,
    CompareSettings,
    DemoSettings,
    ExportSettings,
    PathSettings,
    PredictSettings,
    TrainSettings,
)
from partialfair.exceptions import InputError
from partialfair.utils.extras import PAPER_COMMANDS, command_plugins, import_quickly, missing_paper
from partialfair.utils.text import MessageFormatter, message_text

if TYPE_CHECKING:
    from rich.console import Console

_UsageError: Any = typer.BadParameter.__base__
"""The parser's exception: a class of click, or of the copy of click in later versions of typer."""

_LONGEST_MESSAGE = 500
"""Longest message of the parser, in characters: it repeats what was typed, however long."""


class _Commands(HelpfulGroup):
    """The commands of this package and of other distributions, which are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*dict.fromkeys([*super().list_commands(ctx), *command_plugins()])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; for another distribution, its name and the distribution's summary."""
        found = super().get_command(ctx, cmd_name)
        # Other distributions cannot replace the commands of this package.
        plugin = None if found is not None else command_plugins().get(cmd_name)
        if plugin is None:
            return found
        return HelpfulCommand(cmd_name, help=f"{plugin.dist.metadata['Summary']}." if plugin.dist else None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the called command and its arguments."""
        name = args[0]
        if name in self.commands:
            return super().resolve_command(ctx, args)
        plugin = command_plugins().get(name)
        if plugin is not None:
            # The other distribution is imported here and not before.
            return name, typer.main.get_command(plugin.load()), args[1:]
        if name in PAPER_COMMANDS:
            raise missing_paper(f"partialfair {name}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="partialfair",
    cls=_Commands,
    help="Audit scoring models, and train models whose groups have similar scores on a chosen interval of "
    "ranks.\n\n"
    "Start with: partialfair data sample adult.csv",
    epilog="Exit codes: 0 success, 1 a gate failed or a constraint is violated, 2 bad input, "
    "130 interrupted. docs/troubleshooting.md explains the messages.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 102},
)


class _Result(Protocol):
    """The result of a command: text on the terminal, JSON, files and an HTML report."""

    def print(self, out: Console) -> None: ...
    def record(self) -> dict[str, Any]: ...
    def files(self) -> Mapping[str, Content]: ...
    def page(self) -> str: ...


def _present(
    result: _Result,
    outputs: Outputs,
    *,
    as_json: bool,
    memo: Callable[[], str] | None = None,
    then: Callable[[], None] | None = None,
) -> None:
    """Write all files of a result or none, and print the result or its JSON."""
    # With many groups the pairs of a record are slow.
    record: Mapping[str, Any] = result.record() if as_json or outputs.directory is not None else {}
    record = outputs.write(result.files, record, result.page, memo)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            result.print(console())
            announce(outputs, record)
            if then is not None:
                then()


def audit(settings: AuditSettings) -> None:
    """Measure the gap between groups of a model's scores, with confidence intervals.

    Exits with 1 if the gap exceeds --fail-above.
    """
    from partialfair.cli.audit import FILES, measure, read

    settings.check()
    check_page(settings.interval, settings.report)
    outputs = Outputs(settings.out, FILES, settings.report, settings.memo)
    outputs.check(settings.file)
    result = measure(read(settings.file, settings), settings)
    _present(result, outputs, as_json=settings.as_json, memo=result.memo)
    if not result.succeeded:
        raise typer.Exit(1)


def compare(settings: CompareSettings) -> None:
    """Compare the gaps of several models on the same rows.

    Also lists the rows that enter and leave the interval.
    """
    from partialfair.cli.compare import FILES
    from partialfair.cli.compare import compare as compare_models

    settings.check()
    check_page(settings.interval, settings.report)
    outputs = Outputs(settings.out, FILES, settings.report)
    outputs.check(*settings.files)
    _present(compare_models(settings), outputs, as_json=settings.as_json)


def train(settings: TrainSettings) -> None:
    """Train a classifier with a limit on the gap, and evaluate it on held-out rows.

    Exits with 1 if no feasible model was found. Use path to see what several limits cost in accuracy.
    """
    from partialfair.cli.train import train as train_models
    from partialfair.cli.train_report import MODEL, file_names

    settings.check()
    check_page(settings.interval, settings.report)
    out, name = settings.out, MODEL
    # A file for the model names the directory of all the rest as well.
    if out.suffix == ".skops":
        out, name = out.parent, out.name
    outputs = Outputs(out, file_names(name), settings.report)
    outputs.check(settings.file)
    result = train_models(settings)
    satisfied = result.result.satisfied is not False
    _present(
        result,
        outputs,
        as_json=settings.as_json,
        then=lambda: _say_how_to_score(out / result.file_name, satisfied=satisfied),
    )
    if not result.succeeded:
        raise typer.Exit(1)


def frontier(settings: PathSettings) -> None:
    """Train models for several limits, and compare accuracy and gap on held-out rows.

    The first model has no constraint.
    """
    from partialfair.cli.path import FILES, trace
    from partialfair.cli.train_report import MODEL

    settings.check()
    check_page(settings.interval, settings.report)
    outputs = Outputs(settings.out, FILES, settings.report)
    outputs.check(settings.file)
    result = trace(settings)
    then = None
    if result.chosen is not None:

        def then() -> None:
            _say_how_to_score(settings.out / MODEL, satisfied=True)

    _present(result, outputs, as_json=settings.as_json, then=then)
    if result.refusal is not None:
        echo(f"partialfair: {result.refusal}", err=True)
        raise typer.Exit(1)


def _say_how_to_score(path: Path, *, satisfied: bool) -> None:
    """Print the command that uses the saved model."""
    infeasible = "" if satisfied else " --allow-infeasible"
    predict = f"{command_name()} predict {shlex.quote(str(path))}"
    echo(f"score new rows: {predict} NEW.csv --out scores.csv{infeasible}")


def adjust(settings: AdjustSettings) -> None:
    """Change the scores of an existing model as little as possible, up to a limit on the gap.

    The order within groups is kept, without new ties. The new scores depend on the group, so scoring new data
    requires the group, which may be unlawful in your jurisdiction. Without --out the command prints the
    adjusted scores as CSV.
    """
    from partialfair.cli.adjust import FILES
    from partialfair.cli.adjust import adjust as adjust_scores
    from partialfair.cli.output import csv_text

    settings.check()
    outputs = Outputs(settings.out, FILES)
    outputs.check(*filter(None, [settings.file, settings.apply_map]))
    result = adjust_scores(settings)
    if settings.out is not None:
        _present(result, outputs, as_json=settings.as_json)
        return
    # Standard output is for the scores alone.
    for sentence in result.sentences:
        note(sentence)
    with printing():
        echo_data(csv_text(result.table))


def predict(settings: PredictSettings) -> None:
    """Score the rows of a table with a saved model.

    The output has the columns score, probability and decision, and audit can read it.
    """
    with import_quickly():
        import scipy.special  # noqa: F401 - first: skops looks for its functions in every module before it

        from partialfair.cli.output import csv_text
        from partialfair.cli.predict import predict as predict_scores
        from partialfair.cli.predict import write

    if settings.as_json and settings.out is None:
        raise InputError("--json needs --out, because the scores would go to standard output")
    result = predict_scores(settings)
    if settings.out is not None:
        write(result, settings.out)
    for sentence in result.notes:
        note(sentence)
    with printing():
        if settings.out is None:
            echo_data(csv_text(result.table))
        elif settings.as_json:
            echo(json_text(result.record(settings.out)))
        else:
            positive = f"{result.model.target} = {result.model.labels[1]}"
            echo(f"{len(result.table):,} rows scored, {result.selected:,} of them {positive}: {settings.out}")


def export(settings: ExportSettings) -> None:
    """Convert a saved model to ONNX, for scoring with onnxruntime.

    For a model of train or path, the ONNX file has one input per column of the table and includes the
    encoding.
    """
    from partialfair.cli.predict import export as export_model

    result = export_model(settings)
    with printing():
        if settings.as_json:
            echo(json_text(result.record()))
        else:
            echo(f"{result.model_path} as ONNX: {settings.out}")
            for title, values in (("inputs", result.inputs), ("outputs", result.outputs)):
                echo(f"{title}: " + ", ".join(f"{name}: {kind}" for name, kind in values))


def demo(settings: DemoSettings) -> None:
    """Train models with several limits on synthetic admissions data, and report them."""
    from partialfair.cli.demo import FILES, PAGE, run

    outputs = Outputs(settings.out, FILES, settings.out / PAGE)
    # The command generates its table and reads no file.
    outputs.check()
    result = run(settings)
    _present(result, outputs, as_json=False, then=lambda: echo(result.commands()))


_COMMANDS: tuple[tuple[Any, Any, str, str], ...] = (
    (
        AuditSettings,
        audit,
        "audit",
        "partialfair audit scores.csv --score p --group sex --label hired \\\n"
        "    --interval 0.05 0.30 --threshold 0.5 --report audit.html",
    ),
    (
        CompareSettings,
        compare,
        "compare",
        "partialfair compare old.csv new.csv --score p --group sex --id person \\\n    --interval 0.05 0.30",
    ),
    (
        TrainSettings,
        train,
        "train",
        "partialfair train people.csv --target hired --group sex --id person \\\n"
        "    --interval 0.05 0.30 --max-gap 0.05 --out model",
    ),
    (
        PathSettings,
        frontier,
        "path",
        "partialfair path people.csv --target hired --group sex --id person \\\n"
        "    --interval 0.05 0.30 --max-gaps 0.02,0.05,0.1,0.2 --best 0.1 --out path",
    ),
    (
        AdjustSettings,
        adjust,
        "adjust",
        "partialfair adjust scores.csv --score p --group sex \\\n"
        "    --interval 0.05 0.30 --max-gap 0.05 --out adjusted\n"
        "partialfair adjust new.csv --score p --group sex \\\n"
        "    --apply adjusted/map.json --out new",
    ),
    (
        PredictSettings,
        predict,
        "predict",
        "partialfair predict model new.csv --out scores.csv",
    ),
    (ExportSettings, export, "export", "partialfair export model model.onnx"),
    (DemoSettings, demo, "demo", "partialfair demo --out demo"),
)
for _settings, _run, _name, _example in _COMMANDS:
    app.command(_name, cls=IntervalCommand, epilog=_example)(build_command(_settings, _run, HELP_ORDER))


data_app = typer.Typer(
    cls=HelpfulGroup,
    help="Write a sample data set; list, download and locate the data sets of the paper.",
    no_args_is_help=True,
)


@data_app.command("sample", cls=HelpfulCommand, epilog="partialfair data sample adult.csv")
def data_sample(
    file: Annotated[Path, typer.Argument(help="The CSV file to write.", metavar="FILE")],
) -> None:
    """Write 5,000 rows of UCI Adult as CSV, with a score to audit. No network is needed.

    Columns: 11 features, sex, income (>50K or <=50K), and score, the out-of-fold probability of a high income
    in a logistic regression.
    """
    from partialfair.datasets.adult import adult_csv
    from partialfair.utils.files import write_file

    write_file(file, adult_csv().encode())
    columns = "--score score --group sex --label income --interval 0.05 0.30"
    with printing():
        echo(f"5,000 rows of UCI Adult (CC BY 4.0, Becker and Kohavi, 1996): {file}")
        echo(f"audit the scores: {command_name()} audit {shlex.quote(str(file))} {columns}")


@data_app.command("list", cls=HelpfulCommand, epilog="partialfair data list")
def data_list() -> None:
    """List the data sets, and whether their files are on this machine."""
    from partialfair import datasets

    located = datasets.list_datasets()
    with printing():
        for dataset in located:
            entry, state = dataset.entry, "ready" if dataset.available else "not fetched"
            echo(f"{entry.name:<12} {state:<14} {entry.summary}\n{'':<27} {entry.terms}")


@data_app.command("fetch", cls=HelpfulCommand, epilog="partialfair data fetch a9a")
def data_fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set; see data list.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for the files. Default: the user's cache."),
    ] = None,
) -> None:
    """Download the files of a data set, check them, and print their paths."""
    from partialfair import datasets

    if out is not None:
        check_directory(out)
    with step(f"fetching {name}"):
        paths = datasets.fetch(name, path=out)
    _print_paths(name, paths)


@data_app.command("path", cls=HelpfulCommand, epilog="partialfair data path a9a")
def data_path(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set; see data list.")],
) -> None:
    """Print the paths of the files of a data set on this machine."""
    from partialfair import datasets

    located = datasets.locate(name)
    missing = [file for file, path in located.items() if path is None]
    if missing:
        raise InputError(f"{missing[0]} is not on this machine; run: partialfair data fetch {name}")
    _print_paths(name, [path for path in located.values() if path is not None])


def _print_paths(name: str, paths: Sequence[Path]) -> None:
    for path in paths:
        echo(str(path))
    if not paths:
        echo(f"{name} is part of the package: there is nothing to fetch", err=True)


app.add_typer(data_app, name="data")


def _version(requested: bool) -> None:
    if requested:
        echo(f"partialfair {partialfair.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(MessageFormatter("partialfair"))
    # Where standard error is not a terminal, progress is logged there.
    logging.basicConfig(handlers=[handler])
    logging.getLogger("partialfair").setLevel(logging.INFO)


def run() -> int:
    """Parse the command line, run the command and return the exit code.

    An error of the parser becomes an `InputError`, in which special characters that were typed are visible.
    """
    try:
        # Without standalone mode the parser raises its errors and returns the exit code.
        code = app(prog_name=command_name(), standalone_mode=False)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # older versions print the help and return 0
            echo(error.format_message(), err=True)
            return 2
        message = message_text(error.format_message().rstrip(". \n"), _LONGEST_MESSAGE)
        where = "partialfair" if error.ctx is None else error.ctx.command_path
        raise InputError(f"{message[:1].lower()}{message[1:]}; see {where} --help") from None
    return code if isinstance(code, int) else 0
