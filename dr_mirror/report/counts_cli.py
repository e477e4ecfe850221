"""The command `mirror counts`: what both sites counted of each device and hour.

In: addresses of both consoles, a name and a password. Out: what differs; exit status 1 where
something does, or nothing was counted. Never: a password on the command line.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, tzinfo
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json, screen
from bus.runtime.wall_clock import now_ms
from dr_mirror.report.console_password import PASSWORD, console_password
from dr_mirror.report.plan.counts import CountDifference, settled_hours
from dr_mirror.report.site_counts import CountsUnavailable, compare_counts, console_client
from dr_mirror.status.not_known import not_known_yet
from dr_mirror.topics.states import Language

_COLUMNS = ("hour", "kind", "camera", "server", "number", "source", "target")
_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "hour": "hour", "kind": "kind", "camera": "camera", "server": "server", "number": "number",
        "source": "source", "target": "target", "password": "Password of {user} at both consoles",
        "equal": "{compared} hours of devices: both sites counted the same.",
        "differ": "{found} numbers of {compared} hours of devices differ.",
        "nothing": "neither site has counted anything of a device in these hours",
    },
    "zh": {
        "hour": "小时", "kind": "类别", "camera": "设备", "server": "识别服务器", "number": "计数",
        "source": "源端", "target": "目标端", "password": "{user} 在两个控制台的密码",
        "equal": "{compared} 个设备小时:两站点计数一致。",
        "differ": "{compared} 个设备小时中有 {found} 个计数不一致。",
        "nothing": "两个站点在这些小时内均无设备计数",
    },
}  # fmt: skip


@report_errors
def counts(
    ctx: typer.Context,
    source_console: Annotated[str, typer.Option(help="Address of the source's console.")],
    target_console: Annotated[str, typer.Option(help="Address of the target's console.")],
    user: Annotated[str, typer.Option(help=f"Who may look at both; password: ${PASSWORD}.")],
    hours: Annotated[int, typer.Option(min=1, max=168, help="The last whole hours.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Compare what both sites counted of each device and hour; exit status 1: something differs."""
    site = ctx.obj.site
    texts = _TEXTS[site.language]
    password = console_password(texts["password"].format(user=user))
    try:
        compared, found = asyncio.run(
            _compare(source_console, target_console, user, password, hours)
        )
    except CountsUnavailable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        print_json({"compared": compared, "differences": msgspec.to_builtins(found)})
    elif compared:
        _show(found, texts, site.tz)
        word = "differ" if found else "equal"
        typer.echo(texts[word].format(compared=compared, found=len(found)))
    if not compared:
        raise not_known_yet(site.language, texts["nothing"])
    if found:
        raise typer.Exit(1)


async def _compare(
    source: str, target: str, user: str, password: str, hours: int
) -> tuple[int, list[CountDifference]]:
    async with (
        console_client(source, user, password) as at_source,
        console_client(target, user, password) as at_target,
    ):
        return await compare_counts(at_source, at_target, settled_hours(now_ms(), hours))


def _show(found: list[CountDifference], texts: dict[str, str], zone: tzinfo) -> None:
    if not found:
        return
    table = Table(*(texts[column] for column in _COLUMNS))
    for one in found:
        hour = datetime.fromtimestamp(one.hour_ms / 1000, zone).strftime("%Y-%m-%d %H:%M")
        row = [hour, one.kind, one.camera_ip, one.recognizer_ip, one.number, str(one.source),
               str(one.target)]  # fmt: skip
        table.add_row(*map(Text, row))
    screen().print(table)
