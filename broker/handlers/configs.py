"""Configurations as clients see them: every key, its value, where the value comes from.

In: the one table of keys, the broker's configuration, what was set on a resource. Out: entries.
Never: a response of an API. Values of sensitive keys never leave the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.config.keys import BROKER_KEYS, TOPIC_DEFAULTS, TOPIC_KEYS, ConfigKey, Dynamic
from broker.config.views import BrokerConfig, Source, topic_default


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places a value may come from, nearest first."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of one resource."""

    key: ConfigKey
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def shown_value(self) -> str | None:
        """The value, unless it is a secret."""
        return None if self.key.sensitive else self.value


def topic_entries(
    config: BrokerConfig, overrides: Mapping[str, str | None]
) -> Iterator[Entry]:
    """Every key of a topic on which `overrides` were set."""
    for key in TOPIC_KEYS.values():
        value, source, _ = topic_default(config, key.name)
        text = key.text(value)
        synonyms = [
            Synonym(broker_key, shown, where)
            for broker_key, _ in TOPIC_DEFAULTS.get(key.name, ())
            for where, shown in config.sources(broker_key)
            if shown is not None
        ]
        if overrides.get(key.name) is not None:
            text, source = overrides[key.name], Source.DYNAMIC_TOPIC
            synonyms.insert(0, Synonym(key.name, text, source))
        yield Entry(key, text, source, False, tuple(synonyms))


def broker_entries(config: BrokerConfig) -> Iterator[Entry]:
    """Every key of this broker."""
    for key in BROKER_KEYS.values():
        chain = tuple(
            Synonym(key.name, text, where)
            for where, text in config.sources(key.name)
            if text is not None
        )
        read_only = key.dynamic is Dynamic.READ_ONLY
        yield Entry(key, config.text(key.name), config.source(key.name), read_only, chain)


def shared_entries(dynamic_default: Mapping[str, str]) -> Iterator[Entry]:
    """What was set for all brokers while they run (the broker resource without a name)."""
    for name, text in dynamic_default.items():
        source = Source.DYNAMIC_DEFAULT_BROKER
        yield Entry(BROKER_KEYS[name], text, source, False, (Synonym(name, text, source),))
