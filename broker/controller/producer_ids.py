"""Producer ids for this broker's clients, in blocks from the active controller.

Each id is used once in the lifetime of the cluster. The next block is requested before the present
one is used up, so that a client seldom waits for an election.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.peer.controller_channel import ControllerChannel
from broker.peer.log_limiter import LogRateLimiter
from bus.client.wire.errors import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest

log = logging.getLogger("broker.controller")

TIMEOUT_MS = 5_000
"""For one block; then waiting requests fail and are retried by their clients."""

MAX_WAITING = 10_000
"""Producers that wait for an id; their connections are bounded too."""

PREFETCH_FRACTION = 10
"""The next block is requested when a tenth of the present one is left."""

OnId = Callable[[int], None]
OnError = Callable[[ErrorCode], None]


class ProducerIdManager:
    """The broker's present block.

    Invariant: an id is used at most once; what is left of a block at a restart is lost.
    """

    def __init__(
        self,
        link: ControllerChannel,
        clock: Clock,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._link = link
        self._clock = clock
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._blocks: deque[tuple[int, int]] = deque()
        self._block_length = 0
        self._silence = LogRateLimiter()
        self._fetching: TaskHandle | None = None
        self._waiting: deque[tuple[OnId, OnError]] = deque()

    def allocate(self, done: OnId, failed: OnError) -> None:
        """Calls `done` with an id, now or when the next block has arrived; `failed` with the error
        if none does."""
        if len(self._waiting) >= MAX_WAITING:
            failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._waiting.append((done, failed))
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._blocks:
            first, end = self._blocks.popleft()
            if first + 1 < end:
                self._blocks.appendleft((first + 1, end))
            self._waiting.popleft()[0](first)
        if self._fetching is None and self._needs_block():
            self._fetching = self._clock.spawn(self._fetch_block(), name="producer-ids")

    def _needs_block(self) -> bool:
        if self._waiting:
            return True
        if len(self._blocks) != 1:
            return False
        first, end = self._blocks[0]
        return (end - first) * PREFETCH_FRACTION <= self._block_length

    async def _fetch_block(self) -> None:
        error = ErrorCode.NONE
        try:
            answer = await self._link.request(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                AllocateProducerIdsRequest(
                    broker_id=self._broker_id, broker_epoch=self._broker_epoch()
                ),
                timeout_ms=TIMEOUT_MS,
            )
        except PeerError as reason:
            if self._silence.should_log(self._clock.monotonic()):
                log.info("no block of producer ids: %s", reason)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            self._silence.ended(self._clock.monotonic())
            error = ErrorCode.of(answer.error_code)
            if not error:
                self._block_length = answer.producer_id_len
                start = answer.producer_id_start
                self._blocks.append((start, start + answer.producer_id_len))
        finally:
            self._fetching = None
        if error:
            waiting, self._waiting = self._waiting, deque()
            for _, failed in waiting:
                failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._serve()
