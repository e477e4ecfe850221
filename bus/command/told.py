"""Errors of the bus told to a person: what happened, and what to do about it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec

import typer

from bus.client.admin import Admin
from bus.errors import BusError, ErrorCode

P = ParamSpec("P")

ANSWER_WAIT_S = 5.0
"""How long a person waits to be told that no broker answers."""

_AWAY = "No broker answers. Start one with `databus up`, or set bus.bootstrap_servers."
_REMEDIES: dict[ErrorCode, str] = {
    ErrorCode.NETWORK_EXCEPTION: _AWAY,
    ErrorCode.REQUEST_TIMED_OUT: _AWAY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`databus topics list` shows the topics there are.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`databus topics describe` shows it; delete it to begin anew.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Names have letters, digits, dot, hyphen, underscore.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`databus groups list` shows the groups there are.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its members first; `databus groups describe` names them.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Ask for no more replicas than there are brokers.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send less at once.",
}


def admin(ctx: typer.Context, client_id: str) -> Admin:
    """An administration client of a bus that answers; else BusError."""
    client = Admin(ctx.obj.bus, client_id=client_id)
    client.wait_until_up(ANSWER_WAIT_S)
    return client


def told(verb: Callable[P, None]) -> Callable[P, None]:
    """A verb that ends with exit status 1 and two lines, instead of a traceback."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        logging.getLogger("bus.client").setLevel(logging.CRITICAL)  # the error itself says enough
        try:
            verb(*args, **kwargs)
        except BusError as error:
            typer.echo(str(error), err=True)
            if error.code in _REMEDIES:
                typer.echo(_REMEDIES[error.code], err=True)
            raise typer.Exit(1) from None

    return run
