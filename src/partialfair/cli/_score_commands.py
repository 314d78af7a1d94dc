"""Commands on scores: ``audit``, ``compare``, ``adjust``, ``predict``, which makes them, and ``export``.

Commands import what they need when they run: neither ``--help`` nor another command waits for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partialfair.cli._intervals import check_page, read_interval
from partialfair.cli.options import (
    ASKED,
    COLUMNS,
    FIT,
    JUDGED,
    MAX_GROUPS,
    OUTPUT,
    AsJson,
    Clusters,
    Confidence,
    FailAbove,
    FailOn,
    Group,
    Intervals,
    Label,
    LowerIsBetter,
    MaxGroups,
    MinGroup,
    Missing,
    MissingGroups,
    Out,
    PosLabel,
    RankWithin,
    Report,
    Scale,
    Scales,
    Score,
    Seed,
    Small,
    SmallGroups,
    Table,
    Threshold,
    Weight,
    Within,
)
from partialfair.cli.output import console, echo, echo_data, json_text, note, printing, step
from partialfair.cli.writing import Outputs, announce
from partialfair.exceptions import InputError
from partialfair.utils.extras import import_quickly

if TYPE_CHECKING:
    from partialfair.cli._audit import AuditSettings
    from partialfair.cli._tables import ColumnNames, ScoreTable

__all__ = ["adjust", "audit", "compare", "export", "predict"]


def audit(
    ctx: typer.Context,
    file: Table,
    score: Score,
    group: Group,
    label: Label = None,
    pos_label: PosLabel = None,
    weight: Weight = None,
    clusters: Clusters = None,
    interval: Intervals = None,
    lower_is_better: LowerIsBetter = False,
    threshold: Threshold = None,
    gap_scale: Scale = Scales.interval,
    rank_within: Within = RankWithin.group,
    min_group: MinGroup = 10,
    max_groups: MaxGroups = MAX_GROUPS,
    small_groups: Small = SmallGroups.list,
    missing_groups: Missing = MissingGroups.error,
    confidence: Confidence = 0.95,
    fail_above: FailAbove = None,
    fail_metric: Annotated[
        str,
        typer.Option(
            "--fail-metric",
            metavar="NAME",
            help="Metric that --fail-above looks at.",
            rich_help_panel=JUDGED,
        ),
    ] = "statistical_parity",
    fail_on: FailOn = None,
    out: Out = None,
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Find where on the percentile axis a model's scores differ between groups, by how much, how surely.

    Exits with 1 if --fail-above is exceeded.
    """
    from partialfair.cli._audit import FILES, AuditSettings, measure, print_audit
    from partialfair.cli._gate import read_gate
    from partialfair.cli._judging import judging_options
    from partialfair.cli._tables import ColumnNames
    from partialfair.utils.checks import check_count

    settings = AuditSettings(
        **judging_options(ctx.params),
        threshold=threshold,
        rank_within=rank_within.value,
    )
    gate = read_gate(fail_metric, fail_above, fail_on)
    settings.check()
    check_count(max_groups, "--max-groups", low=2)
    if gate is not None:
        settings.check_gate(gate)
    check_page(settings.interval, report)
    outputs = Outputs(out, FILES, report)
    outputs.check(file)
    columns = ColumnNames(score, tuple(group), label, weight, clusters=clusters)
    result = measure(_read(file, columns, settings, max_groups), settings, gate)
    record = outputs.write(result.files, result.record(gate, pairs=as_json or out is not None), result.page)
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            print_audit(result, gate, console())
            announce(outputs, record)
    if gate is not None and not gate.passes(result.report):
        raise typer.Exit(1)


