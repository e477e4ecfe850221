"""A simulated ZooKeeper ensemble: what three servers guarantee to sessions, in virtual time.

In: requests of sessions (`zk_session`), orders of the world (expire, cut, outage). Out: answers and
watch events as ZooKeeper gives them: writes in one order with one zxid each, reads from the server
a session is connected to, which may lag behind but never goes back for one session. Never: what a
znode means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.controller.zk.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    Stat,
    WatchKind,
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from tests.simulation.world import SimWorld

SERVERS = 3
LAG_S = (0.0005, 0.02)
LONG_LAG = 0.03
"""Share of transactions that a server applies late, and how late at most."""
LONG_LAG_S = 0.6
CHECK_S = 0.2

Event = tuple[WatchKind, str]


@dataclass(slots=True)
class ZNode:
    """One node of one server's tree."""

    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    made_children: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.mzxid, self.owner, len(self.children))


class Tree:
    """All nodes. Invariant: every node's parent exists."""

    def __init__(self) -> None:
        self.nodes: dict[str, ZNode] = {"/": ZNode(b"", 0, 0)}

    def find(self, path: str) -> ZNode:
        """Returns the node or raises NO_NODE."""
        node = self.nodes.get(path)
        if node is None:
            raise ZooKeeperError(ZooKeeperErrorKind.NO_NODE, path)
        return node

    def test(self, operation: Operation) -> None:
        """Raises the error that ZooKeeper would."""
        if isinstance(operation, Create):
            if operation.path in self.nodes:
                raise ZooKeeperError(ZooKeeperErrorKind.NODE_EXISTS, operation.path)
            if self.find(parent_of(operation.path)).owner:
                raise ZooKeeperError(ZooKeeperErrorKind.REFUSED, "ephemerals have no children")
            return
        node = self.find(operation.path)
        if operation.version not in (ANY_VERSION, node.version):
            raise ZooKeeperError(ZooKeeperErrorKind.BAD_VERSION, operation.path)
        if isinstance(operation, Delete) and node.children:
            raise ZooKeeperError(ZooKeeperErrorKind.NOT_EMPTY, operation.path)

    def apply(self, operation: Operation, zxid: int, session_id: int) -> list[Event]:
        """Applies the change; returns the events for watches."""
        path = operation.path
        match operation:
            case Create():
                owner = session_id if operation.ephemeral else 0
                self.nodes[path] = ZNode(operation.data, zxid, zxid, owner)
                parent = self.nodes[parent_of(path)]
                parent.children[path.rsplit("/", 1)[1]] = None
                parent.made_children += 1
                return [(WatchKind.CREATED, path), (WatchKind.CHILDREN, parent_of(path))]
            case SetData():
                node = self.nodes[path]
                node.data, node.mzxid, node.version = operation.data, zxid, node.version + 1
                return [(WatchKind.CHANGED, path)]
            case Delete():
                del self.nodes[path]
                del self.nodes[parent_of(path)].children[path.rsplit("/", 1)[1]]
                return [(WatchKind.DELETED, path), (WatchKind.CHILDREN, parent_of(path))]
            case Check():
                return []


@dataclass(frozen=True, slots=True)
class Transaction:
    """One committed write."""

    zxid: int
    session_id: int
    operations: tuple[Operation, ...]


class SimZooKeeperServer:
    """One server: its tree, its position in the log, and its watches."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.applied = 0
        self.watches: dict[tuple[str, str], dict[Any, None]] = {}

    def watch(self, kind: str, path: str, session: Any) -> None:
        """`kind` is `data` or `children`."""
        self.watches.setdefault((kind, path), {})[session] = None

    def forget(self, session: Any) -> None:
        """Removes the session's watches when its connection ends."""
        for watchers in self.watches.values():
            watchers.pop(session, None)

    def apply(self, transaction: Transaction) -> None:
        """Applies the next transaction; watches fire once."""
        self.applied += 1
        for operation in transaction.operations:
            for kind, path in self.tree.apply(
                operation, transaction.zxid, transaction.session_id
            ):
                self._fire(kind, path)

    def _fire(self, kind: WatchKind, path: str) -> None:
        drawers = ["children"] if kind is WatchKind.CHILDREN else ["data"]
        if kind is WatchKind.DELETED:
            drawers.append("children")
        notified: dict[Any, None] = {}
        for drawer in drawers:
            notified |= self.watches.pop((drawer, path), {})
        for session in notified:
            session.notify_watch(kind, path)


@dataclass(slots=True)
class SessionRecord:
    """What the ensemble knows of a session."""

    session_id: int
    node_id: int
    timeout_s: float
    heard_at: float
    owner: Any = None


