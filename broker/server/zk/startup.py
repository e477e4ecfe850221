"""Start of a broker in ZooKeeper mode: connects and finds out the cluster's id.

Raises a StartError that names the remedy. It overwrites no node, and creates none in an ensemble
other than that of the log directories; a new ensemble gets the nodes that every Kafka creates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import (
    ensure_paths,
    get_or_create_cluster_id,
    own_root,
)
from broker.controller.zk.port import (
    SessionState,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.state_reader import read_cluster_id
from broker.log.log_dir_files import new_id, readable_meta_properties
from broker.peer.log_limiter import LogRateLimiter
from broker.server.control_plane import Runtime, StartError

log = logging.getLogger("broker.server")

Result = TypeVar("Result")

RETRY_S = 0.2
"""Between two attempts of a start step while the connection comes and goes."""


class Startup:
    """The start steps in their order."""

    def __init__(self, runtime: Runtime, session: ZooKeeperSession) -> None:
        self._runtime = runtime
        self._session = session
        self.connected = asyncio.Event()
        """Set at the first connection, or when waiting for it ends."""

    async def cluster_id(self) -> str:
        """Connect, then read the cluster's id from the ensemble, or write a new one."""
        await self._first_connection()
        await self.retry(self._check_not_migrated)
        known = self._known_cluster_id()
        if known is not None:
            await self.retry(lambda: self._check_cluster(known))
        config = self._runtime.config
        await self.retry(
            lambda: ensure_paths(
                self._session,
                has_authorizer=bool(config["authorizer.class.name"]),
                has_tokens=bool(config["delegation.token.secret.key"]),
            )
        )
        if config["zookeeper.set.acl"]:
            await self.retry(lambda: own_root(self._session))
        if known is not None:
            return known
        candidate = new_id(self._runtime.clock)
        return await self.retry(
            lambda: get_or_create_cluster_id(self._session, candidate)
        )

    async def _first_connection(self) -> None:
        timeout_ms = int(self._runtime.config["zookeeper.connection.timeout.ms"])
        timer = self._runtime.clock.call_later(timeout_ms / 1000, self.connected.set)
        try:
            await self.connected.wait()
        finally:
            timer.cancel()
        if self._session.state is not SessionState.CONNECTED:
            reason, address = self._session.last_failure, self._runtime.roles.zookeeper
            is_refused = self._session.is_refused
            await self._session.close()
            if is_refused:
                raise StartError(
                    f"ZooKeeper at {address} does not let this broker in: {reason}; compare the "
                    "file of java.security.auth.login.config with the ensemble's"
                )
            raise StartError(
                f"ZooKeeper at {address} did not answer within "
                f"{timeout_ms} ms; check zookeeper.connect and that the ensemble has a quorum"
                + (f" (the last attempt: {reason})" if reason else "")
            )

    async def retry(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Run a start step, and repeat it after each lost connection."""
        silence = LogRateLimiter()
        while True:
            try:
                return await work()
            except ZooKeeperError as error:
                if error.kind is ZooKeeperErrorKind.REFUSED:
                    raise StartError(f"ZooKeeper refuses: {error}") from error
                if silence.should_log(self._runtime.clock.monotonic()):
                    log.info("again in a moment: %s", error)
            except znodes.ZnodeError as error:
                raise StartError(str(error)) from error
            await self._runtime.clock.sleep(RETRY_S)

    async def _check_not_migrated(self) -> None:
        if await self._session.exists(znodes.MIGRATION) is not None:
            await self._session.close()
            raise StartError(
                f"this cluster has moved to KRaft ({znodes.MIGRATION} exists in ZooKeeper): start "
                "the broker with its KRaft configuration; to go back instead, delete that node "
                "before any broker has run under KRaft"
            )

    async def _check_cluster(self, known: str) -> None:
        """A broker with data does not create a cluster: an ensemble without an id is the wrong one,
        or was emptied; both need an operator."""
        found = await read_cluster_id(self._session)
        address = self._runtime.roles.zookeeper
        if found is None:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at {address} "
                "knows no cluster: check zookeeper.connect (its chroot too), or restore "
                "ZooKeeper's data; to create the cluster again there, create "
                f"{znodes.CLUSTER_ID} with {znodes.encode_cluster_id(known).decode()}"
            )
        if found != known:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at {address} is "
                f"that of cluster {found}: check zookeeper.connect (its chroot too) and log.dirs; "
                "nothing was changed"
            )

    def _known_cluster_id(self) -> str | None:
        found = readable_meta_properties(self._runtime.disk, self._runtime.config.log_dirs)
        return next((one.cluster_id for one in found), None)
