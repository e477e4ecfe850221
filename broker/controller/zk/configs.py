"""Configurations of topics and brokers, quotas, ACLs and tokens, as the znodes hold them.

Kafka's brokers read them from ZooKeeper themselves, not from the controller: all of them at their
start, then what a notification names: those under `/config/changes`, those of the authorizer and of
delegation tokens.
The result is records for what differs from the image. A malformed node is logged and ignored; its
known content stays in force. Writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.controller.zk import acls, quotas, tokens, znodes
from broker.controller.zk.acl_and_quota_reader import (
    NO_NODE,
    read_acls,
    read_all_acls,
    read_all_quotas,
    read_all_tokens,
    read_quotas,
    read_token,
)
from broker.controller.zk.port import ZooKeeperSession
from broker.controller.zk.state_reader import (
    broker_entity,
    children_or_none,
    get_or_none,
    in_chunks,
)
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import ConfigKey, MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import ConfigRecord
from bus.protocol.quota_entities import USER

MAX_NOTIFICATIONS = 1_000
"""Notifications of a folder kept for slow brokers; older ones are removed. A broker that was away
longer reads everything anyway."""

log = logging.getLogger("broker.controller.zk")

NOTIFICATION_FOLDERS = (znodes.CONFIG_CHANGES, *acls.CHANGES.values(), tokens.CHANGES)
"""The folders of notifications."""

_KINDS = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER}


@dataclass(slots=True)
class NotifiedChanges:
    """What a notification led to: records for what differs, and the nodes as they were read (None:
    there is none)."""

    records: list[object] = field(default_factory=list)
    configs: dict[str, ConfigNode | None] = field(default_factory=dict)
    acls: dict[str, int | None] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


async def read_all_configs(session: ZooKeeperSession, image: MetadataImage) -> list[object]:
    """Records from the image to what the znodes hold."""
    records = await _read_all_acls_and_quotas(session, image)
    records += await _read_all_tokens(session, image)
    found: set[ConfigKey] = set()
    for folder in _KINDS:
        names = await children_or_none(session, f"/config/{folder}")
        entities = [f"{folder}/{name}" for name in names]
        for key, values in await in_chunks(entities, lambda one: _read_or_fault(session, one)):
            found.add(key)
            if values is not None:
                records += difference(image, key, values)
    for key in image.configs:
        if key not in found and key[0] in _KINDS.values():
            records += difference(image, key, {})
    return records


async def _read_all_acls_and_quotas(
    session: ZooKeeperSession, image: MetadataImage
) -> list[object]:
    records: list[object] = []
    known = dict.fromkeys(image.client_quotas)
    known |= {((USER, user),): None for _, user in image.scram}
    for one in await read_all_quotas(session):
        known.pop(one.entity, None)
        for fault in one.node.faults:
            log.error("left alone: %s", fault)
        records += quotas.difference(image, one.entity, one.node)
    for entity in known:
        records += quotas.difference(image, entity, quotas.QuotaNode())
    resources = {acls.resource_of(acl): None for acl in image.acls.values()}
    for found in await read_all_acls(session):
        resources.pop(found.resource, None)
        if found.fault:
            log.error("left alone: %s", found.fault)
        else:
            records += acls.difference(image, found.resource, found.rules)
    for resource in resources:
        records += acls.difference(image, resource, ())
    return records


async def _read_all_tokens(session: ZooKeeperSession, image: MetadataImage) -> list[object]:
    records: list[object] = []
    known = dict.fromkeys(image.delegation_tokens)
    for found in await read_all_tokens(session):
        known.pop(found.token_id, None)
        if found.fault:
            log.error("left alone: %s", found.fault)
        else:
            records += tokens.difference(image, found.token_id, found.token)
    for token_id in known:
        records += tokens.difference(image, token_id, None)
    return records


async def read_topic_configs(
    session: ZooKeeperSession, names: Iterable[str], image: MetadataImage
) -> list[object]:
    """The same for some topics."""
    entities = [f"topics/{name}" for name in names]
    found = await in_chunks(entities, lambda one: _read_or_fault(session, one))
    return [
        record
        for key, values in found
        if values is not None
        for record in difference(image, key, values)
    ]


async def read_notified_changes(
    session: ZooKeeperSession, folder: str, data: bytes, image: MetadataImage
) -> NotifiedChanges:
    """The same for what a notification names; kinds that are not kept here (client metrics) lead to
    nothing. Raises `ZnodeError` and ZooKeeperError."""
    if folder == tokens.CHANGES:
        return await _read_token(session, data, image)
    if folder != znodes.CONFIG_CHANGES:
        resource = acls.resource_of_notification(folder, data)
        return (
            NotifiedChanges() if resource is None else await _read_rules(session, resource, image)
        )
    entity = znodes.decode_change(folder, data)
    if entity is None:
        return NotifiedChanges()
    if entity.partition("/")[0] in _KINDS:
        node = await _read_node(session, entity)
        values = znodes.decode_config(f"/config/{entity}", node[1])
        return NotifiedChanges(
            difference(image, _key(entity), values), {f"/config/{entity}": node[0]}
        )
    found = await read_quotas(session, entity)
    if found is None:
        return NotifiedChanges()
    held = None if found.version == NO_NODE else ConfigNode(found.version, found.node.other_keys)
    return NotifiedChanges(
        quotas.difference(image, found.entity, found.node),
        {found.path: held},
        faults=found.node.faults,
    )


async def _read_token(
    session: ZooKeeperSession, data: bytes, image: MetadataImage
) -> NotifiedChanges:
    token_id = tokens.id_of_notification(data)
    if token_id is None:
        return NotifiedChanges()
    found = await read_token(session, token_id)
    if found.fault:
        return NotifiedChanges(faults=(found.fault,))
    return NotifiedChanges(tokens.difference(image, token_id, found.token))


async def _read_rules(
    session: ZooKeeperSession, resource: acls.ResourceKey, image: MetadataImage
) -> NotifiedChanges:
    found = await read_acls(session, resource)
    if found.fault:
        return NotifiedChanges(faults=(found.fault,))
    version = None if found.version == NO_NODE else found.version
    return NotifiedChanges(
        acls.difference(image, resource, found.rules), acls={acls.path_of(resource): version}
    )


async def _read_or_fault(
    session: ZooKeeperSession, entity: str
) -> tuple[ConfigKey, dict[str, str] | None]:
    """A malformed node is logged and changes nothing."""
    try:
        return await _read(session, entity)
    except znodes.ZnodeError as error:
        log.error("left alone: %s", error)
        return _key(entity), None


async def _read(session: ZooKeeperSession, entity: str) -> tuple[ConfigKey, dict[str, str]]:
    _, data = await _read_node(session, entity)
    return _key(entity), znodes.decode_config(f"/config/{entity}", data)


async def _read_node(
    session: ZooKeeperSession, entity: str
) -> tuple[ConfigNode | None, bytes]:
    found = await get_or_none(session, f"/config/{entity}")
    return (None, b"") if found is None else (ConfigNode(found[1].version), found[0])


def _key(entity: str) -> ConfigKey:
    folder, _, name = entity.partition("/")
    kind = _KINDS[folder]
    return (kind, broker_entity(name) if kind is ResourceType.BROKER else name)


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
