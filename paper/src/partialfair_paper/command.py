"""Defines ``partialfair reproduce``, which makes the paper's figures and tables from stored runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import partialfair
from partialfair.exceptions import InputError
from partialfair.extension import (
    OUTPUT,
    AsJson,
    HelpfulCommand,
    PlainTable,
    check_directory,
    check_file,
    console,
    echo,
    json_text,
    keeping,
    note,
    png,
    printing,
    require,
    step,
    write_file,
    write_files,
)

if TYPE_CHECKING:
    from partialfair_paper.costs import Costs
    from partialfair_paper.runs import Run
    from partialfair_paper.store import Store
    from partialfair_paper.sweep import Finished
    from partialfair_paper.target import Scope, Target

_SCHEMA = "partialfair.reproduce/1"
_MOST_LINES = 60
"""Length of the longest table that the terminal shows."""
_RESUMES = "finished runs are kept, and the same command resumes with the rest"


app = typer.Typer(add_completion=False)
"""The application that the command line of partialfair loads when the command is called."""


class Protocol(StrEnum):
    """Which algorithms train the models."""

    FAST = "fast"
    PAPER = "paper"


@app.command(
    cls=HelpfulCommand, epilog="partialfair reproduce fig1 --dataset law_school --jobs 2 --out results"
)
def reproduce(
    targets: Annotated[
        list[str],
        typer.Argument(
            help="fig1 to fig12 and table1 to table4; all (except fig12, which needs a GPU); or list, which "
            "describes each of them and the methods of fig1."
        ),
    ],
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="Use only this data set; repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of random splits.")] = 5,
    protocol: Annotated[
        Protocol,
        typer.Option(
            "--protocol", help="fast: partialfair solves every problem; paper: the paper's algorithms."
        ),
    ] = Protocol.FAST,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="Run only this method of fig1, such as trees or adjuster (list shows all); repeatable.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Number of parallel runs, which divide the cores.")
    ] = 1,
    rows: Annotated[
        int | None, typer.Option("--rows", min=50, help="Train on this many random rows, for a quick look.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Directory of the data files; see `partialfair data`.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Directory of runs, figures and tables.", rich_help_panel=OUTPUT)
    ] = Path("results"),
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Also write report.html and report.md, which evaluate the paper's claims.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Also write all runs to one Parquet file.", rich_help_panel=OUTPUT),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print how many runs are left and their run time.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Make the paper's figures and tables, next to the numbers that the paper prints.

    Each model is a run with its own directory. After an interruption the same command resumes.
    """
    from partialfair_paper.costs import Costs
    from partialfair_paper.methods import METHODS
    from partialfair_paper.store import Store
    from partialfair_paper.sweep import sweep
    from partialfair_paper.target import Scope, comparable
    from partialfair_paper.targets import find_targets

    if targets == ["list"]:
        _print_list(as_json=as_json)
        return 0
    wanted = find_targets(targets)
    scope = Scope(
        _datasets(dataset, wanted), seeds, str(protocol), rows, data, _methods(method, wanted, protocol)
    )
    _check_outputs(out, export)
    store = Store(out, partialfair.__version__)
    runs = [run for target in wanted for run in target.runs(scope)]
    left = store.left(runs)
    if dry_run:
        _print_cost(store, runs, left, jobs, as_json=as_json)
        return 0
    for name in dict.fromkeys(run.method for run in left):
        if (sentence := METHODS[name].missing()) is not None:
            raise InputError(sentence)
    for one in comparable(protocol) if scope.methods is None else ():
        if (sentence := one.missing()) is not None:
            note(f"omitted: {sentence}")
    progress = _Progress(Costs(store), left, jobs)
    with keeping(_RESUMES), step(f"runs left: {len(left):,} of {len(set(runs)):,}") as show:
        failures = sweep(runs, store, folder=data, jobs=jobs, say=lambda one: show(progress.after(one)))
    written = _write(wanted, scope, store, report=report)
    if export is not None:
        _export(store, export)
    with printing():
        if as_json:
            echo(json_text(_record(wanted, scope, store, failures)))
        else:
            _print_tables(wanted, scope, store)
            _print_failures(store, runs)
            echo(f"\nWrote to {out}: {', '.join(path.name for path in written)}")
    return 1 if failures else 0


def _datasets(names: Sequence[str] | None, wanted: Iterable[Target]) -> tuple[str, ...]:
    """Return the requested data sets; raise InputError for one that no target has."""
    known = tuple(dict.fromkeys(dataset for target in wanted for dataset in target.datasets))
    for name in names or ():
        if name not in known:
            raise InputError(
                f"--dataset {name} is in none of these targets, whose data sets are {', '.join(known)}"
            )
    return tuple(names) if names else known


def _methods(
    names: Sequence[str] | None, wanted: Iterable[Target], protocol: Protocol
) -> tuple[str, ...] | None:
    """Return the requested methods of frontiers; raise InputError for one that cannot be run."""
    from partialfair_paper.figures import Frontiers
    from partialfair_paper.target import comparable

    if not names:
        return None
    if not any(isinstance(target, Frontiers) for target in wanted):
        raise InputError("--method is for fig1, which is not among these targets")
    known = {method.name: method for method in comparable(protocol)}
    for name in names:
        if name not in known:
            raise InputError(
                f"--method {name} is not in fig1, whose {protocol} protocol has {', '.join(known)}"
            )
        if (sentence := known[name].missing()) is not None:
            raise InputError(sentence)
    return tuple(names)


