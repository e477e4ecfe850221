"""What the command line does with the answer to a request: goes on, or says why it was refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

import msgspec
import typer

from bus.client.kafka.command_client import CommandNotAcknowledged, CommandUnanswered
from bus.contracts.command_codes import STALE
from bus.contracts.commands import CommandAnswer

UNDECIDED_STATUS = 3
"""The exit status where the request is on the bus and nobody has decided on it yet."""


def accepted(
    ctx: typer.Context, ask: Callable[[], CommandAnswer], *, as_json: bool
) -> CommandAnswer:
    """The answer that accepts it; else ends the program, and says why."""
    try:
        answer = ask()
    except CommandNotAcknowledged as error:
        fail(f"the command was not taken: {error}")
    except CommandUnanswered as error:
        if as_json:
            typer.echo(json.dumps({"command_id": error.command_id, "state": "undecided"}))
        typer.echo(str(error), err=True)
        raise typer.Exit(UNDECIDED_STATUS) from error
    if answer.state == "refused":
        if as_json:
            typer.echo(json.dumps(msgspec.to_builtins(answer), ensure_ascii=False))
        fail(_refusal(ctx, answer))
    return answer


def fail(message: str) -> NoReturn:
    """End the program with status 1."""
    typer.echo(message, err=True)
    raise typer.Exit(1)


def _refusal(ctx: typer.Context, answer: CommandAnswer) -> str:
    where = f"{answer.field}: " if answer.field else ""
    text = f"{answer.key} is refused: {where}{answer.text}"
    if answer.code != STALE or not answer.changed_at_ms:
        return text
    changed = datetime.fromtimestamp(answer.changed_at_ms / 1000, ctx.obj.site.tz)
    return f"{text}, by {answer.changed_by} at {changed:%Y-%m-%d %H:%M:%S}"
