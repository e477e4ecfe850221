"""The command `demo`.

In: words, the composed settings in `ctx.obj`. Out: the exit status of the account. Never: the work
itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bus.cli.show import AsJson
from deploy.cluster import cli as cluster
from deploy.cluster.layout import (
    FIRST_PORT,
    FIRST_ZOOKEEPER_PORT,
    MAX_BROKERS,
    ClusterPlan,
    ControllerKind,
    plan,
)
from deploy.demo.folders import arrangement, folder_of, new_folder_of_two_sites
from deploy.distributed.layout import (
    FIRST_HBASE_PORT,
    FIRST_SPARK_PORT,
    MAX_REGION_SERVERS,
    MAX_WORKERS,
    DistributedPlan,
)
from deploy.distributed.layout import plan as distributed_plan
from deploy.durations import parse_seconds
from deploy.errors import OperatorError
from deploy.settings.composed import Settings, with_changes

NO_POLICY_CHANGES = {"policy.requires_approval": "false", "policy.requires_reason": "false"}
"""Of a demonstration: questions need no reason, and its city's rules are in force at once."""


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("demo")(demo)


def demo(
    ctx: typer.Context,
    for_: Annotated[
        str | None,
        typer.Option("--for", help="Run this long (90s, 5m), then account; else until Ctrl-C."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Records per second at the rush hour.")] = None,
    city_hour: Annotated[
        float | None,
        typer.Option(min=0, max=24, help="The hour of the city's day now: 8 is the rush."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the city: the same seed, the same city.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=MAX_BROKERS, help="On a cluster of so many brokers.")
    ] = None,
    controller: Annotated[
        ControllerKind, typer.Option(help="Who keeps that cluster's metadata.")
    ] = ControllerKind.KRAFT,
    port: cluster.Port = FIRST_PORT,
    zookeeper_port: cluster.ZooKeeperPort = FIRST_ZOOKEEPER_PORT,
    kill_broker_at: Annotated[
        str | None, typer.Option(help="kill -9 a leading broker after this long (40s).")
    ] = None,
    spark_workers: Annotated[
        int, typer.Option(min=0, max=MAX_WORKERS,
                          help="On a Spark cluster of so many workers, each application a driver.")
    ] = 0,
    region_servers: Annotated[
        int, typer.Option(min=0, max=MAX_REGION_SERVERS,
                          help="Records in a distributed HBase of so many region servers.")
    ] = 0,
    spark_port: Annotated[
        int, typer.Option(help="Of the Spark master; the others follow.")
    ] = FIRST_SPARK_PORT,
    hbase_port: Annotated[
        int, typer.Option(help="Of HBase's ZooKeeper; the others follow.")
    ] = FIRST_HBASE_PORT,
    sites: Annotated[
        int, typer.Option(min=1, max=2, help="2: a second site with a mirror; A is lost midway.")
    ] = 1,
    planned: Annotated[
        bool, typer.Option("--planned", help="With --sites 2: A hands over and is not killed.")
    ] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="With logins, rights and TLS, after `secure init`;"
                           " two sites have folders of their own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Everything at once: the product, and a living city of cameras that sends to it.

    Prints the console's address and one live line. At the end comes the account: what was sent,
    arrived, valid, stored, rejected and why, duplicates, latency, alarms expected and raised. Exit
    status 0 only if it balances to the record. The data stay; the next start goes on with them.
    Brokers, controller and HBase make another arrangement, with data of its own below `demo/`.
    """
    changes = {"city.rate": rate, "city.hour": city_hour, "city.seed": seed}
    chosen = {k: v for k, v in changes.items() if v is not None}
    settings = with_changes(ctx.obj, {**NO_POLICY_CHANGES, **chosen})
    is_closed = secure or bool(settings.security.folder)
    if is_closed and sites == 1:
        settings = _secured(settings, brokers or 1)
    seconds = parse_seconds(for_) if for_ else None
    kill_at_s = parse_seconds(kill_broker_at) if kill_broker_at else None
    if sites > 1:
        if brokers is not None or kill_broker_at or spark_workers or region_servers:
            raise OperatorError(
                "--sites 2 has three brokers and one Spark driver at each site; leave out"
                " --brokers, --kill-broker-at, --spark-workers and --region-servers"
            )
        raise typer.Exit(
            _two_sites(settings, seconds, port, planned=planned, is_closed=is_closed,
                       as_json=as_json)
        )  # fmt: skip
    if planned:
        raise OperatorError("--planned is about a switch between two sites: --sites 2 --planned")
    if brokers is None and (kill_broker_at or controller is not ControllerKind.KRAFT):
        raise OperatorError("a cluster is needed for that; say how many: --brokers 3")
    name = arrangement(brokers, controller, hbase=region_servers > 0, secured=secure)
    settings = _with_data_in(settings, folder_of(settings.site.data_path, name))
    folder = settings.site.data_path
    wanted = None if brokers is None else plan(
        folder, brokers=brokers, controller=controller,
        first_port=port, first_zookeeper_port=zookeeper_port)  # fmt: skip
    distributed = distributed_plan(
        folder, workers=spark_workers, region_servers=region_servers,
        first_spark_port=spark_port, first_hbase_port=hbase_port)  # fmt: skip
    raise typer.Exit(
        _one_site(settings, seconds, wanted, distributed, kill_at_s, as_json=as_json)
    )


def _secured(settings: Settings, brokers: int) -> Settings:
    """The same with the site's folder, wherever the data of this arrangement lie, and as its
    operator. Raises OperatorError where there is no such folder."""
    from deploy.secure.account_settings import as_command, check_nodes, site_folder

    settings = with_changes(settings, {"security.folder": site_folder(settings)})
    operators = as_command(settings, "demo")
    check_nodes(settings, brokers)
    return operators


def _one_site(
    settings: Settings,
    seconds: float | None,
    plan: ClusterPlan | None,
    distributed: DistributedPlan,
    kill_at_s: float | None,
    *,
    as_json: bool,
) -> int:
    from bus.runtime import tasks
    from deploy.demo.one_site import demo as run

    return tasks.run(
        run(settings, seconds, as_json=as_json, plan=plan, distributed=distributed,
            kill_at_s=kill_at_s)
    )  # fmt: skip


def _two_sites(
    settings: Settings, seconds: float | None, port: int, *, planned: bool, is_closed: bool,
    as_json: bool,
) -> int:
    from bus.runtime import tasks
    from deploy.demo.two_sites.demo import TIME_S, demo_sites

    settings = with_changes(settings, {"security.folder": ""})  # each site has one of its own
    settings = _with_data_in(settings, new_folder_of_two_sites(settings.site.data_path))
    return tasks.run(
        demo_sites(settings, seconds or TIME_S, port, planned=planned, is_closed=is_closed,
                   as_json=as_json)
    )  # fmt: skip


def _with_data_in(settings: Settings, folder: Path) -> Settings:
    """The same in another folder, which is told: other commands are about the data directory."""
    if folder == settings.site.data_path:
        return settings
    words = f"--data-dir {folder}"
    if settings.security.folder:
        words += f" --set security.folder={settings.security.folder}"
    typer.echo(
        f"the data of this arrangement are in {folder}; other commands see it with {words}",
        err=True,
    )
    return with_changes(settings, {"site.data_dir": folder})
