"""One broker's session with the simulated ensemble: `broker.controller.zk.port.ZooKeeperSession`.

In: calls of the broker, events of the ensemble. Out: answers in the order of the calls, watch
events in the same stream, the states of the session. Never: an answer after the end of the call's
connection; the caller of a write gets CONNECTION_LOSS and cannot know whether it was applied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.controller.zk.port import (
    ANY_VERSION,
    Create,
    Delete,
    Operation,
    SessionListener,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZnodeAcl,
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from tests.simulation.zookeeper import Ensemble, SimZooKeeperServer, ZNode

TIMEOUT_S = 6.0
WAY_S = (0.0002, 0.0015)
RETRY_S = 0.3


class SimSession:
    """Invariant: `_connection` numbers the connections; answers and events of older ones are
    ignored."""

    def __init__(self, ensemble: Ensemble, node_id: int, process: Any) -> None:
        self._ensemble, self._node_id, self._process = ensemble, node_id, process
        self._loop = ensemble.loop
        self._life = process.life
        self._dice = ensemble.dice
        self._listener: SessionListener | None = None
        self._state = SessionState.CONNECTING
        self._session_id = 0
        self._connection = 0
        self._server: SimZooKeeperServer | None = None
        self._seen_zxid = 0
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._there_at = self._back_at = 0.0
        self._ended: set[int] = set()
        self._stalled: deque[Callable[[], None]] = deque()
        """Messages in both directions while the link is cut: TCP sends them again."""

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def is_refused(self) -> bool:
        """A simulated ensemble asks for no login."""
        return False

    @property
    def last_failure(self) -> str:
        return ""

    async def set_acls(self, path: str, entries: Sequence[ZnodeAcl]) -> None:
        raise AssertionError("no simulated broker sets zookeeper.set.acl")

    def start(self, listener: SessionListener) -> None:
        """Connects, and reconnects for ever."""
        self._listener = listener
        self._process.clock.spawn(self._stay_connected(), name="zookeeper-session")

    async def close(self) -> None:
        """Ends the session; its ephemeral nodes are removed immediately if ZooKeeper is
        reachable."""
        if self._state is SessionState.CONNECTED and self._ensemble.reaches(self._node_id):
            self._ensemble.close(self._session_id)
        self._become(SessionState.CLOSED)
        self._fail_pending(ZooKeeperErrorKind.SESSION_EXPIRED)

    # --- the connection --------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        heard = self._loop.time()
        while self._state is not SessionState.CLOSED:
            if self._state is not SessionState.CONNECTED:
                if await self._connect():
                    heard = self._loop.time()
                else:
                    await asyncio.sleep(RETRY_S)
                continue
            await asyncio.sleep(TIMEOUT_S / 6)
            if self._session_id in self._ended:
                self._disconnected()
            elif self._ensemble.reaches(self._node_id):
                heard = self._loop.time()
                self._ensemble.sessions[self._session_id].heard_at = heard
            elif self._loop.time() - heard > TIMEOUT_S * 2 / 3:
                self._disconnected()

    async def _connect(self) -> bool:
        await asyncio.sleep(self._way())
        ensemble = self._ensemble
        if self._state is SessionState.CLOSED or not ensemble.reaches(self._node_id):
            return False
        server = ensemble.servers[self._dice.randrange(0, len(ensemble.servers))]
        if server.applied < self._seen_zxid:
            return False  # a server older than what the client has seen refuses it
        if self._session_id and self._session_id not in ensemble.sessions:
            self._fail_pending(ZooKeeperErrorKind.SESSION_EXPIRED)
            self._session_id = 0
            self._become(SessionState.EXPIRED)
            return False
        if not self._session_id:
            self._session_id = ensemble.open(self._node_id, TIMEOUT_S, self).session_id
        record = ensemble.sessions[self._session_id]
        record.heard_at = self._loop.time()
        self._server = server
        self._connection += 1
        self._ensemble.connected[self] = None
        self._there_at = self._back_at = self._loop.time()
        self._become(SessionState.CONNECTED)
        return True

    def _disconnected(self) -> None:
        if self._server is not None:
            self._server.forget(self)
        self._connection += 1
        self._stalled.clear()
        self._fail_pending(ZooKeeperErrorKind.CONNECTION_LOSS)
        self._become(SessionState.DISCONNECTED)

    def server_ended_it(self, session_id: int) -> None:
        """Ends the connection, if still reachable, after the ensemble expired or closed the
        session."""
        self._ended.add(session_id)
        if self._server is not None:
            self._server.forget(self)
        connection = self._connection

        def heard() -> None:
            if connection == self._connection and self._state is SessionState.CONNECTED:
                self._disconnected()

        self._in_life(heard)

    def _become(self, state: SessionState) -> None:
        if state is self._state:
            return
        self._state = state
        if self._listener is not None:
            self._listener.on_session(state, self._session_id)

    def _fail_pending(self, kind: ZooKeeperErrorKind) -> None:
        pending, self._pending = self._pending, {}
        for future in pending:
            if not future.done():
                future.set_exception(ZooKeeperError(kind))

    def _way(self) -> float:
        low, high = WAY_S
        return low + (high - low) * self._dice.random()

    def _in_life(self, step: Callable[[], None]) -> None:
        """Schedules a step in the stream of answers, never before earlier ones."""
        self._back_at = max(self._back_at, self._loop.time() + self._way())
        if not self._life.dead:
            self._loop.call_at(self._back_at, self._on_the_way, step, context=self._life.context)

    def _on_the_way(self, step: Callable[[], None]) -> None:
        """Runs the step, or queues it while the link is cut."""
        if self._stalled or not self._ensemble.reaches(self._node_id):
            self._stalled.append(step)
        else:
            step()

    def way_is_free(self) -> None:
        """Sends all waiting steps again, in order."""
        context = self._loop.kernel if self._life.dead else self._life.context
        self._loop.call_later(RETRY_S, self._send_again, context=context)

    def _send_again(self) -> None:
        while self._stalled and self._ensemble.reaches(self._node_id):
            self._stalled.popleft()()

    def notify_watch(self, kind: WatchKind, path: str) -> None:
        """Delivers a fired watch of this session."""
        connection = self._connection

        def deliver() -> None:
            if connection == self._connection and self._listener is not None:
                self._listener.on_watch(WatchEvent(kind, path))

        self._in_life(deliver)

    # --- calls -----------------------------------------------------------------------------------

    async def _call(self, work: Callable[[SimZooKeeperServer], Any]) -> Any:
        if self._state is not SessionState.CONNECTED:
            ended = self._state in (SessionState.EXPIRED, SessionState.CLOSED)
            kind = ZooKeeperErrorKind.SESSION_EXPIRED if ended else (
                ZooKeeperErrorKind.CONNECTION_LOSS
            )
            raise ZooKeeperError(kind)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending[future] = None
        self._there_at = max(self._there_at, self._loop.time() + self._way())
        arrival = partial(self._arrive, self._connection, work, future)
        context = self._loop.kernel
        self._loop.call_at(self._there_at, self._on_the_way, arrival, context=context)
        return await future

    def _arrive(
        self, connection: int, work: Callable[[SimZooKeeperServer], Any], future: asyncio.Future[Any]
    ) -> None:
        """Executes a request at the server, also one of a dead client."""
        server = self._server
        if connection != self._connection or server is None:
            return
        if self._session_id in self._ended:
            return
        self._ensemble.sessions[self._session_id].heard_at = self._loop.time()
        try:
            result, error = work(server), None
        except ZooKeeperError as refused:
            result, error = None, refused
        zxid = server.applied
        self._in_life(lambda: self._answer(connection, future, result, error, zxid))

    def _answer(
        self,
        connection: int,
        future: asyncio.Future[Any],
        result: Any,
        error: ZooKeeperError | None,
        zxid: int,
    ) -> None:
        if connection != self._connection:
            return
        self._seen_zxid = max(self._seen_zxid, zxid)
        self._pending.pop(future, None)
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Creates a node."""

        def work(server: SimZooKeeperServer) -> tuple[str, Stat]:
            name = self._ensemble.sequence_name(path) if sequence else path
            self._ensemble.write(self._session_id, [Create(name, data, ephemeral)], server)
            return name, server.tree.find(name).stat()

        made: tuple[str, Stat] = await self._call(work)
        return made

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        """A node's data."""

        def work(server: SimZooKeeperServer) -> tuple[bytes, Stat]:
            node = server.tree.find(path)
            if watch:
                server.watch("data", path, self)
            return node.data, node.stat()

        found: tuple[bytes, Stat] = await self._call(work)
        return found

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Change a node's data."""

        def work(server: SimZooKeeperServer) -> Stat:
            self._ensemble.write(self._session_id, [SetData(path, data, version)], server)
            return server.tree.find(path).stat()

        stat: Stat = await self._call(work)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node."""
        await self._call(
            lambda server: self._ensemble.write(
                self._session_id, [Delete(path, version)], server
            )
        )

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names of the children, sorted."""

        def work(server: SimZooKeeperServer) -> list[str]:
            names = sorted(server.tree.find(path).children)
            if watch:
                server.watch("children", path, self)
            return names

        names: list[str] = await self._call(work)
        return names

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """The node's stat, or None."""

        def work(server: SimZooKeeperServer) -> Stat | None:
            node: ZNode | None = server.tree.nodes.get(path)
            if watch:
                server.watch("data", path, self)
            return None if node is None else node.stat()

        stat: Stat | None = await self._call(work)
        return stat

    async def sync(self, path: str) -> None:
        """The server applies all that was committed."""
        await self._call(self._ensemble.catch_up)

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """Applies all operations or none; returns a stat for every SetData."""

        def work(server: SimZooKeeperServer) -> list[Stat | None]:
            self._ensemble.write(self._session_id, operations, server)
            return [
                server.tree.find(one.path).stat()
                if isinstance(one, SetData) and one.path in server.tree.nodes
                else None
                for one in operations
            ]

        stats: list[Stat | None] = await self._call(work)
        return stats
