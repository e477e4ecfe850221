"""The commands `up`, `down`, `status` and `logs`.

In: words, the composed settings in `ctx.obj`. Out: what the package returns, printed for people or
as JSON. Never: the work itself.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.table import Table

from bus.cli.show import AsJson, screen
from deploy.settings.composed import Settings


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("logs")(logs)


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
    from deploy.supervisor.supervise import down as stop

    typer.echo("stopped" if stop(ctx.obj) else "nothing runs on this data directory")


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
