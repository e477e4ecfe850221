"""Processes of which one works and the others stand by: members of a group of one partition.

In: nothing. Out: the configuration of such a member. Never: a member that joins taking the
partition from the one that works.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SESSION_TIMEOUT_S = 6.0
"""The least that Kafka's brokers allow (group.min.session.timeout.ms): after it one that was killed
is followed by another."""
MEMBERSHIP: Mapping[str, object] = MappingProxyType({
    "session.timeout.ms": int(SESSION_TIMEOUT_S * 1000),
    "heartbeat.interval.ms": 200,  # how soon one that stands by learns that another has left
    "partition.assignment.strategy": "cooperative-sticky",
    "socket.timeout.ms": 5_000,  # a coordinator that stands still is left after this
})  # fmt: skip
