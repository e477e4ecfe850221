"""What handlers know and control of the connection of a request. Never: its socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.security.session import Session
from bus.errors import ErrorCode

Chunks = Sequence["bytes | bytearray | memoryview"]


class ConnectionControl(Protocol):
    """What a handler may control on the connection of its request."""

    session: Session

    def pause_requests(self) -> None:
        """Accept no further request before the newest one is answered (Kafka does so for all): its
        response may be large, and may come at any time."""

    def limit_read(self, wanted_bytes: int) -> int:
        """How many bytes a read for this connection may return now; 0 still means one batch."""

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """The client is a broker; an id from 0 on says which one fetches, at most `most_bytes` at a
        time."""

    def mute(self, throttle_time_ms: int) -> None:
        """Accept no further request for this time, or as long as the listener allows at most."""

    def on_authenticated(self) -> None:
        """The client has proved who it is: it counts no more among those that have not."""

    def finish(self, reason: str) -> None:
        """Close the connection after what was answered has left; the reason is logged."""

    def abort(self, reason: str) -> None:
        """Close the connection now; the reason is logged."""


class NoConnection:
    """For requests of this process to itself: controls nothing."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def pause_requests(self) -> None:
        """No other request follows."""

    def limit_read(self, wanted_bytes: int) -> int:
        """All of it."""
        return wanted_bytes

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """It has no service class."""

    def mute(self, throttle_time_ms: int) -> None:
        """The next request comes when it comes."""

    def on_authenticated(self) -> None:
        """It was from the start."""

    def finish(self, reason: str) -> None:
        """There is nobody to be cut off: the error is the caller's."""
        raise RuntimeError(reason)

    def abort(self, reason: str) -> None:
        """There is nobody to be cut off: the error is the caller's."""
        raise RuntimeError(reason)


class EnvelopeConnection(NoConnection):
    """For a request in an envelope: what cannot be answered to the client is answered to the broker
    that forwards it."""

    def __init__(self, session: Session, refuse: Callable[[ErrorCode], None]) -> None:
        super().__init__(session)
        self.refuse = refuse

    def abort(self, reason: str) -> None:
        """Its broker responds in its own way."""
        self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
