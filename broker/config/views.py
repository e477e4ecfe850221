"""Configuration as the packages read it: ``BrokerConfig`` by key, ``TopicConfig`` by attribute.

In: texts by layer (the file, dynamic values). Out: typed values with their source. Never: an
unchecked value; the tables parse all texts and reject invalid ones. Both are frozen; a change
creates a new object.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from broker.config.ignored_keys import IGNORED_KEYS
from broker.config.key import MAX_ARRAY_BYTES, MAX_LONG
from broker.config.keys import (
    BROKER_KEYS,
    SETTABLE_TOPIC_KEYS,
    TOPIC_DEFAULTS,
    TOPIC_KEYS,
    ConfigError,
    is_foreign,
    is_read_by_authorizer,
    is_read_by_listener,
    parse,
    promises_security,
    unknown,
)
from broker.config.keys_security import LISTENER_PREFIX
from bus.records.codecs import Compression

log = logging.getLogger("broker.config")

JAAS = "sasl.jaas.config"
COMPACT, DELETE = "compact", "delete"
ALL_DIRECTORIES = "*"


class Source(Enum):
    """Where a value comes from, with the numbers DescribeConfigs uses."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class BrokerConfig:
    """All broker keys. Invariant: every value in ``_layers`` was parsed by its row."""

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        self._texts = {
            Source.DYNAMIC_BROKER: dict(dynamic_broker or {}),
            Source.DYNAMIC_DEFAULT_BROKER: dict(dynamic_default or {}),
            Source.STATIC_BROKER: dict(static),
        }
        self._layers = {source: _parsed(texts) for source, texts in self._texts.items()}
        self._values = {name: row.default for name, row in BROKER_KEYS.items()}
        for source in (Source.STATIC_BROKER, Source.DYNAMIC_DEFAULT_BROKER, Source.DYNAMIC_BROKER):
            self._values.update(self._layers[source])

    @classmethod
    def from_mapping(cls, static: Mapping[str, str]) -> BrokerConfig:
        """From a ``server.properties``; raises ConfigError on bad values.

        An unknown key is kept, shown and logged as a warning, as Kafka does: plugins and later
        versions have their own.
        """
        for name in static:
            _warn_of(name)
        return cls(static)

    @classmethod
    def only_of_known(cls, static: Mapping[str, str]) -> BrokerConfig:
        """As `from_mapping` for our own settings, where an unknown key is a mistake: ConfigError
        with the nearest known one."""
        for name in static:
            kept = (is_foreign, is_read_by_authorizer, is_read_by_listener, promises_security)
            if name not in BROKER_KEYS and not any(knows(name) for knows in kept):
                raise unknown(name, BROKER_KEYS)
        return cls.from_mapping(static)

    def with_dynamic(
        self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """The same file with the dynamic values for all brokers and for this one."""
        return BrokerConfig(self._texts[Source.STATIC_BROKER], dynamic_default, dynamic_broker)

    def warn_of_new(self, before: BrokerConfig) -> None:
        """Log each newly set dynamic key that has no effect; `before` has the older values."""
        known = {name for texts in before._texts.values() for name in texts}
        now = {name for texts in self._texts.values() for name in texts}
        for name in sorted(now - known):
            _warn_of(name)

    def unknown_keys(self) -> dict[str, Source]:
        """Keys that are set but not in the tables: name -> the effective layer."""
        return {
            name: source
            for source in reversed(self._texts)
            for name in self._texts[source]
            if name not in BROKER_KEYS
        }

    def authorizer_text(self, name: str) -> str:
        """The value of a key of Kafka's authorizers, of the file; empty where it is not set."""
        return self._texts[Source.STATIC_BROKER].get(name, "").strip()

    def of_listener(self, listener: str, name: str) -> Any:
        """The value of a key for one listener: its own, else that of all. Raises ConfigError."""
        own = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
        found = (texts.get(own) for texts in self._texts.values())
        text = next((text for text in found if text is not None), None)
        return self._values[name] if text is None else parse(name, text)

    def jaas_text(self, listener: str, mechanism: str) -> str | None:
        """The login settings of one mechanism of a listener, of the file: the most specific ones;
        None where there are none."""
        return self.mechanism_text(listener, mechanism, JAAS)

    def of_mechanism(self, listener: str, mechanism: str, name: str) -> Any:
        """The value of a key for one mechanism of a listener, of the file. Raises ConfigError."""
        text = self.mechanism_text(listener, mechanism, name)
        return self._values[name] if text is None else parse(name, text)

    def mechanism_text(self, listener: str, mechanism: str, name: str) -> str | None:
        """As `of_mechanism`, the text; None where the file has none."""
        texts, prefix = self._texts[Source.STATIC_BROKER], f"{LISTENER_PREFIX}{listener.lower()}."
        own = f"{mechanism.lower()}.{name}"
        found = (texts.get(key) for key in (prefix + own, own, prefix + name, name))
        return next((text for text in found if text is not None), None)

    def __getitem__(self, name: str) -> Any:
        """The effective typed value."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(BROKER_KEYS)

    def source(self, name: str) -> Source:
        """The layer of the effective value."""
        return next((s for s, values in self._layers.items() if name in values), Source.DEFAULT)

    def sources(self, name: str) -> list[tuple[Source, str | None]]:
        """All layers that have a value, the effective one first, the default last."""
        row = BROKER_KEYS[name]
        layers = self._layers.items()
        found = [(source, row.text(held[name])) for source, held in layers if name in held]
        return [*found, (Source.DEFAULT, row.text(row.default))]

    def text(self, name: str) -> str | None:
        """The effective value as Kafka formats it."""
        return BROKER_KEYS[name].text(self._values[name])

    @property
    def node_id(self) -> int:
        """node.id, or broker.id where only that is set."""
        if self.source("node.id") is Source.DEFAULT and self["broker.id"] >= 0:
            return int(self["broker.id"])
        return int(self["node.id"])

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """log.dirs, or log.dir; without trailing slashes."""
        directories = self["log.dirs"] or self["log.dir"]
        return tuple(directory.rstrip("/") or "/" for directory in directories)

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """The directories that get no new partitions; `*` is all of them (KIP-1066)."""
        named = tuple(str(one).rstrip("/") or "/" for one in self["cordoned.log.dirs"])
        return self.log_dirs if ALL_DIRECTORIES in named else named

    @property
    def metadata_log_dir(self) -> str:
        """The directory of the metadata log."""
        chosen = self["metadata.log.dir"]
        return str(chosen).rstrip("/") if chosen else self.log_dirs[0]


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: parse(name, text, BROKER_KEYS) for name, text in texts.items() if name in BROKER_KEYS
    }


def _warn_of(name: str) -> None:
    if name in IGNORED_KEYS:
        log.warning("%s has no effect here: %s", name, IGNORED_KEYS[name])
    elif name in BROKER_KEYS or is_read_by_authorizer(name) or is_read_by_listener(name):
        return
    elif promises_security(name):
        log.warning("%s promises security that is not kept yet: it has no effect here", name)
    elif is_foreign(name):
        log.warning("%s is a key of Kafka that has no effect here", name)
    else:
        log.warning("%s; it has no effect here", unknown(name, BROKER_KEYS))


KEEP_CODEC = -1
"""Batches stay compressed as their producers compressed them."""

LEVEL_KEYS = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}
"""The other codecs have no level."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's keys that the log and the replicas depend on; the rest through ``values``."""

    bounds_unpacked: bool = False
    """Whether an operator has set `max.decompressed.message.bytes` below what any record has."""
    compacted: bool = False
    deletes: bool = True
    log_append_time: bool = False
    codec: int = KEEP_CODEC
    codec_level: int | None = None
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_decompressed_message_bytes: int = MAX_ARRAY_BYTES
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    mirror_generation: int = 0
    mirror_source_cluster_id: str = ""
    is_unconfirmed: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    validates_records: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_read_only(self) -> bool:
        """Whether producers are refused: it is mirrored from another site, or waits until this one
        is confirmed as the primary."""
        return self.is_unconfirmed or bool(self.mirror_source_cluster_id)

    @property
    def max_segment_ms(self) -> int:
        """How long a segment is written to: what is to be cleaned at the latest after
        max.compaction.lag.ms must be closed by then (KIP-354)."""
        if not self.compacted:
            return self.segment_ms
        return min(self.segment_ms, self.max_compaction_lag_ms)

    @classmethod
    def of(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """The broker's defaults with the topic's own values; raises ConfigError."""
        values = {name: topic_default(broker, name)[0] for name in TOPIC_KEYS}
        for name, text in overrides.items():
            values[name] = topic_value(name, text)
        if values.get("internal.segment.bytes") is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        policy = values["cleanup.policy"]
        return cls(
            bounds_unpacked=values["max.decompressed.message.bytes"] < MAX_ARRAY_BYTES,
            compacted=COMPACT in policy,
            deletes=DELETE in policy,
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            codec=codec_of(values["compression.type"]),
            codec_level=values.get(LEVEL_KEYS.get(values["compression.type"], "")),
            mirror_generation=values.get("mirror.generation", 0),
            mirror_source_cluster_id=values.get("mirror.source.cluster.id", ""),
            validates_records=broker["produce.records.validation.enable"],
            values=values,
            overrides=dict(overrides),
            **{attribute: values[name] for attribute, name in _PLAIN.items()},
        )


def codec_of(compression_type: str) -> int:
    """The codec that `compression.type` names, KEEP_CODEC for "producer"."""
    return KEEP_CODEC if compression_type == "producer" else Compression.named(compression_type)


_PLAIN = {
    name.replace(".", "_"): name
    for name in TOPIC_KEYS
    if name.replace(".", "_") in TopicConfig.__dataclass_fields__
}


def topic_value(name: str, text: str) -> Any:
    """The typed value of a topic's key that this broker supports; raises ConfigError."""
    value = parse(name, text, SETTABLE_TOPIC_KEYS)
    if name == "remote.storage.enable" and value:
        raise ConfigError(
            name,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        )
    return value


def topic_default(broker: BrokerConfig, name: str) -> tuple[Any, Source, str | None]:
    """A topic key's value where the topic sets none: value, source, the broker key it comes
    from."""
    for broker_key, factor in TOPIC_DEFAULTS.get(name, ()):
        value = broker[broker_key]
        if value is not None:
            return (value * factor if factor != 1 else value), broker.source(broker_key), broker_key
    return TOPIC_KEYS[name].default, Source.DEFAULT, None
