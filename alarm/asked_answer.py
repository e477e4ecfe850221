"""What the command line does with the answer to a request: goes on, or says why it was refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

import msgspec
import typer

from bus.client.kafka.command_client import CommandNotAcknowledged, CommandUnanswered
from bus.contracts.command_codes import BY_SOMEBODY
from bus.contracts.commands import CommandAnswer

UNDECIDED_STATUS = 3
"""The exit status where the request is on the bus and nobody has decided on it yet."""


def accepted(
    ctx: typer.Context, ask: Callable[[], CommandAnswer], *, as_json: bool
) -> CommandAnswer:
    """The answer that accepts it; else ends the program, and says why."""
    answer = answered(ask, "command", as_json=as_json)
    check_accepted(ctx, answer, as_json=as_json)
    return answer


def answered(
    ask: Callable[[], CommandAnswer], what: str, *, as_json: bool = False
) -> CommandAnswer:
    """The answer, whatever it says; ends the program where there is none. `what` is the word for
    what was sent."""
    try:
        return ask()
    except CommandNotAcknowledged as error:
        fail(f"the {what} was not taken: {error}")
    except CommandUnanswered as error:
        if as_json:
            typer.echo(json.dumps({"command_id": error.command_id, "state": "undecided"}))
        typer.echo(str(error), err=True)
        raise typer.Exit(UNDECIDED_STATUS) from error


def check_accepted(
    ctx: typer.Context, answer: CommandAnswer, *, as_json: bool, names_field: bool = True
) -> None:
    """Ends the program where it was refused, and says why; with `names_field` also which part is
    at fault."""
    if answer.state == "refused":
        if as_json:
            typer.echo(json.dumps(msgspec.to_builtins(answer), ensure_ascii=False))
        fail(_refusal(ctx, answer, names_field=names_field))


def fail(message: str) -> NoReturn:
    """End the program with status 1."""
    typer.echo(message, err=True)
    raise typer.Exit(1)


def _refusal(ctx: typer.Context, answer: CommandAnswer, *, names_field: bool) -> str:
    where = f"{answer.field}: " if names_field and answer.field else ""
    text = f"{answer.key} is refused: {where}{answer.text}"
    if answer.code not in BY_SOMEBODY or not answer.changed_at_ms:
        return text
    changed = datetime.fromtimestamp(answer.changed_at_ms / 1000, ctx.obj.site.tz)
    return f"{text}, by {answer.changed_by} at {changed:%Y-%m-%d %H:%M:%S}"
