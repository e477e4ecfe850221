"""A moment as a group needs it.

In: the process' clock. Out: one moment on the wall clock, which operators may set, and on the
monotonic one. Never: a deadline on the wall clock; set back by minutes, it would keep a rebalance
waiting for as long.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.clock.port import Clock


class Moment(NamedTuple):
    """`wall_ms` since 1970 UTC is stored and shown; `monotonic_ms` says when something is over."""

    wall_ms: int
    monotonic_ms: int


def moment(clock: Clock) -> Moment:
    """Now."""
    return Moment(clock.now_ms(), int(clock.monotonic() * 1000))
