"""Who came through the listeners without TLS lately, for an operator who wants to close them.

In: connections that are open, and those that have closed. Out: one line for each listener, address
and client id. Never: a connection whose client asked nothing: a probe that only looks whether the
port is open; more than `MAX_PLAIN_CLIENTS` of the closed ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from broker.network.connection import Connection
from broker.network.limits import MAX_PLAIN_CLIENTS

PLAIN_CLIENTS_PAGE = b"/plain-clients"
MOST_CHARACTERS = 200
"""Of a client id, which may have 32,767."""
ClientKey = tuple[str, str, str]
"""Listener, address, client id."""


class PlainClients:
    """Invariant: `_closed` has when each was last active, the newest last."""

    def __init__(
        self, monotonic: Callable[[], float], connections: Callable[[], Iterable[Connection]]
    ) -> None:
        """`connections()`: all that are open now."""
        self._monotonic, self._connections = monotonic, connections
        self._began = monotonic()
        self._closed: dict[ClientKey, float] = {}

    def on_closed(self, connection: Connection) -> None:
        """A connection of any listener is gone."""
        key = _key(connection)
        if key is None:
            return
        last = max(self._closed.pop(key, 0.0), connection.last_active)
        self._closed[key] = last
        if len(self._closed) > MAX_PLAIN_CLIENTS:
            del self._closed[next(iter(self._closed))]

    def page(self) -> str:
        """JSON: for how long is watched, and who came; ages in seconds."""
        now = self._monotonic()
        seen = dict(self._closed)
        for connection in self._connections():
            key = _key(connection)
            if key is not None:
                seen[key] = max(seen.get(key, 0.0), connection.last_active)
        clients = [
            {"listener": listener, "host": host, "client_id": name, "age_s": now - last}
            for (listener, host, name), last in sorted(seen.items(), key=lambda one: -one[1])
        ]
        return json.dumps({"watched_s": now - self._began, "clients": clients})


def _key(connection: Connection) -> ClientKey | None:
    session = connection.session
    if session.protocol.has_tls or session.client_id is None:
        return None
    return session.listener, connection.host, session.client_id[:MOST_CHARACTERS]
