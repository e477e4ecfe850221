"""The lists in force as their records say, for the watch: whose they are, and when they are due.

In: the bus. Out: records. Never: a line of a list; a table of this machine; more than a mebibyte of
the topic at once: chunks are read past.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from alarm.lists.stored_lists import StoredLists
from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic
from bus.contracts.plate_lists import ListRecord
from bus.contracts.topics import STATE_LISTS
from bus.settings import BusSettings

CLIENT_ID = "watch-lists"
POLL_S = 0.1
_OVERRIDES: dict[str, object] = {
    # The watch has some sixty megabytes in all, and lists may have seventy.
    "queued.max.messages.kbytes": 1024,
    "fetch.message.max.bytes": 1 << 20,
    "fetch.max.bytes": 1 << 20,
    "log_level": 0,
    "reconnect.backoff.max.ms": 1000,
}


class ListRecordsReader:
    """For any thread. The bus is asked when the first question comes."""

    def __init__(self, bus: BusSettings, timeout_s: float) -> None:
        """`timeout_s`: of one question. The first one reads all lists, and may need several."""
        self._bus = bus
        self._timeout_s = timeout_s
        self._topic: CompactedTopic[StoredLists] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def read(self) -> Sequence[ListRecord]:
        """By id. Raises `CatchUpTimeout`, also when it is closed meanwhile, BusError."""
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            if self._topic is None:
                self._topic = CompactedTopic(
                    self._bus, STATE_LISTS, StoredLists, client_id=CLIENT_ID, first_offsets=None,
                    overrides=_OVERRIDES, timeout_s=self._timeout_s, stopping=self._stopping,
                )  # fmt: skip
            self._topic.follow(0.0)
            while not self._topic.is_at_end:
                if time.monotonic() > deadline or self._stopping.wait(POLL_S):
                    raise CatchUpTimeout("the lists are not read to their end yet")
                self._topic.follow(0.0)
            in_force = self._topic.state.in_force
            return [in_force[list_id] for list_id in sorted(in_force)]

    def close(self) -> None:
        """Leave the bus; a question that is under way ends."""
        self._stopping.set()
        with self._lock:
            if self._topic is not None:
                self._topic.close()
                self._topic = None
