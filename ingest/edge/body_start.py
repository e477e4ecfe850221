"""The beginning of a request's body, for the case that it is refused. Pure.

In: its bytes as they come. Out: the first of them, and how many there were. Never: more of them in
memory than may be kept.
"""

from __future__ import annotations

MAX_BYTES = 64 * 1024
"""Of one refused request: a message without its pictures, or the beginning of one with them."""


class BodyStart:
    """Invariant: `data` are the first bytes, `MAX_BYTES` at most, of `size` that came."""

    def __init__(self) -> None:
        self.data = b""
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        if len(self.data) < MAX_BYTES:
            self.data += chunk[: MAX_BYTES - len(self.data)]
        self.size += len(chunk)

    def set(self, body: bytes) -> None:
        """The whole body, unpacked: a reader can do more with that."""
        self.data, self.size = body[:MAX_BYTES], len(body)
