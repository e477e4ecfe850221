"""Configurations of topics and brokers as they stand in the znodes.

In: a session and the image. Out: ConfigRecords for what differs. Never: a write.

Kafka's brokers read configurations from ZooKeeper themselves, not from the controller: all of them
at their start, then those that a notification under `/config/changes` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.controller.zk import znodes
from broker.controller.zk.load import broker_entity, children_or_none, get_or_none, in_chunks
from broker.controller.zk.port import ZooKeeperSession
from broker.metadata.image import ConfigKey, MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import ConfigRecord

MAX_NOTES = 1_000
"""Notifications that are kept for brokers that are slow to look; older ones are removed. A broker
that was away longer reads everything anyway."""

_KINDS = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER}


async def read_all_configs(session: ZooKeeperSession, image: MetadataImage) -> list[object]:
    """Records that bring the image's configurations to what stands in the znodes."""
    records: list[object] = []
    found: set[ConfigKey] = set()
    for folder in _KINDS:
        names = await children_or_none(session, f"/config/{folder}")
        entities = [f"{folder}/{name}" for name in names]
        for key, values in await in_chunks(entities, lambda one: _read(session, one)):
            found.add(key)
            records += difference(image, key, values)
    for key in image.configs:
        if key not in found and key[0] in _KINDS.values():
            records += difference(image, key, {})
    return records


async def read_topic_configs(
    session: ZooKeeperSession, names: Iterable[str], image: MetadataImage
) -> list[object]:
    """The same for some topics."""
    entities = [f"topics/{name}" for name in names]
    found = await in_chunks(entities, lambda one: _read(session, one))
    return [record for key, values in found for record in difference(image, key, values)]


async def read_entity(
    session: ZooKeeperSession, entity: str, image: MetadataImage
) -> list[object]:
    """The same for the entity a notification names; others' kinds are not kept here."""
    if entity.partition("/")[0] not in _KINDS:
        return []
    key, values = await _read(session, entity)
    return difference(image, key, values)


async def _read(session: ZooKeeperSession, entity: str) -> tuple[ConfigKey, dict[str, str]]:
    folder, _, name = entity.partition("/")
    kind = _KINDS[folder]
    key = (kind, broker_entity(name) if kind is ResourceType.BROKER else name)
    path = f"/config/{entity}"
    found = await get_or_none(session, path)
    return key, {} if found is None else znodes.decode_config(path, found[0])


def difference(
    image: MetadataImage, key: ConfigKey, values: Mapping[str, str]
) -> list[object]:
    """Records from what the image holds to `values`."""
    held = image.configs.get(key, {})
    changed: dict[str, str | None] = {
        name: value for name, value in values.items() if held.get(name) != value
    }
    changed |= {name: None for name in held if name not in values}
    kind, resource = key
    return [
        ConfigRecord(resource_type=int(kind), resource_name=resource, name=name, value=value)
        for name, value in changed.items()
    ]
