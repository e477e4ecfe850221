"""The command `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:  # a verb loads what it needs when it runs
    from ingest.senders.replay.counts import ReplayCounts


def mount(app: typer.Typer) -> None:
    """Add `replay`."""
    app.command("replay")(replay)


def replay(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="FILE.jsonl or FILE.jsonl.gz")
    ],
    speed: Annotated[float, typer.Option(min=0.001, help="1 = own pace, 60 = 60 x faster.")] = 1.0,
    as_fast_as_possible: Annotated[
        bool, typer.Option("--as-fast-as-possible", help="As fast as the bus takes them.")
    ] = False,
    kind: Annotated[
        str, typer.Option(help="vehicle, face or video, for lines that do not say it.")
    ] = "",
    via_edge: Annotated[bool, typer.Option(help="Post to the edge instead of the bus.")] = False,
    edge_url: Annotated[str, typer.Option(help="The edge; default: as configured.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Send recorded messages again, one JSON object per line.

    A line is a message as devices write it, or {"kind": …, "id": …, "record": {…}} as `city
    write-day` writes it. Identities are kept, so that a second replay changes nothing in the
    store; replayed records are marked and left out of the latency statistic. Bad lines go to
    quarantine with their reason, and are counted.
    """
    from bus.domain.kinds import KINDS
    from ingest.senders.replay.bus_sink import BusSink, RecordsNotSent
    from ingest.senders.replay.edge_sink import EdgeSink
    from ingest.senders.replay.replay import ReplayOptions, WallClock
    from ingest.senders.replay.replay import replay as work
    from ingest.senders.replay.source import RecordFile

    if kind and kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}", param_hint="--kind")
    options = ReplayOptions(ctx.obj.site.zone, None if as_fast_as_possible else speed, kind)
    with RecordFile(file) as records, _progress() as progress:
        task = progress.add_task(file.name, total=records.size_bytes, sent=0)
        url = edge_url or f"http://{ctx.obj.edge.host}:{ctx.obj.edge.port}"
        sink = (
            EdgeSink(url, records.identity)
            if via_edge
            else BusSink(
                ctx.obj.bus,
                client_id="replay",
                fixed_headers={"site": ctx.obj.site.name},
            )
        )
        try:
            counts = work(
                records, sink, options, WallClock(),
                lambda c: progress.update(task, completed=records.position_bytes, sent=c.sent),
            )  # fmt: skip
        except RecordsNotSent as error:
            typer.echo(f"databus: {error}", err=True)
            raise typer.Exit(1) from error
        finally:
            sink.close()
    _print_result(counts, as_json)


def _print_result(counts: ReplayCounts, as_json: bool) -> None:
    """Print what became of the lines."""
    result = {"sent": counts.sent, "valid": counts.valid, "rejected": counts.rejected}
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
        return
    rejected = ", ".join(f"{name} {n}" for name, n in sorted(counts.rejected.items())) or "none"
    valid = ", ".join(f"{name} {n}" for name, n in sorted(counts.valid.items())) or "none"
    typer.echo(f"{counts.sent} sent; valid: {valid}; rejected: {rejected}")


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[sent]:,} sent"),
        TimeElapsedColumn(), console=Console(stderr=True), transient=True,
    )  # fmt: skip
