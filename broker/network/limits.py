"""The limits of the network room, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READ_BUFFER_BYTES = 256 * 1024
"""The shared receive buffer: sixteen 16 KiB batches per system call; more gained nothing."""

READ_LITTLE_BYTES = 4 * 1024
"""What one read may bring while the receive memory is used up: it must be kept, granted or not."""

GROW_FROM_BYTES = 1024 * 1024
"""A frame up to this size gets its buffer at once; a larger one as its bytes arrive."""

STALLED_S = 5.0
"""While others wait for receive memory, a half frame that has made no progress for so long loses
its connection: half frames of nobody must not stop those that work. So do answers of which nothing
was read for so long, while all of them hold more than they may."""

MAX_IN_FLIGHT = 64
"""Requests of one connection being worked on. Clients keep at most 5 for ordering; librdkafka
without idempotence sends as fast as it can, and what is beyond waits in its socket."""

TURN_S = 0.001
"""How long one connection works on what it has sent at once, before others get their turn: ten
small requests, or one that is large."""

ROUND_S = 0.004
"""How long the connections of one class work in one round of the event loop before the sockets are
looked at again: what a heartbeat may wait for, and fifty small requests, more than come at once
unless a broker has more to do than it can."""

MAX_FULL_READS = 4
"""Reads that fill what they were lent, one after the other in one round: the event loop reads on as
long as there is more, whoever waits."""

MAX_UNSENT_BYTES = 1024 * 1024
"""Responses of one connection that the kernel has not taken, also those behind one that is not
ready, before it takes no more requests: a slow consumer must not make the broker hold its data."""

RESPONSE_MEMORY_BYTES = 64 * 1024 * 1024
"""The same for all clients together. What is left is shared out in halves (`ResponseMemory.cut`):
one consumer that keeps up gets 32 MiB at once, a hundred that do not read a batch each."""

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
