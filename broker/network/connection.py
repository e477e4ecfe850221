"""One client's connection: bytes in, frames to the dispatcher, responses out in order.

Core: `FrameCutter` and `ResponseQueue`. The shell holds back reading while too many requests are in
flight, too many response bytes are held, the broker's receive memory is used up or it is the turn
of others (`turns`). Never: what a request means. A dispatcher error that it does not handle closes
this connection with one log line and harms no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from broker.network.budget import ReceiveBudget
from broker.network.frames import FrameCutter, FrameError
from broker.network.limits import (
    JOIN_BELOW_BYTES,
    MAX_FULL_READS,
    MAX_UNSENT_BYTES,
    READ_LITTLE_BYTES,
    TURN_S,
)
from broker.network.memory import MemoryHolder, MemoryOfBrokers, ResponseMemory
from broker.network.responses import ResponseQueue, Slot
from broker.network.turns import ServiceClass, Turns


class CloseConnection(Exception):
    """Raised by a dispatcher: this client cannot be answered; the text is the log line."""


class ConnectionHost(Protocol):
    """What a connection needs of the listener that accepted it."""

    dispatch: Callable[[memoryview, Connection, Slot], None]
    monotonic: Callable[[], float]
    is_open: bool
    turns: Turns
    service_class: ServiceClass
    budget: ReceiveBudget
    memory: ResponseMemory
    memory_of_brokers: MemoryOfBrokers

    def new_cutter(self) -> FrameCutter:
        """The receiving side of a new connection."""

    def admit(self, connection: Connection) -> bool:
        """Count the connection, unless it is one too many."""

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""

    def complain(self, text: str, *words: object) -> None:
        """Log a line about a client, unless there are many."""

    def complain_of_failure(self, host: str) -> None:
        """Log what a client's request raised, with its trace."""

    def begin_turn(self) -> None:
        """A connection starts to work on what it received."""

    def end_turn(self) -> None:
        """Send what that work has made ready on other connections too."""

    def wake(self, connection: Connection) -> None:
        """Send what an event of another connection made ready on this one."""


