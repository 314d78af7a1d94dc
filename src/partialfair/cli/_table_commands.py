"""Commands that train models on tables: ``train``, ``path``, and ``demo``, which makes its table.

Commands import what they need when they run: neither ``--help`` nor another command waits for it.
"""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from partialfair.cli._intervals import check_page
from partialfair.cli._models import Model, Models, read_alpha
from partialfair.cli.options import (
    ASKED,
    FIT,
    JUDGED,
    OUTPUT,
    AsJson,
    Categories,
    Clusters,
    Confidence,
    ConstraintName,
    CrossValidation,
    Dropped,
    Enforce,
    Enforcement,
    FailAbove,
    FailOn,
    Group,
    GroupTerms,
    Ids,
    Intervals,
    LowerIsBetter,
    MinGroup,
    Missing,
    MissingGroups,
    PosLabel,
    Report,
    Scale,
    Scales,
    Seed,
    Small,
    SmallGroups,
    Table,
    Target,
    Terms,
    TimeLimit,
    Verbose,
    Weight,
)
from partialfair.cli.output import command_name, console, echo, json_text, printing
from partialfair.cli.writing import Outputs, announce
from partialfair.exceptions import InputError

__all__ = ["demo", "frontier", "train"]

_SHARE = 0.2
"""Of the rows that is held out to judge models."""


