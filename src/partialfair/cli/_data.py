"""``partialfair data``: the datasets of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from partialfair.cli.output import echo, printing, step
from partialfair.cli.writing import check_directory
from partialfair.exceptions import InputError

__all__ = ["data_app"]

data_app = typer.Typer(help="List, fetch and find the datasets of the paper.", no_args_is_help=True)


@data_app.command("list", epilog="Example: partialfair data list")
def data_list() -> None:
    """List the datasets, what they are, and whether their files are on this machine."""
    from partialfair import datasets

    located = datasets.list_datasets()
    with printing():
        for found in located:
            entry, state = found.entry, "ready" if found.available else "to be fetched"
            echo(f"{entry.name:<12} {state:<14} {entry.summary}\n{'':<27} {entry.terms}")


@data_app.command("fetch", epilog="Example: partialfair data fetch a9a")
def data_fetch(
    name: Annotated[str, typer.Argument(help="Name of a dataset, from `partialfair data list`.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory to put the files in; by default the user's cache.")
    ] = None,
) -> None:
    """Download a dataset's files, check them, and print where they are."""
    from partialfair import datasets

    if out is not None:
        check_directory(out)
    with step(f"fetching {name}"):
        paths = datasets.fetch(name, path=out)
    _print_paths(name, paths)


@data_app.command("path", epilog="Example: partialfair data path a9a")
def data_path(
    name: Annotated[str, typer.Argument(help="Name of a dataset, from `partialfair data list`.")],
) -> None:
    """Print where a dataset's files are on this machine."""
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
        echo(f"{name} is made, not fetched: it has no files", err=True)