class Ensemble:
    """Three servers and their sessions. Invariant: `tree` has every transaction of `log`."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.loop = world.loop
        self.dice = world.dice_of("zookeeper")
        self.tree = Tree()
        self.log: list[Transaction] = []
        self.servers = [SimZooKeeperServer() for _ in range(SERVERS)]
        self.sessions: dict[int, SessionRecord] = {}
        self.connected: dict[Any, None] = {}
        self.out = False
        self._cut: set[int] = set()
        self._next_session = 0x1000
        self._running = False

    # --- orders of the world ---------------------------------------------------------------------

    def session(self, machine: Any, process: Any) -> Any:
        """The port of one process."""
        from tests.simulation.zk_session import SimSession

        if not self._running:
            self._running = True
            self.loop.create_task(self._expire_silent(), context=self.loop.kernel)
        return SimSession(self, machine.node_id, process)

    def expire(self, node_id: int) -> None:
        """End the session of a broker now."""
        for record in [one for one in self.sessions.values() if one.node_id == node_id]:
            self.world.trace(f"the session of broker {node_id} is expired")
            self._end(record)

    def cut(self, node_id: int) -> None:
        """Cuts a broker from all servers."""
        self.world.trace(f"broker {node_id} does not reach ZooKeeper")
        self._cut.add(node_id)

    def is_away_from(self, node_id: int) -> bool:
        """Whether no request of a broker is answered now."""
        return self.out or node_id in self._cut

    def repair(self, node_id: int) -> None:
        """Reconnects a broker to the servers."""
        self._cut.discard(node_id)
        self._ways_are_free()

    def _ways_are_free(self) -> None:
        for session in self.connected:
            session.way_is_free()

    def go_away(self) -> None:
        """Ends the quorum: no request is answered, no session expires."""
        self.world.trace("ZooKeeper has no quorum")
        self.out = True

    def come_back(self) -> None:
        """Restores the quorum; each session's timeout starts from zero."""
        self.world.trace("ZooKeeper has a quorum again")
        self.out = False
        for record in self.sessions.values():
            record.heard_at = self.loop.time()
        self._ways_are_free()

    def heal(self) -> None:
        """Makes the ensemble reachable for every broker."""
        self._cut.clear()
        if self.out:
            self.come_back()
        self._ways_are_free()

    def reaches(self, node_id: int) -> bool:
        """Whether a broker's packets arrive."""
        return not self.out and node_id not in self._cut

    # --- sessions --------------------------------------------------------------------------------

    def open(self, node_id: int, timeout_s: float, owner: Any) -> SessionRecord:
        """A new session."""
        self._next_session += 1
        record = SessionRecord(
            self._next_session, node_id, timeout_s, self.loop.time(), owner
        )
        self.sessions[record.session_id] = record
        return record

    def close(self, session_id: int) -> None:
        """Ends a session on its client's request."""
        record = self.sessions.get(session_id)
        if record is not None:
            self._end(record)

    def _end(self, record: SessionRecord) -> None:
        del self.sessions[record.session_id]
        mine = [
            path for path, node in sorted(self.tree.nodes.items())
            if node.owner == record.session_id
        ]  # fmt: skip
        if mine:
            self._commit(record.session_id, tuple(Delete(path) for path in mine))
        record.owner.server_ended_it(record.session_id)

    async def _expire_silent(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            if self.out:
                continue
            now = self.loop.time()
            for record in list(self.sessions.values()):
                if now - record.heard_at > record.timeout_s:
                    self.world.trace(f"the session of broker {record.node_id} times out")
                    self._end(record)

    # --- writes ----------------------------------------------------------------------------------

    def write(
        self, session_id: int, operations: Sequence[Operation], server: SimZooKeeperServer
    ) -> list[Stat | None]:
        """Applies all operations or none, in the one order of all writes. The writer's server
        applies it, and everything before it, before the answer, also if it is refused: a refusal
        has a zxid, too."""
        try:
            saved = self._try(operations, session_id)
        except ZooKeeperError:
            self.catch_up(server)
            raise
        self._commit(session_id, tuple(operations))
        self.catch_up(server)
        return saved

    def _try(self, operations: Sequence[Operation], session_id: int) -> list[Stat | None]:
        """Returns the resulting stats; raises with the index of the operation that fails."""
        if len(operations) == 1:
            self.tree.test(operations[0])
            return [None]
        scratch = _scratch(self.tree, operations)
        for index, operation in enumerate(operations):
            try:
                scratch.test(operation)
            except ZooKeeperError as error:
                raise ZooKeeperError(error.kind, str(error), index) from None
            scratch.apply(operation, len(self.log) + 1, session_id)
        return [None] * len(operations)

    def _commit(self, session_id: int, operations: tuple[Operation, ...]) -> None:
        zxid = len(self.log) + 1
        self.log.append(Transaction(zxid, session_id, operations))
        for operation in operations:
            self.tree.apply(operation, zxid, session_id)
        for server in self.servers:
            low, high = LAG_S
            if self.dice.random() < LONG_LAG:
                high = LONG_LAG_S
            delay = low + (high - low) * self.dice.random()
            self.loop.call_later(
                delay, self._catch_up_to, server, zxid, context=self.loop.kernel
            )

    def catch_up(self, server: SimZooKeeperServer) -> None:
        """Applies all transactions to the server."""
        self._catch_up_to(server, len(self.log))

    def _catch_up_to(self, server: SimZooKeeperServer, zxid: int) -> None:
        while server.applied < zxid:
            server.apply(self.log[server.applied])

    def sequence_name(self, path: str) -> str:
        """`path` with the next ten digits of its parent."""
        return f"{path}{self.tree.find(parent_of(path)).made_children:010d}"


def parent_of(path: str) -> str:
    """The path of the parent node."""
    return path.rsplit("/", 1)[0] or "/"


def _scratch(tree: Tree, operations: Sequence[Operation]) -> Tree:
    """A copy of the nodes that a multi touches."""
    made = Tree()
    made.nodes.clear()
    for operation in operations:
        for path in (operation.path, parent_of(operation.path)):
            node = tree.nodes.get(path)
            if node is not None and path not in made.nodes:
                made.nodes[path] = ZNode(
                    node.data, node.czxid, node.mzxid, node.owner, node.version,
                    node.made_children, dict(node.children),
                )  # fmt: skip
    return made
