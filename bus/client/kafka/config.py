"""The configuration of librdkafka that all our applications share, each key with its reason.

In: BusSettings and the name of the client. Out: dicts in librdkafka's names.
Never: reading files or the environment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from bus.limits import (
    CLIENT_DELIVERY_TIMEOUT_MS,
    CLIENT_FETCH_BYTES,
    CLIENT_LINGER_MS,
    CLIENT_PREFETCH_KIB,
    CLIENT_QUEUE_KIB,
    CLIENT_QUEUE_RECORDS,
    CLIENT_REQUEST_TIMEOUT_MS,
)
from bus.settings import BusSettings

Config = dict[str, object]

FOLLOWS_LEADERS: Mapping[str, object] = MappingProxyType({
    "topic.metadata.refresh.interval.ms": 200,
    "metadata.max.age.ms": 900_000,  # librdkafka's own, which otherwise follows the other one
})  # fmt: skip
"""For what lies on the way of an alarm. When a leader dies librdkafka asks once who leads now,
mostly before the election has ended, and then again when it looks over its topics, once a second.
Such a client asks five times a second: no more of them than alarms need."""

_LOG = logging.getLogger("bus.client")
_REFUSED = "Connection refused"


def downgrade_connection_refused(record: logging.LogRecord) -> bool:
    """Log filter: a broker that does not listen yet, or is restarting, is no error of ours.

    librdkafka connects again by itself; its line is kept, as INFO. That all brokers are down stays
    an error.
    """
    message = record.getMessage()
    if message.startswith("FAIL") and _REFUSED in message:
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


_LOG.addFilter(downgrade_connection_refused)


def common_config(bus: BusSettings, client_id: str) -> Config:
    """What every client has."""
    return {
        "bootstrap.servers": bus.bootstrap_servers,
        "client.id": client_id,
        "logger": _LOG,
        "reconnect.backoff.ms": 50,  # a restarted broker is back within a second or two,
        "reconnect.backoff.max.ms": 1000,  # and our latency promise does not wait longer
        "retry.backoff.ms": 20,  # an election takes a tenth of a second: with librdkafka's 100 ms,
        "retry.backoff.max.ms": 500,  # doubled, its end is heard of as late again
        "topic.metadata.refresh.fast.interval.ms": 20,
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,  # small requests are the rule, and each is answered
        "log.connection.close": False,  # a supervised broker restarts; one line a client says so
        "topic.metadata.propagation.max.ms": 5000,
        **bus.librdkafka,
    }


def producer_config(
    bus: BusSettings, client_id: str, overrides: Mapping[str, object] | None = None
) -> Config:
    """Exactly once, ordered per key, acknowledged by all, small waits, bounded memory."""
    return {
        **common_config(bus, client_id),
        "enable.idempotence": True,  # a retry must not make a second record
        "acks": "all",
        "partitioner": "murmur2_random",  # as Java: one key, one partition, with every sender
        "compression.type": "lz4",
        "linger.ms": CLIENT_LINGER_MS,
        "queue.buffering.max.messages": CLIENT_QUEUE_RECORDS,
        "queue.buffering.max.kbytes": CLIENT_QUEUE_KIB,
        "message.timeout.ms": CLIENT_DELIVERY_TIMEOUT_MS,
        **(overrides or {}),
    }


def consumer_config(
    bus: BusSettings,
    client_id: str,
    group: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """Positions belong to the application: nothing is committed behind its back."""
    return {
        **common_config(bus, client_id),
        "group.id": group or f"{client_id}-alone",  # librdkafka wants one even without a group
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        "enable.partition.eof": True,  # so that `Consumer.at_end` knows
        "fetch.wait.max.ms": 500,
        "fetch.error.backoff.ms": 50,  # a restarted broker is asked again at once
        "fetch.queue.backoff.ms": 20,  # the default of a second would stall a backlog
        "fetch.message.max.bytes": CLIENT_FETCH_BYTES,
        "queued.max.messages.kbytes": CLIENT_PREFETCH_KIB,
        **(overrides or {}),
    }


def admin_config(
    bus: BusSettings, client_id: str, overrides: Mapping[str, object] | None = None
) -> Config:
    """For administration."""
    return {
        **common_config(bus, client_id),
        "socket.timeout.ms": CLIENT_REQUEST_TIMEOUT_MS,
        **(overrides or {}),
    }
