"""This broker's place in the ensemble: its ephemeral node, and the configurations it reads there.

In: a session, the broker's listeners. Out: the broker epoch (the czxid of its node), ConfigRecords.
Never: who is controller; and never two brokers under one id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from broker.clock.port import Clock
from broker.controller.zk import acls, tool_znodes, znodes
from broker.controller.zk.configs import MAX_NOTES, NOTE_FOLDERS, read_all_configs, read_noted
from broker.controller.zk.load import children_or_none, get_or_none, read_cluster_id
from broker.controller.zk.port import (
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.metadata.image import MetadataImage

log = logging.getLogger("broker.controller.zk")

POLL_S = 0.2
"""Between two looks at another life's node; it goes with that life's session."""


NoteFound = tuple[str, bytes]
"""The folder a note was in, and its data."""


class DuplicateBroker(Exception):
    """Another broker with this id is alive; the text names the remedy."""


async def ensure_paths(session: ZooKeeperSession, *, has_authorizer: bool = False) -> None:
    """The nodes every Kafka makes sure of at its start (G-33), and its authorizer."""
    for path in (*znodes.PERSISTENT, *(acls.PERSISTENT if has_authorizer else ())):
        await _create_unless_there(session, path)
    await _create_unless_there(session, znodes.FEATURE, znodes.encode_features({}))


async def find_or_make_cluster_id(session: ZooKeeperSession, candidate: str) -> str:
    """The cluster's id; a new ensemble gets `candidate`, unless another broker is faster."""
    known = await read_cluster_id(session)
    if known is None:
        await _create_unless_there(
            session, znodes.CLUSTER_ID, znodes.encode_cluster_id(candidate)
        )
        known = await read_cluster_id(session)
    return known or candidate


async def _create_unless_there(
    session: ZooKeeperSession, path: str, data: bytes = b""
) -> None:
    try:
        await session.create(path, data)
    except ZooKeeperError as error:
        if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
            raise


class Member:
    """Registers one broker and keeps its configurations up to date.

    Invariant: `epoch` is that of the node this session made, -1 while there is none.
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
        self._seen_notes: dict[str, str] = {}
        self.epoch = -1

    @property
    def path(self) -> str:
        """This broker's node."""
        return f"{znodes.BROKER_IDS}/{self._info.broker_id}"

    async def register(self) -> int:
        """Make this broker's node; its epoch. Raises DuplicateBroker and ZooKeeperError.

        A node that is there already is our own (a lost answer), that of our last life, or that of
        another broker. Our last life is over if it named the very address that we hold now; any
        other node has to go with its session, for which we wait once.
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
            if await self._clear_way():
                continue
            if self._clock.monotonic() >= deadline:
                raise DuplicateBroker(
                    f"another broker is registered as {self._info.broker_id} in ZooKeeper; give "
                    f"this one its own broker.id, or stop the other and wait for its session"
                )
            await self._clock.sleep(POLL_S)

    async def _clear_way(self) -> bool:
        """Whether it makes sense to try again at once."""
        found = await get_or_none(self._session, self.path)
        if found is None:
            return True
        data, stat = found
        if stat.ephemeral_owner != self._session.session_id and not self._same_place(data):
            return False
        try:
            await self._session.delete(self.path, stat.version)
        except ZooKeeperError as error:
            if error.kind not in (ZooKeeperErrorKind.NO_NODE, ZooKeeperErrorKind.BAD_VERSION):
                raise
        return True

    def _same_place(self, data: bytes) -> bool:
        try:
            held = znodes.decode_broker(self._info.broker_id, data)
        except znodes.ZnodeError:
            return False
        ours = {(end.host, end.port) for end in self._info.endpoints}
        return any((end.host, end.port) in ours for end in held.endpoints)

    async def vouch(self) -> None:
        """A controller knows what our logs lack: neither our node nor a later one says so."""
        self._info = replace(self._info, is_unsound=False)
        found = await get_or_none(self._session, self.path)
        if found is None or found[1].ephemeral_owner != self._session.session_id:
            return
        data = znodes.encode_broker(self._info, self._clock.now_ms())
        await self._session.set(self.path, data, found[1].version)

    async def watch_own_node(self) -> bool:
        """Whether our node stands; its end is watched."""
        stat = await self._session.exists(self.path, watch=True)
        return stat is not None and stat.ephemeral_owner == self._session.session_id

    async def note_failed_directory(self) -> None:
        """One of our log directories has failed: the controller asks which replicas (KIP-112)."""
        data = tool_znodes.encode_failed_directory(self._info.broker_id)
        await self._session.create(znodes.LOG_DIR_EVENT_PREFIX, data, sequence=True)

    # -- configurations -------------------------------------------------------------------

    async def read_configs(self) -> None:
        """All of them, and from now on what is noted."""
        for folder in NOTE_FOLDERS:
            notes = await children_or_none(self._session, folder, watch=True)
            self._seen_notes[folder] = notes[-1] if notes else ""
        self._replay(await read_all_configs(self._session, self._image()))

    async def take_notes(self) -> list[NoteFound]:
        """Read again what is noted since the last look; the notes, for a controller."""
        taken: list[NoteFound] = []
        for folder in NOTE_FOLDERS:
            notes = await children_or_none(self._session, folder, watch=True)
            for note in notes:
                if note > self._seen_notes.get(folder, ""):
                    taken += await self._take_note(folder, note)
                    self._seen_notes[folder] = note
            for note in notes[:-MAX_NOTES]:
                await self._remove_note(f"{folder}/{note}")
        return taken

    async def _take_note(self, folder: str, note: str) -> list[NoteFound]:
        found = await get_or_none(self._session, f"{folder}/{note}")
        if found is None:
            return []
        try:
            noted = await read_noted(self._session, folder, found[0], self._image())
            self._replay(noted.records)
            for fault in noted.faults:
                log.error("left alone: %s", fault)
        except znodes.ZnodeError as error:
            log.error("left alone: %s", error)
        return [(folder, found[0])]

    async def _remove_note(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except ZooKeeperError as error:
            if error.kind is not ZooKeeperErrorKind.NO_NODE:
                raise
