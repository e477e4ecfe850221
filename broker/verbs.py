"""The verbs of the broker room, mounted by the command line.

In: the composed settings in `ctx.obj`. Out: tables for people, `--json` for scripts.
Never: a rule of Kafka; what is shown is asked from the tables the broker itself uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from broker import data_verbs
from broker.data_verbs import AsJson, show

app = typer.Typer(no_args_is_help=True, help="The Kafka-compatible broker by itself.")


def mount(root: typer.Typer) -> None:
    """Add `broker ...` to the command line."""
    data_verbs.mount(app)
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
    from broker.log.directories import new_id as draw

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
        bool, typer.Option("--no-initial-controllers", help="The voters are somebody else.")
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave out what is formatted already.")
    ] = False,
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
        )
    )


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


@app.command("configs")
def configs(
    word: Annotated[str, typer.Argument(help="Only keys that contain this.")] = "",
    topic: Annotated[bool, typer.Option("--topic", help="Topic keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every configuration key: type, default, whether it may change while the broker runs."""
    from broker.config.keys import BROKER_KEYS, TOPIC_KEYS
    from broker.config.without_effect import explained

    table = TOPIC_KEYS if topic else BROKER_KEYS
    rows = [
        {
            "key": key.name,
            "type": key.type.name.lower(),
            "default": key.text(key.default),
            "dynamic": key.dynamic.value,
            "doc": explained(key.name, key.doc),
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
