"""Plans the znode writes of changed configurations, quotas, ACLs and delegation tokens.

In: the image after a decision, what the decision touched, the nodes as they were last read. Out:
writes conditional on what was read (a manual change is never overwritten), and the notifications by
which brokers learn what to read again. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.controller.zk import acls, tokens, znodes
from broker.controller.zk.port import Create, Delete, Operation, SetData
from broker.controller.zk.quotas import CLIENTS, credential_texts, encode_node, entity_path
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import MetadataImage, QuotaEntity, ResourceType

ChangeNotification = tuple[str, bytes]
"""A numbered node to create: the prefix of its path, and its data."""


@dataclass(frozen=True, slots=True)
class KnownConfigNodes:
    """The known configuration nodes: every write is conditional on them."""

    configs: Mapping[str, ConfigNode] = field(default_factory=dict)
    acls: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ConfigPlan:
    """Writes, and the known nodes after them. A version of None: the node is removed."""

    operations: list[Operation] = field(default_factory=list)
    notifications: list[ChangeNotification] = field(default_factory=list)
    configs: dict[str, ConfigNode] = field(default_factory=dict)
    acls: dict[str, int | None] = field(default_factory=dict)


def config_path(kind: ResourceType, name: str) -> str:
    """Below `/config`, as notifications name it."""
    if kind is ResourceType.TOPIC:
        return f"topics/{name}"
    return f"brokers/{name or znodes.DEFAULT_ENTITY}"


def plan_configs(
    after: MetadataImage,
    configs: Iterable[tuple[ResourceType, str]],
    new_topics: Iterable[str],
    nodes: KnownConfigNodes,
) -> ConfigPlan:
    """Configurations of topics and brokers; a new topic's is written in any case (an older topic of
    that name may have left one behind), and needs no note."""
    plan = ConfigPlan()
    topics = {(ResourceType.TOPIC, name): None for name in new_topics}
    for key in dict.fromkeys((*configs, *topics)):
        path = config_path(*key)
        _write(plan, nodes, path, znodes.encode_config(after.configs.get(key, {})))
        if key not in topics:
            plan.notifications.append(_notification(path))
    return plan


def add_quotas(
    plan: ConfigPlan,
    after: MetadataImage,
    entities: Iterable[QuotaEntity],
    nodes: KnownConfigNodes,
    changed_credentials: Iterable[tuple[int, str]] = (),
) -> None:
    """Quotas, and these credentials (mechanism, user); others that stand in the same node stay."""
    credentials = credential_texts(after, changed_credentials)
    for entity in entities:
        path = entity_path(entity)
        if f"/{CLIENTS}/" in path:
            user = path.split(f"/{CLIENTS}/")[0]
            for folder in (user, f"{user}/{CLIENTS}"):
                if f"/config/{folder}" not in {**nodes.configs, **plan.configs}:
                    plan.operations.append(Create(f"/config/{folder}"))
                    plan.configs[f"/config/{folder}"] = ConfigNode(0)
        held = nodes.configs.get(f"/config/{path}")
        changed = credentials.get(path, {})
        known = {} if held is None else held.other_keys
        kept = {name: text for name, text in known.items() if name not in changed}
        other_keys = kept | {name: text for name, text in changed.items() if text is not None}
        data = encode_node(after.client_quotas.get(entity, {}), other_keys)
        _write(plan, nodes, path, data, other_keys)
        plan.notifications.append(_notification(path))


def add_acls(
    plan: ConfigPlan,
    after: MetadataImage,
    resources: Iterable[acls.ResourceKey],
    nodes: KnownConfigNodes,
) -> None:
    """All ACLs of a resource are in one node, which is removed with the last of them."""
    for resource in resources:
        path = acls.path_of(resource)
        rules = [one for one in after.acls.values() if acls.resource_of(one) == resource]
        version = nodes.acls.get(path)
        if version is None:
            if rules:
                plan.operations.append(Create(path, acls.encode_rules(rules)))
                plan.acls[path] = 0
        elif rules:
            plan.operations.append(SetData(path, acls.encode_rules(rules), version))
            plan.acls[path] = version + 1
        else:
            plan.operations.append(Delete(path, version))
            plan.acls[path] = None
        plan.notifications.append(acls.notification_of(resource))


def add_tokens(
    plan: ConfigPlan, before: MetadataImage, after: MetadataImage, token_ids: Iterable[str]
) -> None:
    """Written whatever they are now, as Kafka does: only who knows the secret key makes one."""
    for token_id in token_ids:
        path, token = tokens.token_path(token_id), after.delegation_tokens.get(token_id)
        is_there = token_id in before.delegation_tokens
        if token is None and not is_there:
            continue
        if token is None:
            plan.operations.append(Delete(path))
        elif is_there:
            plan.operations.append(SetData(path, tokens.encode_token(token)))
        else:
            plan.operations.append(Create(path, tokens.encode_token(token)))
        plan.notifications.append((tokens.CHANGE_PREFIX, token_id.encode()))


def _write(
    plan: ConfigPlan,
    nodes: KnownConfigNodes,
    path: str,
    data: bytes,
    other_keys: Mapping[str, str] | None = None,
) -> None:
    full = f"/config/{path}"
    held = plan.configs.get(full) or nodes.configs.get(full)
    if held is None:
        plan.operations.append(Create(full, data))
        plan.configs[full] = ConfigNode(0, other_keys or {})
    else:
        plan.operations.append(SetData(full, data, held.version))
        plan.configs[full] = ConfigNode(held.version + 1, other_keys or {})


def _notification(path: str) -> ChangeNotification:
    return znodes.CONFIG_CHANGE_PREFIX, znodes.encode_change(path)
