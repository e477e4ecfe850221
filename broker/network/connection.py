"""One client's connection: bytes in, frames to the dispatcher, responses out in request order.

Core: `FrameDecoder`, `ResponsePipeline` and `Session`. The shell stops reading while too many
requests are in flight, too many response bytes are held, the broker's receive memory is used up,
the client is throttled or other connections have their turn (`turns`). Never: what a request means.
An unhandled error of the dispatcher closes this connection with one log line and harms no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from broker.clock.port import TimerHandle
from broker.network.frames import FrameDecoder, FrameError
from broker.network.limits import (
    JOIN_BELOW_BYTES,
    MAX_FULL_READS,
    MAX_MUTE_S,
    MAX_UNSENT_BYTES,
    SMALL_READ_BYTES,
    TURN_S,
)
from broker.network.memory import BrokerMemory, MemoryAccount, ResponseMemory
from broker.network.memory_pool import MemoryPool
from broker.network.responses import ResponsePipeline, ResponseSlot
from broker.network.turns import ServiceClass, Turns
from broker.security.session import Session
from bus.errors import CloseConnection


class ConnectionHost(Protocol):
    """What a connection needs from the listener that accepted it."""

    dispatch: Callable[[memoryview, Connection, ResponseSlot], None]
    monotonic: Callable[[], float]
    is_open: bool
    turns: Turns
    service_class: ServiceClass
    first_class: ServiceClass
    memory_pool: MemoryPool
    memory: ResponseMemory
    broker_memory: BrokerMemory

    def new_decoder(self) -> FrameDecoder:
        """The receiving side of a new connection."""

    def new_session(self, host: str) -> Session:
        """What is known of the client that connects from this address."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, after this time."""

    def admit(self, connection: Connection) -> bool:
        """Count the connection, unless it exceeds the limits."""

    def refuse(self, connection: Connection) -> None:
        """Close a connection that is not admitted."""

    def remove(self, connection: Connection) -> None:
        """The connection is closed."""

    def authenticated(self, connection: Connection) -> int:
        """The client has logged in; how large its requests may be now."""

    def log_client(self, text: str, *words: object) -> None:
        """Log a line about a client, at a limited rate."""

    def log_failure(self, host: str) -> None:
        """Log the exception that a client's request raised, with its trace."""

    def begin_batch(self) -> None:
        """A connection starts to process received requests."""

    def end_batch(self) -> None:
        """Send what became ready on other connections meanwhile."""

    def schedule_flush(self, connection: Connection) -> None:
        """Send what an event of another connection made ready on this one, after that event."""


