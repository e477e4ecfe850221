"""The commands of `deploy`: start, stop, show, demonstrate, account, test, measure, pack.

In: the command line and the composed settings in `ctx.obj`. Out: what the command's module returns,
printed for people or as JSON. Never: the work itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.table import Table

from bus.cli.show import screen
from deploy.cluster import cli as cluster
from deploy.cluster.layout import (
    FIRST_PORT,
    FIRST_ZOOKEEPER_PORT,
    MAX_BROKERS,
    ControllerKind,
    plan,
)
from deploy.demo.folders import arrangement, folder_of, new_folder_of_two_sites
from deploy.distributed.layout import (
    FIRST_HBASE_PORT,
    FIRST_SPARK_PORT,
    MAX_REGION_SERVERS,
    MAX_WORKERS,
)
from deploy.distributed.layout import plan as distributed_plan
from deploy.errors import OperatorError
from deploy.settings.composed import Settings, with_changes

AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("demo")(demo)
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("logs")(logs)
    app.command("run")(run)
    app.command("account")(account)
    app.command("test", context_settings=ANY_ARGUMENTS)(run_tests)
    app.command("simulate", context_settings=ANY_ARGUMENTS)(simulate)
    app.command("bench")(bench)
    app.command("backup")(backup)
    app.command("restore")(restore)
    app.command("size")(size)
    app.command("package")(package)
    app.command("setup")(setup)
    app.command("config")(config)
    app.command("screenshots")(screenshots)


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
    as_json: AsJson = False,
) -> None:
    """Everything at once: the product, and a living city of cameras that sends to it.

    Prints the console's address and one live line. At the end comes the account: what was sent,
    arrived, valid, stored, rejected and why, duplicates, latency, alarms expected and raised. Exit
    status 0 only if it balances to the record. The data stay; the next start goes on with them.
    Brokers, controller and HBase make another arrangement, with data of its own below `demo/`.
    """
    from bus.runtime import tasks
    from deploy.demo import one_site as work

    changes = {"city.rate": rate, "city.hour": city_hour, "city.seed": seed}
    settings = with_changes(ctx.obj, {k: v for k, v in changes.items() if v is not None})
    seconds = parse_seconds(for_) if for_ else None
    kill_at_s = parse_seconds(kill_broker_at) if kill_broker_at else None
    if sites > 1:
        if brokers is not None or kill_broker_at or spark_workers or region_servers:
            raise OperatorError(
                "--sites 2 has three brokers and one Spark driver at each site; leave out"
                " --brokers, --kill-broker-at, --spark-workers and --region-servers"
            )
        from deploy.demo.two_sites.demo import TIME_S, demo_sites

        settings = _with_data_in(settings, new_folder_of_two_sites(settings.site.data_path))
        run = demo_sites(settings, seconds or TIME_S, port, planned=planned, as_json=as_json)
        raise typer.Exit(tasks.run(run))
    if planned:
        raise OperatorError("--planned is about a switch between two sites: --sites 2 --planned")
    if brokers is None and (kill_broker_at or controller is not ControllerKind.KRAFT):
        raise OperatorError("a cluster is needed for that; say how many: --brokers 3")
    name = arrangement(brokers, controller, hbase=region_servers > 0)
    settings = _with_data_in(settings, folder_of(settings.site.data_path, name))
    folder = settings.site.data_path
    wanted = None if brokers is None else plan(
        folder, brokers=brokers, controller=controller,
        first_port=port, first_zookeeper_port=zookeeper_port)  # fmt: skip
    distributed = distributed_plan(
        folder, workers=spark_workers, region_servers=region_servers,
        first_spark_port=spark_port, first_hbase_port=hbase_port)  # fmt: skip
    raise typer.Exit(
        tasks.run(
            work.demo(settings, seconds, as_json=as_json, plan=wanted, distributed=distributed,
                      kill_at_s=kill_at_s)
        )
    )  # fmt: skip


def _with_data_in(settings: Settings, folder: Path) -> Settings:
    """The same in another folder, which is told: other commands are about the data directory."""
    if folder == settings.site.data_path:
        return settings
    typer.echo(
        f"the data of this arrangement are in {folder}; other commands see it with"
        f" --data-dir {folder}", err=True,
    )  # fmt: skip
    return with_changes(settings, {"site.data_dir": folder})


def parse_seconds(text: str) -> float:
    """Seconds of `90s`, `5m`, `1.5h`, `250ms` or bare seconds; else an OperatorError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise OperatorError(f"'{text}' is no duration; write 90s, 5m or 1h")
    return float(found.group(1)) * _UNITS_S[found.group(2) or ""]


