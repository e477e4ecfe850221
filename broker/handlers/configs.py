"""Configurations as clients see them: every key, its value, where the value comes from.

In: the one table of keys, the broker's configuration, what was set on a resource. Out: entries.
Never: a response of an API. Values of sensitive keys never leave the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from broker.config.keys import BROKER_KEYS, TOPIC_KEYS, ConfigKey, ConfigType, Dynamic
from broker.handlers.context import Services
from broker.metadata.image import ResourceType


class Source(IntEnum):
    """Kafka's ConfigSource: who set the value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


_TYPES = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.SHORT: 4,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
    ConfigType.CLASS: 8,
    ConfigType.PASSWORD: 9,
}


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places a value may come from, nearest first."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of one resource."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    is_sensitive: bool
    type_code: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def topic_entries(
    services: Services, overrides: Mapping[str, str | None]
) -> Iterator[Entry]:
    """Every key of a topic on which `overrides` were set."""
    for key in TOPIC_KEYS.values():
        chain = []
        if overrides.get(key.name) is not None:
            chain.append(Synonym(key.name, overrides[key.name], Source.TOPIC))
        if key.topic_default_of is not None:
            chain += _broker_chain(services, BROKER_KEYS[key.topic_default_of])
        else:
            chain.append(Synonym(key.name, _text(key.default), Source.DEFAULT))
        yield _entry(key, chain, read_only=False)


def broker_entries(services: Services, broker_id: int | None) -> Iterator[Entry]:
    """Every key of a broker; without an id only what is set for all brokers (the default)."""
    dynamic = services.image.configs.get((ResourceType.BROKER, ""), {})
    if broker_id is None:
        for name, value in dynamic.items():
            chain = [Synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER)]
            yield _entry(BROKER_KEYS[name], chain, read_only=False)
        return
    for key in BROKER_KEYS.values():
        read_only = key.dynamic is Dynamic.READ_ONLY
        yield _entry(key, _broker_chain(services, key), read_only=read_only)


def _broker_chain(services: Services, key: ConfigKey) -> list[Synonym]:
    chain = []
    configs = services.image.configs
    own = configs.get((ResourceType.BROKER, str(services.node_id)), {})
    shared = configs.get((ResourceType.BROKER, ""), {})
    if key.name in own:
        chain.append(Synonym(key.name, own[key.name], Source.DYNAMIC_BROKER))
    if key.name in shared:
        chain.append(Synonym(key.name, shared[key.name], Source.DYNAMIC_DEFAULT_BROKER))
    static = services.config.given.get(key.name)
    if static is not None:
        chain.append(Synonym(key.name, static, Source.STATIC_BROKER))
    chain.append(Synonym(key.name, _text(key.default), Source.DEFAULT))
    return chain


def _entry(key: ConfigKey, chain: list[Synonym], *, read_only: bool) -> Entry:
    nearest = chain[0]
    shown = None if key.sensitive else nearest.value
    return Entry(
        name=key.name,
        value=shown,
        source=nearest.source,
        read_only=read_only,
        is_sensitive=key.sensitive,
        type_code=_TYPES[key.type],
        documentation=key.doc,
        synonyms=() if key.sensitive else tuple(chain),
    )


def _text(default: object) -> str | None:
    if default is None:
        return None
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return str(default)
