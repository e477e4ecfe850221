"""A session with a real ensemble: kazoo, its threads kept behind `call_soon_threadsafe`.

Takes hosts (`zookeeper.connect`, with an optional chroot), the session timeout and how to say who
we are, and keeps the port's promises. Of the broker's code only what makes a connection (TLS, its
certificates) runs on a thread of kazoo's.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id

from broker.controller.zk.ensemble_access import OPEN_ENSEMBLE, ConnectTls, EnsembleAccess
from broker.controller.zk.port import (
    ANY_VERSION,
    Check,
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
from broker.controller.zk.znode_acls import default_acls

if TYPE_CHECKING:
    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter

RETRY_DELAY_S = 0.1
RETRY_MAX_DELAY_S = 1.0
"""Between two rounds over all servers of an ensemble that cannot be reached; kazoo doubles from
the first to the second, so that a broker is back within about a second of its ensemble."""
REFUSED_RETRY_S = 1.0
"""After a login that was refused, as in Kafka; kazoo itself would never try again."""
MECHANISM = "DIGEST-MD5"
_FAILURES = ("Connection dropped: ", "Connection time-out: ")
"""How kazoo's warnings begin that say why an attempt failed."""

_KINDS: tuple[tuple[type[Exception], ZooKeeperErrorKind], ...] = (
    (kazoo_errors.NoNodeError, ZooKeeperErrorKind.NO_NODE),
    (kazoo_errors.NodeExistsError, ZooKeeperErrorKind.NODE_EXISTS),
    (kazoo_errors.BadVersionError, ZooKeeperErrorKind.BAD_VERSION),
    (kazoo_errors.NotEmptyError, ZooKeeperErrorKind.NOT_EMPTY),
    (kazoo_errors.SessionExpiredError, ZooKeeperErrorKind.SESSION_EXPIRED),
    (kazoo_errors.ConnectionLoss, ZooKeeperErrorKind.CONNECTION_LOSS),
    (kazoo_errors.ConnectionClosedError, ZooKeeperErrorKind.CONNECTION_LOSS),
    (kazoo_errors.OperationTimeoutError, ZooKeeperErrorKind.CONNECTION_LOSS),
)

_WATCHES = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}


