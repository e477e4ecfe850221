"""CPU costs of a broker's requests, in virtual time.

In: the frames that reach a broker's dispatchers. Out: time spent by its process, so that later
requests wait for it. Never: a measurement; the costs are round figures of a small machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from broker.handlers.dispatch import Dispatcher
from broker.handlers.listener_type import ListenerType
from broker.network.connection import Connection
from broker.network.listener import Listener
from broker.network.responses import ResponseSlot
from broker.server.broker import Broker


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one CPU."""

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

    def _listener(self, dispatcher: Dispatcher, side: ListenerType, name: str) -> Listener:
        listener = super()._listener(dispatcher, side, name)
        costs, spend, dispatch = self._costs, self._spend, listener.dispatch

        @wraps(dispatch)
        def work(frame: memoryview, connection: Connection, slot: ResponseSlot) -> None:
            spend(costs.request_s + costs.byte_s * len(frame))
            dispatch(frame, connection, slot)

        listener.dispatch = work
        return listener
