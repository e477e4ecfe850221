"""Producer ids for this broker's clients, taken from the active controller a block at a time.

In: who wants an id. Out: ids, each once in the life of the cluster.
Never: what an id is used for. The next block is asked for before the present one is used up, so
that a client seldom waits for an election.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.peer.controller_link import ControllerLink
from broker.peer.errors import PeerError
from broker.peer.silence import Silence
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest

log = logging.getLogger("broker.controller")

TIMEOUT_MS = 5_000
"""For one block; then those who wait are told to come again."""

MAX_WAITING = 10_000
"""Producers that wait for an id; their connections are bounded too."""

ASK_AHEAD = 10
"""The next block is asked for when a tenth of the present one is left."""

Taken = Callable[[int], None]
Refused = Callable[[ErrorCode], None]


class ProducerIds:
    """The broker's present block.

    Invariant: an id is handed out at most once; what is left of a block at a restart is lost.
    """

    def __init__(
        self,
        link: ControllerLink,
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
        self._silence = Silence()
        self._asking: TaskHandle | None = None
        self._waiting: deque[tuple[Taken, Refused]] = deque()

    def take(self, done: Taken, failed: Refused) -> None:
        """Give `done` an id, now or when the next block has come; `failed` hears why none came."""
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
        if self._asking is None and self._is_short():
            self._asking = self._clock.spawn(self._ask(), name="producer-ids")

    def _is_short(self) -> bool:
        if self._waiting:
            return True
        if len(self._blocks) != 1:
            return False
        first, end = self._blocks[0]
        return (end - first) * ASK_AHEAD <= self._block_length

    async def _ask(self) -> None:
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
            if self._silence.worth_saying(self._clock.monotonic()):
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
            self._asking = None
        if error:
            waiting, self._waiting = self._waiting, deque()
            for _, failed in waiting:
                failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._serve()
