"""One process that is kept alive: what starts it, when it is ready, where it is in its life.

In: a role's words. Out: the values that the supervisor is given and that others show. Never: a
process; who only asks how a role is loads this alone.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class RoleState(str, Enum):
    """Where a child is in its life."""

    WAITING = "waiting"  # for the roles it needs
    STARTING = "starting"  # runs, its endpoint does not answer yet
    RUNNING = "running"
    RESTARTING = "restarting"  # died; waits out its back-off
    FAILED = "failed"  # died too often; given up
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    """A TCP address that answers when a role is ready; `setting` (or an option) changes it."""

    host: str
    port: int
    setting: str

    @property
    def probe_host(self) -> str:
        """Where to ask: a wildcard address answers on the loopback."""
        return "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host

    def accepts_connections(self) -> bool:
        """Whether connections are accepted there."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.probe_host, self.port), 1),
        ):
            return True
        return False

    def is_free(self) -> bool:
        """Whether we could listen there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError:
                return False
            return True


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep alive.

    It is ready when its `endpoint` answers and its log shows `ready_line`, as far as it has them.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    needs: tuple[str, ...] = ()
    endpoint: ServiceEndpoint | None = None
    ready_line: str = ""
    stop_timeout_s: float = 20
