"""The start of a broker in ZooKeeper mode, until it knows which cluster it is of.

In: a session that begins to connect, the log directories. Out: the cluster's id, or a StartError
that names the remedy. Never: a node overwritten, nor one made in an ensemble that is not the one of
these directories; a new ensemble gets the nodes every Kafka makes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.controller.zk import znodes
from broker.controller.zk.load import read_cluster_id
from broker.controller.zk.member import ensure_paths, find_or_make_cluster_id
from broker.controller.zk.port import (
    SessionState,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.log.directories import new_id, readable_identities
from broker.peer.silence import Silence
from broker.server.plane import Ports, StartError

log = logging.getLogger("broker.server")

Found = TypeVar("Found")

RETRY_S = 0.2
"""Between two tries of a step of the start while the connection comes and goes."""


class Opening:
    """The steps in their order."""

    def __init__(self, ports: Ports, session: ZooKeeperSession) -> None:
        self._ports = ports
        self._session = session
        self.connected = asyncio.Event()
        """Set at the first connection, or when it is waited for no longer."""

    async def cluster_id(self) -> str:
        """Connect; the ensemble knows the cluster's id or gets one."""
        await self._first_connection()
        await self.persistently(self._check_not_migrated)
        known = self._known_cluster_id()
        if known is not None:
            await self.persistently(lambda: self._check_cluster(known))
        has_authorizer = bool(self._ports.config["authorizer.class.name"])
        await self.persistently(
            lambda: ensure_paths(self._session, has_authorizer=has_authorizer)
        )
        if known is not None:
            return known
        candidate = new_id(self._ports.clock)
        return await self.persistently(
            lambda: find_or_make_cluster_id(self._session, candidate)
        )

    async def _first_connection(self) -> None:
        timeout_ms = int(self._ports.config["zookeeper.connection.timeout.ms"])
        timer = self._ports.clock.call_later(timeout_ms / 1000, self.connected.set)
        try:
            await self.connected.wait()
        finally:
            timer.cancel()
        if self._session.state is not SessionState.CONNECTED:
            await self._session.close()
            raise StartError(
                f"ZooKeeper at {self._ports.roles.zookeeper} did not answer within "
                f"{timeout_ms} ms; check zookeeper.connect and that the ensemble has a quorum"
            )

    async def persistently(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """A step of the start, again after each lost connection."""
        silence = Silence()
        while True:
            try:
                return await work()
            except ZooKeeperError as error:
                if error.kind is ZooKeeperErrorKind.REFUSED:
                    raise StartError(f"ZooKeeper refuses: {error}") from error
                if silence.worth_saying(self._ports.clock.monotonic()):
                    log.info("again in a moment: %s", error)
            except znodes.ZnodeError as error:
                raise StartError(str(error)) from error
            await self._ports.clock.sleep(RETRY_S)

    async def _check_not_migrated(self) -> None:
        if await self._session.exists(znodes.MIGRATION) is not None:
            await self._session.close()
            raise StartError(
                f"this cluster has moved to KRaft ({znodes.MIGRATION} exists in ZooKeeper): start "
                "the broker with its KRaft configuration; to go back instead, delete that node "
                "before any broker has run under KRaft"
            )

    async def _check_cluster(self, known: str) -> None:
        """A broker with a history does not found a cluster: an ensemble that has no id is the
        wrong one, or was emptied; both need a person."""
        found = await read_cluster_id(self._session)
        address = self._ports.roles.zookeeper
        if found is None:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at {address} "
                "knows no cluster: check zookeeper.connect (its chroot too), or restore "
                "ZooKeeper's data; to found the cluster anew there, create "
                f"{znodes.CLUSTER_ID} with {znodes.encode_cluster_id(known).decode()}"
            )
        if found != known:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at {address} is "
                f"that of cluster {found}: check zookeeper.connect (its chroot too) and log.dirs; "
                "nothing was changed"
            )

    def _known_cluster_id(self) -> str | None:
        found = readable_identities(self._ports.disk, self._ports.config.log_dirs)
        return next((one.cluster_id for one in found), None)
