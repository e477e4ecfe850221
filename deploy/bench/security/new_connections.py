"""New connections one after another, each with TLS, a login or both, and one question at the end.

    python -m deploy.bench.security.new_connections --bootstrap HOST:PORT --tls CA.pem --scram
In: words. Out: one JSON line on stdout: how many got their answer, and how many a second. Never:
a session of TLS that is resumed; knowing which broker it talks to.

Each of a few threads has one connection at a time; OpenSSL works outside Python's lock. The keys of
a password are derived once for each salt: a client that derives them at every login would take
longer than any server.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

from bus.client.wire.connection import ClientConnection
from bus.client.wire.sasl import LoginRefused, SaslExchange, SaslLogin
from bus.protocol.wire import Buffer
from bus.security.sasl_server import SCRAM_BY_TITLE, salted

MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "bench-user", "bench-password"
TIMEOUT_S = 30.0
MOST_FAULTS = 10
"""Of a thread, before it ends."""


@lru_cache(maxsize=8)
def _keys(salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """The client's key and the one that a server keeps of it."""
    scram = SCRAM_BY_TITLE[MECHANISM]
    client = hmac.digest(salted(scram, PASSWORD, salt, iterations), b"Client Key", "sha512")
    return client, hashlib.sha512(client).digest()


class _KeyedScram(SaslExchange):
    """The client's two messages of SCRAM. The server's proof is not looked at: no secret is kept
    from a server of the bench."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(12)
        self._bare = f"n={USER},r={self._nonce}"
        self._is_proved = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, received: bytes) -> bytes | None:
        if self._is_proved:
            return None
        self._is_proved = True
        begun = received.decode()
        said = dict(part.split("=", 1) for part in begun.split(","))
        client, stored = _keys(base64.b64decode(said["s"]), int(said["i"]))
        unproved = f"c=biws,r={said['r']}"
        signed = f"{self._bare},{begun},{unproved}".encode()
        signature = hmac.digest(stored, signed, "sha512")
        proof = bytes(one ^ other for one, other in zip(client, signature, strict=True))
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


class _KeyedLogin(SaslLogin):
    """Every login with the same keys."""

    def begin(self) -> SaslExchange:
        return _KeyedScram()


def keyed_login() -> SaslLogin:
    """Of any number of connections."""
    return _KeyedLogin(MECHANISM, USER, PASSWORD)


@dataclass(frozen=True)
class NewConnection:
    """How each connects: `tls` and `login` where there are."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    login: SaslLogin | None

    def make(self) -> None:
        """One of them, from its first packet to the answer. Raises OSError, ProtocolError."""
        with socket.create_connection((self.host, self.port), TIMEOUT_S) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is None:
                self._ask(plain)
                return
            with self.tls.wrap_socket(plain, server_hostname=self.host) as secured:
                self._ask(secured)

    def _ask(self, connection: socket.socket) -> None:
        """Which APIs there are, and the login."""
        client = ClientConnection("bench", login=self.login)
        chunks: list[Buffer] | None = client.handshake()
        while chunks is not None:
            connection.sendall(b"".join(chunks))
            chunks = client.on_handshake(_answer(connection, client))


def _answer(connection: socket.socket, client: ClientConnection) -> object:
    """The next one. Raises OSError."""
    while True:
        size = connection.recv_into(client.writable())
        if not size:
            raise OSError("the connection was closed")
        for response in client.receive(size):
            return response.message


@dataclass
class ConnectionCounts:
    """Of one thread."""

    served: int = 0
    faults: list[str] = field(default_factory=list)


def connected_until(
    connection: NewConnection, until_s: float, pause_s: float = 0.0
) -> ConnectionCounts:
    """One after the other, until then; with `pause_s` one begins in each of these times, or as soon
    as the one before has ended."""
    counts = ConnectionCounts()
    due_s = time.perf_counter()
    while time.perf_counter() < until_s:
        due_s += pause_s
        try:
            connection.make()
        except (OSError, LoginRefused, ValueError) as error:
            counts.faults.append(f"{type(error).__name__}: {error}")
            if len(counts.faults) > MOST_FAULTS:
                break
        else:
            counts.served += 1
        time.sleep(max(due_s - time.perf_counter(), 0))
    return counts


def run(
    connection: NewConnection, threads: int, seconds: float, rate: float = 0
) -> dict[str, float]:
    """All threads for so long, `rate` connections a second together; 0: as fast as they can. Raises
    SystemExit where one of them was refused."""
    pause_s = threads / rate if rate else 0.0
    connection.make()  # the keys of the password, and a refusal of everybody
    begin_s = time.perf_counter()
    until_s = begin_s + seconds
    with ThreadPoolExecutor(threads) as pool:
        asked = [pool.submit(connected_until, connection, until_s, pause_s) for _ in range(threads)]
        found = [one.result() for one in asked]
    took_s = time.perf_counter() - begin_s
    faults = [fault for one in found for fault in one.faults]
    if faults:
        raise SystemExit(f"{len(faults)} were not served: {faults[0]}")
    served = sum(one.served for one in found)
    return {"served": served, "served_per_s": served / took_s}


def main() -> None:
    """Run and print the one line."""
    parser = argparse.ArgumentParser(prog="deploy.bench.security.new_connections")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--tls", default="", help="the authority's certificate; empty: no TLS")
    parser.add_argument("--scram", action="store_true", help="log in")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=0, help="a second; 0: as fast as they can")
    words = parser.parse_args()
    host, _, port = words.bootstrap.rpartition(":")
    tls = ssl.create_default_context(cafile=words.tls) if words.tls else None
    login = keyed_login() if words.scram else None
    connection = NewConnection(host, int(port), tls, login)
    print(json.dumps(run(connection, words.threads, words.seconds, words.rate)), flush=True)


if __name__ == "__main__":
    main()
