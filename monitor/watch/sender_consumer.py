"""Who sends, seen on the data topics: one consumer without a group, from the ends, in a thread.

Looks at two keys of each record and keeps counts only. What passed while it was away is not read
again: the watch's clock stands meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from bus.client.followed_topics import renewed_positions
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.message import KafkaMessage
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, TopicPartition
from bus.contracts.topics import DATA_TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

POLL_S = 0.5
MAX_MESSAGES = 500  # of one poll; what waits longer is counted by the next one
REFRESH_S = 5.0  # between two looks at which partitions there are
MAX_NAME_CHARACTERS = 256
SKIP_BEHIND = 5_000  # records behind a partition's end: who sends now is asked, not who sent
_OVERRIDES = {
    "enable.partition.eof": False,
    # Of sixty megabytes in all: after a pause of forty seconds 2 MiB a partition made twelve.
    "queued.max.messages.kbytes": 256,
    "queued.min.messages": 200,
    "fetch.message.max.bytes": 1 << 17,
    "fetch.max.bytes": 1 << 20,
    "fetch.min.bytes": 1 << 16,  # two answers a second, not one for each record
    "fetch.wait.max.ms": 500,  # a second more or less does not matter here
    "fetch.queue.backoff.ms": 1000,
    "log_level": 0,
}

Sightings = dict[tuple[str, str], int]


class _Origin(msgspec.Struct, gc=False):
    """The two keys that say who sent a record; all others are passed over."""

    camera_ip: str = msgspec.field(name="抓拍设备地址", default="")
    recognizer_ip: str = msgspec.field(name="后端图片识别服务器地址", default="")


_DECODER = msgspec.json.Decoder(_Origin)


def origin_of(value: bytes | None) -> tuple[str, str] | None:
    """Device and server of a record; None where it does not say."""
    try:
        found = _DECODER.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not found.camera_ip or len(found.camera_ip) + len(found.recognizer_ip) > MAX_NAME_CHARACTERS:
        return None
    return found.camera_ip, found.recognizer_ip


class SenderConsumer:
    """Invariant: `_next` holds the next offset of every assigned partition."""

    def __init__(self, bus: BusSettings, timeout_s: float) -> None:
        self.unavailable = "not connected yet"  # empty: records can be seen
        self._bus = bus
        self._timeout_s = timeout_s
        self._next: dict[TopicPartition, int] = {}
        self._sightings: Sightings = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="senders", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the thread."""
        self._stopping.set()
        self._thread.join(self._timeout_s + POLL_S + 1)

    def pop_sightings(self) -> Sightings:
        """Records by device and server since the last call."""
        with self._lock:
            found, self._sightings = self._sightings, {}
        return found

    # -- in the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        consumer = Consumer(
            self._bus, client_id="databus-watch", timeout_s=self._timeout_s, overrides=_OVERRIDES,
            on_all_brokers_down=self._set_unavailable,
        )  # fmt: skip
        refreshed_s = -REFRESH_S
        topics = TopicFollower(self._bus, DATA_TOPICS, with_ends=False).start()
        known: ClusterIdentity | None = None
        try:
            while not self._stopping.is_set():
                known = self._restart_recreated(consumer, topics, known)
                if time.monotonic() - refreshed_s >= REFRESH_S:
                    self._refresh(consumer)
                    refreshed_s = time.monotonic()
                if self._next:
                    self._poll(consumer)
                else:
                    self._stopping.wait(POLL_S)
        finally:
            topics.close()
            consumer.close()

    def _restart_recreated(
        self, consumer: Consumer, topics: TopicFollower, known: ClusterIdentity | None
    ) -> ClusterIdentity | None:
        """Topics that were made anew are read from their start. Returns what is read by now."""
        now = topics.identity
        if known is None or now is None or not (renewed := topics.renewed(known, DATA_TOPICS)):
            return known or now
        self._next = renewed_positions(self._next, known, now, renewed, TopicPartition)
        consumer.assign(self._next)
        return known.with_topics_of(now, renewed)

    def _set_unavailable(self, why: str) -> None:
        if bool(why) != bool(self.unavailable):
            log.info("records cannot be seen: %s", why) if why else log.info("records can be seen")
        self.unavailable = why

    def _refresh(self, consumer: Consumer) -> None:
        """Assign partitions that are new, jump where one is far behind."""
        try:
            there = consumer.partitions_of_all(DATA_TOPICS)
            changed = there != set(self._next)
            for place in set(self._next) - there:
                del self._next[place]
            for place in sorted(there):
                low, end = consumer.bounds(place)
                at = self._next.get(place, -1)
                if not low <= at <= end or end - at > SKIP_BEHIND:
                    self._next[place] = end
                    changed = True
            if changed:
                consumer.assign(self._next)
            self._set_unavailable("")
        except BusError as error:
            self._set_unavailable(str(error))

    def _poll(self, consumer: Consumer) -> None:
        try:
            messages = consumer.poll_messages(MAX_MESSAGES, POLL_S)
        except BusError as error:
            self._set_unavailable(str(error))
            self._stopping.wait(POLL_S)
            return
        found = self._count(messages)
        with self._lock:
            for origin, count in found.items():
                self._sightings[origin] = self._sightings.get(origin, 0) + count

    def _count(self, messages: list[KafkaMessage]) -> Sightings:
        found: Sightings = {}
        for message in messages:
            if message.error() is not None:
                continue
            place = TopicPartition(message.topic(), message.partition())
            self._next[place] = message.offset() + 1
            origin = origin_of(message.value())
            if origin is not None:
                found[origin] = found.get(origin, 0) + 1
        return found
