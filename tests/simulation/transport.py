"""One end of a simulated TCP connection: asyncio's transport above, the wire below.

In: writes of the process, pieces from the other end. Out: calls of the protocol in the process's
own context, so that a paused process reads nothing and a dead one gets no call. Bytes that the
kernel accepted are delivered also after the process's death. Never: more than `WINDOW_BYTES` unread
at the other end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.loop import ProcessLife

if TYPE_CHECKING:
    from tests.simulation.network import Cut, SimNetwork

WINDOW_BYTES = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024

FIN = None


class SimTransport(asyncio.Transport):
    """Invariant: `unread` counts the bytes in flight to, or not yet read by, the other end."""

    def __init__(
        self,
        network: SimNetwork,
        life: ProcessLife,
        local: tuple[str, int],
        remote: tuple[str, int],
    ) -> None:
        super().__init__({"peername": remote, "sockname": local})
        self.network, self.life, self.local, self.remote = network, life, local, remote
        self.peer: SimTransport = self
        self.protocol: Any = None
        self.inbox: deque[bytes | None] = deque()
        self.unread = 0
        self.gone = False
        """The kernel no longer knows this end: arriving bytes are answered by a reset."""
        self._out: deque[bytes | None] = deque()
        self._out_bytes = 0
        self._wire: deque[tuple[float, bytes | None]] = deque()
        self._closing = self._lost = self._paused = self._blocked = False
        self._sending = self._reading = self._timer = False
        self._last_arrival = 0.0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._number = network.register(self)

    # --- asyncio's side --------------------------------------------------------------------------

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Reports the established connection to the protocol."""
        self.protocol = protocol
        protocol.connection_made(self)
        if self.inbox:
            self._read_soon()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._lost or not len(data):
            return
        self._out.append(bytes(data))
        self._out_bytes += len(data)
        self._send_soon()
        if self._out_bytes > self._high and not self._blocked:
            self._blocked = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Closes after all written bytes have left."""
        if self._closing or self._lost:
            return
        self._closing = True
        self._out.append(FIN)
        self._send_soon()

    def abort(self) -> None:
        """Closes immediately; the other end gets a reset."""
        if not self._lost:
            self._notify_reset()
            self._lose(None)

    def is_closing(self) -> bool:
        return self._closing or self._lost

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self.inbox:
            self._read_soon()

    def is_reading(self) -> bool:
        return not self._paused and not self.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._out_bytes

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self.protocol)

    # --- sending: the kernel's side, independent of the process ------------------------------------

    def _send_soon(self) -> None:
        if not self._sending:
            self._sending = True
            self.network.loop.call_soon(self._send, context=self.network.loop.kernel)

    def _send(self) -> None:
        """Sends what the window allows, in one piece."""
        self._sending = False
        piece: list[bytes] = []
        while self._out and self._out[0] is not None and self.unread < WINDOW_BYTES:
            data = cast(bytes, self._out.popleft())
            room = WINDOW_BYTES - self.unread
            if len(data) > room:
                self._out.appendleft(data[room:])
                data = data[:room]
            piece.append(data)
            self._out_bytes -= len(data)
            self.unread += len(data)
        if piece:
            self._put_on_wire(b"".join(piece))
        if self._out and self._out[0] is FIN:
            self._out.popleft()
            self._put_on_wire(FIN)
            self._in_life(lambda: self._lose(None))
        elif self._blocked and self._out_bytes <= self._low and not self._lost:
            self._in_life(self._unblock)

    def _unblock(self) -> None:
        if self._blocked and not self._lost and self._out_bytes <= self._low:
            self._blocked = False
            self.protocol.resume_writing()

    def _put_on_wire(self, piece: bytes | None) -> None:
        network = self.network
        delay = network.delay_s(self.local[0], self.remote[0])
        self._last_arrival = max(network.loop.time() + delay, self._last_arrival)
        self._wire.append((self._last_arrival, piece))
        self._wake_wire(self._last_arrival)

    def _wake_wire(self, when: float) -> None:
        if not self._timer:
            self._timer = True
            loop = self.network.loop
            loop.call_at(when, self._arrive, context=loop.kernel)

    def _arrive(self) -> None:
        """Delivers due pieces to the other end if the link is not cut."""
        self._timer = False
        network = self.network
        while self._wire and self._wire[0][0] <= network.loop.time():
            cut = self._cut()
            if cut is not None:
                self._stopped_on_the_way(cut.value)
                return
            if network.down.get(self.remote[0], False):
                return
            _, piece = self._wire.popleft()
            if self.peer.gone:
                if piece is not FIN:
                    self._wire.clear()
                    self._in_life(self._reset)
                return
            network.trace(f"{self.local[0]}>{self.remote[0]}", piece or b"")
            self.peer.inbox.append(piece)
            self.peer._read_soon()
        if self._wire:
            self._wake_wire(self._wire[0][0])
        elif self.gone:
            self._forget()

    def _cut(self) -> Cut | None:
        """Whether and how the link to the other end is cut."""
        (source, here), (target, there) = self.local, self.remote
        return self.network.is_cut(source, target, here, there)

    def _stopped_on_the_way(self, how: str) -> None:
        if how == "reject":
            self._wire.clear()
            self._in_life(self._reset)

    def retransmit(self, delay_s: float) -> None:
        """Retransmits waiting bytes after `delay_s`; the link may be restored by then."""
        if not self._wire:
            return
        now = self.network.loop.time()
        if self._wire[0][0] > now:
            return
        when = now + delay_s
        self._wire = deque((max(when, due), piece) for due, piece in self._wire)
        self._last_arrival = max(when, self._last_arrival)
        self._timer = True
        loop = self.network.loop
        loop.call_at(when, self._arrive, context=loop.kernel)

    # --- receiving -------------------------------------------------------------------------------

    def _read_soon(self) -> None:
        if not self._reading and self.protocol is not None:
            self._reading = True
            self._in_life(self._read)

    def _read(self) -> None:
        self._reading = False
        while self.inbox and not self._paused and not self._lost:
            piece = self.inbox.popleft()
            if piece is FIN:
                if not self.protocol.eof_received():
                    self.close()
                return
            self.peer._was_read(len(piece))
            if not self._closing:
                self._feed(piece)

    def _was_read(self, count: int) -> None:
        self.unread -= count
        if self._out:
            self._send_soon()

    def _feed(self, piece: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(piece)
            return
        view = memoryview(piece)
        while view and not self._lost:
            buffer = memoryview(protocol.get_buffer(len(view)))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            del buffer
            protocol.buffer_updated(count)
            view = view[count:]
            if self._paused and view:
                self.inbox.appendleft(bytes(view))
                self.peer.unread += len(view)
                return

    # --- ends ------------------------------------------------------------------------------------

    def _in_life(self, step: Any) -> None:
        if not self.life.dead:
            self.network.loop.call_soon(step, context=self.life.context)

    def _reset(self) -> None:
        if not self._lost:
            self.gone = True
            self._lose(ConnectionResetError(104, f"{self.remote[0]}:{self.remote[1]} reset"))

    def _lose(self, error: Exception | None) -> None:
        """Notifies the protocol once; the kernel may still have pieces in flight."""
        if self._lost:
            return
        self._lost = self._closing = True
        self._forget()
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def _notify_reset(self) -> None:
        """Sends a reset, which arrives after everything already in flight."""
        self._forget()
        network, peer = self.network, self.peer
        if self._cut() is None:
            when = max(network.loop.time() + 0.0005, self._last_arrival)
            network.loop.call_at(
                when, lambda: peer._in_life(peer._reset), context=network.loop.kernel
            )

    def closed_by_kernel(self) -> None:
        """The process died: sends FIN, or a reset if it had unread bytes."""
        if self.gone:
            return
        self._lost = True
        self._out.clear()
        if self.inbox:
            self._notify_reset()
        else:
            self._put_on_wire(FIN)
            self._forget()

    def vanish(self) -> None:
        """The machine lost its power: sends nothing."""
        self._lost = True
        self._out.clear()
        self._wire.clear()
        self._forget()

    def _forget(self) -> None:
        """Unregisters this end once its last pieces have arrived."""
        self.gone = True
        if not self._wire:
            self.network.transports.pop(self._number, None)
