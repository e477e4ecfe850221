"""The limits of a channel, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

MAX_WAITING = 1024
"""Requests that wait for one connection. Each belongs to one task, which sends no second one
before; more would be a loop that makes requests faster than a dead peer fails them."""

MAX_PIPELINED = 32
"""Requests in flight on a pipelined connection; the other side reads at most 64."""

IO_BUFFER_BYTES = 1024 * 1024
"""Request bytes the kernel has not taken; a peer that reads nothing is found by its time-outs."""


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """Times of one channel."""

    setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
