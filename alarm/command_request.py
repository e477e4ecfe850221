"""A command of the watch list at the command line: sent, and waited for until it is answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing

import msgspec
import typer

from alarm.asked_answer import accepted
from bus.client.kafka.command_client import CommandClient
from bus.contracts.commands import CommandAnswer, WatchCommand

CLIENT_ID = "watch"


def request_answer(ctx: typer.Context, command: WatchCommand, *, as_json: bool) -> CommandAnswer:
    """The answer that accepts it; else ends the program, and says why."""
    with closing(CommandClient(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)) as client:
        return accepted(ctx, lambda: client.request(command), as_json=as_json)


def print_lines(structs: Iterable[msgspec.Struct], **more: str) -> None:
    """One JSON object a line, with what stands at its default and with `more`."""
    for struct in structs:
        fields = msgspec.to_builtins(msgspec.structs.asdict(struct)) | more
        typer.echo(json.dumps(fields, ensure_ascii=False))
