"""The commands and their options; the work is in the modules beside this one."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import partialfair
from partialfair._files import scratch
from partialfair._text import MessageFormatter
from partialfair.cli import _audit, _compare
from partialfair.cli._audit import AuditSettings, Gate, check_numbers, measure, print_audit
from partialfair.cli._compare import Comparison, align, print_comparison
from partialfair.cli._data import data_app
from partialfair.cli._demo import demo_scores
from partialfair.cli._options import (
    AsJson,
    Band,
    Categories,
    Confidence,
    ConstraintName,
    Dropped,
    Enforce,
    Enforcement,
    FailAbove,
    Group,
    GroupTerms,
    Ids,
    Label,
    Out,
    PosLabel,
    RankWithin,
    Report,
    Scale,
    Scales,
    Score,
    Seed,
    Table,
    Target,
    Terms,
    Threshold,
    TimeLimit,
    Weight,
    Within,
)
from partialfair.cli._output import console, echo, echo_data, json_text, note, printing, step
from partialfair.cli._tables import ColumnNames, ScoreTable, read_scores
from partialfair.cli._writing import Outputs
from partialfair.exceptions import InputError

__all__ = ["app"]

app = typer.Typer(
    name="partialfair",
    help="Train and audit scoring models that are fair on a chosen band of percentiles.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
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


@app.command(
    epilog="Example: partialfair audit scores.csv --score p --group sex --label hired --interval 0.05 0.30 "
    "--threshold 0.5 --report audit.html"
)
def audit(
    file: Table,
    score: Score,
    group: Group,
    label: Label = None,
    pos_label: PosLabel = None,
    weight: Weight = None,
    interval: Band = (0.0, 1.0),
    threshold: Threshold = None,
    gap_scale: Scale = Scales.interval,
    rank_within: Within = RankWithin.group,
    confidence: Confidence = 0.95,
    fail_above: FailAbove = None,
    fail_metric: Annotated[
        str, typer.Option("--fail-metric", help="Metric that --fail-above looks at.")
    ] = "statistical_parity",
    out: Out = None,
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Find where on the percentile axis a model's scores differ between groups, by how much, how surely."""
    settings = AuditSettings(
        interval, threshold, gap_scale.value, rank_within.value, confidence, pos_label, seed
    )
    gate = None if fail_above is None else Gate(fail_metric, fail_above)
    check_numbers(settings, gate)
    outputs = Outputs(out, _audit.FILES, report)
    outputs.check(file)
    result = measure(_read(file, ColumnNames(score, tuple(group), label, weight)), settings, gate)
    record = outputs.write(result.files, result.record(gate), result.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            print_audit(result, gate, console())
            _announce(outputs, record)
    if gate is not None and not result.passes(gate):
        raise typer.Exit(1)


@app.command(
    epilog="Example: partialfair compare old.csv new.csv --score p --group sex --id person --interval 0.1 0.3"
)
def compare(
    files: Annotated[
        list[Path], typer.Argument(readable=False, help="Two or more files with scores of the same people.")
    ],
    score: Score,
    group: Group,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column that identifies a person; without it rows are matched in order."),
    ] = None,
    label: Label = None,
    pos_label: PosLabel = None,
    weight: Weight = None,
    interval: Band = (0.0, 1.0),
    threshold: Threshold = None,
    gap_scale: Scale = Scales.interval,
    rank_within: Within = RankWithin.group,
    confidence: Confidence = 0.95,
    out: Out = None,
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Compare models on the same people: their gaps side by side, and who enters and leaves the interval."""
    if len(files) < 2:
        raise InputError("compare needs at least two files; for one use audit")
    settings = AuditSettings(
        interval, threshold, gap_scale.value, rank_within.value, confidence, pos_label, seed
    )
    check_numbers(settings, None)
    outputs = Outputs(out, _compare.FILES, report)
    outputs.check(*files)
    columns = ColumnNames(score, tuple(group), label, weight, id_column)
    tables = align([_read(file, columns) for file in files])
    comparison = Comparison(tuple(measure(table, settings) for table in tables))
    record = outputs.write(comparison.files, comparison.record(), comparison.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            print_comparison(comparison, console())
            _announce(outputs, record)


@app.command(
    epilog="Example: partialfair train people.csv --target hired --group sex --interval 0.05 0.30 "
    "--max-gap 0.05 --id person --out model"
)
def train(
    file: Table,
    target: Target,
    group: Group,
    pos_label: PosLabel = None,
    weight: Weight = None,
    id_columns: Ids = None,
    drop: Dropped = None,
    category: Categories = None,
    constraint: ConstraintName = "statistical_parity",
    interval: Band = (0.0, 1.0),
    max_gap: Annotated[float, typer.Option("--max-gap", help="The largest gap allowed, in [0, 1].")] = 0.05,
    gap_scale: Scale = Scales.interval,
    enforce: Enforce = Enforcement.exact,
    group_terms: Terms = GroupTerms.none,
    alpha: Annotated[float, typer.Option("--alpha", help="Strength of the l2 penalty.")] = 1e-4,
    time_limit: TimeLimit = None,
    test_size: Annotated[
        float, typer.Option("--test-size", help="Share of the rows held out to judge the model; 0 for none.")
    ] = 0.2,
    confidence: Confidence = 0.95,
    fail_above: FailAbove = None,
    fail_metric: Annotated[
        str | None,
        typer.Option(
            "--fail-metric", help="Metric that --fail-above looks at; by default that of --constraint."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", help="Directory for the model, JSON and pictures, or the model's file.skops."),
    ] = Path("model"),
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Train a classifier on a table, with its preprocessing, and judge it on rows that were held out."""
    from partialfair.cli import _train  # with scikit-learn, for which other commands need not wait
    from partialfair.cli._prepare import Roles
    from partialfair.cli._trained import FILES, TrainSettings, print_training

    settings = TrainSettings(
        constraint=constraint,
        interval=interval,
        max_gap=max_gap,
        gap_scale=gap_scale.value,
        enforce=enforce.value,
        group_terms=group_terms.terms,
        alpha=alpha,
        time_limit=time_limit,
        pos_label=pos_label,
        test_size=test_size,
        confidence=confidence,
        seed=seed,
    )
    gate = None if fail_above is None else Gate(fail_metric or settings.metric, fail_above)
    _train.check_settings(settings, gate)
    directory, name = (out.parent, out.name) if out.suffix == ".skops" else (out, "model.skops")
    outputs = Outputs(directory, (name, *FILES), report)
    outputs.check(file)
    roles = Roles(
        target, tuple(group), weight, tuple(id_columns or ()), tuple(drop or ()), tuple(category or ())
    )
    training = _train.train(file, roles, settings)
    record = outputs.write(partial(training.files, name), training.record(gate, name), training.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            print_training(training, gate, console())
            _announce(outputs, record)
            _announce_model(directory / name)
    if gate is not None and not training.passes(gate):
        raise typer.Exit(1)


@app.command(
    "path",
    epilog="Example: partialfair path people.csv --target hired --group sex --interval 0.05 0.30 "
    "--max-gaps 0.02,0.05,0.1,0.2 --best 0.1 --id person --out path",
)
def frontier(
    file: Table,
    target: Target,
    group: Group,
    max_gaps: Annotated[
        str, typer.Option("--max-gaps", help="Gaps to allow, with commas between them: 0.02,0.05,0.1,0.2.")
    ],
    pos_label: PosLabel = None,
    weight: Weight = None,
    id_columns: Ids = None,
    drop: Dropped = None,
    category: Categories = None,
    constraint: ConstraintName = "statistical_parity",
    interval: Band = (0.0, 1.0),
    gap_scale: Scale = Scales.interval,
    enforce: Enforce = Enforcement.exact,
    group_terms: Terms = GroupTerms.none,
    alphas: Annotated[
        str, typer.Option("--alphas", help="Strengths of the l2 penalty to try with each of them.")
    ] = "1e-4",
    time_limit: TimeLimit = None,
    validation: Annotated[
        float, typer.Option("--validation", help="Share of the rows held out to judge the models.")
    ] = 0.2,
    scoring: Annotated[
        str, typer.Option("--scoring", help="What counts: accuracy, balanced_accuracy or roc_auc.")
    ] = "accuracy",
    best: Annotated[
        float | None,
        typer.Option(
            "--best",
            metavar="GAP",
            help="Save the best model whose gap on new people is, with --confidence, at most this.",
        ),
    ] = None,
    confidence: Confidence = 0.95,
    out: Annotated[
        Path, typer.Option("--out", help="Directory for the table, JSON, the picture and the chosen model.")
    ] = Path("path"),
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Train a model for every gap allowed, show what fairness costs, and choose by rows held out."""
    from partialfair.cli import _path
    from partialfair.cli._prepare import Roles

    settings = _path.PathSettings(
        constraint=constraint,
        interval=interval,
        max_gaps=_path.read_numbers(max_gaps, "--max-gaps"),
        gap_scale=gap_scale.value,
        enforce=enforce.value,
        group_terms=group_terms.terms,
        alphas=_path.read_numbers(alphas, "--alphas"),
        time_limit=time_limit,
        pos_label=pos_label,
        validation=validation,
        scoring=scoring,
        best=best,
        confidence=confidence,
        seed=seed,
    )
    settings.check()
    outputs = Outputs(out, _path.FILES, report)
    outputs.check(file)
    roles = Roles(
        target, tuple(group), weight, tuple(id_columns or ()), tuple(drop or ()), tuple(category or ())
    )
    traced = _path.trace(file, roles, settings)
    record = outputs.write(traced.files, traced.record(), traced.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            _path.print_frontier(traced, console())
            _announce(outputs, record)
            if traced.chosen is not None:
                _announce_model(out / _path.MODEL)
    if traced.refusal is not None:
        echo(f"partialfair: {traced.refusal}", err=True)
        raise typer.Exit(1)


@app.command(epilog="Example: partialfair predict model/model.skops new.csv --out scores.csv")
def predict(
    model: Annotated[
        Path,
        typer.Argument(readable=False, help="A model of partialfair train or path, or their directory."),
    ],
    file: Annotated[
        Path, typer.Argument(readable=False, help="CSV, Parquet or Arrow file with the columns trained on.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="CSV or Parquet file to write; standard output if not given."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep all columns; otherwise ids, groups and target.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score the rows of a table with a saved model; what comes out can go to audit."""
    from partialfair.cli import _predict

    if as_json and out is None:
        raise InputError("--json needs --out, because the scores would go to standard output")
    model_files = _predict.find_model(model)
    _predict.check_target(out, [*model_files, file])
    scored = _predict.predict(model_files[0], file, keep=keep)
    if out is not None:
        _predict.write(scored.table, out)
    for sentence in scored.notes:
        note(sentence)
    with printing():
        if out is None:
            echo_data(scored.table.to_csv(index=False))
        elif as_json:
            echo(json_text(scored.record(out)))
        else:
            positive = f"{scored.model.target} = {scored.model.labels[1]}"
            echo(f"{len(scored.table):,} rows scored, {scored.selected:,} of them {positive}: {out}")


@app.command(epilog="Example: partialfair demo --out demo")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory for the scores, tables and pictures.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
) -> None:
    """Train an ordinary model on made admissions data, and audit its scores of people it has not seen."""
    path, page = out / "scores.csv", out / "audit.html"
    outputs = Outputs(out, (path.name, *_audit.FILES), page)
    outputs.check()
    scores, interval = demo_scores(seed)
    group = str(scores.columns[1])
    content = scores.to_csv(index=False)
    settings = AuditSettings(interval, 0.0, "interval", "group", 0.95, None, seed)
    result = measure(_reread(content, path, ColumnNames("score", (group,), "label")), settings)
    record = outputs.write(lambda: {path.name: content, **result.files()}, result.record(None), result.page)
    low, high = interval
    with printing():
        print_audit(result, None, console())
        _announce(outputs, record)
        echo(
            "\nThe same by hand:\n"
            f"  {_command()} audit {shlex.quote(str(path))} --score score --group {group} --label label "
            f"--threshold 0 --interval {low:g} {high:g} --out {shlex.quote(str(out))} "
            f"--report {shlex.quote(str(page))}\n"
            f"Open {page} in a browser to look at any other interval."
        )


def _command() -> str:
    """How this program is called: by name where the shell finds it, else by the path it was started with."""
    return "partialfair" if shutil.which("partialfair") else shlex.quote(os.path.relpath(sys.argv[0]))


def _read(path: Path, columns: ColumnNames) -> ScoreTable:
    with step(f"reading {path}"):
        return read_scores(path, columns)


def _reread(content: str, path: Path, columns: ColumnNames) -> ScoreTable:
    """Read a table as it will be read from a file that is yet to be written."""
    with scratch(Path(tempfile.gettempdir())) as directory:
        draft = directory / path.name
        draft.write_text(content, encoding="utf-8")
        return replace(_read(draft, columns), path=path)


def _announce(outputs: Outputs, record: Mapping[str, Any]) -> None:
    """Say what was written."""
    if outputs.directory is not None:
        echo(f"\nwritten to {outputs.directory}: {', '.join([*record['files'], outputs.names[-1]])}")
    if outputs.report is not None:
        echo(f"\nopen in a browser: {outputs.report}")


def _announce_model(path: Path) -> None:
    model = shlex.quote(str(path))
    echo(f"score new rows: {_command()} predict {model} NEW.csv --out scores.csv")
