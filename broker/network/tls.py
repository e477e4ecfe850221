"""A transport that encrypts: between the event loop's connection and a protocol of ours.

In: the loop's events, what the protocol writes. Out: the same events for the protocol, with
plaintext. Core: `TlsSession`. Never: a step of a handshake outside of a turn that its owner gives,
plaintext encrypted before the system takes it, or bytes read that nobody wants yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol, cast

from broker.clock.port import TimerHandle
from broker.network.limits import HANDSHAKE_READ_BYTES, LINGER_S, MAX_ENCRYPTED_BYTES
from broker.network.turns import TurnTaker
from bus.errors import CloseConnection
from bus.protocol.wire import Buffer
from bus.security.tls_session import PIECE_BYTES, TlsError, TlsSession


class TlsHost(Protocol):
    """Who made the connection, or accepted it."""

    cipher_buffer: memoryview
    """What is received, of any connection, until it is decrypted."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, after this time."""

    def queue_handshake(self, transport: TurnTaker) -> None:
        """Give it a turn for the next step of its handshake."""

    def on_established(self, transport: TlsTransport) -> None:
        """The peer is who it claims to be. Raises CloseConnection, to refuse it."""

    def on_failed(self, transport: TlsTransport, reason: str) -> None:
        """The connection will be closed."""


