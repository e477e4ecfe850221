"""How a session reaches its ensemble and says who it is: values for `KazooSession`.

In: what `broker.server.zk.ensemble_settings` has read. Never: a file.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

ConnectTls = Callable[[tuple[str, int], str, float | None], ssl.SSLSocket]
"""To an address, of a server with that name, within so many seconds. Raises OSError."""


@dataclass(frozen=True, slots=True)
class EnsembleLogin:
    """A user of DIGEST-MD5, as the ensemble's section `Server` names it."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EnsembleAccess:
    """`connect` is called on a thread of its own; None: without TLS.
    `sets_acls`: new nodes belong to who makes them (zookeeper.set.acl)."""

    login: EnsembleLogin | None = None
    connect: ConnectTls | None = None
    sets_acls: bool = False


OPEN_ENSEMBLE = EnsembleAccess()
"""One that asks for nothing."""