class Connection(asyncio.BufferedProtocol):
    """One accepted connection. What `session` says of its client, handlers learn and change.

    Invariant: `_unmute_timer` runs while the session is throttled, and no longer than that.
    Invariant: outside of its turn `memory_account` is charged with what `_responses` hold or
    expect and with `_unsent`: all bytes written since the transport's buffer was last empty.
    """

    session: Session

    def __init__(self, listener: ConnectionHost) -> None:
        self._listener = listener
        self._turns = listener.turns
        self._class = listener.first_class
        self._decoder = listener.new_decoder()
        self._responses = ResponsePipeline(self._on_response_ready)
        self.memory_account = MemoryAccount(listener.memory)
        self._transport: asyncio.Transport | None = None
        self._pumping = False
        self._reading = True
        self._is_queued = False
        self._has_memory = True
        self._draining = False
        self._unsent = 0
        self._unsent_bytes_seen = 0
        self._unsent_since = 0.0
        self._buffer_size = 0
        self._full_reads = 0
        self._turn_ends = 0.0
        self._unmute_timer: TimerHandle | None = None
        self.host = ""
        self.last_active = self.opened_at = listener.monotonic()

    # -- asyncio's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection or close it at once."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        self.session = self._listener.new_session(self.host)
        # `pause_writing` reports what the kernel does not take at once: the held bytes are known
        # without a query of the transport after every response.
        self._transport.set_write_buffer_limits(high=0)
        if self._listener.admit(self):
            self._update_reading()
        else:
            self._listener.refuse(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer into which the event loop may write."""
        lent = self._decoder.writable()
        self._buffer_size = len(lent)
        return lent

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes arrived: process the whole requests in them, or queue for a turn."""
        listener = self._listener
        now = self.last_active = listener.monotonic()
        if not listener.is_open:
            self._reading = True  # uvloop reads on even after a pause in `connection_made`
        self._decoder.received(nbytes)
        if self._is_queued:
            self._update_reading()
            return
        if not self._full_reads:
            self._turn_ends = now + TURN_S
        self._full_reads = self._full_reads + 1 if nbytes == self._buffer_size else 0
        of = self._class
        if (now < of.round_ends and not of.fresh) or self._turns.may_work(of, now):
            self._process()
            if self._full_reads >= MAX_FULL_READS:
                self._enqueue()
        else:
            self._defer()

    def eof_received(self) -> bool:
        """The client has closed its side: pending responses are dropped."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; later responses are dropped."""
        self._transport = None
        self._responses.close()
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None
        self._unsent = 0
        self.memory_account.charge(0)
        self._decoder.close()
        self._listener.remove(self)

    def pause_writing(self) -> None:
        """The kernel has not taken all bytes."""
        self._draining = True

    def resume_writing(self) -> None:
        """The kernel has taken all bytes: continue with requests that have already arrived."""
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
    def holds_memory(self) -> bool:
        """Whether a partial request of this client keeps receive memory."""
        return self._decoder.holds_memory

    @property
    def held_bytes(self) -> int:
        """Response bytes that the kernel has not taken."""
        return self._responses.held_bytes + self._unsent

    def is_unread_since(self, oldest: float) -> bool:
        """Whether the kernel has taken no waiting bytes since then, as far as the periodic callers
        of this method have seen."""
        left_bytes = 0
        if self._unsent and not self.closed:
            left_bytes = cast(asyncio.WriteTransport, self._transport).get_write_buffer_size()
        if not left_bytes or left_bytes != self._unsent_bytes_seen:
            self._unsent_bytes_seen, self._unsent_since = left_bytes, self._listener.monotonic()
            return False
        return self._unsent_since < oldest

    def close(self) -> None:
        """Close after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def finish(self, reason: str) -> None:
        """Close after the responses that are ready, with a line in the log at a limited rate."""
        self._listener.log_client("closing connection from %s: %s", self.host, reason)
        self._send_ready()
        self.close()

    def abort(self, reason: str) -> None:
        """Close now, with a line in the log at a limited rate."""
        self._listener.log_client("closing connection from %s: %s", self.host, reason)
        if self._transport is not None:
            self._transport.abort()

    def run_turn(self, now: float) -> None:
        """Process queued requests for the length of a turn."""
        self._is_queued = False
        self._full_reads = 0
        self._turn_ends = now + TURN_S
        if not self.closed:
            self._process()

    def pump(self) -> None:
        """Continue after a response was set, the client caught up or memory was released."""
        self._has_memory = True
        if self._pumping:
            return
        self._send_ready()
        self._resume()

    # -- for handlers -----------------------------------------------------------------

    def pause_requests(self) -> None:
        """Accept no request until the newest one is answered: its response may need much memory."""
        self._responses.pause()

    def limit_read(self, wanted_bytes: int) -> int:
        """How many bytes a read for this connection may return now."""
        return self.memory_account.memory.limit_read(wanted_bytes)

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """The client sends what only brokers send; an id from 0 on says which one fetches. It waits
        for no client's turn and uses no client's memory."""
        self._class = self._turns.brokers
        if broker_id >= 0:
            self._listener.broker_memory.assign(broker_id, self.memory_account, most_bytes)

    def on_authenticated(self) -> None:
        """The client has logged in: its requests may be as large as anybody's, and wait for nobody
        who has not."""
        if self._class is self._listener.first_class:
            self._class = self._listener.service_class
        self._decoder.limit(self._listener.authenticated(self))

    def mute(self, throttle_time_ms: int) -> None:
        """Accept no request for this time, MAX_MUTE_S at most; what was accepted is answered."""
        now = self._listener.monotonic()
        self.session.throttle(now + min(throttle_time_ms / 1000, MAX_MUTE_S))
        if self._unmute_timer is None and not self.closed:
            self._unmute_at(now)

    @property
    def is_muted(self) -> bool:
        """Whether the client has to wait until its next request is accepted."""
        return self._unmute_timer is not None

    def _unmute_at(self, now: float) -> None:
        left_s = self.session.throttled_until - now
        self._unmute_timer = self._listener.call_later(left_s, self._unmute)

    def _unmute(self) -> None:
        """The time is over, unless the client was throttled again meanwhile."""
        now = self._listener.monotonic()
        if now < self.session.throttled_until:
            self._unmute_at(now)
            return
        self._unmute_timer = None
        self.last_active = now
        self.pump()

    # -- turns ------------------------------------------------------------------------

    def _defer(self) -> None:
        """Others have used up this round: only keep the received bytes."""
        has_frame = self._decoder.has_frame
        try:
            if not self._decoder.compact(SMALL_READ_BYTES) and not has_frame:
                self._wait_for_memory()
        except FrameError as error:
            self.abort(str(error))
        if has_frame:
            self._enqueue(fresh=True)
        else:
            self._update_reading()

    def _enqueue(self, *, fresh: bool = False) -> None:
        if self._is_queued or self.closed:
            return
        self._is_queued = True
        if fresh:
            self._turns.wait_fresh(self._class, self)
        else:
            self._turns.wait_busy(self._class, self)
        self._update_reading()

    def _resume(self) -> None:
        """Requests that had to wait may be accepted now: queue for a turn, or read on."""
        decoder = self._decoder
        if decoder.buffered_bytes and not self.closed:
            if decoder.has_frame:
                if self._can_accept():
                    self._enqueue()
            elif not decoder.compact():
                self._wait_for_memory()
        self._update_reading()

    def _on_response_ready(self) -> None:
        if self._pumping:
            return
        if len(self._responses) == 1 and not self._decoder.buffered_bytes:
            # The only response this client waits for: no other could join it in one write, so it
            # leaves before the work that made it ready continues. A replicated batch or an
            # acknowledgement must not wait for what the same event does for others.
            self._send_ready()
            self._update_reading()
        else:
            self.memory_account.charge(self._responses.held_bytes + self._unsent)
            self._listener.schedule_flush(self)

    def _process(self) -> None:
        """Process one turn, then send what it has made ready on other connections."""
        if self._pumping:
            return
        self._pumping = True
        has_more = False
        listener = self._listener
        listener.begin_batch()
        try:
            has_more = self._dispatch_requests()
            if not self._decoder.compact() and not has_more:
                self._wait_for_memory()
        except (FrameError, CloseConnection) as error:
            self.abort(str(error))
        except Exception:
            # An error of a request affects only its own connection.
            listener.log_failure(self.host)
            self.abort("internal error")
        finally:
            self._pumping = False
        if has_more:
            self._enqueue()
        self._update_reading()
        listener.end_batch()

    def _can_accept(self) -> bool:
        """Whether one more request may be accepted: its response must not exceed what may be
        held."""
        responses = self._responses
        if self._unmute_timer is not None:
            return False
        if not responses.slots and not self._unsent:
            return self._listener.is_open
        if responses.is_full or not self._listener.is_open:
            return False
        held = responses.held_bytes + self._unsent
        return not held or (held < MAX_UNSENT_BYTES and not self.memory_account.memory.is_short)

    def _dispatch_requests(self) -> bool:
        """Dispatch whole frames until there are none, or no more are accepted, or the turn is over;
        True if it is over and more could be dispatched."""
        dispatch = self._listener.dispatch
        decoder, responses, monotonic = self._decoder, self._responses, self._listener.monotonic
        while True:
            if not self._can_accept():
                self._send_ready()
                if not self._can_accept():
                    break
            frame = decoder.next_frame()
            if frame is None:
                break
            dispatch(frame, self, responses.open())
            if not decoder.buffered_bytes or self.closed:
                break
            if monotonic() >= self._turn_ends:
                self._send_ready()
                return decoder.has_frame and self._can_accept()
        self._send_ready()
        return False

    # -- writing ----------------------------------------------------------------------

    def _send_ready(self) -> None:
        """Write all ready responses together, and count what the kernel does not take."""
        responses = self._responses
        before_bytes = responses.held_bytes
        chunks = responses.pop_ready()
        if chunks and not self.closed:
            self._write(chunks)
            if self._draining:
                self._unsent += before_bytes - responses.held_bytes
        held_bytes = responses.held_bytes + self._unsent
        if held_bytes != self.memory_account.charged:
            self.memory_account.charge(held_bytes)

    def _write(self, chunks: list[bytes | bytearray | memoryview]) -> None:
        transport = cast(asyncio.Transport, self._transport)
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif sum(map(len, chunks)) < JOIN_BELOW_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)

    # -- reading ----------------------------------------------------------------------

    def _wait_for_memory(self) -> None:
        if self._has_memory:
            self._has_memory = False
            self._listener.memory_pool.wait(self.pump)

    def _update_reading(self) -> None:
        wanted = (
            self._has_memory
            # A queued client may send a little more: pausing and resuming reading costs as much as
            # a small request.
            and (not self._is_queued or self._decoder.has_space)
            # Nothing is read after a request that is not accepted yet. Without one reading goes on,
            # so that a disconnect is noticed while the client waits for a response.
            and (not self._decoder.buffered_bytes or self._can_accept())
            and self._listener.is_open
        )
        if wanted == self._reading or self.closed:
            return
        self._reading = wanted
        transport = cast(asyncio.Transport, self._transport)
        transport.resume_reading() if wanted else transport.pause_reading()
