"""The lists in force as their records say, for the watch: whose they are, and when they are due.

In: the bus. Out: records. Never: a line of a list; a table of this machine; more than a mebibyte of
the topic at once: chunks are read past.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from alarm.decisions.known_lists import DecidedLists, list_record_of
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.plate_lists import ListRecord, is_chunk_key
from bus.contracts.topics import STATE_LISTS
from bus.settings import BusSettings

CLIENT_ID = "watch-lists"
POLL_S = 0.1
MAX_POLLED = 10
_PLACE = TopicPartition(STATE_LISTS, 0)
"""Its only partition."""
_OVERRIDES: dict[str, object] = {
    # The watch has some sixty megabytes in all, and lists may have seventy.
    "queued.max.messages.kbytes": 1024,
    "fetch.message.max.bytes": 1 << 20,
    "fetch.max.bytes": 1 << 20,
    "log_level": 0,
    "reconnect.backoff.max.ms": 1000,
}


class ListsNotRead(Exception):
    """What the topic says could not be read to its end in time; it goes on from there."""


class ListRecordsReader:
    """For any thread. Invariant: `_lists` is what the topic says before `_next`."""

    def __init__(self, bus: BusSettings, timeout_s: float) -> None:
        """`timeout_s`: of one question. The first one reads all lists, and may need several."""
        self._bus = bus
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._lists = DecidedLists()
        self._next = 0
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def read(self) -> Sequence[ListRecord]:
        """By id. Raises `ListsNotRead`, also when it is closed meanwhile, BusError."""
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            consumer = self._at_topic()
            self._poll(consumer)
            while not consumer.at_end:
                if time.monotonic() > deadline or self._stopping.is_set():
                    raise ListsNotRead(f"{STATE_LISTS} is read to {self._next}, not to its end")
                self._poll(consumer)
            in_force = self._lists.in_force
            return [in_force[list_id] for list_id in sorted(in_force)]

    def close(self) -> None:
        """Leave the bus; a question that is under way ends."""
        self._stopping.set()
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _at_topic(self) -> Consumer:
        """From the start, where the topic was made anew since. Raises BusError."""
        if self._consumer is None:
            self._consumer = Consumer(
                self._bus, client_id=CLIENT_ID, timeout_s=self._timeout_s, overrides=_OVERRIDES
            )
            self._consumer.assign({_PLACE: BEGINNING})
        elif self._consumer.bounds(_PLACE)[1] < self._next:
            self._lists, self._next = DecidedLists(), 0
            self._consumer.assign({_PLACE: BEGINNING})
        return self._consumer

    def _poll(self, consumer: Consumer) -> None:
        for record in consumer.poll(MAX_POLLED, POLL_S):
            self._next = record.offset + 1
            self._apply(record)

    def _apply(self, record: ConsumedRecord) -> None:
        """What is not ours changes nothing."""
        key = (record.key or b"").decode("utf-8", "replace")
        if is_chunk_key(key) or self._lists.apply_proposal(key, record.value):
            return
        if record.value is None:
            self._lists.forget(key)
        elif (found := list_record_of(record)) is not None:
            self._lists.on_decided(found)
