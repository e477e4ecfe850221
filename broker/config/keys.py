"""All configuration keys of broker and topics in two tables.

All defaults and types are here; DescribeConfigs and the documentation are generated from them. For
an unknown name the error has the nearest known one.

Names and defaults are Kafka 4.4's. Three keys that Kafka requires have a default here, so that a
single broker starts without a file: node.id 1, process.roles, controller.listener.names.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from broker.config import (
    keys_controller,
    keys_groups,
    keys_log,
    keys_network,
    keys_oauth,
    keys_replication,
    keys_security,
    keys_tls,
    keys_tokens,
    keys_topic,
    keys_zookeeper,
)
from broker.config.key import ConfigError, ConfigKey, ConfigType, Dynamic, Scope
from broker.config.keys_security import is_read_by_listener

__all__ = [
    "BROKER_KEYS",
    "SETTABLE_TOPIC_KEYS",
    "TOPIC_DEFAULTS",
    "TOPIC_KEYS",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "Dynamic",
    "Scope",
    "is_foreign",
    "is_read_by_authorizer",
    "is_read_by_listener",
    "parse",
    "promises_security",
    "unknown",
]

BROKER_KEYS: dict[str, ConfigKey] = {
    row.name: row
    for table in (
        keys_log,
        keys_network,
        keys_replication,
        keys_groups,
        keys_controller,
        keys_security,
        keys_oauth,
        keys_tls,
        keys_tokens,
        keys_zookeeper,
    )
    for row in table.KEYS
}
TOPIC_KEYS: dict[str, ConfigKey] = {row.name: row for row in keys_topic.KEYS}
SETTABLE_TOPIC_KEYS: dict[str, ConfigKey] = {
    **TOPIC_KEYS,
    **{row.name: row for row in keys_topic.HIDDEN},
}
"""What a topic may set, including keys that are shown only if they are set."""

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000

TOPIC_DEFAULTS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.decompressed.message.bytes": (("max.decompressed.message.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
"""For each topic key the broker keys its default comes from, the first one set wins, with the
factor from that key's unit to milliseconds."""

ZOOKEEPER_KEYS = frozenset(row.name for row in keys_zookeeper.KEYS)
"""Keys of Kafka 3.9's; 4 has no ZooKeeper mode any more."""

_FOREIGN_PREFIXES = (
    "delegation.token.",
    "errors.deadletterqueue.",
    "group.share.",
    "group.streams.",
    "internal.",
    "listener.name.",
    "remote.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "share.",
    "ssl.",
)
_FOREIGN = frozenset(
    {
        "auto.include.jmx.reporter",
        "config.providers",
        "follower.fetch.last.tiered.offset.enable",
        "inter.broker.protocol.version",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "principal.builder.class",
        "security.providers",
        "telemetry.max.bytes",
    }
)


def is_foreign(name: str) -> bool:
    """Whether Kafka knows the key but nothing here depends on it (tiering, Java security, ...).

    Such keys are accepted, so that a server.properties of Kafka is read as it is.
    """
    return name in _FOREIGN or name.startswith(_FOREIGN_PREFIXES)


_SECURITY_PREFIXES = ("delegation.token.", "listener.name.", "sasl.", "ssl.")


def promises_security(name: str) -> bool:
    """Whether an operator who set this key believes that the broker now denies access to
    clients."""
    return name.startswith(_SECURITY_PREFIXES)


def is_read_by_authorizer(name: str) -> bool:
    """Whether it is a key of Kafka's authorizers, which are in no table of Kafka's either."""
    return name in keys_controller.AUTHORIZER_KEYS


def unknown(name: str, table: Mapping[str, ConfigKey]) -> ConfigError:
    """The error for an unknown name, with the nearest known one."""
    nearest = get_close_matches(name, table, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return ConfigError(name, f"Unknown configuration {name}{hint}")


def parse(name: str, text: str, table: Mapping[str, ConfigKey] = BROKER_KEYS) -> object:
    """The typed value of a key's text; raises ConfigError."""
    row = table.get(name)
    if row is None:
        raise unknown(name, table)
    return row.parse(text)
