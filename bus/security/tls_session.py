"""TLS of one connection between two memories, by OpenSSL: no socket, no loop.

In: what the peer has sent, plaintext to send. Out: plaintext, what to send to the peer. Raises
`TlsError`. Never: more of the peer's bytes in OpenSSL's memory than one piece: its buffers never
shrink again, and there is a pair of them for every connection.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

PIECE_BYTES = 32 * 1024
"""Of ciphertext or plaintext that OpenSSL gets at a time: two records of the largest size."""

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST",
                      "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})  # fmt: skip
"""OpenSSL's reasons for a first message that is no ClientHello."""

_HANDSHAKE_FAILURE = bytes((21, 3, 3, 0, 2, 2, 40))
"""A record with a fatal alert, which is not encrypted before keys are agreed upon (RFC 8446, 6)."""


class TlsError(Exception):
    """The peer broke off, or has sent what cannot be; the text is for an operator."""


class TlsSession:
    """Invariant: `_unfed` is what the peer has sent and OpenSSL has not been given yet."""

    __slots__ = ("_incoming", "_outgoing", "_suites", "_tls", "_unfed", "at_end", "is_server")

    def __init__(
        self,
        context: ssl.SSLContext,
        server_hostname: str | None = None,
        suites: frozenset[str] = frozenset(),
    ) -> None:
        """The server's side, unless there is a `server_hostname` to be named to the server.
        `suites`: a server speaks no other ones of TLS 1.3; empty: all that OpenSSL has."""
        self.is_server = server_hostname is None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=self.is_server,
            server_hostname=server_hostname,
        )
        self._suites = suites
        self._unfed = memoryview(b"")
        self.at_end = False
        """Whether the peer has said that it sends nothing more."""

    def receive(self, data: memoryview) -> None:
        """The peer has sent this. It is read until `keep` only."""
        self._unfed = memoryview(bytes(self._unfed) + bytes(data)) if self._unfed else data

    def keep(self) -> None:
        """The memory given to `receive` is used for something else from now on."""
        if self._unfed:
            self._unfed = memoryview(bytes(self._unfed))

    @property
    def has_more(self) -> bool:
        """Whether `read_into` may find something without another `receive`."""
        return bool(self._unfed or self._incoming.pending or self._tls.pending())

    def handshake(self) -> bool:
        """Go on with it; whether it is complete."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._feed():
                    self._check_suite()
                    return False
            except ssl.SSLError as error:
                raise TlsError(_reason(error)) from error
            else:
                self._check_suite()
                return True

    def _check_suite(self) -> None:
        """OpenSSL has chosen one of TLS 1.3 as soon as its own hello is written, and cannot be told
        by Python 3.11 which: the hello is not sent then."""
        chosen = self._tls.cipher()
        if not self._suites or chosen is None:
            return
        name, version, _ = chosen
        if version == "TLSv1.3" and name not in self._suites:
            self._outgoing.read()
            self._outgoing.write(_HANDSHAKE_FAILURE)
            raise TlsError(f"it would have {name}, which is not served here")

    def read_into(self, target: memoryview) -> int:
        """Decrypt what is there into `target`, as far as there is space; how many bytes."""
        done, size, read = 0, len(target), self._tls.read
        try:
            while done < size:
                try:
                    count = read(size - done, target[done:])
                except ssl.SSLWantReadError:
                    if self._feed():
                        continue
                    break
                if not count:
                    self.at_end = True
                    break
                done += int(count)
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return done

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """What is to be sent for it; PIECE_BYTES of `data` at most."""
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """What OpenSSL itself has to say: messages of the handshake, alerts, new keys."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def farewell(self) -> bytes:
        """The end of what we send, with what was left to send."""
        with suppress(ssl.SSLError):  # the peer has not said its own yet, or never will
            self._tls.unwrap()
        return self.to_send()

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's verified certificate in DER, if it has shown one."""
        return self._tls.getpeercert(binary_form=True)

    def _feed(self) -> bool:
        piece, self._unfed = self._unfed[:PIECE_BYTES], self._unfed[PIECE_BYTES:]
        return bool(piece and self._incoming.write(piece))


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if error.reason in _NOT_TLS:
        return "it does not speak TLS"
    return (error.reason or type(error).__name__).replace("_", " ").lower()
