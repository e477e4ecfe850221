"""Garbage that no client sends, sent to a port while others work.

In: a port. Out: connections closed by the other side. Never: what it means (tests/conformance knows).
"""

from __future__ import annotations

import contextlib
import random
import socket

OVERSIZED = (1 << 30).to_bytes(4, "big") + b"x" * 100
HALF = (5_000).to_bytes(4, "big") + b"half a frame"


def throw_garbage(port: int, dice: random.Random, times: int = 50) -> list[socket.socket]:
    """Sends random bytes and oversized frames, each on a separate connection; returns connections
    with half a frame sent, which the caller keeps open."""
    for number in range(times):
        with _connected(port) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(OVERSIZED if number % 5 == 0 else dice.randbytes(400))
    open_ones = [_connected(port) for _ in range(10)]
    for connection in open_ones:
        connection.sendall(HALF)
    return open_ones


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)