class TlsState(Enum):
    """What a connection is at."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    CLOSING = "closing"
    """No more is taken from the protocol; what it has written is still sent."""
    LINGERING = "lingering"
    """The peer gets to read why; what it sends is thrown away."""
    CLOSED = "closed"


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One connection: the loop's protocol, and the transport of `protocol`.

    What the protocol writes before the end of the handshake waits for it.
    Invariant: `_plain` has `_plain_bytes`, and is empty unless `_is_held` or in a handshake.
    Invariant: `_is_held` says what the protocol was told: that not all is sent.
    """

    def __init__(
        self, protocol: asyncio.BufferedProtocol, session: TlsSession, owner: TlsHost
    ) -> None:
        super().__init__()
        self.protocol = protocol
        self.session = session
        self._owner = owner
        self._raw: asyncio.Transport | None = None
        self._state = TlsState.HANDSHAKE
        self._is_queued = False
        self._is_paused = False
        self._is_continuing = False
        self._is_held = False
        self._is_raw_full = False
        self._plain: deque[memoryview] = deque()
        self._plain_bytes = 0

    # -- the loop's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client says its hello at once; a server waits for it."""
        self._raw = cast(asyncio.Transport, transport)
        self._raw.set_write_buffer_limits(high=0)
        self.protocol.connection_made(self)
        if self._state is TlsState.HANDSHAKE and not self.session.is_server:
            self._queue_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Before the handshake is complete nobody gets much."""
        lent = self._owner.cipher_buffer
        return lent if self._state is TlsState.OPEN else lent[:HANDSHAKE_READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt, or queue for the next step of the handshake."""
        if self._is_paused and self._raw is not None:
            self._raw.pause_reading()  # uvloop reads on even after a pause in `connection_made`
        if self._state is TlsState.OPEN:
            self.session.receive(self._owner.cipher_buffer[:nbytes])
            self._deliver()
        elif self._state is TlsState.HANDSHAKE:
            self.session.receive(self._owner.cipher_buffer[:nbytes])
            self.session.keep()
            self._queue_handshake()

    def eof_received(self) -> bool:
        """The peer has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is sent or received."""
        self._state = TlsState.CLOSED
        self._raw = None
        self._plain.clear()
        self._plain_bytes = 0
        self.protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """The system has not taken all."""
        self._is_raw_full = True
        self._report_held()

    def resume_writing(self) -> None:
        """The system has taken all: encrypt more."""
        self._is_raw_full = False
        if self._state in (TlsState.OPEN, TlsState.CLOSING):
            self._send()

    # -- the protocol's side ------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the loop's transport knows."""
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The protocol is told of every byte that is not sent, whatever it asks for."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the system has not taken."""
        raw_bytes = 0 if self._raw is None else self._raw.get_write_buffer_size()
        return self._plain_bytes + raw_bytes

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._state not in (TlsState.OPEN, TlsState.HANDSHAKE)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send it, or as much as the system takes now."""
        if self.is_closing():
            return
        if (
            self._state is TlsState.OPEN
            and not (self._is_held or self._plain)
            and len(data) <= PIECE_BYTES
        ):
            self._write_encrypted([data])
        else:
            self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """As `write`."""
        if self.is_closing():
            return
        for data in list_of_data:
            view = memoryview(data)
            self._plain.append(view)
            self._plain_bytes += len(view)
        if self._state is TlsState.OPEN:
            self._send()

    def pause_reading(self) -> None:
        """Deliver nothing, and let the peer wait."""
        self._is_paused = True
        if self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Deliver again: at first what was received before, in a call of its own."""
        self._is_paused = False
        if self._state is TlsState.OPEN and self.session.has_more:
            self._continue_later()
        elif self._raw is not None and not self._raw.is_closing():
            self._raw.resume_reading()

    def close(self) -> None:
        """After what was written is sent."""
        if self.is_closing():
            return
        in_handshake = self._state is TlsState.HANDSHAKE
        self._state = TlsState.CLOSING
        if in_handshake:
            self.abort()
        elif not self._plain:
            self._close_raw()

    def abort(self) -> None:
        """At once."""
        if self._state is not TlsState.CLOSED:
            self._state = TlsState.CLOSING
        if self._raw is not None:
            self._raw.abort()

    # -- the handshake --------------------------------------------------------------------

    @property
    def is_established(self) -> bool:
        """Whether the handshake is complete."""
        return self._state is not TlsState.HANDSHAKE

    def run_turn(self, now: float) -> None:
        """The next step of the handshake."""
        self._is_queued = False
        if self._state is not TlsState.HANDSHAKE:
            return
        try:
            is_complete = self.session.handshake()
            self._send_own()
            if is_complete:
                self._owner.on_established(self)
                self._state = TlsState.OPEN
        except (TlsError, CloseConnection) as error:
            self._fail(str(error))
            return
        if self._state is TlsState.OPEN:
            self._send()
            if not self._is_paused:
                self._deliver()
        if not self._is_paused and self._raw is not None and not self._raw.is_closing():
            self._raw.resume_reading()

    def _queue_handshake(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            cast(asyncio.Transport, self._raw).pause_reading()
            self._owner.queue_handshake(self)

    def _fail(self, reason: str) -> None:
        """Let the peer read its alert before the connection ends: what it has sent meanwhile and
        nobody reads would make the system throw the alert away."""
        self._owner.on_failed(self, reason)
        self._state = TlsState.LINGERING
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        self._send_own()
        if not self.session.is_server:
            raw.close()
            return
        if raw.can_write_eof():
            raw.write_eof()
        raw.resume_reading()
        self._owner.call_later(LINGER_S, self.abort)

    # -- reading ----------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hand out what is there, as long as it is wanted."""
        session, protocol = self.session, self.protocol
        try:
            while not self._is_paused and self._state is TlsState.OPEN:
                target = memoryview(protocol.get_buffer(-1))
                size = session.read_into(target)
                if size:
                    protocol.buffer_updated(size)
                if session.at_end:
                    self.close()
                if size < len(target):
                    break
            self._send_own()
        except TlsError as error:
            self._fail(str(error))
        session.keep()

    def _continue_later(self) -> None:
        if not self._is_continuing:
            self._is_continuing = True
            self._owner.call_later(0, self._continue)

    def _continue(self) -> None:
        self._is_continuing = False
        if self._state is TlsState.OPEN and not self._is_paused:
            self._deliver()
        if not self._is_paused and self._raw is not None and not self._raw.is_closing():
            self._raw.resume_reading()
        if self._plain and not self._is_raw_full:
            self._send()

    # -- writing ----------------------------------------------------------------------------

    def _send_own(self) -> None:
        own = self.session.to_send()
        if own and self._raw is not None and not self._raw.is_closing():
            self._raw.write(own)

    def _send(self) -> None:
        """Encrypt and send, as long as the system takes it and others need not wait for long."""
        encrypted_bytes = 0
        while self._plain and not self._is_raw_full:
            if encrypted_bytes >= MAX_ENCRYPTED_BYTES:
                self._continue_later()
                break
            pieces: list[Buffer] = []
            batch_ends = encrypted_bytes + MAX_ENCRYPTED_BYTES // 4
            while self._plain and encrypted_bytes < batch_ends:
                data = self._plain.popleft()
                piece, rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
                if rest:
                    self._plain.appendleft(rest)
                self._plain_bytes -= len(piece)
                encrypted_bytes += len(piece)
                pieces.append(piece)
            if not self._write_encrypted(pieces):
                return
        self._report_held()
        if self._state is TlsState.CLOSING and not self._plain:
            self._close_raw()

    def _write_encrypted(self, pieces: list[Buffer]) -> bool:
        """Whether the connection goes on."""
        raw, encrypt = self._raw, self.session.encrypt
        if raw is None or raw.is_closing():
            return False
        try:
            if len(pieces) == 1:
                raw.write(encrypt(pieces[0]))
            else:
                raw.writelines([encrypt(piece) for piece in pieces])
        except TlsError as error:
            self._fail(str(error))
            return False
        return True

    def _report_held(self) -> None:
        is_held = self._is_raw_full or bool(self._plain)
        if is_held is self._is_held:
            return
        self._is_held = is_held
        if is_held:
            self.protocol.pause_writing()
        else:
            self.protocol.resume_writing()

    def _close_raw(self) -> None:
        raw = self._raw
        if raw is not None and not raw.is_closing():
            raw.write(self.session.farewell())
            raw.close()