class Connection(asyncio.BufferedProtocol):
    """One accepted connection. `session` belongs to the dispatcher (principal, client names).

    Invariant: outside of its turn `holder` is charged with what `_responses` hold or expect and
    with `_unsent`, all that was written since the transport had nothing left.
    """

    def __init__(self, listener: ConnectionHost) -> None:
        self._listener = listener
        self._turns = listener.turns
        self._class = listener.service_class
        self._cutter = listener.new_cutter()
        self._responses = ResponseQueue(self._on_filled)
        self.holder = MemoryHolder(listener.memory)
        self._transport: asyncio.Transport | None = None
        self._pumping = False
        self._reading = True
        self._in_line = False
        self._room = True
        self._draining = False
        self._unsent = 0
        self._left_bytes = 0
        self._left_since = 0.0
        self._lent = 0
        self._full_reads = 0
        self._turn_ends = 0.0
        self.session: object = None
        self.host = ""
        self.last_active = listener.monotonic()

    # -- asyncio's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection or close it at once."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        # Whatever the kernel does not take at once is told by `pause_writing`: what is held is
        # known without asking the transport after every response.
        self._transport.set_write_buffer_limits(high=0)
        if self._listener.admit(self):
            self._update_reading()
        else:
            self.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the event loop may write."""
        lent = self._cutter.writable()
        self._lent = len(lent)
        return lent

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: work on the whole requests in them, or stand in line with them."""
        listener = self._listener
        now = self.last_active = listener.monotonic()
        if not listener.is_open:
            self._reading = True  # uvloop reads on, whatever `connection_made` said: pause again
        self._cutter.received(nbytes)
        if self._in_line:
            self._update_reading()
            return
        if not self._full_reads:
            self._turn_ends = now + TURN_S
        self._full_reads = self._full_reads + 1 if nbytes == self._lent else 0
        of = self._class
        if (now < of.round_ends and not of.fresh) or self._turns.may_work(of, now):
            self._work()
            if self._full_reads >= MAX_FULL_READS:
                self._stand_in_line()
        else:
            self._defer()

    def eof_received(self) -> bool:
        """The client has closed its side: nothing it could still hear is awaited."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; late fills go nowhere."""
        self._transport = None
        self._responses.close()
        self._unsent = 0
        self.holder.charge(0)
        self._cutter.close()
        self._listener.forget(self)

    def pause_writing(self) -> None:
        """The kernel has not taken all of it."""
        self._draining = True

    def resume_writing(self) -> None:
        """The kernel has taken everything: go on with what the client had already sent."""
        self._draining = False
        self._unsent = 0
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

    @property
    def held_bytes(self) -> int:
        """Response bytes that the kernel has not taken."""
        return self._responses.held_bytes + self._unsent

    def is_unread_since(self, oldest: float) -> bool:
        """Whether the kernel has taken nothing of what waits for it since then, as far as those
        know who look again and again."""
        left_bytes = 0
        if self._unsent and not self.closed:
            left_bytes = cast(asyncio.WriteTransport, self._transport).get_write_buffer_size()
        if not left_bytes or left_bytes != self._left_bytes:
            self._left_bytes, self._left_since = left_bytes, self._listener.monotonic()
            return False
        return self._left_since < oldest

    def close(self) -> None:
        """Close after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close now; said in the log, but not for every one of many."""
        self._listener.complain("closing connection from %s: %s", self.host, reason)
        if self._transport is not None:
            self._transport.abort()

    def take_turn(self, now: float) -> None:
        """What stood in line is served for a while."""
        self._in_line = False
        self._full_reads = 0
        self._turn_ends = now + TURN_S
        if not self.closed:
            self._work()

    def pump(self) -> None:
        """Go on after a response was filled, the client caught up or memory came free."""
        self._room = True
        if self._pumping:
            return
        self._send_ready()
        self._go_on()

    # -- what the dispatcher may ask for ----------------------------------------------

    def hold(self) -> None:
        """No request is taken until the newest one is answered: it may need much memory then."""
        self._responses.hold()

    def cut(self, wanted_bytes: int) -> int:
        """How many bytes a read for this connection may bring now."""
        return self.holder.memory.cut(wanted_bytes)

    def expects(self, size_bytes: int) -> None:
        """So many bytes are being read for it; 0: no more, their answer follows."""
        responses = self._responses
        if not responses.is_closed:
            responses.held_bytes += size_bytes - responses.expected_bytes
            responses.expected_bytes = size_bytes
            self.holder.charge(responses.held_bytes + self._unsent)

    def is_from_broker(self, broker_id: int, most_bytes: int) -> None:
        """It sends what brokers send, and from 0 on fetches as this one: no client's turn is waited
        for, and no client's memory is used."""
        self._class = self._turns.brokers
        if broker_id >= 0:
            self._listener.memory_of_brokers.give_to(broker_id, self.holder, most_bytes)

    # -- turns ------------------------------------------------------------------------

    def _defer(self) -> None:
        """Others have worked long enough in this round: only keep what came."""
        has_frame = self._cutter.has_frame
        try:
            if not self._cutter.keep_rest(READ_LITTLE_BYTES) and not has_frame:
                self._wait_for_room()
        except FrameError as error:
            self.abort(str(error))
        if has_frame:
            self._stand_in_line(fresh=True)
        else:
            self._update_reading()

    def _stand_in_line(self, *, fresh: bool = False) -> None:
        if self._in_line or self.closed:
            return
        self._in_line = True
        if fresh:
            self._turns.wait_fresh(self._class, self)
        else:
            self._turns.wait_busy(self._class, self)
        self._update_reading()

    def _go_on(self) -> None:
        """Requests that had no place may have one now: in line with others, or by reading on."""
        cutter = self._cutter
        if cutter.held_bytes and not self.closed:
            if cutter.has_frame:
                if self._has_place():
                    self._stand_in_line()
            elif not cutter.keep_rest():
                self._wait_for_room()
        self._update_reading()

    def _on_filled(self) -> None:
        if self._pumping:
            return
        if len(self._responses) == 1 and not self._cutter.held_bytes:
            # All that this client waits for: no other response could join it in one write, so it
            # leaves before the work that made it ready goes on. A copy or an acknowledgement
            # must not wait for what its event does for others.
            self._send_ready()
            self._update_reading()
        else:
            self.holder.charge(self._responses.held_bytes + self._unsent)
            self._listener.wake(self)

    def _work(self) -> None:
        """One turn, and with its end what it has made ready on other connections."""
        if self._pumping:
            return
        self._pumping = True
        has_more = False
        listener = self._listener
        listener.begin_turn()
        try:
            has_more = self._take_requests()
            if not self._cutter.keep_rest() and not has_more:
                self._wait_for_room()
        except (FrameError, CloseConnection) as error:
            self.abort(str(error))
        except Exception:
            # Whatever a request provoked, only its own connection may suffer.
            listener.complain_of_failure(self.host)
            self.abort("internal error")
        finally:
            self._pumping = False
        if has_more:
            self._stand_in_line()
        self._update_reading()
        listener.end_turn()

    def _has_place(self) -> bool:
        """Whether one more request may be taken: its answer must not make us hold too much."""
        responses = self._responses
        if not responses.slots and not self._unsent:
            return self._listener.is_open
        if responses.is_full or not self._listener.is_open:
            return False
        held = responses.held_bytes + self._unsent
        return not held or (held < MAX_UNSENT_BYTES and not self.holder.memory.is_short)

    def _take_requests(self) -> bool:
        """Dispatch whole frames until there are none, or no place, or the turn is over; True if it
        is over and more could be done."""
        dispatch = self._listener.dispatch
        cutter, responses, monotonic = self._cutter, self._responses, self._listener.monotonic
        while True:
            if not self._has_place():
                self._send_ready()
                if not self._has_place():
                    break
            frame = cutter.next_frame()
            if frame is None:
                break
            dispatch(frame, self, responses.open())
            if not cutter.held_bytes or self.closed:
                break
            if monotonic() >= self._turn_ends:
                self._send_ready()
                return cutter.has_frame and self._has_place()
        self._send_ready()
        return False

    # -- writing ----------------------------------------------------------------------

    def _send_ready(self) -> None:
        """Write what is ready, in one piece, and count what the kernel does not take."""
        responses = self._responses
        before_bytes = responses.held_bytes
        chunks = responses.take_ready()
        if chunks and not self.closed:
            self._write(chunks)
            if self._draining:
                self._unsent += before_bytes - responses.held_bytes
        held_bytes = responses.held_bytes + self._unsent
        if held_bytes != self.holder.charged:
            self.holder.charge(held_bytes)

    def _write(self, chunks: list[bytes | bytearray | memoryview]) -> None:
        transport = cast(asyncio.Transport, self._transport)
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif sum(map(len, chunks)) < JOIN_BELOW_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)

    # -- reading ----------------------------------------------------------------------

    def _wait_for_room(self) -> None:
        if self._room:
            self._room = False
            self._listener.budget.wait(self.pump)

    def _update_reading(self) -> None:
        wanted = (
            self._room
            # Who waits for his turn may send a little more: to stop reading and to begin again
            # costs as much as a small request.
            and (not self._in_line or self._cutter.has_room)
            # Nothing is read behind a request that has no place. Without one reading goes on, so
            # that a client's end is heard while it waits for an answer.
            and (not self._cutter.held_bytes or self._has_place())
            and self._listener.is_open
        )
        if wanted == self._reading or self.closed:
            return
        self._reading = wanted
        transport = cast(asyncio.Transport, self._transport)
        transport.resume_reading() if wanted else transport.pause_reading()
