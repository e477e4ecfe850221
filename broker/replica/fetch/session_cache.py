"""The leader's side of fetch sessions (KIP-227): the partitions of each reader, and which changed.
Pure.

In: the partitions a reader names, changes or forgets; partitions that advanced; what was sent.
Out: per fetch the entries that may have something to send (`FetchContext`). Never: a read of a log,
a wire object, a clock.

A session knows which of its entries are dirty (after a request, an append, a watermark, a change of
leader), so that a follower of a thousand idle partitions costs only as much as its busy ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker.replica.partition import Isolation, Partition
from bus.client.wire.fetch_session import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from bus.errors import ErrorCode

EVICTION_MS = 120_000
"""A session that was idle for so long loses its slot to any new session (as Kafka's)."""

NOT_SENT = -1

CachedPartitionKey = tuple[bytes | str, int]


class CachedPartition:
    """One partition of one reader's session. ``sent_…`` is what was last sent to the reader."""

    __slots__ = (
        "current_leader_epoch",
        "error",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_log_start",
        "sent_watermark",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.partition: Partition | None = None
        self.error = ErrorCode.NONE
        self.session: FetchSession | None = None
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.sent_watermark = NOT_SENT
        self.sent_log_start = NOT_SENT

    def attach(self, partition: Partition | None, error: ErrorCode) -> None:
        """Set the broker's present partition for this entry."""
        if self.session is not None and partition is not self.partition:
            self.detach()
            if partition is not None:
                partition.watchers[self] = None
        self.partition, self.error = partition, error

    def update(self, requested: CachedPartition) -> None:
        """The reader goes on from elsewhere, or knows another leader epoch."""
        self.topic = requested.topic
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.log_start_offset = requested.log_start_offset
        self.attach(requested.partition, requested.error)

    def is_news(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the reader does not know these two yet."""
        return self.sent_watermark != high_watermark or self.sent_log_start != log_start_offset

    def detach(self) -> None:
        """Stop watching the partition."""
        if self.partition is not None:
            self.partition.watchers.pop(self, None)


class FetchSession:
    """One reader's session. Invariant: ``dirty`` holds every entry with something to send."""

    __slots__ = (
        "checked_for",
        "dirty",
        "entries",
        "epoch",
        "force_response",
        "id",
        "key",
        "reader",
        "round",
        "used_ms",
    )

    def __init__(self, session_id: int, reader: tuple[int, int], now_ms: int) -> None:
        """``reader``: replica id (-1 for a consumer) and its broker epoch."""
        self.id = session_id
        self.key = ("session", session_id)
        self.reader = reader
        self.epoch = 1
        self.used_ms = now_ms
        self.round = 0
        self.force_response = False
        self.checked_for: object = None
        self.entries: dict[CachedPartitionKey, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}

    @property
    def is_follower(self) -> bool:
        return self.reader[0] >= 0

    def put(self, key: CachedPartitionKey, entry: CachedPartition) -> None:
        """One more partition."""
        partition, entry.partition = entry.partition, None
        entry.session = self
        self.entries[key] = entry
        self.dirty[entry] = None
        entry.attach(partition, entry.error)  # from now on it marks the entry dirty

    def update(
        self, named: Iterable[tuple[CachedPartitionKey, CachedPartition]]
    ) -> list[CachedPartition]:
        """What a request names, as the session has it from now on: new partitions, and changes of
        known ones. All of it may have something to send."""
        found = []
        for key, requested in named:
            entry = self.entries.get(key)
            if entry is None:
                entry = requested
                self.put(key, entry)
            else:
                entry.update(requested)
            self.dirty[entry] = None
            found.append(entry)
        return found

    def to_check(self, asker: object) -> list[CachedPartition]:
        """The partitions whose permission is to be asked for again: those with an error, and all if
        the ``asker`` is another one than last time (another principal or address, other ACLs)."""
        if asker == self.checked_for:
            return [entry for entry in self.dirty if entry.error]
        self.checked_for = asker
        return list(self.entries.values())

    def drop(self, entry: CachedPartition) -> None:
        """The reader has everything of it: skip it until it is marked again."""
        self.dirty.pop(entry, None)

    def move_behind(self, entry: CachedPartition) -> None:
        """Behind all others for the next answer, so that none starves (KIP-227)."""
        if entry in self.dirty:
            del self.dirty[entry]
            self.dirty[entry] = None

    def forget(self, key: CachedPartitionKey) -> None:
        """The reader has removed it."""
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.dirty.pop(entry, None)
            entry.detach()

    def advance_epoch(self, now_ms: int) -> None:
        """One request of the session was handled."""
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1
        self.used_ms = now_ms

    def close(self) -> None:
        """End the session: no partition marks it dirty any more."""
        for entry in self.entries.values():
            entry.detach()
        self.entries.clear()
        self.dirty.clear()


@dataclass(slots=True)
class FetchContext:
    """The partitions of one fetch, which may be read more than once while it waits.

    ``named`` are those of the request; an incremental one is about all that its session has.
    """

    named: list[CachedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        """For the response."""
        return NO_SESSION if self.session is None else self.session.id

    @property
    def must_respond(self) -> bool:
        """Whether the response is not to wait for anything."""
        return self.session is not None and self.session.force_response

    def candidates(self) -> list[CachedPartition]:
        """The partitions that may have something to send."""
        if self.session is not None and self.is_incremental:
            return list(self.session.dirty)
        return self.named

    def is_left_out(
        self, entry: CachedPartition, watermark: int, start: int, isolation: Isolation
    ) -> bool:
        """Whether a partition without records is left out of the response: its reader knows the
        rest. One that has been read to its end is skipped until it is marked again."""
        if not self.is_incremental or entry.is_news(watermark, start):
            return False
        partition = entry.partition
        if self.session is None or partition is None:
            return True
        if entry.fetch_offset >= partition.end_for(isolation):
            self.session.drop(entry)
        return True

    def on_response(self) -> None:
        """A response is made: what comes now waits for the next one."""
        if self.session is not None:
            self.session.force_response = False

    def on_sent(
        self, entry: CachedPartition, watermark: int, start: int, has_records: bool,
        is_diverging: bool,
    ) -> None:
        """A partition is in the response. A reader whose log diverges truncates and uses nothing
        else of it, so that the rest is sent again."""
        if self.session is None:
            return
        entry.sent_watermark = NOT_SENT if is_diverging else watermark
        entry.sent_log_start = NOT_SENT if is_diverging else start
        if has_records:
            self.session.move_behind(entry)


class FetchSessionCache:
    """The sessions of one broker, ``max.incremental.fetch.session.cache.slots`` of them.

    Invariant: ``_by_id`` is in the order of last use. Without a slot a reader gets no session and
    sends all its partitions each time; followers push consumers out, never the reverse.
    """

    def __init__(self, slots: int, draw_id: Callable[[], int]) -> None:
        self.evictions = 0
        self._slots = slots
        self._draw_id = draw_id
        self._by_id: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def partition_count(self) -> int:
        """Partitions in all sessions together."""
        return sum(len(session.entries) for session in self._by_id.values())

    def begin(
        self,
        session_id: int,
        epoch: int,
        reader: tuple[int, int],
        named: list[tuple[CachedPartitionKey, CachedPartition]],
        now_ms: int,
    ) -> FetchContext:
        """A request that names all its partitions: it ends the session it names, and begins another
        one if it wants to (``epoch`` is 0) and there is a slot."""
        if session_id:
            self.remove(session_id)
        session = None
        if epoch == INITIAL_EPOCH and named:
            session = self.create(reader, named, now_ms)
        return FetchContext([entry for _, entry in named], session)

    def create(
        self,
        reader: tuple[int, int],
        entries: Iterable[tuple[CachedPartitionKey, CachedPartition]],
        now_ms: int,
    ) -> FetchSession | None:
        """A new session with these entries, or None if there is no slot."""
        if reader[0] >= 0:
            self._drop_stale_sessions(reader)
        if len(self._by_id) >= self._slots and not self._evict(reader[0] >= 0, now_ms):
            return None
        session_id = self._new_id()
        session = self._by_id[session_id] = FetchSession(session_id, reader, now_ms)
        for key, entry in entries:
            session.put(key, entry)
        return session

    def resume(self, session_id: int, epoch: int, now_ms: int) -> FetchSession | ErrorCode:
        """The session for its next request, or why there is none."""
        session = self._by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.advance_epoch(now_ms)
        self._by_id.move_to_end(session_id)
        return session

    def remove(self, session_id: int) -> None:
        """The reader has closed it, or begins a new one."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()

    def get(self, session_id: int) -> FetchSession | None:
        """The session, without using it."""
        return self._by_id.get(session_id)

    def _new_id(self) -> int:
        while (session_id := self._draw_id()) in self._by_id or session_id == NO_SESSION:
            pass
        return session_id

    def _drop_stale_sessions(self, reader: tuple[int, int]) -> None:
        """Remove the follower's sessions from before its restart: they are never used again."""
        for session in list(self._by_id.values()):
            if session.reader[0] == reader[0] and session.reader[1] != reader[1]:
                self.remove(session.id)

    def _evict(self, for_follower: bool, now_ms: int) -> bool:
        oldest = next(iter(self._by_id.values()), None)
        if oldest is not None and now_ms - oldest.used_ms <= EVICTION_MS:
            consumers = (s for s in self._by_id.values() if not s.is_follower)
            oldest = next(consumers, None) if for_follower else None
        if oldest is None:
            return False
        self.remove(oldest.id)
        self.evictions += 1
        return True
