"""Reads quotas, credentials, ACLs and delegation tokens from their znodes (Kafka 3.9)."""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.zk import acls, tokens, znodes
from broker.controller.zk.port import ZooKeeperSession
from broker.controller.zk.quotas import (
    CLIENTS,
    FOLDERS,
    QuotaNode,
    decode_node,
    entity_of,
    records_of,
)
from broker.controller.zk.state_reader import (
    ZooKeeperMetadata,
    children_or_none,
    get_or_none,
    in_chunks,
)
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import AclImage, QuotaEntity
from bus.protocol.generated.metadata_records import DelegationTokenRecord

NO_NODE = -1
"""The version of a node that does not exist."""


@dataclass(frozen=True, slots=True)
class FoundQuotas:
    """One entity, and the version of its node."""

    entity: QuotaEntity
    path: str
    version: int
    node: QuotaNode


@dataclass(frozen=True, slots=True)
class FoundAcls:
    """The ACLs of one resource, and the version of its node."""

    resource: acls.ResourceKey
    version: int
    rules: tuple[AclImage, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class FoundToken:
    """One delegation token; neither a token nor a fault: there is no node."""

    token_id: str
    token: DelegationTokenRecord | None = None
    fault: str = ""


async def read_acls_and_quotas(session: ZooKeeperSession, state: ZooKeeperMetadata) -> None:
    """Adds everything to the metadata; malformed nodes become faults."""
    for quotas in await read_all_quotas(session):
        state.config_nodes[quotas.path] = ConfigNode(quotas.version, quotas.node.other_keys)
        state.faults += quotas.node.faults
        state.records += records_of(quotas.entity, quotas.node)
    users = await children_or_none(session, znodes.CONFIG_USERS)
    folders = [f"{znodes.CONFIG_USERS}/{user}/{CLIENTS}" for user in users]
    for folder, stat in zip(folders, await in_chunks(folders, session.exists), strict=True):
        if stat is not None:
            state.config_nodes[folder] = ConfigNode(stat.version)
    for found in await read_all_acls(session):
        state.acl_versions[acls.path_of(found.resource)] = found.version
        state.faults += [found.fault] if found.fault else []
        state.records += [acls.record_of(rule) for rule in found.rules]
    for one in await read_all_tokens(session):
        state.faults += [one.fault] if one.fault else []
        state.records += [] if one.token is None else [one.token]


async def read_all_quotas(session: ZooKeeperSession) -> list[FoundQuotas]:
    """`/config/users` with each user's clients, `/config/clients`, `/config/ips`."""
    paths: list[str] = []
    for folder in FOLDERS:
        names = await children_or_none(session, f"/config/{folder}")
        paths += [f"{folder}/{name}" for name in names]
    users = [one for one in paths if one.startswith("users/")]
    below = await in_chunks(
        users, lambda user: children_or_none(session, f"/config/{user}/{CLIENTS}")
    )
    for user, clients in zip(users, below, strict=True):
        paths += [f"{user}/{CLIENTS}/{client}" for client in clients]
    return [
        found
        for found in await in_chunks(paths, lambda path: read_quotas(session, path))
        if found is not None
    ]


async def read_quotas(session: ZooKeeperSession, path: str) -> FoundQuotas | None:
    """One entity's node, named as notifications name it; None if it is not an entity of quotas."""
    entity = entity_of(path)
    if entity is None:
        return None
    full = f"/config/{path}"
    found = await get_or_none(session, full)
    if found is None:
        return FoundQuotas(entity, full, NO_NODE, QuotaNode())
    return FoundQuotas(entity, full, found[1].version, decode_node(full, entity, found[0]))


async def read_all_acls(session: ZooKeeperSession) -> list[FoundAcls]:
    """`/kafka-acl` (literal names) and `/kafka-acl-extended/prefixed`."""
    resources: list[acls.ResourceKey] = []
    for pattern, root in acls.ROOTS.items():
        for kind in await children_or_none(session, root):
            if kind in acls.KINDS:
                names = await children_or_none(session, f"{root}/{kind}")
                resources += [(acls.KINDS[kind], name, pattern) for name in names]
    return await in_chunks(resources, lambda resource: read_acls(session, resource))


async def read_acls(session: ZooKeeperSession, resource: acls.ResourceKey) -> FoundAcls:
    """The ACLs of one resource."""
    path = acls.path_of(resource)
    found = await get_or_none(session, path)
    if found is None:
        return FoundAcls(resource, NO_NODE)
    try:
        return FoundAcls(resource, found[1].version, acls.decode_rules(resource, found[0]))
    except znodes.ZnodeError as error:
        return FoundAcls(resource, found[1].version, fault=str(error))


async def read_all_tokens(session: ZooKeeperSession) -> list[FoundToken]:
    """`/delegation_token/tokens`."""
    ids = await children_or_none(session, tokens.TOKENS)
    return await in_chunks(ids, lambda token_id: read_token(session, token_id))


async def read_token(session: ZooKeeperSession, token_id: str) -> FoundToken:
    """One delegation token."""
    found = await get_or_none(session, tokens.token_path(token_id))
    if found is None:
        return FoundToken(token_id)
    try:
        return FoundToken(token_id, tokens.decode_token(token_id, found[0]))
    except znodes.ZnodeError as error:
        return FoundToken(token_id, fault=str(error))
