"""The command `edge move`: to which of two sites the edge of this machine sends.

In: settings, the edge's folder. Out: an order in a file, which the edge takes; its state.
Never: a change of what the edge has; it does that itself.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal, get_args

import typer

from ingest.edge.sites.site_route import (
    HOME,
    SECOND,
    RouteState,
    Site,
    read_route,
    write_order,
)

POLL_S = 0.2

_TEXTS: dict[Literal["zh", "en"], dict[str, str]] = {
    "en": {
        "none": "edge.second_site_bootstrap_servers is empty: this edge has one site only",
        "ordered": "The edge is told to send to: {to}",
        "done": "Records go to: {to}",
        "waiting": "Not complete after {wait:g} s. Is the edge running, does the other site "
        "answer? The order stands; see second_site in /v1/status of the edge, `databus logs edge`",
        "failed": "The order cannot be written: {error}",
    },
    "zh": {
        "none": "edge.second_site_bootstrap_servers 为空:此接入端只有一个站点",
        "ordered": "已通知接入端发往:{to}",
        "done": "记录现在发往:{to}",
        "waiting": "{wait:g} 秒后仍未完成。接入端是否在运行,另一站点是否应答?命令仍有效;"
        "请看接入端 /v1/status 的 second_site 以及:databus logs edge",
        "failed": "命令无法写入:{error}",
    },
}


def mount(app: typer.Typer) -> None:
    """Add the command."""
    edge = typer.Typer(help="The HTTP edge of this machine.", no_args_is_help=True)
    edge.callback()(lambda: None)
    edge.command("move")(move)
    app.add_typer(edge, name="edge")


def move(
    ctx: typer.Context,
    to: Annotated[str, typer.Option(help="second, or home.")],
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until it is done; 0: do not wait.")
    ] = 60.0,
) -> None:
    """Send records to the other site; first what it lacks of what was kept, in order.

    Exit status 1: not complete yet.
    """
    site, edge = ctx.obj.site, ctx.obj.edge
    texts = _TEXTS[site.language]
    if to not in get_args(Site):
        raise typer.BadParameter(f"{to!r} is not one of {', '.join(get_args(Site))}")
    if not edge.second_site_bootstrap_servers:
        typer.echo(texts["none"], err=True)
        raise typer.Exit(1)
    folder = edge.spool_dir(site)
    try:
        write_order(folder, SECOND if to == SECOND else HOME)
    except OSError as error:
        typer.echo(texts["failed"].format(error=error), err=True)
        raise typer.Exit(1) from None
    typer.echo(texts["ordered"].format(to=to))
    deadline = time.monotonic() + wait
    while not _is_done(read_route(folder), to):
        if time.monotonic() >= deadline:
            typer.echo(texts["waiting"].format(wait=wait))
            raise typer.Exit(1 if wait else 0)
        time.sleep(POLL_S)
    typer.echo(texts["done"].format(to=to))


def _is_done(state: RouteState, to: str) -> bool:
    return state.active == to and state.moving_to is None
