"""This broker's ephemeral node, and the configurations it reads from ZooKeeper.

In: a session, the broker's listeners. Out: the broker epoch (the czxid of its node), ConfigRecords.
Never: two brokers under one id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from broker.clock.port import Clock
from broker.controller.zk import acls, admin_znodes, tokens, znodes
from broker.controller.zk.configs import (
    MAX_NOTIFICATIONS,
    NOTIFICATION_FOLDERS,
    read_all_configs,
    read_notified_changes,
)
from broker.controller.zk.port import (
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.state_reader import children_or_none, get_or_none, read_cluster_id
from broker.controller.zk.znode_acls import default_acls, is_of_brokers_alone
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")

POLL_S = 0.2
"""How often it checks whether the node of another session is gone; it vanishes with that
session."""


ChangeNotification = tuple[str, bytes]
"""The folder a note was in, and its data."""


class DuplicateBroker(Exception):
    """Another broker with this id is alive; the text names the remedy."""


async def ensure_paths(
    session: ZooKeeperSession, *, has_authorizer: bool = False, has_tokens: bool = False
) -> None:
    """The nodes that every Kafka broker ensures at its start (G-33), its authorizer's and those of
    delegation tokens."""
    of_acls = acls.PERSISTENT if has_authorizer else ()
    of_tokens = tokens.PERSISTENT if has_tokens else ()
    for path in (*znodes.PERSISTENT, *of_acls, *of_tokens):
        await _create_if_absent(session, path)
    await _create_if_absent(session, znodes.FEATURE, znodes.encode_features({}))


async def own_root(session: ZooKeeperSession) -> None:
    """Nobody else may remove or make a node in the root, unless somebody else has one there. Kafka
    leaves it open where there is no chroot, and with it /controller to whoever comes. A root that
    an administrator keeps stays his."""
    try:
        if is_of_brokers_alone(await session.children("/")):
            await session.set_acls("/", default_acls("/", is_secure=True))
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.REFUSED:
            raise


async def get_or_create_cluster_id(session: ZooKeeperSession, candidate: str) -> str:
    """The cluster's id; a new ensemble gets `candidate`, unless another broker is faster."""
    known = await read_cluster_id(session)
    if known is None:
        await _create_if_absent(
            session, znodes.CLUSTER_ID, znodes.encode_cluster_id(candidate)
        )
        known = await read_cluster_id(session)
    return known or candidate


async def _create_if_absent(
    session: ZooKeeperSession, path: str, data: bytes = b""
) -> None:
    try:
        await session.create(path, data)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise


class BrokerZnode:
    """Registers one broker and keeps its configurations current.

    Invariant: `epoch` is that of the node this session created, -1 while there is none.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        clock: Clock,
        info: znodes.BrokerInfo,
        session_timeout_ms: int,
        replay: Callable[[list[object]], None],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._session = session
        self._clock = clock
        self._info = info
        self._session_timeout_ms = session_timeout_ms
        self._replay = replay
        self._image = image
        self._seen_notifications: dict[str, str] = {}
        self.epoch = -1

    @property
    def path(self) -> str:
        """This broker's node."""
        return f"{znodes.BROKER_IDS}/{self._info.broker_id}"

    async def register(self) -> int:
        """Creates this broker's node; returns its epoch. Raises DuplicateBroker and ZooKeeperError.

        A node that exists already is our own (a lost response), our own from before a restart, or
        that of another broker. It is our own from before a restart if it names the very address
        that we hold now; any other node has to vanish with its session, for which we wait once.
        """
        deadline = self._clock.monotonic() + 1.5 * self._session_timeout_ms / 1000
        while True:
            try:
                data = znodes.encode_broker(self._info, self._clock.now_ms())
                _, stat = await self._session.create(self.path, data, ephemeral=True)
                self.epoch = stat.czxid
                return self.epoch
            except ZooKeeperError as error:
                if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
                    raise
            if await self._remove_stale_node():
                continue
            if self._clock.monotonic() >= deadline:
                raise DuplicateBroker(
                    f"another broker is registered as {self._info.broker_id} in ZooKeeper; give "
                    f"this one its own broker.id, or stop the other and wait for its session"
                )
            await self._clock.sleep(POLL_S)

    async def _remove_stale_node(self) -> bool:
        """Whether to try again at once."""
        found = await get_or_none(self._session, self.path)
        if found is None:
            return True
        data, stat = found
        if stat.ephemeral_owner != self._session.session_id and not self._has_same_address(data):
            return False
        try:
            await self._session.delete(self.path, stat.version)
        except ZooKeeperError as error:
            if error.kind not in (ZooKeeperErrorKind.NO_NODE, ZooKeeperErrorKind.BAD_VERSION):
                raise
        return True

    def _has_same_address(self, data: bytes) -> bool:
        try:
            held = znodes.decode_broker(self._info.broker_id, data)
        except znodes.ZnodeError:
            return False
        ours = {(end.host, end.port) for end in self._info.endpoints}
        return any((end.host, end.port) in ours for end in held.endpoints)

    async def mark_verified(self) -> None:
        """A controller knows what our logs lack: our node no longer says that they are
        unverified."""
        self._info = replace(self._info, is_unverified=False)
        found = await get_or_none(self._session, self.path)
        if found is None or found[1].ephemeral_owner != self._session.session_id:
            return
        data = znodes.encode_broker(self._info, self._clock.now_ms())
        await self._session.set(self.path, data, found[1].version)

    async def watch_own_node(self) -> bool:
        """Whether our node exists; watches its end."""
        stat = await self._session.exists(self.path, watch=True)
        return stat is not None and stat.ephemeral_owner == self._session.session_id

    async def report_failed_directory(self) -> None:
        """One of our log directories has failed: the controller asks which replicas (KIP-112)."""
        data = admin_znodes.encode_failed_directory(self._info.broker_id)
        await self._session.create(znodes.LOG_DIR_EVENT_PREFIX, data, sequence=True)

    # -- configurations -------------------------------------------------------------------

    async def read_configs(self) -> None:
        """Reads all of them, and from then on what notifications name."""
        for folder in NOTIFICATION_FOLDERS:
            notifications = await children_or_none(self._session, folder, watch=True)
            self._seen_notifications[folder] = notifications[-1] if notifications else ""
        self._replay(await read_all_configs(self._session, self._image()))

    async def read_change_notifications(self) -> list[ChangeNotification]:
        """Reads what notifications name since the last call; returns them, for a controller."""
        found_notifications: list[ChangeNotification] = []
        for folder in NOTIFICATION_FOLDERS:
            notifications = await children_or_none(self._session, folder, watch=True)
            for notification in notifications:
                if notification > self._seen_notifications.get(folder, ""):
                    found_notifications += await self._read_notification(folder, notification)
                    self._seen_notifications[folder] = notification
            for notification in notifications[:-MAX_NOTIFICATIONS]:
                await self._remove_notification(f"{folder}/{notification}")
        return found_notifications

    async def _read_notification(self, folder: str, notification: str) -> list[ChangeNotification]:
        found = await get_or_none(self._session, f"{folder}/{notification}")
        if found is None:
            return []
        try:
            changes = await read_notified_changes(self._session, folder, found[0], self._image())
            self._replay(changes.records)
            for fault in changes.faults:
                log.error("left alone: %s", fault)
        except znodes.ZnodeError as error:
            log.error("left alone: %s", error)
        return [(folder, found[0])]

    async def _remove_notification(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except ZooKeeperError as error:
            if error.kind is not ZooKeeperErrorKind.NO_NODE:
                raise
