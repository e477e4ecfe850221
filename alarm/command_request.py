"""A command of the command line: sent, and waited for until the site's decider has answered.

A rule counts as in force, or as removed, only when it was answered so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import NoReturn

import msgspec
import typer

from bus.client.kafka.command_client import (
    CommandClient,
    CommandNotAcknowledged,
    CommandUnanswered,
)
from bus.contracts.command_codes import STALE
from bus.contracts.commands import Command, CommandAnswer

CLIENT_ID = "watch"
UNDECIDED_STATUS = 3
"""The exit status where the request is on the bus and nobody has decided on it yet."""


def request_answer(ctx: typer.Context, command: Command, *, as_json: bool) -> CommandAnswer:
    """The answer that accepts it; else ends the program, and says why."""
    client = CommandClient(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)
    try:
        answer = client.request(command)
    except CommandNotAcknowledged as error:
        fail(f"the command was not taken: {error}")
    except CommandUnanswered as error:
        if as_json:
            typer.echo(json.dumps({"command_id": command.command_id, "state": "undecided"}))
        typer.echo(str(error), err=True)
        raise typer.Exit(UNDECIDED_STATUS) from error
    finally:
        client.close()
    if answer.state == "refused":
        if as_json:
            print_lines([answer])
        fail(_refusal(ctx, answer))
    return answer


def print_lines(structs: Iterable[msgspec.Struct], **more: str) -> None:
    """One JSON object a line, with what stands at its default and with `more`."""
    for struct in structs:
        fields = msgspec.to_builtins(msgspec.structs.asdict(struct)) | more
        typer.echo(json.dumps(fields, ensure_ascii=False))


def fail(message: str) -> NoReturn:
    """End the program with a sentence."""
    typer.echo(message, err=True)
    raise typer.Exit(1)


def _refusal(ctx: typer.Context, answer: CommandAnswer) -> str:
    where = f"{answer.field}: " if answer.field else ""
    text = f"{answer.key} is refused: {where}{answer.text}"
    if answer.code != STALE or not answer.changed_at_ms:
        return text
    changed = datetime.fromtimestamp(answer.changed_at_ms / 1000, ctx.obj.site.tz)
    return f"{text}, by {answer.changed_by} at {changed:%Y-%m-%d %H:%M:%S}"
