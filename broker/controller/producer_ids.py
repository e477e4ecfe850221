"""Producer ids for this broker's clients, taken from the controller a block at a time.

In: who wants an id. Out: ids, each once in the life of the cluster.
Never: what an id is used for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.controller.decisions.cluster import ProducerIdBlock, allocate_producer_ids
from broker.controller.port import Controller
from bus.errors import BusError


class ProducerIds:
    """The broker's present block.

    Invariant: an id is handed out at most once; what is left of a block at a restart is lost.
    """

    def __init__(self, controller: Controller, broker_id: int, site: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._site = site
        self._next = 0
        self._end = 0
        self._asking = False
        self._waiting: deque[Callable[[int], None]] = deque()

    def take(self, done: Callable[[int], None]) -> None:
        """Give `done` an id, now or when the next block has come."""
        self._waiting.append(done)
        if self._next < self._end:
            self._serve()
        elif not self._asking:
            self._ask()

    def _ask(self) -> None:
        broker = self._controller.image.brokers[self._broker_id]
        self._asking = True
        try:
            self._controller.write(
                lambda image: allocate_producer_ids(
                    image, self._broker_id, broker.epoch, self._site
                ),
                self._take_block,
            )
        except BusError:
            # Nothing can be stored now (a full disk): those who wait hear it, later ones may ask.
            self._asking = False
            self._waiting.clear()
            raise

    def _take_block(self, block: ProducerIdBlock) -> None:
        self._asking = False
        self._next, self._end = block.first, block.end
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            producer_id = self._next
            self._next += 1
            self._waiting.popleft()(producer_id)
        if self._waiting:
            self._ask()
