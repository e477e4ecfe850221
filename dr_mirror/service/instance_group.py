"""Several mirrors with the same settings: one works, the others stand by, in a consumer group.

In: the target's brokers. Out: whose turn it is. Never: a copy stopped because the group cannot be
reached: two that copy at once are kept apart by their generations, and none would be worse.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.standby_group import MEMBERSHIP
from bus.client.model import TopicPartition
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

GROUP = "databus-mirror"
CLIENT_ID = "databus-mirror-instance"
POLL_S = 0.5
MAX_POLLED = 1_000
RETRY_S = 2.0
TIMEOUT_S = 10.0


class InstanceGroup:
    """One thread, which stays a member. Invariant: `_turn` counts how often the partition came to
    this instance."""

    def __init__(self, target: BusSettings) -> None:
        """`target`: of the settings, whichever site is the primary."""
        self._bus = target
        self._lock = threading.Lock()
        self._turn = 0
        self._has_turn = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror instances", daemon=True)

    def start(self) -> InstanceGroup:
        """Join."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Leave, so that another one goes on at once."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)

    async def wait_for_turn(self, after: int) -> int:
        """Return once the partition has come to this instance again since its turn `after`; the
        number of that turn."""
        while True:
            with self._lock:
                if self._has_turn and self._turn > after:
                    return self._turn
            await asyncio.sleep(POLL_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._join()
            except BusError as error:
                log.info("mirror: the group of instances cannot be reached: %s", error)
            self._stopping.wait(RETRY_S)

    def _join(self) -> None:
        """Until stopped. Raises BusError."""
        with closing(Admin(self._bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)) as admin:
            admin.ensure_topics([TOPICS[CONTROL_MIRROR_CONFIRMED]])
        with Consumer(
            self._bus, client_id=CLIENT_ID, group=GROUP, timeout_s=TIMEOUT_S, overrides=MEMBERSHIP
        ) as member:
            member.subscribe(
                [CONTROL_MIRROR_CONFIRMED], on_assign=self._on_assign, on_revoke=self._on_revoke
            )
            while not self._stopping.is_set():
                member.poll(MAX_POLLED, POLL_S)  # its records are nothing to us

    def _on_assign(self, places: list[TopicPartition]) -> None:
        with self._lock:
            if places:
                self._turn, self._has_turn = self._turn + 1, True

    def _on_revoke(self, places: list[TopicPartition]) -> None:
        with self._lock:
            if places:
                self._has_turn = False