def up(
    ctx: typer.Context,
    detach: Annotated[
        bool, typer.Option(help="Return when all roles answer; stop with `down`.")
    ] = False,
) -> None:
    """Start broker, edge, streams, dispatcher, console and watch, and keep them alive."""
    from bus.runtime import tasks
    from deploy.product import up as work

    raise typer.Exit(work.detach(ctx.obj) if detach else tasks.run(work.up(ctx.obj)))


def down(ctx: typer.Context) -> None:
    """Stop what `up` or `demo` started on this data directory, cleanly, and wait for it."""
    from deploy.product import up as work

    typer.echo("stopped" if work.down(ctx.obj) else "nothing runs on this data directory")


def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every role: its state and since when, its process, how often it was restarted, how many
    records wait for it.

    A process that has died says what it ended with. With --json also where its log is.
    """
    from deploy.product.status import ended_with, roles_with_backlog

    rows = roles_with_backlog(ctx.obj)
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table(
        "role", "state", "process", "restarts", "ended with", "since", "records that wait",
        "what it is",
    )  # fmt: skip
    for row in rows:
        waits = ", ".join(
            f"{place} {'?' if count is None else count}" for place, count in row["behind"].items()
        )
        table.add_row(
            row["role"], row["state"], str(row["pid"] or ""), str(row["restarts"]),
            ended_with(row["last_exit"]),
            _local_time(row["since_ms"], ctx.obj.site.tz), waits, row["what"],
        )  # fmt: skip
    screen().print(table)


def _local_time(moment_ms: int | None, zone: ZoneInfo) -> str:
    """To the second, by the site's clock; empty for None."""
    if moment_ms is None:
        return ""
    return f"{datetime.fromtimestamp(moment_ms // 1000, zone):%Y-%m-%d %H:%M:%S}"


def logs(
    ctx: typer.Context,
    role: Annotated[str, typer.Argument(help="Whose log; `supervisor` for starts and restarts.")],
    lines: Annotated[int, typer.Option("-n", help="How many of the last lines.")] = 40,
    follow: Annotated[bool, typer.Option("-f", help="Go on printing what comes.")] = False,
) -> None:
    """The end of one role's log."""
    from deploy.product import logs as work

    settings: Settings = ctx.obj
    work.show(settings.site.data_path / "log", role, lines, follow)


def run(
    ctx: typer.Context,
    role: Annotated[
        str, typer.Argument(help="broker, edge, streams, dispatcher, console, watch or city.")
    ],
) -> None:
    """One role in the foreground: what the supervisor, systemd and compose start."""
    from deploy.roles import run as work

    raise typer.Exit(work.run(role, ctx.obj))


def account(
    ctx: typer.Context,
    as_json: AsJson = False,
    accept: Annotated[
        str, typer.Option(help="Answer for a difference, FLOW:NUMBER as in data.vehicle:-21.")
    ] = "",
    by: Annotated[str, typer.Option(help="Who answers for it.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is so.")] = "",
) -> None:
    """Account for everything in the data directory while the broker runs; status as in `demo`.

    A difference that somebody accepts is no fault of this command any more, and stands below the
    account for ever. Demos do not take it.
    """
    from deploy.reconcile import collect, report
    from deploy.reconcile.accepted import accept as write_down
    from deploy.reconcile.accepted import read_accepted

    folder = ctx.obj.site.data_path
    result = collect.reconcile(ctx.obj, accepted=read_accepted(folder))
    if accept:
        write_down(folder, result, accept, by, reason)
        result = collect.reconcile(ctx.obj, accepted=read_accepted(folder))
    report.print_reconciliation(result, as_json=as_json)
    raise typer.Exit(0 if result.balanced else 1)


def run_tests(
    ctx: typer.Context,
    quick: Annotated[
        bool, typer.Option(help="Without Java, browser and slow tests: under two minutes.")
    ] = False,
    all_stories: Annotated[
        bool,
        typer.Option(help="Only the stories of real brokers and faults, all of both controllers."),
    ] = False,
    every_member: Annotated[
        bool,
        typer.Option(help="Every member of the long matrices; else each commit's turn has some."),
    ] = False,
    stress: Annotated[
        int,
        typer.Option(min=0, help="Repeat the chosen tests so often, beside load on every core."),
    ] = 0,
    repeat: Annotated[
        int,
        typer.Option(min=0, help="So often, each with a seed; kept in docs/runs_by_hand.jsonl."),
    ] = 0,
    write_times: Annotated[
        bool, typer.Option(help="Write where the time goes into docs/test-times.md.")
    ] = False,
) -> None:
    """Run the tests: all of them, or those that the further words (pytest's own) choose.

    The first time it installs what only tests need: packages, and as root the programs of others.
    A test that fails runs once more, alone; not where loss, order or determinism is judged.
    """
    from deploy.test_runs import run

    wanted = run.Wanted(
        quick=quick,
        all_stories=all_stories,
        every_member=every_member,
        stress=stress,
        repeat=repeat,
        write_times=write_times,
        words=tuple(ctx.args),
    )
    raise typer.Exit(run.run(wanted))


