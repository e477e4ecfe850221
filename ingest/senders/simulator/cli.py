"""Commands of the city: run it in the foreground, write a day of it into a file, show its ground
truth."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bus.cli.show import screen
from bus.runtime import tasks

Rate = Annotated[float | None, typer.Option(help="Records per second at the morning peak.")]
Hour = Annotated[float | None, typer.Option("--city-hour", help="City hour now; -1: wall clock.")]
Misread = Annotated[
    float | None, typer.Option(min=0, max=1, help="Share of plates that are misread.")
]
Seed = Annotated[int | None, typer.Option(help="Another seed is another city.")]


def mount(app: typer.Typer) -> None:
    """Add `city run`, `city write-day`, `city truth`, `city register`."""
    city = typer.Typer(help="The simulated city of cameras.", no_args_is_help=True)
    city.command("run")(run)
    city.command("write-day")(write_day)
    city.command("truth")(truth)
    city.command("register")(register)
    app.add_typer(city, name="city")


def run(
    ctx: typer.Context,
    rate: Rate = None,
    city_hour: Hour = None,
    seed: Seed = None,
    misread: Misread = None,
    edge_url: Annotated[str, typer.Option(help="The edge; default: as configured.")] = "",
) -> None:
    """Let the city live until Ctrl-C: servers post to the edge, smart cameras to the bus."""
    from ingest.senders.simulator.simulator import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    changes = {"rate": rate, "hour": city_hour, "seed": seed, "misread": misread}
    city = msgspec.structs.replace(
        ctx.obj.city, **{key: value for key, value in changes.items() if value is not None}
    )
    url = edge_url or f"http://{ctx.obj.edge.host}:{ctx.obj.edge.port}"
    tasks.run(serve(ctx.obj.site, ctx.obj.bus, city, url))


def write_day(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="FILE.jsonl or FILE.jsonl.gz.")],
    hours: Annotated[float, typer.Option(min=0.01, help="How much of the day.")] = 24.0,
    rate: Rate = None,
    start: Annotated[
        str, typer.Option(help="Local time of the first capture; default: today, midnight.")
    ] = "",
    seed: Seed = None,
    misread: Misread = None,
) -> None:
    """Write a day of the city as a file for `replay`, as fast as it can be thought up."""
    from ingest.senders.simulator.day import local_start_ms, write_day_file

    changes = {"rate": rate, "seed": seed, "misread": misread}
    city = msgspec.structs.replace(
        ctx.obj.city,
        picture_every=0,
        **{key: value for key, value in changes.items() if value is not None},
    )
    start_ms = local_start_ms(start, ctx.obj.site.tz)
    with Console(stderr=True).status("writing …") as status:
        written = write_day_file(
            out, ctx.obj.site, city, start_ms, hours,
            on_progress=lambda done: status.update(f"{done:,} records"),
        )  # fmt: skip
    typer.echo(f"{written.records} records in {out}: {json.dumps(written.expected)}")


def truth(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """What the city has produced, by its own account."""
    from ingest.senders.simulator.ground_truth import read_truth, truth_files

    totals = read_truth(truth_files(ctx.obj.site.data_path / "city"))
    if as_json:
        typer.echo(msgspec.json.encode(totals))
        return
    table = Table("topic", "tried", "acknowledged", "valid", "rejected", "unconfirmed")
    for topic, counts in sorted(totals.topics.items()):
        rejected = ", ".join(f"{reason} {n}" for reason, n in sorted(counts.rejected.items()))
        open_ = totals.tried(topic) - counts.sent
        table.add_row(
            topic, str(totals.tried(topic)), str(counts.sent), str(counts.valid), rejected,
            str(open_),
        )  # fmt: skip
    screen().print(table)
    typer.echo(
        f"{len(totals.alarms)} alarms expected; {len(totals.runs)} runs, "
        f"{totals.ended_runs} ended cleanly; {totals.disagreements} answers not as expected"
    )


def register(ctx: typer.Context, seed: Seed = None) -> None:
    """Write var/register.json: where every checkpoint and camera of the city stands."""
    from ingest.senders.simulator.simulator import write_register
    from ingest.senders.simulator.world import build_world

    path = ctx.obj.site.data_path / "register.json"
    world = build_world(ctx.obj.city.seed if seed is None else seed, ctx.obj.site.name)
    write_register(path, world)
    typer.echo(f"{len(world.register.checkpoints)} checkpoints in {path}")
