"""The limits of the network room, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READ_BUFFER_BYTES = 256 * 1024
"""The shared receive buffer: sixteen 16 KiB batches per system call; more gained nothing."""

GROW_FROM_BYTES = 1024 * 1024
"""A frame up to this size gets its buffer at once; a larger one as its bytes arrive."""

STALLED_S = 5.0
"""While others wait for receive memory, a half frame that has made no progress for so long loses
its connection: half frames of nobody must not stop those that work."""

MAX_IN_FLIGHT = 64
"""Requests of one connection being worked on. Clients keep at most 5 for ordering; librdkafka
without idempotence sends as fast as it can, and what is beyond waits in its socket."""

MAX_UNSENT_BYTES = 1024 * 1024
"""Responses of one connection that the kernel has not taken, before we stop reading from it: a
slow consumer must not make the broker hold its data."""

JOIN_BELOW_BYTES = 32 * 1024
"""Responses smaller than this are joined into one write: copying them is cheaper than handing
many pieces to the event loop."""

SWEEP_S = 1.0
"""How often idle and stalled connections are looked for; a look at thousands costs a millisecond.
"""

HTTP_MAX_HEAD_BYTES = 8 * 1024
"""A scraper's request head; anything longer is not one."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What the configuration says about connections (Kafka's own keys)."""

    max_request_bytes: int
    max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    receive_budget_bytes: int
    of_address: Mapping[str, int] = field(default_factory=dict)
    """Other bounds than `max_connections_per_ip`, by address."""