def compare(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(readable=False, help="Two or more files with scores of the same people.")
    ],
    score: Score,
    group: Group,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="Says who a row is; without it rows are matched in order.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    label: Label = None,
    pos_label: PosLabel = None,
    weight: Weight = None,
    clusters: Clusters = None,
    interval: Intervals = None,
    lower_is_better: LowerIsBetter = False,
    threshold: Threshold = None,
    gap_scale: Scale = Scales.interval,
    rank_within: Within = RankWithin.group,
    min_group: MinGroup = 10,
    max_groups: MaxGroups = MAX_GROUPS,
    small_groups: Small = SmallGroups.list,
    missing_groups: Missing = MissingGroups.error,
    confidence: Confidence = 0.95,
    out: Out = None,
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Compare models on the same people: their gaps side by side, and who enters and leaves the interval."""
    from partialfair.cli import _compare
    from partialfair.cli._audit import AuditSettings
    from partialfair.cli._judging import judging_options
    from partialfair.cli._tables import ColumnNames
    from partialfair.utils.checks import check_count

    if len(files) < 2:
        raise InputError("compare needs at least two files; for one use audit")
    settings = AuditSettings(
        **judging_options(ctx.params),
        threshold=threshold,
        rank_within=rank_within.value,
    )
    settings.check()
    check_count(max_groups, "--max-groups", low=2)
    check_page(settings.interval, report)
    outputs = Outputs(out, _compare.FILES, report)
    outputs.check(*files)
    columns = ColumnNames(score, tuple(group), label, weight, id_column, clusters)
    comparison = _compare.compare([_read(file, columns, settings, max_groups) for file in files], settings)
    record = outputs.write(
        comparison.files, comparison.record(pairs=as_json or out is not None), comparison.page
    )
    with printing():
        if as_json:
            echo(json_text(record))
        else:
            _compare.print_comparison(comparison, console())
            announce(outputs, record)


def adjust(
    file: Table,
    score: Score,
    group: Group,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COL", help="Says who a row is; kept in what is written.", rich_help_panel=COLUMNS
        ),
    ] = None,
    label: Label = None,
    pos_label: PosLabel = None,
    weight: Weight = None,
    interval: Intervals = None,
    max_gap: Annotated[
        float | None,
        typer.Option(
            "--max-gap",
            metavar="GAP",
            help="Largest gap of the adjusted scores on this file; needed unless a map is applied.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="SCORE",
            help="Bound the gap in who is above this score only, demographic parity.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    gap_scale: Scale = Scales.interval,
    lower_is_better: LowerIsBetter = False,
    score_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--score-range",
            metavar="LOW HIGH",
            help="Ends that new people's scores must not leave: 0 1 for probabilities.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    apply_map: Annotated[
        Path | None,
        typer.Option(
            "--apply",
            metavar="MAP.json",
            help="Move scores by the map of an earlier run, for new people.",
            rich_help_panel=FIT,
        ),
    ] = None,
    max_knots: Annotated[
        int,
        typer.Option(
            "--max-knots", metavar="N", help="About how many rows the map has by group.", rich_help_panel=FIT
        ),
    ] = 1000,
    min_group: MinGroup = 10,
    missing_groups: Missing = MissingGroups.error,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Move a model's scores by the least, so that groups are alike on an interval; for models that stay.

    Order within groups is kept, without new ties. The new scores depend on the group: scoring needs it,
    which may be unlawful where you are. Without --out the adjusted scores are printed as CSV.
    """
    from partialfair.cli import _adjust
    from partialfair.cli._csv import csv_text
    from partialfair.cli._tables import ColumnNames, read_scores

    settings = _adjust.AdjustSettings(
        interval=read_interval(interval),
        interval_given=bool(interval),
        max_gap=max_gap,
        threshold=threshold,
        gap_scale=gap_scale.value,
        higher_is_better=not lower_is_better,
        score_range=score_range,
        min_group_size=min_group,
        missing_groups=missing_groups.value,
        max_knots=max_knots,
        pos_label=pos_label,
        apply_map=apply_map,
    )
    settings.check()
    if as_json and out is None:
        raise InputError("--json needs --out, because the scores would go to standard output")
    outputs = Outputs(out, _adjust.FILES)
    outputs.check(*filter(None, [file, apply_map]))
    columns = ColumnNames(score, tuple(group), label, weight, id_column)
    with step(f"reading {file}"):
        table = read_scores(file, columns, missing_groups.value, compared=apply_map is None)
    adjusted = _adjust.adjusted(table, settings, score)
    record = outputs.write(adjusted.files, adjusted.record(), lambda: "")
    for sentence in adjusted.sentences if out is None else ():
        note(sentence)
    with printing():
        if out is None:
            echo_data(csv_text(adjusted.table))
        elif as_json:
            echo(json_text(record))
        else:
            for sentence in adjusted.sentences:
                echo(sentence)
            announce(outputs, record)


def predict(
    model: Annotated[
        Path,
        typer.Argument(readable=False, help="Directory of partialfair train or path, or a model's file."),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            readable=False, help="CSV, Parquet or Arrow file with the columns trained on; - for a pipe."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="CSV or Parquet file to write; standard output if not given.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep all columns; otherwise ids, groups and target.", rich_help_panel=OUTPUT
        ),
    ] = False,
    use_unkept: Annotated[
        bool,
        typer.Option(
            "--use-unkept", help="Also score with a model whose gap in training is wider than was asked for."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score the rows of a table with a saved model; what comes out can go to audit.

    Written are score (above 0 the decision is positive), probability and decision.
    """
    with import_quickly():
        import scipy.special  # noqa: F401 - first: skops looks for its functions in every module before it

        from partialfair.cli import _predict
        from partialfair.cli._csv import csv_text

    if as_json and out is None:
        raise InputError("--json needs --out, because the scores would go to standard output")
    model_files = _predict.find_model(model)
    _predict.check_target(out, [*model_files, file])
    scored = _predict.predict(model_files[0], file, keep=keep, use_unkept=use_unkept)
    if out is not None:
        _predict.write(scored, out)
    for sentence in scored.notes:
        note(sentence)
    with printing():
        if out is None:
            echo_data(csv_text(scored.table))
        elif as_json:
            echo(json_text(scored.record(out)))
        else:
            positive = f"{scored.model.target} = {scored.model.labels[1]}"
            echo(f"{len(scored.table):,} rows scored, {scored.selected:,} of them {positive}: {out}")


def export(
    model: Annotated[
        Path,
        typer.Argument(readable=False, help="Directory of partialfair train or path, or a model's file."),
    ],
    out: Annotated[Path, typer.Argument(readable=False, help="File to write; it ends in .onnx.")],
    use_unkept: Annotated[
        bool,
        typer.Option(
            "--use-unkept", help="Also export a model whose gap in training is wider than was asked for."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a saved model as ONNX, which onnxruntime scores with, without Python or with.

    Models of train and path take the columns of a table, one input each; the encoding is inside.
    """
    from partialfair.cli import _export, _predict

    model_files = _predict.find_model(model)
    _export.check_target(out, model_files)
    made = _export.export(model_files[0], out, use_unkept=use_unkept)
    with printing():
        if as_json:
            echo(json_text(made.record()))
        else:
            echo(f"{model_files[0]} as ONNX: {out}")
            for what, values in (("takes", made.inputs), ("returns", made.outputs)):
                echo(f"it {what}: " + ", ".join(f"{name}: {kind}" for name, kind in values))


def _read(path: Path, columns: ColumnNames, settings: AuditSettings, max_groups: int) -> ScoreTable:
    from partialfair.cli._tables import read_scores

    with step(f"reading {path}"):
        return read_scores(path, columns, settings.missing_groups, max_groups=max_groups)