class FailureLog(_LoggerAdapter):
    """kazoo's log: of its warnings, one per attempt and server, the newest reason is kept."""

    last = ""

    def warning(self, msg: object, *args: object, **_: Any) -> None:
        """Keep the reason of a failed attempt; who has the session says what matters."""
        text = str(msg) % args if args else str(msg)
        for beginning in _FAILURES:
            if text.startswith(beginning):
                self.last = text.removeprefix(beginning)


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections of our own contexts: certificates out of all our stores,
    chosen suites, and no key on a disk."""

    def __init__(self, connect: ConnectTls) -> None:
        super().__init__()
        self._connect = connect

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> ssl.SSLSocket:
        """A connection whose handshake is done within `timeout` seconds. Raises OSError."""
        return self._connect(address, hostname or address[0], timeout)


class KazooSession:
    """`ZooKeeperSession` over kazoo.

    Invariant: `_pending` holds the calls without a result; all fields change on the loop's thread
    only. With a login, CONNECTED is reported when the ensemble has accepted it.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        access: EnsembleAccess = OPEN_ENSEMBLE,
    ) -> None:
        quiet = logging.getLogger("broker.zookeeper.client")
        if quiet.level == logging.NOTSET:
            # Its warnings are one per attempt and server; who has the session says what matters.
            quiet.setLevel(logging.ERROR)
        self._access = access
        self._notes = FailureLog(quiet, {})
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RETRY_DELAY_S, max_delay=RETRY_MAX_DELAY_S
            ),
            logger=self._notes,
            handler=None if access.connect is None else TlsHandler(access.connect),
            sasl_options=None if access.login is None else {
                "mechanism": MECHANISM,
                "username": access.login.username,
                "password": access.login.password,
            },
            # A server that is cut off from its majority (readonlymode.enabled) must turn us away:
            # its data may be old, and what we register there would be invisible to others.
            read_only=False,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: SessionListener | None = None
        self._state = SessionState.CONNECTING
        self._session_id = 0
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._missing_root: str = self._client.chroot
        self._is_let_in = access.login is None
        self._is_refused = False
        self._starting: asyncio.Future[Any] | None = None

    @property
    def state(self) -> SessionState:
        """The state last reported to the listener."""
        return self._state

    @property
    def session_id(self) -> int:
        """The present session."""
        return self._session_id

    @property
    def is_refused(self) -> bool:
        """Whether the ensemble did not accept the login, the last time it was asked."""
        return self._is_refused

    @property
    def last_failure(self) -> str:
        """Why the last attempt to connect failed."""
        login = self._access.login
        if self._is_refused and login is not None:
            return (
                f"it refuses the login of {login.username}: it knows no such user, or by another"
                " password"
            )
        return self._notes.last

    def start(self, listener: SessionListener) -> None:
        """Begin to connect."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._client.add_listener(self._on_state_in_thread)
        self._client.start_async()

    async def close(self) -> None:
        """End the session. kazoo joins its threads, so another thread waits for that."""
        if self._state is SessionState.CLOSED:
            return
        self._state = SessionState.CLOSED
        self._fail_pending(ZooKeeperErrorKind.SESSION_EXPIRED)
        self._client.remove_listener(self._on_state_in_thread)
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        if self._loop is not None:
            await self._loop.run_in_executor(None, self._stop_client)

    # -- calls ------------------------------------------------------------------------

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Make a node."""
        made, stat = await self._call(
            lambda client: client.create_async(
                path, data, self._acls(path),
                ephemeral=ephemeral, sequence=sequence, include_data=True,
            )
        )
        return made, _stat(stat)

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        """A node's data."""
        data, stat = await self._call(lambda client: client.get_async(path, self._watch(watch)))
        return data, _stat(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Change a node's data."""
        return _stat(await self._call(lambda client: client.set_async(path, data, version)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node."""
        await self._call(lambda client: client.delete_async(path, version))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names of the children, sorted."""
        found = await self._call(
            lambda client: client.get_children_async(path, self._watch(watch))
        )
        return sorted(found)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """The node's stat, or None."""
        stat = await self._call(lambda client: client.exists_async(path, self._watch(watch)))
        return None if stat is None else _stat(stat)

    async def sync(self, path: str) -> None:
        """The server catches up with its leader."""
        await self._call(lambda client: client.sync_async(path))

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """All or none."""
        if not operations:
            return []
        results = await self._call(
            lambda client: self._transaction(client, operations).commit_async()
        )
        stats: list[Stat | None] = []
        for index, result in enumerate(results):
            if isinstance(result, Exception):
                if isinstance(result, (kazoo_errors.RolledBackError,
                                       kazoo_errors.RuntimeInconsistency)):
                    continue
                raise _error(result, f"operation {operations[index]!r}", index)
            stats.append(_stat(result) if isinstance(operations[index], SetData) else None)
        return stats

    async def set_acls(self, path: str, entries: Sequence[ZnodeAcl]) -> None:
        """Who may do what with a node from now on."""
        await self._call(lambda client: client.set_acls_async(path, _kazoo_acls(entries)))

    def _acls(self, path: str) -> list[ACL]:
        return _kazoo_acls(default_acls(path, is_secure=self._access.sets_acls))

    def _transaction(self, client: KazooClient, operations: Sequence[Operation]) -> Any:
        transaction = client.transaction()
        for operation in operations:
            match operation:
                case Create():
                    path = operation.path
                    transaction.create(
                        path, operation.data, self._acls(path), ephemeral=operation.ephemeral
                    )
                case SetData():
                    transaction.set_data(operation.path, operation.data, operation.version)
                case Delete():
                    transaction.delete(operation.path, operation.version)
                case Check():
                    transaction.check(operation.path, operation.version)
        return transaction

    # -- between the threads ------------------------------------------------------------

    def _watch(self, wanted: bool) -> Callable[[WatchedEvent], None] | None:
        return self._on_watch_in_thread if wanted else None

    async def _call(self, send: Callable[[KazooClient], Any]) -> Any:
        if self._state is not SessionState.CONNECTED or self._loop is None:
            expired = self._state in (SessionState.EXPIRED, SessionState.CLOSED)
            kind = ZooKeeperErrorKind.SESSION_EXPIRED if expired else (
                ZooKeeperErrorKind.CONNECTION_LOSS
            )
            raise ZooKeeperError(kind, "not connected")
        loop = self._loop
        future: asyncio.Future[Any] = loop.create_future()
        self._pending[future] = None
        try:
            result = send(self._client)
            result.rawlink(lambda done: _call_on_loop(loop, self._on_answer, future, done))
            return await future
        finally:
            self._pending.pop(future, None)

    def _on_answer(self, future: asyncio.Future[Any], done: Any) -> None:
        if future.done():
            return
        error = done.exception
        if error is None:
            future.set_result(done.value)
        else:
            future.set_exception(_error(error))

    def _on_state_in_thread(self, state: str) -> None:
        if self._loop is not None:
            client_id = self._client.client_id
            refused = self._client.client_state == KeeperState.AUTH_FAILED
            call = self._on_refused if refused else self._on_state
            _call_on_loop(self._loop, call, state, client_id[0] if client_id else 0)

    def _on_watch_in_thread(self, event: WatchedEvent) -> None:
        kind = _WATCHES.get(event.type)
        if kind is not None and self._loop is not None:
            _call_on_loop(self._loop, self._on_watch, WatchEvent(kind, event.path))

    def _on_state(self, state: str, session_id: int) -> None:
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.CONNECTED and not self._is_let_in:
            self._await_login(state, session_id)
            return
        if state == KazooState.CONNECTED and self._missing_root:
            self._make_root(state, session_id)
            return
        self._is_let_in = self._access.login is None or state == KazooState.CONNECTED
        if state == KazooState.CONNECTED:
            self._is_refused = False
            self._state, self._session_id = SessionState.CONNECTED, session_id
        elif state == KazooState.SUSPENDED:
            self._state = SessionState.DISCONNECTED
            self._fail_pending(ZooKeeperErrorKind.CONNECTION_LOSS)
        elif self._state is SessionState.EXPIRED:
            return  # another login was refused
        else:
            self._state = SessionState.EXPIRED
            self._fail_pending(ZooKeeperErrorKind.SESSION_EXPIRED)
        if self._listener is not None:
            self._listener.on_session(self._state, self._session_id)

    def _await_login(self, state: str, session_id: int) -> None:
        """kazoo says that it is connected before it logs in, and sends nothing until it has: the
        answer to a first call says that we are let in."""

        def answered(done: Any) -> None:
            if done.exception is None:
                self._is_let_in = True
                self._on_state(state, session_id)

        if self._loop is not None:
            loop = self._loop
            result = self._client.exists_async("/")
            result.rawlink(lambda done: _call_on_loop(loop, answered, done))

    def _on_refused(self, state: str, session_id: int) -> None:
        """kazoo has given up; a login may be put right while we wait, here or there."""
        self._is_refused = True
        self._on_state(state, session_id)
        if self._loop is not None and self._state is not SessionState.CLOSED:
            self._loop.call_later(REFUSED_RETRY_S, self._connect_again)

    def _connect_again(self) -> None:
        if self._loop is not None and self._state is not SessionState.CLOSED:
            # It joins threads of kazoo's, which have ended.
            self._starting = self._loop.run_in_executor(None, self._client.start_async)

    def _make_root(self, state: str, session_id: int) -> None:
        """The chroot of `zookeeper.connect` is created first, as in Kafka, before any other
        call."""
        root, loop = self._missing_root, self._loop
        self._client.chroot = ""

        def made(done: Any) -> None:
            self._client.chroot = root
            if done.exception is None:
                self._missing_root = ""
                self._on_state(state, session_id)

        if loop is not None:
            result = self._client.ensure_path_async(root, self._acls(root))
            result.rawlink(lambda done: _call_on_loop(loop, made, done))

    def _on_watch(self, event: WatchEvent) -> None:
        if self._listener is not None and self._state is not SessionState.CLOSED:
            self._listener.on_watch(event)

    def _fail_pending(self, kind: ZooKeeperErrorKind) -> None:
        pending, self._pending = self._pending, {}
        for future in pending:
            if not future.done():
                future.set_exception(ZooKeeperError(kind))

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()


def _call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *values: Any) -> None:
    """Calls a function on the broker's loop from a thread of kazoo's; does nothing if the loop has
    ended."""
    try:
        loop.call_soon_threadsafe(call, *values)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _kazoo_acls(entries: Sequence[ZnodeAcl]) -> list[ACL]:
    return [ACL(one.permissions, Id(one.scheme, one.id)) for one in entries]


def _stat(stat: Any) -> Stat:
    return Stat(
        version=stat.version,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ephemeral_owner=stat.ephemeralOwner,
        children_count=stat.numChildren,
    )


def _error(error: BaseException, text: str = "", index: int = -1) -> ZooKeeperError:
    for kind_of, kind in _KINDS:
        if isinstance(error, kind_of):
            return ZooKeeperError(kind, text or str(error), index)
    if isinstance(error, kazoo_errors.NoAuthError):
        text = f"another login made this node, and this one may not do that with it {text}".strip()
        return ZooKeeperError(ZooKeeperErrorKind.REFUSED, text, index)
    return ZooKeeperError(
        ZooKeeperErrorKind.REFUSED, f"{type(error).__name__} {error} {text}".strip(), index
    )