def train(
    ctx: typer.Context,
    file: Table,
    target: Target,
    group: Group,
    pos_label: PosLabel = None,
    weight: Weight = None,
    clusters: Clusters = None,
    id_columns: Ids = None,
    drop: Dropped = None,
    category: Categories = None,
    constraint: ConstraintName = "statistical_parity",
    interval: Intervals = None,
    max_gap: Annotated[
        float,
        typer.Option(
            "--max-gap",
            metavar="GAP",
            help="The largest gap allowed among the training rows, or with --population among new people.",
            rich_help_panel=ASKED,
        ),
    ] = 0.05,
    population: Annotated[
        bool,
        typer.Option(
            "--population",
            help="Promise the gap of new people: train several models, and keep the best of those whose gap "
            "the rows held out show, with --confidence, to be at most --max-gap.",
            rich_help_panel=ASKED,
        ),
    ] = False,
    gap_scale: Scale = Scales.interval,
    enforce: Enforce = Enforcement.exact,
    lower_is_better: LowerIsBetter = False,
    min_group: MinGroup = 10,
    small_groups: Small = SmallGroups.list,
    missing_groups: Missing = MissingGroups.error,
    model: Model = Models.linear,
    group_terms: Terms = GroupTerms.none,
    alpha: Annotated[
        str | None,
        typer.Option(
            "--alpha",
            metavar="X",
            help="Strength of the l2 penalty: 1e-4 by default, of trees 1e-2; for trees auto chooses it, in "
            "five times the time.",
            rich_help_panel=FIT,
        ),
    ] = None,
    time_limit: TimeLimit = None,
    test_size: Annotated[
        float | None,
        typer.Option(
            "--test-size",
            metavar="SHARE",
            help=f"Share of the rows held out to judge the model, {_SHARE:g} if not given; 0 for none.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    cv: CrossValidation = None,
    confidence: Confidence = 0.95,
    fail_above: FailAbove = None,
    fail_metric: Annotated[
        str | None,
        typer.Option(
            "--fail-metric",
            metavar="NAME",
            help="Metric that --fail-above looks at; by default that of --constraint.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    fail_on: FailOn = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for the model, JSON and pictures, or DIR/name.skops.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("model"),
    report: Report = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    seed: Seed = 0,
) -> None:
    """Train a classifier with a bounded gap, and judge it on rows that were held out.

    Exits with 1 if none was found that keeps --max-gap. What each gap costs is shown by path.
    """
    from partialfair.cli import _train
    from partialfair.cli._gate import read_gate
    from partialfair.cli._judging import judging_options
    from partialfair.cli._prepare import Roles
    from partialfair.cli._trained import MODEL, TrainSettings, file_names, print_training

    if population and enforce is Enforcement.surrogate:
        raise InputError("--population trains for exact gaps; leave --enforce surrogate out")
    settings = TrainSettings(
        **judging_options(ctx.params),
        constraint=constraint,
        enforce="population" if population else enforce.value,
        group_terms=group_terms.terms,
        time_limit=time_limit,
        model=model.value,
        max_gap=max_gap,
        alpha=read_alpha(alpha, model),
        test_size=_share("--test-size", test_size, cv),
        cv=cv,
    )
    gate = read_gate(fail_metric or settings.metric, fail_above, fail_on)
    _train.check_settings(settings, gate)
    check_page(settings.interval, report)
    directory, name = (out.parent, out.name) if out.suffix == ".skops" else (out, MODEL)
    outputs = Outputs(directory, file_names(name), report)
    outputs.check(file)
    ids, dropped, categories = (tuple(columns or ()) for columns in (id_columns, drop, category))
    roles = Roles(target, tuple(group), weight, ids, dropped, categories, clusters)
    training = _train.train(file, roles, settings, gate)
    record = outputs.write(partial(training.files, name), training.record(gate, name), training.page)
    kept = training.result.satisfied is not False
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            print_training(training, gate, console(), verbose=verbose)
            announce(outputs, record)
            _announce_model(directory / training.file_name(name), kept=kept)
    if not kept or (gate is not None and not gate.passes(training.report)):
        raise typer.Exit(1)


def frontier(
    ctx: typer.Context,
    file: Table,
    target: Target,
    group: Group,
    max_gaps: Annotated[
        str,
        typer.Option(
            "--max-gaps",
            metavar="GAP,GAP,…",
            help="Gaps to allow among the training rows, with commas between them.",
            rich_help_panel=ASKED,
        ),
    ],
    pos_label: PosLabel = None,
    weight: Weight = None,
    clusters: Clusters = None,
    id_columns: Ids = None,
    drop: Dropped = None,
    category: Categories = None,
    constraint: ConstraintName = "statistical_parity",
    interval: Intervals = None,
    gap_scale: Scale = Scales.interval,
    enforce: Enforce = Enforcement.exact,
    lower_is_better: LowerIsBetter = False,
    min_group: MinGroup = 10,
    small_groups: Small = SmallGroups.list,
    missing_groups: Missing = MissingGroups.error,
    model: Model = Models.linear,
    group_terms: Terms = GroupTerms.none,
    alphas: Annotated[
        str | None,
        typer.Option(
            "--alphas",
            metavar="X,X,…",
            help="Strengths of the l2 penalty to try with each gap: 1e-4 by default, of trees 1e-2; for "
            "trees auto chooses one.",
            rich_help_panel=FIT,
        ),
    ] = None,
    time_limit: TimeLimit = None,
    validation: Annotated[
        float | None,
        typer.Option(
            "--validation",
            metavar="SHARE",
            help=f"Share of the rows held out to judge the models, {_SHARE:g} if not given.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    cv: CrossValidation = None,
    scoring: Annotated[
        str,
        typer.Option(
            "--scoring",
            metavar="NAME",
            help="What counts: accuracy, balanced_accuracy or roc_auc.",
            rich_help_panel=JUDGED,
        ),
    ] = "accuracy",
    best: Annotated[
        float | None,
        typer.Option(
            "--best",
            metavar="GAP",
            help="Save the best model whose gap on new people is, with --confidence, at most this; exit with "
            "1 if there is none.",
            rich_help_panel=JUDGED,
        ),
    ] = None,
    confidence: Confidence = 0.95,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for the table, JSON, the picture and the chosen model.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("path"),
    report: Report = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    seed: Seed = 0,
) -> None:
    """Train a model for every gap allowed, show what each costs, and choose by rows held out.

    The first is the model without a constraint.
    """
    from partialfair.cli import _path
    from partialfair.cli._judging import judging_options
    from partialfair.cli._prepare import Roles

    settings = _path.PathSettings(
        **judging_options(ctx.params),
        constraint=constraint,
        enforce=enforce.value,
        group_terms=group_terms.terms,
        time_limit=time_limit,
        max_gaps=_path.read_numbers(max_gaps, "--max-gaps"),
        model=model.value,
        alphas=_path.read_alphas(alphas, model),
        validation=_share("--validation", validation, cv),
        cv=cv,
        scoring=scoring,
        best=best,
    )
    settings.check()
    check_page(settings.interval, report)
    outputs = Outputs(out, _path.FILES, report)
    outputs.check(file)
    ids, dropped, categories = (tuple(columns or ()) for columns in (id_columns, drop, category))
    roles = Roles(target, tuple(group), weight, ids, dropped, categories, clusters)
    traced = _path.trace(file, roles, settings)
    record = outputs.write(traced.files, traced.record(), traced.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            _path.print_frontier(traced, console(), verbose=verbose)
            announce(outputs, record)
            if traced.chosen is not None:
                _announce_model(out / _path.MODEL, kept=True)
    if traced.refusal is not None:
        echo(f"partialfair: {traced.refusal}", err=True)
        raise typer.Exit(1)


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for the table, pictures and the page.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("demo"),
    seed: Seed = 0,
) -> None:
    """Train models on made admissions data, from loose to strict: before, after, and what each costs."""
    from partialfair.cli import _demo

    outputs = Outputs(out, _demo.FILES, out / _demo.PAGE)
    outputs.check()
    shown = _demo.run(out, seed)
    record = outputs.write(shown.files, shown.record(), shown.page)
    with printing():
        _demo.print_demo(shown, console())
        announce(outputs, record)
        echo(_demo.by_hand(out, seed))


def _share(option: str, given: float | None, cv: int | None) -> float:
    """Return the share of the rows to hold out; none where they are in folds."""
    if cv is None:
        return _SHARE if given is None else given
    if given is not None:
        raise InputError(f"--cv judges models on all rows, so {option} must be left out")
    return 0.0


def _announce_model(path: Path, *, kept: bool) -> None:
    """Say how to use the model that was saved."""
    unkept = "" if kept else " --use-unkept"
    echo(
        f"score new rows: {command_name()} predict {shlex.quote(str(path))} NEW.csv --out scores.csv{unkept}"
    )
