"""Verbs that look at a broker's data directories themselves, whether it runs or not.

In: the composed settings in `ctx.obj`. Out: tables for people, `--json` for scripts.
Never: a file of a log that is served changed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

strays_app = typer.Typer(
    no_args_is_help=True,
    help="Logs kept though the metadata do not know them.",
)

LOOK_AGAIN_S = 1.0
"""Within it a running broker has finished what it was writing."""

AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
Config = Annotated[Path | None, typer.Option(help="A server.properties of Kafka.")]


def mount(app: typer.Typer) -> None:
    """Add them to `broker ...`."""
    app.add_typer(strays_app, name="strays")
    app.command("verify")(verify_segments)


def verify_segments(
    context: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(help="Only these.")] = None,
    checksums_only: Annotated[
        bool, typer.Option("--checksums-only", help="Do not unpack records; several times faster.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Read every segment against its checksums; exit status 1 if anything is damaged.

    Beside a running broker, too. Also finds batches with a right checksum whose records nobody
    can read, which a broker takes that does not unpack them (produce.records.validation.enable).
    """
    from broker.disk.real import RealDisk
    from broker.log.verify import Verified, verify

    total = Verified()
    for directory in log_directories(context, config):
        for outcome in verify(
            RealDisk(),
            directory,
            records=not checksums_only,
            look_again=lambda: asyncio.run(asyncio.sleep(LOOK_AGAIN_S)),
            wanted=lambda topic: not topics or topic in topics,
        ):
            total.partitions += outcome.partitions
            total.segments += outcome.segments
            total.batches += outcome.batches
            total.bytes += outcome.bytes
            total.damaged += outcome.damaged
    if as_json:
        typer.echo(json.dumps(asdict(total), ensure_ascii=False))
    else:
        for one in total.damaged:
            until = f"before {one.to_offset}" if one.to_offset >= 0 else "the file's end"
            typer.echo(
                f"{one.path}: bytes {one.position} to {one.end_position}, offsets from "
                f"{one.from_offset} to {until}: {one.fault}"
            )
        typer.echo(
            f"{len(total.damaged)} damaged places in {total.batches} batches, {total.segments} "
            f"segments of {total.partitions} partitions, {total.bytes} bytes"
        )
    raise typer.Exit(1 if total.damaged else 0)


@strays_app.command("list")
def list_strays(
    context: typer.Context,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """What is kept, with its size and since when."""
    from broker.disk.real import RealDisk
    from broker.log import strays

    disk = RealDisk()
    rows = [
        asdict(strays.describe(disk, path))
        for directory in log_directories(context, config)
        for path in strays.paths(disk, directory)
    ]
    show(rows, ["path", "topic", "partition", "topic_id", "first_offset", "size_bytes"], as_json)


@strays_app.command("remove")
def remove_strays(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Directories as `list` prints them, or their names.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    config: Config = None,
) -> None:
    """Delete for good; the records in them are gone then."""
    from broker.disk.real import RealDisk
    from broker.log import strays

    disk = RealDisk()
    if bool(names) is everything:
        raise typer.BadParameter("name what is to be removed, or say --all")
    here = {
        path: path.rpartition("/")[2]
        for directory in log_directories(context, config)
        for path in strays.paths(disk, directory)
    }
    wanted = set(names or here)
    unknown = sorted(wanted - set(here) - set(here.values()))
    if unknown:
        typer.echo(f"no stray of that name: {', '.join(unknown)}; nothing was removed", err=True)
        raise typer.Exit(1)
    for path, name in here.items():
        if path in wanted or name in wanted:
            disk.remove_tree(path)
            typer.echo(f"removed {path}")


def log_directories(context: typer.Context, config: Path | None) -> Iterator[str]:
    """The log directories of the configured broker that are there."""
    from broker.config.properties import read_properties
    from broker.disk.real import RealDisk
    from broker.server.process import configured

    settings = context.obj
    properties = read_properties(config.read_text(encoding="utf-8")) if config else {}
    root = (settings.site.data_path / "broker").absolute()
    found, _ = configured({**settings.broker, **properties}, root)
    disk = RealDisk()
    there = [one for one in found.log_dirs if disk.exists(one)]
    if not there:
        typer.echo(f"there is no log directory: {', '.join(found.log_dirs)}", err=True)
        raise typer.Exit(1)
    yield from there


def show(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    """Rows as a table or as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    Console().print(table)
