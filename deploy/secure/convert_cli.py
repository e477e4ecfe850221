"""The commands `secure convert …`.

In: words, the composed settings in `ctx.obj`. Out: what was done and what comes next, in words.
Never: the work itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.show import AsJson, show
from deploy.durations import parse_seconds
from deploy.secure.broker_keys import ConversionStage
from deploy.settings.composed import Settings

app = typer.Typer(
    help="From open to closed while everything runs, one stage after the other.",
    no_args_is_help=True,
)
NEXT = {
    ConversionStage.OPEN: "nothing has changed yet; next: brokers take TLS and logins, too",
    ConversionStage.BOTH: "next: brokers speak TLS among themselves",
    ConversionStage.BROKERS: "next: our own processes log in",
    ConversionStage.PROCESSES: "next, once nobody comes in plain: plain listeners close",
    ConversionStage.CLOSED: "closed; ./databus secure check",
}


@app.command("status")
def status_command(ctx: typer.Context, as_json: AsJson = False) -> None:
    """How far each broker is, and who still comes in plain."""
    from deploy.secure.convert import Conversion

    conversion = Conversion(ctx.obj)
    observed = conversion.observed()
    rows: list[dict[str, object]] = [
        {"what": f"broker {number}", "stage": stage.name, "last seen": ""}
        for number, stage in sorted(observed.items())
    ]
    rows += [
        {"what": name, "stage": "to start again", "last seen": ""}
        for name in conversion.late_processes()
    ]
    rows += [
        {
            "what": f"{client.client_id} from {client.host}",
            "stage": f"plain, broker {client.broker_id}",
            "last seen": f"{client.age_s:.0f} s ago",
        }
        for one in conversion.visits(observed)
        for client in one.clients
    ]
    show(rows, ("what", "stage", "last seen"), as_json)
    if not as_json:
        typer.echo(f"recorded here: {conversion.stage.name}; {NEXT[conversion.stage]}")


@app.command("next")
def next_command(
    ctx: typer.Context,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Although somebody still comes in plain.")
    ] = False,
    quiet: Annotated[
        str, typer.Option(help="How long nobody may have come in plain before it is closed.")
    ] = "10m",
) -> None:
    """Finish the stage that is recorded, else go on to the next one; brokers restart in turn.

    A command that was killed is given again. On several machines it is given on each.
    """
    from deploy.secure.convert import Conversion

    settings: Settings = ctx.obj
    conversion = Conversion(settings, typer.echo)
    stage = conversion.go_on(anyway=anyway, quiet_s=parse_seconds(quiet))
    typer.echo(f"{stage.name}: {NEXT[stage]}")


@app.command("back")
def back_command(ctx: typer.Context) -> None:
    """To the stage before, as long as plain listeners are still there."""
    from deploy.secure.convert import Conversion

    stage = Conversion(ctx.obj, typer.echo).go_back()
    typer.echo(f"{stage.name}: {NEXT[stage]}")
