"""Describes configurations to clients: every key, its value and the value's source.

Values of sensitive keys never leave the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.config.key import ConfigError, unknown_key
from broker.config.keys import (
    BROKER_KEYS,
    SETTABLE_TOPIC_KEYS,
    TOPIC_DEFAULTS,
    TOPIC_KEYS,
    ZOOKEEPER_KEYS,
    ConfigKey,
    Dynamic,
)
from broker.config.keys_controller import AUTHORIZER_KEYS
from broker.config.views import BrokerConfig, Source, topic_default


@dataclass(frozen=True, slots=True)
class Synonym:
    """One possible source of a value, nearest first."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One key of one resource."""

    key: ConfigKey
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def client_value(self) -> str | None:
        """The value, unless it is a secret."""
        return None if self.key.sensitive else self.value


def topic_entries(
    config: BrokerConfig, overrides: Mapping[str, str | None]
) -> Iterator[DescribedConfig]:
    """Every key of a topic on which `overrides` were set."""
    for key in TOPIC_KEYS.values():
        value, source, _ = topic_default(config, key.name)
        text = key.text(value)
        synonyms = list(_broker_synonyms(config, key.name))
        if overrides.get(key.name) is not None:
            text, source = _as_parsed(key, overrides[key.name]), Source.DYNAMIC_TOPIC
            synonyms.insert(0, Synonym(key.name, text, source))
        yield DescribedConfig(key, text, source, False, tuple(synonyms))
    for name, key in SETTABLE_TOPIC_KEYS.items():
        if name in overrides and name not in TOPIC_KEYS:
            text, source = overrides[name], Source.DYNAMIC_TOPIC
            own = (Synonym(name, text, source),)
            yield DescribedConfig(key, text, source, False, own)


def _as_parsed(key: ConfigKey, text: str | None) -> str | None:
    """A set value in Kafka's form: ` TRUE` is `true`. A value that is invalid (by now) as it is."""
    try:
        return text if text is None else key.text(key.parse(text))
    except ConfigError:
        return text


def _broker_synonyms(config: BrokerConfig, name: str) -> Iterator[Synonym]:
    """The broker keys that a topic key's default comes from. Those in another unit (hours for
    milliseconds) only if set: Kafka lists none of their defaults."""
    for place, (broker_key, _) in enumerate(TOPIC_DEFAULTS.get(name, ())):
        for where, text in config.sources(broker_key):
            if text is not None and (place == 0 or where is not Source.DEFAULT):
                yield Synonym(broker_key, text, where)


NOT_KAFKAS = frozenset(
    {
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "producer.id.expiration.check.interval.ms",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "unclean.leader.election.interval.ms",
        *ZOOKEEPER_KEYS,
    }
)
"""Kafka 4.4 shows these only where they are set."""

WITHOUT_DEFAULT = frozenset({"controller.listener.names", "node.id", "process.roles"})
"""Keys without a default in Kafka: their values come from the file or the command line."""


def broker_entries(config: BrokerConfig) -> Iterator[DescribedConfig]:
    """Every key of this broker, and unknown keys that are set."""
    for key in BROKER_KEYS.values():
        if key.name not in NOT_KAFKAS or config.source(key.name) is not Source.DEFAULT:
            yield _broker_entry(config, key)
    for name, source in config.unknown_keys().items():
        known = AUTHORIZER_KEYS.get(name)
        text = None if known is None else config.authorizer_text(name)
        yield DescribedConfig(known or unknown_key(name), text, source, True, ())


def _broker_entry(config: BrokerConfig, key: ConfigKey) -> DescribedConfig:
    sources = config.sources(key.name)
    if key.name == "broker.id" and sources[0][0] is Source.DEFAULT:
        sources = [(Source.STATIC_BROKER, str(config.node_id)), *sources]
    if key.name in WITHOUT_DEFAULT:
        sources = [(Source.STATIC_BROKER, sources[0][1])]
    source, text = sources[0]
    chain = tuple(Synonym(key.name, text, where) for where, text in sources if text is not None)
    return DescribedConfig(key, text, source, key.dynamic is Dynamic.READ_ONLY, chain)


def shared_entries(dynamic_default: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """Dynamic values for all brokers (the broker resource without a name)."""
    source = Source.DYNAMIC_DEFAULT_BROKER
    for name, text in dynamic_default.items():
        if name in BROKER_KEYS:
            yield DescribedConfig(
                BROKER_KEYS[name], text, source, False, (Synonym(name, text, source),)
            )
        else:
            yield DescribedConfig(unknown_key(name), None, source, True, ())