def simulate(
    ctx: typer.Context,
    seeds: Annotated[str, typer.Option(help="Which worlds, as 1..300.")] = "1..20",
    seed: Annotated[int | None, typer.Option(help="This one only.")] = None,
    controller: Annotated[str, typer.Option(help="kraft, zookeeper or both.")] = "both",
    sites: Annotated[
        int, typer.Option(min=1, max=2, help="2: a cluster each, a mirror, an edge.")
    ] = 1,
    trace: Annotated[bool, typer.Option(help="Print all that happens in them.")] = False,
    jobs: Annotated[int, typer.Option(help="Worlds at a time.")] = 1,
) -> None:
    """Whole clusters with clients in virtual time, with faults drawn from a seed; all is checked.

    Exit status 1 if a world was not sound; its seed gives the same world again.
    """
    from deploy.test_runs import simulate as work

    words = ["--seeds", seeds, "--controller", controller, "--jobs", str(jobs), *ctx.args]
    words += ["--sites", str(sites)]
    words += [] if seed is None else ["--seed", str(seed)]
    raise typer.Exit(work.run(words + (["--trace"] if trace else [])))


def bench(
    ctx: typer.Context,
    figure: Annotated[
        list[str] | None, typer.Argument(help="Only these figures; default: all.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="Runs per figure; the median counts.")] = 5,
    write: Annotated[bool, typer.Option(help="Also write docs/benchmarks.md.")] = False,
    only: Annotated[
        str, typer.Option(help="`cluster`: single,ack,…; `ingest`: a,b,edge,…; `mirror`: cpu,…")
    ] = "",
    size: Annotated[str, typer.Option(help="With `cluster`: log per broker, for restart.")] = "6GB",
    small: Annotated[
        bool, typer.Option(help="With `cluster`: quick and rough, to try the bench itself.")
    ] = False,
    controller: Annotated[
        ControllerKind, typer.Option(help="With `cluster`: who keeps our metadata.")
    ] = ControllerKind.KRAFT,
    as_json: AsJson = False,
) -> None:
    """Measure side by side with Apache Kafka on the same cores, and the whole flow end to end.

    `bench cluster` compares three brokers with three nodes of Apache Kafka instead; `bench ingest`
    follows records and alarms from capture to store, on one machine and on a city's servers;
    `bench mirror` runs our mirror and MirrorMaker 2 between the same brokers: two of ours, and for
    `--only apache-cpu,apache-delay,apache-memory` two of Apache Kafka.
    """
    from deploy.bench import run as work

    work.stop_on_signals()
    if figure == ["mirror"]:
        raise typer.Exit(work.run_mirror(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["ingest"]:
        raise typer.Exit(work.run_ingest(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["cluster"]:
        from deploy.bench.cluster.size import SMALL, Size, parse_size

        wanted = SMALL if small else Size(log_bytes=parse_size(size))
        status = work.run_cluster(only, repeat=repeat, size=wanted, controller=controller,
                                  write=write, as_json=as_json)  # fmt: skip
        raise typer.Exit(status)
    raise typer.Exit(work.run(figure or [], repeat=repeat, write=write, as_json=as_json))


HbaseShellCommand = Annotated[
    str, typer.Option(help="What starts HBase's shell, where the records are in HBase.")
]


def backup(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    without_records: Annotated[bool, typer.Option(help="Leave the records out.")] = False,
    hbase_shell: HbaseShellCommand = "hbase shell -n",
) -> None:
    """Save records, alarms, incidents, accounts, rules and register while everything runs."""
    from deploy.backup import backup as work

    manifest = work.backup(
        ctx.obj, folder, with_records=not without_records, hbase_shell=hbase_shell
    )
    for file in manifest.files:
        typer.echo(f"{file.name}  {file.size_bytes:,} bytes  sha256 {file.sha256}")
    if manifest.hbase is not None:
        for table, snapshot in manifest.hbase.tables.items():
            typer.echo(f"{table}  snapshot {snapshot}")
        typer.echo(f"ingest waited {manifest.hbase.paused_ms / 1000:.1f} s")
    for warning in manifest.warnings:
        typer.echo(warning, err=True)


def restore(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="What `backup` has written.")],
    replace: Annotated[bool, typer.Option(help="Replace what the data directory holds.")] = False,
    hbase_shell: HbaseShellCommand = "hbase shell -n",
) -> None:
    """Put a backup into the data directory of a product that does not run."""
    from deploy.backup import backup as work

    manifest = work.restore(ctx.obj, folder, replace=replace, hbase_shell=hbase_shell)
    for file in manifest.files:
        typer.echo(f"{file.name}  restored")
    for warning in manifest.warnings:
        typer.echo(f"of that backup: {warning}", err=True)
    typer.echo("the next start puts rules and register on topics that lack them")
    typer.echo("the next start goes on from these positions; its log tells what retention cut")


def size(
    cameras: Annotated[int, typer.Option(help="How many cameras.")],
    rate: Annotated[float, typer.Option(help="Records a second of each, over the day.")],
    keep: Annotated[str, typer.Option(help="How long records are kept (30d).")] = "30d",
    peak: Annotated[
        float, typer.Option(help="The rush hour's rate over the day's average.")
    ] = 3.0,
    picture_kib: Annotated[
        float, typer.Option(help="KiB of a record's pictures; 0: kept elsewhere.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """How many brokers, executors and region servers a city needs, with the sums behind them.

    Memory and disks too. From the costs of a record that `bench` has measured; docs/sizing.md says
    on what, and what is only assumed.
    """
    from deploy.bench.run import KEPT
    from deploy.sizing import size as work
    from deploy.sizing.costs import measured_costs, sources

    try:
        demand = work.Demand(
            cameras, rate, parse_seconds(keep) / work.DAY_S, peak, picture_kib=picture_kib
        )
    except work.DemandError as error:
        raise OperatorError(str(error)) from error
    costs, days = measured_costs(KEPT)
    needs = work.size(demand, costs)
    if as_json:
        answer = {"needs": [asdict(need) for need in needs], "costs": sources(costs, days)}
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    table = Table("what", "how many", "", "how it was computed")
    for need in needs:
        table.add_row(need.what, f"{need.count:,}", need.unit, need.sum)
    screen().print(table)
    behind = Table("cost of a record", "value", "where from")
    for name, value, source in sources(costs, days):
        behind.add_row(name, f"{value:g}", source)
    screen().print(behind)


def package(
    target: Annotated[
        Path | None, typer.Argument(help="The zip; default: dist/packages.zip.")
    ] = None,
) -> None:
    """Make the one zip of our packages for Spark's --py-files."""
    from deploy.roles import package as work

    typer.echo(str(work.build_zip(target)))


def setup() -> None:
    """Fetch now what the first start would fetch: Java (where we may), connector, test servers."""
    from deploy.setup.report import pieces

    table, missing = Table("piece", "state"), 0
    for name, state, there in pieces():
        table.add_row(name, state)
        missing += not there
    screen().print(table)
    raise typer.Exit(1 if missing else 0)


def _toml(value: Any) -> str:
    """A value as `databus.toml` writes it."""
    if isinstance(value, dict):
        rows = (f"{json.dumps(k, ensure_ascii=False)} = {_toml(v)}" for k, v in value.items())
        return f"{{{', '.join(rows)}}}"
    return json.dumps(value, ensure_ascii=False)


def config(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The settings in force by section, after file, variables and flags; `***` is a secret."""
    from deploy.settings.shown import shown_tables

    tables = shown_tables(ctx.obj)
    if as_json:
        typer.echo(json.dumps(tables, ensure_ascii=False))
        return
    for section, values in tables.items():
        typer.echo(f"[{section}]")
        for key, value in values.items():
            name = json.dumps(key) if "." in key else key
            typer.echo(f"{name} = {_toml(value)}")
        typer.echo("")


def screenshots(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="Where to; default: docs/pictures.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this page; may be given often.")
    ] = None,
) -> None:
    """Take the pictures of the console that README shows, from a demo that runs.

    In English and in Chinese. Look at them before they are committed; the demo has to have run for
    some minutes, so that charts and lists are full.
    """
    from deploy.documentation import screenshots as work
    from deploy.roles.table import console_endpoint
    from deploy.setup.test_packages import ensure_test_packages

    ensure_test_packages()
    endpoint = console_endpoint(ctx.obj)
    url = f"http://{endpoint.probe_host}:{endpoint.port}"
    for path in work.save_pictures(url, ctx.obj.site.data_path, folder or work.FOLDER, only or ()):
        typer.echo(f"{path}  {path.stat().st_size:,} bytes")
