"""The commands of the broker, mounted by the command line.

In: the composed settings in `ctx.obj`. Out: tables for people, `--json` for scripts. Never: a rule
of Kafka; what is shown comes from the tables that the broker itself uses; and no change to a log
that is served.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="The Kafka-compatible broker by itself.")
strays_app = typer.Typer(
    no_args_is_help=True,
    help="Logs kept though the metadata do not know them.",
)

POLL_S = 1.0
"""Within it a running broker has finished what it was writing."""


class TreeAccess(StrEnum):
    """Kafka's words for who may change the nodes of a tree."""

    SECURE = "secure"
    UNSECURE = "unsecure"


AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
Config = Annotated[Path | None, typer.Option(help="A server.properties of Kafka.")]


def mount(root: typer.Typer) -> None:
    """Add `broker ...` to the command line."""
    app.add_typer(strays_app, name="strays")
    app.command("verify")(verify_segments)
    root.add_typer(app, name="broker")


@app.command("run")
def run_here(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="A server.properties of Kafka.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the log directories go.")] = None,
) -> None:
    """Run one broker in the foreground until Ctrl-C or SIGTERM."""
    from broker.config.properties import read_properties
    from broker.server import run

    properties = read_properties(config.read_text(encoding="utf-8")) if config else {}
    settings = context.obj
    merged: Mapping[str, str] = {**settings.broker, **properties}
    root = data_dir or settings.site.data_path / "broker"
    raise typer.Exit(run(merged, data_dir=root.absolute()))


@app.command("new-id")
def new_id() -> None:
    """A new id for a cluster or a metadata directory."""
    from broker.clock.real import RealClock
    from broker.log.log_dir_files import new_id as draw

    typer.echo(draw(RealClock()))


@app.command("format")
def format_here(
    context: typer.Context,
    cluster_id: Annotated[str, typer.Option(help="The same on every node of the cluster.")],
    config: Annotated[Path | None, typer.Option(help="A server.properties of Kafka.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the log directories go.")] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This node is the quorum's first voter.")
    ] = False,
    initial_controllers: Annotated[
        str, typer.Option(help="The first voters: id@host:port:directory-id, by commas.")
    ] = "",
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="The voters are other nodes.")
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave out what is formatted already.")
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(help="A first user: SCRAM-SHA-512=[name=…,password=…]; `-`: stdin's lines."),
    ] = None,
) -> None:
    """Format the log directories of one node for a cluster, as kafka-storage does."""
    from broker.config.properties import read_properties
    from broker.server.process import format_directories

    if no_initial_controllers and (standalone or initial_controllers):
        raise typer.BadParameter("--no-initial-controllers stands alone")
    properties = read_properties(config.read_text(encoding="utf-8")) if config else {}
    settings = context.obj
    root = data_dir or settings.site.data_path / "broker"
    raise typer.Exit(
        format_directories(
            {**settings.broker, **properties},
            root.absolute(),
            cluster_id,
            standalone=standalone,
            initial_controllers=initial_controllers,
            ignore_formatted=ignore_formatted,
            scram_users=list(_users(add_scram or [])),
        )
    )


def _users(given: Iterable[str]) -> Iterator[str]:
    """Everybody on the machine may read a command line: `-` stands for the lines of stdin."""
    for text in given:
        if text == "-":
            yield from filter(None, map(str.strip, sys.stdin))
        else:
            yield text


@app.command("migrate")
def migrate(
    context: typer.Context,
    zookeeper: Annotated[str, typer.Option(help="The ensemble of the stopped cluster.")],
    config: Annotated[
        Path | None, typer.Option(help="The controller's server.properties for KRaft.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the log directories go.")] = None,
) -> None:
    """Carry a stopped ZooKeeper cluster over to KRaft; run it on every controller."""
    from broker.config.properties import read_properties
    from broker.server.process import migrate_controller

    properties = read_properties(config.read_text(encoding="utf-8")) if config else {}
    settings = context.obj
    root = data_dir or settings.site.data_path / "broker"
    raise typer.Exit(
        migrate_controller({**settings.broker, **properties}, root.absolute(), zookeeper)
    )


@app.command("zookeeper-acls")
def zookeeper_acls(
    context: typer.Context,
    state: Annotated[
        TreeAccess, typer.Argument(help="secure: the brokers' login alone changes them.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="A broker's server.properties: its ensemble and login.")
    ] = None,
) -> None:
    """Give a standing tree in ZooKeeper to the login of the brokers, or open it to everybody.

    As Kafka's zookeeper-security-migration; zookeeper.set.acl does it for new nodes.
    """
    from broker.config.properties import read_properties
    from broker.server.process import secure_zookeeper

    properties = read_properties(config.read_text(encoding="utf-8")) if config else {}
    settings = context.obj
    root = settings.site.data_path / "broker"
    raise typer.Exit(
        secure_zookeeper(
            {**settings.broker, **properties}, root.absolute(),
            is_secure=state is TreeAccess.SECURE,
        )
    )  # fmt: skip


@app.command("configs")
def configs(
    word: Annotated[str, typer.Argument(help="Only keys that contain this.")] = "",
    topic: Annotated[bool, typer.Option("--topic", help="Topic keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every configuration key: type, default, whether it may change while the broker runs."""
    from broker.config.ignored_keys import explain_ignored
    from broker.config.keys import BROKER_KEYS, TOPIC_KEYS

    table = TOPIC_KEYS if topic else BROKER_KEYS
    rows = [
        {
            "key": key.name,
            "type": key.type.name.lower(),
            "default": key.text(key.default),
            "dynamic": key.dynamic.value,
            "doc": explain_ignored(key.name, key.doc),
        }
        for key in sorted(table.values(), key=lambda key: key.name)
        if word in key.name
    ]
    show(rows, ["key", "type", "default", "dynamic", "doc"], as_json)


@app.command("api-versions")
def api_versions(as_json: AsJson = False) -> None:
    """Every API this broker serves, with the versions it advertises."""
    from broker.handlers.registry import advertised_ranges
    from bus.protocol.apis import APIS

    rows = [
        {"key": key, "api": APIS[key].name, "first": low, "last": high}
        for key, (low, high) in advertised_ranges().items()
    ]
    show(rows, ["key", "api", "first", "last"], as_json)


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

    Also beside a running broker. Finds batches with a right checksum whose records cannot be read,
    which a broker accepts that does not unpack them (produce.records.validation.enable).
    """
    from broker.disk.real import RealDisk
    from broker.log.verify import VerifyResult, verify

    total = VerifyResult()
    for directory in log_directories(context, config):
        for outcome in verify(
            RealDisk(),
            directory,
            records=not checksums_only,
            pause=lambda: asyncio.run(asyncio.sleep(POLL_S)),
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
