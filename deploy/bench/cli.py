"""The command `bench`.

In: words. Out: the exit status. Never: the work itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.show import AsJson
from deploy.cluster.layout import ControllerKind


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
