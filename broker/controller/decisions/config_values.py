"""What one resource's configuration becomes: the rules of Kafka's ConfigurationControlManager for
topics and of its ConfigAdminManager for brokers.

In: what holds now, what shall change. Out: new texts by key, or `RefusedError` with Kafka's code
and words. Never: I/O, another resource.

A topic's key must be known and its value fit; a broker's key may be anybody's (plugins have their
own) and is kept. Unsetting never fails: an unknown key may have been set by an older version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker.config.keys import (
    BROKER_KEYS,
    SETTABLE_TOPIC_KEYS,
    ConfigError,
    ConfigType,
    Dynamic,
    parse,
)
from broker.config.views import topic_value
from broker.controller.decisions.decision import RefusedError
from bus.errors import ErrorCode


class AlterOperation(IntEnum):
    """IncrementalAlterConfigs' operations (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One key of one resource. The operation may be a number that is none."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class InForce:
    """What the lists of topics and of brokers are where the resource itself sets none: APPEND and
    SUBTRACT start from there, not from nothing."""

    topic: Mapping[str, str]
    broker: Mapping[str, str]


Texts = dict[str, str | None]
_CheckList = Callable[[Alteration], None]

_NEEDS_PREFIX = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Kafka changes these while it runs for one listener only."""

_LISTENER_PREFIX = "listener.name."


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """Checks that apply to every kind of resource."""
    null = [
        one.name
        for one in alterations
        if one.value is None and one.operation != AlterOperation.DELETE
    ]
    if null:
        raise _invalid(f"Null value not supported for : {','.join(null)}")
    names = [one.name for one in alterations]
    if len(set(names)) != len(names):
        raise _invalid("Error due to duplicate config keys")


def check_topic_config(values: Mapping[str, str | None]) -> None:
    """Raises `ConfigError` in Kafka's words for the first key that a topic cannot have, or has
    with an unusable value."""
    null = [name for name, text in values.items() if text is None]
    if null:
        raise ConfigError(null[0], f"Null value not supported for topic configs: {','.join(null)}")
    typed = {}
    for name, text in values.items():
        if name not in SETTABLE_TOPIC_KEYS:
            raise ConfigError(name, f"Unknown topic config name: {name}")
        typed[name] = topic_value(name, text or "")
    shortest = typed.get("min.compaction.lag.ms", 0)
    longest = typed.get("max.compaction.lag.ms", shortest)
    if shortest > longest:
        raise ConfigError(
            "min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})",
        )


def topic_values(
    current: Mapping[str, str], alterations: Sequence[Alteration], lists: Mapping[str, str]
) -> Texts:
    """The keys of a topic that change; None unsets."""
    changed = _changed(current, alterations, lists, _topic_list)
    unchanged = {name: text for name, text in current.items() if name not in changed}
    try:
        check_topic_config({name: text for name, text in changed.items() if text is not None})
        check_topic_config(_checkable(unchanged) | _set(changed))
    except ConfigError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return changed


def broker_values(
    name: str,
    current: Mapping[str, str],
    alterations: Sequence[Alteration],
    lists: Mapping[str, str],
) -> Texts:
    """The keys of one broker, or of all where `name` is empty, that change; None unsets."""
    changed = _changed(current, alterations, lists, _broker_list)
    given = _set(changed)
    _refuse("Cannot update these configs dynamically", filter(_is_fixed, given))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        (key for key in given if key in _NEEDS_PREFIX),
    )
    for key, text in given.items():
        try:
            if key in BROKER_KEYS:
                parse(key, text)
        except ConfigError as error:
            raise _invalid(str(error)) from error
    if not name:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_is_one_brokers, given),
        )
    return changed


def _changed(
    current: Mapping[str, str],
    alterations: Sequence[Alteration],
    lists: Mapping[str, str],
    check_list: _CheckList,
) -> Texts:
    changed: Texts = {}
    for one in alterations:
        if one.operation == AlterOperation.DELETE:
            changed[one.name] = None
        elif one.operation == AlterOperation.SET:
            changed[one.name] = one.value
        else:
            check_list(one)
            held = current.get(one.name, lists.get(one.name, ""))
            changed[one.name] = _listed(held, one)
    return changed


def _topic_list(one: Alteration) -> None:
    if one.operation not in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    key = SETTABLE_TOPIC_KEYS.get(one.name)
    if key is None or key.type is not ConfigType.LIST:
        word = AlterOperation(one.operation).name
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {word} to key {one.name} because its type is not LIST.",
        )


def _broker_list(one: Alteration) -> None:
    if one.operation not in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        raise _invalid(f"Unknown operations type {one.operation}")
    key = BROKER_KEYS.get(one.name)
    if key is None:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {one.name}")
    if key.type is not ConfigType.LIST:
        word = AlterOperation(one.operation).name.lower()
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {word} is not allowed for config key: {one.name}",
        )


def _listed(held: str, one: Alteration) -> str:
    have = [item for item in held.split(",") if item]
    items = [item for item in (one.value or "").split(",") if item]
    if one.operation == AlterOperation.APPEND:
        return ",".join([*have, *(item for item in items if item not in have)])
    return ",".join(item for item in have if item not in items)


def _set(changed: Texts) -> dict[str, str]:
    return {name: text for name, text in changed.items() if text is not None}


def _checkable(unchanged: Mapping[str, str]) -> dict[str, str]:
    """What was committed once and does not fit (any more) is no reason to refuse another key."""
    usable = {}
    for name, text in unchanged.items():
        try:
            topic_value(name, text)
        except ConfigError:
            continue
        usable[name] = text
    return usable


def _is_fixed(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return key is not None and key.dynamic is Dynamic.READ_ONLY


def _is_one_brokers(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return name.startswith(_LISTENER_PREFIX) or (
        key is not None and key.dynamic is Dynamic.PER_BROKER
    )


def _refuse(why: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        raise _invalid(f"{why}: [{', '.join(found)}]")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
