"""What a request costs a broker's processor, in virtual time.

In: the frames that reach a broker's dispatchers. Out: time spent by its life, so that whoever comes
next waits for it. Never: a measurement; the costs are round figures of a small machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from broker.handlers.dispatch import Dispatcher
from broker.handlers.sides import Side
from broker.network.connection import Connection
from broker.network.listener import Listener
from broker.network.responses import Slot
from broker.server.broker import Broker


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one processor."""

    request_s: float = 100e-6
    byte_s: float = 2e-9
    """Receiving, checking and writing a byte of a request."""


class WorkingBroker(Broker):
    """A broker whose requests take time."""

    def __init__(
        self, *ports: Any, costs: Costs, spend: Callable[[float], None], **more: Any
    ) -> None:
        super().__init__(*ports, **more)
        self._costs, self._spend = costs, spend

    def _listener(self, dispatcher: Dispatcher, side: Side, name: str) -> Listener:
        listener = super()._listener(dispatcher, side, name)
        costs, spend, dispatch = self._costs, self._spend, listener.dispatch

        @wraps(dispatch)
        def work(frame: memoryview, connection: Connection, slot: Slot) -> None:
            spend(costs.request_s + costs.byte_s * len(frame))
            dispatch(frame, connection, slot)

        listener.dispatch = work
        return listener
