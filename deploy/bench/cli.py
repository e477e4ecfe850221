"""The command `bench`.

In: words. Out: the exit status. Never: the work itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.show import AsJson
from deploy.cluster.layout import ControllerKind
from deploy.errors import OperatorError


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("bench")(bench)


def bench(
    ctx: typer.Context,
    figure: Annotated[
        list[str] | None, typer.Argument(help="Only these figures; default: all.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="Runs per figure; the median counts.")] = 5,
    write: Annotated[bool, typer.Option(help="Also write docs/benchmarks.md.")] = False,
    only: Annotated[
        str,
        typer.Option(
            help="`cluster`: ack,…; `ingest`: a,…; `alarms`, `fuzzy`, `security`, `video`: …"
        ),
    ] = "",
    size: Annotated[str, typer.Option(help="With `cluster`: log per broker, for restart.")] = "6GB",
    days: Annotated[float, typer.Option(help="With `cleaner`: length of the month.")] = 30,
    small: Annotated[
        bool, typer.Option(help="With `cluster`: quick and rough, to try the bench itself.")
    ] = False,
    controller: Annotated[
        ControllerKind, typer.Option(help="With `cluster`: who keeps our metadata.")
    ] = ControllerKind.KRAFT,
    profile: Annotated[
        bool, typer.Option(help="With `ingest`: where the time and CPU of a batch go instead.")
    ] = False,
    rates: Annotated[
        str, typer.Option(help="With --profile: records a second, one after the other.")
    ] = "0,100",
    seconds: Annotated[
        int, typer.Option(help="With --profile: how long each rate is measured.")
    ] = 30,
    steps: Annotated[
        bool, typer.Option(help="With --profile: by Spark's event log, which costs some CPU.")
    ] = True,
    plates: Annotated[
        int, typer.Option(min=2, help="With `plates`: how many are drawn, half of them held out.")
    ] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Measure side by side with Apache Kafka on the same cores, and the whole flow end to end.

    `bench cluster` compares three brokers with three nodes of Apache Kafka instead; `bench ingest`
    follows records and alarms from capture to store, on one machine and on a city's servers, and
    with `--profile --only b` (or `a`) shows where the time goes there;
    `bench mirror` runs our mirror and MirrorMaker 2 between the same brokers: two of ours, and for
    `--only apache-cpu,apache-delay,apache-memory` two of Apache Kafka. `bench cleaner` compares
    the log cleaners, on the same segments; `--only month` is what thirty days of the product leave
    of its compacted topics, in virtual time. `bench plates` counts how a reader of plates errs, for
    the prices of fuzzy rules; with --write it replaces the tables. `bench fuzzy` says what such
    rules find and cost, `bench alarms` what matching costs, and how soon lists are in force and
    alarms on screens. `bench security` compares what TLS, logins and ACLs cost.
    `bench video` measures the tracker of films on public truth, and the synopsis of one.
    """
    from deploy.bench import run as work

    work.stop_on_signals()
    if figure == ["mirror"]:
        raise typer.Exit(work.run_mirror(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["cleaner"]:
        status = work.run_cleaner(only, repeat=repeat, days=days, write=write, as_json=as_json)
        raise typer.Exit(status)
    if figure == ["fuzzy"]:
        raise typer.Exit(work.run_fuzzy(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["alarms"]:
        raise typer.Exit(work.run_alarms(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["security"]:
        raise typer.Exit(work.run_security(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["video"]:
        raise typer.Exit(work.run_video(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["plates"]:
        raise typer.Exit(work.run_plates(plates, write=write, as_json=as_json))
    if profile:
        if figure != ["ingest"]:
            raise OperatorError("--profile goes with `bench ingest`")
        raise typer.Exit(work.run_profile(only, rates, seconds, steps=steps, as_json=as_json))
    if figure == ["ingest"]:
        raise typer.Exit(work.run_ingest(only, repeat=repeat, write=write, as_json=as_json))
    if figure == ["cluster"]:
        from deploy.bench.cluster.size import SMALL, Size, parse_size

        wanted = SMALL if small else Size(log_bytes=parse_size(size))
        status = work.run_cluster(only, repeat=repeat, size=wanted, controller=controller,
                                  write=write, as_json=as_json)  # fmt: skip
        raise typer.Exit(status)
    raise typer.Exit(work.run(figure or [], repeat=repeat, write=write, as_json=as_json))