def _check_outputs(out: Path, export: Path | None) -> None:
    """Raise InputError, before any run, if figures cannot be drawn or outputs cannot be written."""
    require("matplotlib", extra="cli", purpose="drawing")
    check_directory(out)
    if export is not None:
        require("pyarrow", extra="cli", purpose="writing Parquet files")
        check_file(export)


def _print_list(*, as_json: bool) -> None:
    from partialfair_paper.target import comparable, yes_or_no
    from partialfair_paper.targets import TARGETS

    methods = dict.fromkeys(method for protocol in Protocol for method in comparable(protocol))
    if as_json:
        known = {
            target.name: {"title": target.title, "datasets": list(target.datasets)}
            for target in TARGETS.values()
        }
        described = {
            method.name: {
                "label": method.label,
                "protocol": method.protocol,
                "in_the_paper": method.of_the_paper,
                "group_at_prediction": method.uses_group,
            }
            for method in methods
        }
        echo(json_text({"schema": _SCHEMA, "known": known, "methods": described}))
        return
    table = PlainTable()
    for heading in ("target", "what it shows", "data"):
        table.add_column(heading)
    for target in TARGETS.values():
        table.add_row(target.name, target.title, ", ".join(target.datasets))
    of_frontiers = PlainTable()
    for heading in ("method of fig1", "in its legend", "protocol", "in the paper", "group at prediction"):
        of_frontiers.add_column(heading)
    for method in methods:
        cells = yes_or_no(method.of_the_paper), yes_or_no(method.uses_group)
        of_frontiers.add_row(method.name, method.label, method.protocol, *cells)
    with printing():
        console().print(table)
        echo("")
        console().print(of_frontiers)


class _Progress:
    """Progress of a sweep, with the remaining time estimated from similar runs."""

    def __init__(self, costs: Costs, left: Sequence[Run], jobs: int) -> None:
        self.costs, self.left, self.jobs = costs, dict.fromkeys(left), jobs
        self.failed = 0

    def after(self, one: Finished) -> str:
        """Return the progress message after a run."""
        self.failed += one.error is not None
        self.costs.learn(one.run, one.seconds)
        del self.left[one.run]
        minutes = _minutes(self.costs.seconds(self.left), self.jobs)
        failures = f", {self.failed} failed" if self.failed else ""
        return f"{one.done:,} of {one.total:,}{failures}, about {minutes:.0f} min left"


def _minutes(seconds: float, jobs: int) -> float:
    return seconds / min(jobs, os.cpu_count() or 1) / 60


def _print_cost(store: Store, runs: Sequence[Run], left: Sequence[Run], jobs: int, *, as_json: bool) -> None:
    from partialfair_paper.costs import Costs

    minutes = _minutes(Costs(store).seconds(left), jobs)
    if as_json:
        counts = {"runs": len(set(runs)), "left": len(left), "minutes": minutes, "jobs": jobs}
        echo(json_text({"schema": _SCHEMA, **counts}))
        return
    echo(
        f"{len(set(runs)):,} runs, {len(left):,} of them left: about {minutes:.0f} minutes "
        f"with {jobs} at a time"
    )


def _write(wanted: Sequence[Target], scope: Scope, store: Store, *, report: bool) -> list[Path]:
    """Write figures and tables, and the report if requested; return the paths."""
    import pandas as pd

    from partialfair_paper.plots import figures_of

    files: dict[Path, bytes] = {}
    figures: dict[str, dict[str, bytes]] = {}
    for target in wanted:
        table = pd.DataFrame(target.rows(scope, store))
        if len(table):
            files[store.directory / f"{target.name}.csv"] = table.to_csv(index=False).encode()
        drawn = figures_of(target, scope, store)
        figures[target.name] = {name: png(figure) for name, figure in drawn.items()}
        files |= {store.directory / f"{name}.png": one for name, one in figures[target.name].items()}
    if report:
        from partialfair_paper.claims import verdicts
        from partialfair_paper.report import reproduction_page, reproduction_text

        results = verdicts(scope, store)
        page = reproduction_page(wanted, scope, store, results, figures)
        text = reproduction_text(wanted, scope, store, results, figures)
        files |= {
            store.directory / "report.html": page.encode(),
            store.directory / "report.md": text.encode(),
        }
    if files:
        store.prepare()  # also for a table without runs, so that the next command recognizes the directory
        write_files(files)
    return list(files)


def _export(store: Store, path: Path) -> None:
    import io

    packed = io.BytesIO()
    store.to_frame().to_parquet(packed, index=False)
    write_file(path, packed.getvalue())


def _print_tables(wanted: Iterable[Target], scope: Scope, store: Store) -> None:
    for target in wanted:
        rows = target.rows(scope, store)
        echo(f"\n{target.name}: {target.title}")
        if not rows:
            echo("not run yet")
            continue
        if len(rows) > _MOST_LINES:
            echo(f"{len(rows)} rows, see {target.name}.csv")
            continue
        table = PlainTable()
        for heading in rows[0]:
            table.add_column(heading)
        for row in rows:
            table.add_row(*(str(value) for value in row.values()))
        console().print(table)


def _print_failures(store: Store, runs: Sequence[Run]) -> None:
    for run in dict.fromkeys(runs):
        outcome = store.of(run)
        if outcome is not None and outcome.failed:
            echo(f"Failed: {run}: {outcome.error}")


def _record(wanted: Iterable[Target], scope: Scope, store: Store, failures: int) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "protocol": scope.protocol,
        "datasets": list(scope.datasets),
        "seeds": scope.seeds,
        "rows": scope.rows,
        "methods": None if scope.methods is None else list(scope.methods),
        "failures": failures,
        "targets": {target.name: target.rows(scope, store) for target in wanted},
    }
