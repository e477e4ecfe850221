"""The broker's interface to ZooKeeper: one session, real (`kazoo_session.py`) or simulated.

In: paths and bytes. Out: results as values, watches and session events as calls of the one
listener, all on the broker's own thread. Never: the meaning of a znode (that is `znodes.py`), or a
retry: after CONNECTION_LOSS it is unknown whether a write happened, and the caller must check.

Promises of every implementation, which the parts above rely on:
1. Results come in call order. A watch fires at most once per `watch=True`, and at most one loop
   iteration after the result of a read that already shows the change; after a watch the caller
   reads again.
2. A call that was made under one session is never executed under the next one: on EXPIRED
   everything pending fails with SESSION_EXPIRED before the listener is called.
3. While DISCONNECTED, calls fail with CONNECTION_LOSS (pending ones too); the implementation
   reconnects by itself without limit, and after EXPIRED it opens a new session by itself.
4. `multi` is all or nothing.
5. Watches do not outlive a connection: after every CONNECTED the caller reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

ANY_VERSION = -1
"""A conditional write that asks for no particular version."""


@dataclass(frozen=True, slots=True)
class ZnodeAcl:
    """Who may do what with a node, one entry. The scheme `auth` stands for whoever sets it, in all
    ways in which it has said who it is."""

    permissions: int
    scheme: str
    id: str


class ZooKeeperErrorKind(Enum):
    """Why a call failed."""

    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    CONNECTION_LOSS = "connection loss"
    SESSION_EXPIRED = "session expired"
    REFUSED = "refused"
    """Anything else: authentication, ACLs, a node too large, a quota."""


class ZooKeeperError(Exception):
    """A failed call. Of a `multi`, `failed_index` is the operation that broke it."""

    def __init__(self, kind: ZooKeeperErrorKind, text: str = "", failed_index: int = -1) -> None:
        super().__init__(f"{kind.value}: {text}" if text else kind.value)
        self.kind = kind
        self.failed_index = failed_index


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper knows of a node. `czxid` of a broker's node is its broker epoch."""

    version: int
    czxid: int
    mzxid: int = 0
    ephemeral_owner: int = 0
    children_count: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; its parent must exist."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Change a node's data if it has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a childless node if it has this version."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Let the `multi` fail unless the node has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check


class WatchKind(Enum):
    """What happened to a watched node."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch fired; it is gone now."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """Where the session stands."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"
    CLOSED = "closed"


class SessionListener(Protocol):
    """Receives watches and session events, on the broker's thread."""

    def on_session(self, state: SessionState, session_id: int) -> None:
        """CONNECTED under a new id after EXPIRED means that the ephemeral nodes are gone too."""

    def on_watch(self, event: WatchEvent) -> None:
        """Read again what the event names, with a watch."""


class ZooKeeperSession(Protocol):
    """One broker's session. Every method may raise `ZooKeeperError` and nothing else."""

    @property
    def state(self) -> SessionState:
        """The state last reported to the listener."""

    @property
    def session_id(self) -> int:
        """The present session, 0 before the first."""

    @property
    def is_refused(self) -> bool:
        """Whether the ensemble did not accept our login, the last time it was asked."""

    @property
    def last_failure(self) -> str:
        """Why the last attempt to connect failed, for an operator; may be empty."""

    def start(self, listener: SessionListener) -> None:
        """Begin to connect; the listener is called when connected."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish at once (if ZooKeeper can be reached)."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Make a node; the name it got (with `sequence` ten digits are added) and its stat."""

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        """A node's data. With NO_NODE no watch is left; use `exists` to wait for a node."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Change a node's data."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node."""

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names of the children, sorted."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """The node's stat, or None; the watch fires on creation, change and deletion."""

    async def sync(self, path: str) -> None:
        """Reads after this show what was written before it, by whomever: the server that answers
        this session may be behind the others."""

    async def set_acls(self, path: str, entries: Sequence[ZnodeAcl]) -> None:
        """Who may do what with a node from now on; a new one has those of its path."""

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """All or none; the stat of every changed node at its place, None for the others."""
