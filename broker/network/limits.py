"""The limits of this package, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READ_BUFFER_BYTES = 256 * 1024
"""The shared receive buffer: sixteen 16 KiB batches per system call; more gained nothing."""

SMALL_READ_BYTES = 4 * 1024
"""The size of one read while the receive memory is used up: it must be kept, granted or not."""

INITIAL_BUFFER_BYTES = 1024 * 1024
"""A frame up to this size gets its buffer at once; a larger one as its bytes arrive."""

STALLED_S = 5.0
"""While others wait for receive memory, a connection whose partial frame has made no progress for
this time is closed: abandoned frames must not stop clients that work. So is one that has read none
of its responses for this time, while all responses hold more than their limit."""

MAX_IN_FLIGHT = 64
"""Requests of one connection in flight. Clients keep at most 5 for ordering; librdkafka without
idempotence sends as fast as it can, and what exceeds this waits in its socket."""

TURN_S = 0.001
"""How long one connection may process requests before others get their turn: ten small requests, or
a large one."""

ROUND_S = 0.004
"""How long the connections of one class work in one round of the event loop before the sockets are
polled again: an acceptable delay for a heartbeat, and fifty small requests, more than arrive at
once unless the broker is overloaded."""

UNKNOWN_ROUND_S = 0.0002
"""After how long no more unknown clients get their turn in one round of the event loop: a few steps
of a login, or one of a handshake of TLS."""

MAX_FULL_READS = 4
"""Consecutive reads in one round that fill their buffer: the event loop reads on as long as there
is more, even if others wait."""

MAX_UNSENT_BYTES = 1024 * 1024
"""Responses of one connection that the kernel has not taken, including those behind one that is not
ready, before it accepts no further requests: a slow consumer must not make the broker hold its
data.
"""

RESPONSE_MEMORY_BYTES = 64 * 1024 * 1024
"""The same for all clients together. What is left is shared out in halves (`ResponseMemory.cut`):
one consumer that keeps up gets 32 MiB at once, a hundred that do not read a batch each."""

MAX_MUTE_S = 30.0
"""The longest time for which a throttled connection accepts nothing. Clients give a request up
after as long (`request.timeout.ms`) and would only connect again; the next request is throttled
once more."""

JOIN_BELOW_BYTES = 32 * 1024
"""Responses smaller than this are joined into one write: copying them is cheaper than passing many
pieces to the event loop."""

MAX_REFUSED_CONNECTIONS = 1_000
"""Connections of one listener whose addresses connect too often and which are kept for a moment
before they are closed. One more is closed at once."""

REFUSED_MUTE_MS = 1_000
"""Muted for longer than kept: nothing of such a connection is served in its last moment."""

MAX_ARRIVALS = 1_000
"""Connections of one listener that wait until they may be taken, each with `SMALL_READ_BYTES` of
its client. One more is closed at once."""

MAX_LOGIN_S = 30.0
"""The longest time from the accepted connection to the end of its client's handshake of TLS and of
its login: a client that answers at once needs a few round trips, and the time for its password's
hash."""

MAX_UNKNOWN_CLIENTS = 1_000
"""Connections of one listener whose clients have not finished their handshake of TLS, or not logged
in yet. One more closes the oldest: whoever opens connections and is silent keeps nobody out."""

MAX_PLAIN_CLIENTS = 1_000
"""Of clients without TLS that have gone, so many are remembered, the newest ones: an operator who
closes a listener wants to know that somebody still comes, and names of some of them."""

HANDSHAKE_READ_BYTES = 16 * 1024
"""The size of one read before the end of a handshake: a client's hello, or a short chain of
certificates. A longer one comes in several reads."""

LINGER_S = 1.0
"""How long a client whose handshake failed may take to read why."""

MAX_ENCRYPTED_BYTES = 1024 * 1024
"""Encrypted for one connection before others get their turn: less than a millisecond."""

SWEEP_S = 1.0
"""How often idle and stalled connections are closed; checking thousands costs a millisecond."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The configuration of connections (Kafka's own keys)."""

    max_request_bytes: int
    max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    receive_memory_bytes: int
    max_unknown_request_bytes: int = 524_288
    """Of a client that has yet to log in."""
    max_connections_by_ip: Mapping[str, int] = field(default_factory=dict)
    """Other bounds than `max_connections_per_ip`, by address."""
