"""The verbs `cluster up | status | down`, and the words by which `demo` runs on a cluster.

In: the command line. Out: exit status; a table for people, JSON for scripts. Never: the work.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace
from rich.table import Table

from bus.cli.show import screen
from bus.errors import BusError
from deploy.cluster.layout import (
    DEFAULT_BROKERS,
    FIRST_PORT,
    FIRST_ZOOKEEPER_PORT,
    MAX_BROKERS,
    ControllerKind,
    plan,
)
from deploy.settings.composed import Settings

if TYPE_CHECKING:
    from deploy.cluster.status import ClusterStatus

app = typer.Typer(help="A cluster of brokers on this machine.", no_args_is_help=True)

Brokers = Annotated[int, typer.Option(min=1, max=MAX_BROKERS, help="How many brokers.")]
Controller = Annotated[ControllerKind, typer.Option(help="Who keeps the metadata.")]
Port = Annotated[int, typer.Option(help="The first broker's port; each further one is 10 higher.")]
ZooKeeper = Annotated[
    str, typer.Option(help="An ensemble that is there already: HOST:PORT,…; else one is started.")
]
ZooKeepers = Annotated[int, typer.Option(min=1, max=5, help="How many servers to start for it.")]
ZooKeeperPort = Annotated[int, typer.Option(help="The first ZooKeeper's port.")]


def mount(root: typer.Typer) -> None:
    """Add `cluster` to the command line."""
    root.add_typer(app, name="cluster")


@app.command()
def up(
    ctx: typer.Context,
    brokers: Brokers = DEFAULT_BROKERS,
    controller: Controller = ControllerKind.KRAFT,
    port: Port = FIRST_PORT,
    zookeeper: ZooKeeper = "",
    zookeepers: ZooKeepers = 1,
    zookeeper_port: ZooKeeperPort = FIRST_ZOOKEEPER_PORT,
    detach: Annotated[
        bool, typer.Option(help="Return when all answer; stop with `cluster down`.")
    ] = False,
) -> None:
    """Start the brokers and keep them alive: a dead one is started again.

    Ports are the same every time and are printed. Topics get three copies of which two must be in
    sync, where there are three brokers. The data stay in the data directory, one set for KRaft and
    one for ZooKeeper.
    """
    from bus.runtime import tasks
    from deploy.cluster import run as work

    wanted = plan(
        ctx.obj.site.data_path,
        brokers=brokers,
        controller=controller,
        first_port=port,
        zookeepers=zookeepers,
        zookeeper_connect=zookeeper,
        first_zookeeper_port=zookeeper_port,
    )
    if not detach:
        raise typer.Exit(tasks.run(work.up(ctx.obj, wanted)))
    words = [f"--brokers={brokers}", f"--controller={controller.value}", f"--port={port}"]
    words += [f"--zookeepers={zookeepers}", f"--zookeeper-port={zookeeper_port}"]
    words += [f"--zookeeper={zookeeper}"] if zookeeper else []
    raise typer.Exit(work.detach(ctx.obj, wanted, words))


@app.command()
def status(
    ctx: typer.Context,
    brokers: Annotated[int | None, typer.Option(min=1, max=MAX_BROKERS)] = None,
    controller: Annotated[ControllerKind | None, typer.Option()] = None,
    port: Annotated[int | None, typer.Option(help="The first broker's port.")] = None,
    zookeepers: Annotated[int | None, typer.Option(min=1, max=5)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Every process of the cluster; of brokers also what they lead and whether they are in sync.

    Needs no words while the cluster runs: the supervisor knows with which it was started.
    """
    from deploy.cluster.status import fetch_status, plan_of, rows

    settings: Settings = ctx.obj
    given = {
        "brokers": brokers,
        "controller": controller,
        "first_port": port,
        "zookeepers": zookeepers,
    }
    wanted = plan_of(settings.site.data_path, given)
    seen, unreachable = None, ""
    try:
        seen = fetch_status(replace(settings.bus, bootstrap_servers=wanted.bootstrap))
    except BusError as error:
        unreachable = str(error)
    found = rows(settings, wanted, seen)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table("process", "address", "state", "pid", "restarts", "leads", "in sync", "")
    for row in found:
        table.add_row(*_cells(row))
    screen().print(table)
    typer.echo(_summary(seen) if seen else f"no broker answers: {unreachable}")


@app.command()
def down(ctx: typer.Context) -> None:
    """Stop what `cluster up` started on this data directory, and wait for it."""
    from deploy.supervisor.supervise import down as stop

    typer.echo("stopped" if stop(ctx.obj) else "nothing runs on this data directory")


def _cells(row: dict[str, object]) -> list[str]:
    sync = f"{row['in_sync']} of {row['replicas']}" if "in_sync" in row else ""
    return [
        str(row["name"]),
        str(row["address"]),
        str(row["state"]),
        str(row["pid"] or ""),
        str(row["restarts"]),
        str(row.get("leads", "")),
        sync,
        "active controller" if row.get("controller") else "",
    ]


def _summary(seen: ClusterStatus) -> str:
    from deploy.cluster.status import count_faults

    found = count_faults(seen)
    return (
        f"{found['partitions']} partitions, {found['under_replicated']} under-replicated, "
        f"{found['offline']} without a leader"
    )
