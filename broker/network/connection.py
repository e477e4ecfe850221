"""One client's connection: bytes in, frames to the dispatcher, responses out in order.

Core: `FrameCutter` and `ResponseQueue`. The shell holds back reading while too many requests
are in flight, too many response bytes are unsent or the broker's receive memory is used up.
Never: what a request means. A dispatcher error that it does not handle closes this connection
with one log line and harms no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.network.frames import FrameError
from broker.network.limits import JOIN_BELOW_BYTES, MAX_IN_FLIGHT, MAX_UNSENT_BYTES
from broker.network.responses import ResponseQueue, Slot

if TYPE_CHECKING:
    from broker.network.listener import Listener

log = logging.getLogger("broker.network")


class CloseConnection(Exception):
    """Raised by a dispatcher: this client cannot be answered; the text is the log line."""


class Connection(asyncio.BufferedProtocol):
    """One accepted connection. `session` belongs to the dispatcher (principal, client names)."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._cutter = listener.new_cutter()
        self._responses = ResponseQueue(self._on_filled)
        self._transport: asyncio.Transport | None = None
        self._pumping = False
        self._reading = True
        self._writable = True
        self._room = True
        self.session: object = None
        self.host = ""
        self.last_active = listener.monotonic()

    # -- asyncio's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection or close it at once."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        if self._listener.admit(self):
            self._update_reading()
        else:
            self.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the event loop may write."""
        return self._cutter.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: work on every whole request in them."""
        self.last_active = self._listener.monotonic()
        if not self._listener.is_open:
            self._reading = True  # uvloop reads on, whatever `connection_made` said: pause again
        self._listener.begin_turn()
        self._cutter.received(nbytes)
        self._pump()
        self._listener.end_turn()

    def eof_received(self) -> bool:
        """The client has closed its side: nothing it could still hear is awaited."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; late fills go nowhere."""
        self._transport = None
        self._cutter.close()
        self._listener.forget(self)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._writable = False
        self._update_reading()

    def resume_writing(self) -> None:
        """The client caught up: go on with what it had already sent."""
        self._writable = True
        self.pump()

    # -- our side -------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True once no response can leave any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return len(self._responses)

    @property
    def holds_budget(self) -> bool:
        """Whether a half request of this client keeps receive memory."""
        return self._cutter.holds_budget

    def close(self) -> None:
        """Close after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close now, with one log line."""
        log.info("closing connection from %s: %s", self.host, reason)
        if self._transport is not None:
            self._transport.abort()

    def pump(self) -> None:
        """Go on after a response was filled, the client caught up or memory came free."""
        self._room = True
        self._pump()

    def _on_filled(self) -> None:
        if self._pumping:
            return
        if len(self._responses) == 1 and not self._cutter.held_bytes:
            # All that this client waits for: no other response could join it in one write, so it
            # leaves before the work that made it ready goes on. A copy or an acknowledgement
            # must not wait for what its event does for others.
            self._send_ready()
        else:
            self._listener.wake(self)

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._take_requests() and self._send_ready():
                pass
        except (FrameError, CloseConnection) as error:
            self.abort(str(error))
        except Exception:
            # Whatever a request provoked, only its own connection may suffer.
            log.exception("request from %s failed", self.host)
            self.abort("internal error")
        finally:
            self._pumping = False
        self._update_reading()

    def _take_requests(self) -> bool:
        """Dispatch whole frames while there is room; True if any response may be ready."""
        dispatch: Callable[[memoryview, Connection, Slot], None] = self._listener.dispatch
        cutter, is_open = self._cutter, self._listener.is_open
        while (
            is_open
            and self._writable
            and len(self._responses) < MAX_IN_FLIGHT
            and not self.closed
        ):
            frame = cutter.next_frame()
            if frame is None:
                break
            dispatch(frame, self, self._responses.open())
        if not self.closed and not cutter.keep_rest():
            self._wait_for_room()
        return len(self._responses) > 0

    def _send_ready(self) -> bool:
        """Write what is ready, in one piece per turn; True if requests may follow."""
        was_full = len(self._responses) >= MAX_IN_FLIGHT
        chunks = self._responses.take_ready()
        if chunks and not self.closed:
            self._write(chunks)
        freed = was_full and len(self._responses) < MAX_IN_FLIGHT
        return freed and self._cutter.held_bytes > 0

    def _write(self, chunks: list[bytes | bytearray | memoryview]) -> None:
        transport = cast(asyncio.Transport, self._transport)
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif sum(map(len, chunks)) < JOIN_BELOW_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)

    def _wait_for_room(self) -> None:
        if self._room:
            self._room = False
            self._listener.budget.wait(self.pump)

    def _update_reading(self) -> None:
        if self.closed:
            return
        has_place = self._writable and self._room and len(self._responses) < MAX_IN_FLIGHT
        wanted = has_place and self._listener.is_open
        if wanted == self._reading:
            return
        self._reading = wanted
        transport = cast(asyncio.Transport, self._transport)
        transport.resume_reading() if wanted else transport.pause_reading()
