"""Ends the connection of a client that could not prove who it is.

The answer waits for `connection.failed.authentication.delay.ms`, so that passwords are not guessed
fast; meanwhile nothing is read, and no other client waits.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext


def refuse_login(context: RequestContext, response: object, reason: str) -> None:
    """Answer later, then close; `reason` is for the log and has nothing of the client's."""
    connection = context.connection
    context.session.on_failed()
    connection.pause_requests()

    def answer() -> None:
        context.reply(response)
        connection.finish(f"failed authentication ({reason})")

    services = context.services
    services.clock.call_later(services.logins.failed_delay_ms / 1000, answer)
