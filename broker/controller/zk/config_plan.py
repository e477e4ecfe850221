"""What changed configurations, quotas and rules of access mean in znodes.

In: the image after a decision, what the decision touched, the nodes as they were last read. Out:
writes conditional on what was read (a change by somebody else's hand is never overwritten), and the
notes by which brokers learn what to read again. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.controller.zk import acls, znodes
from broker.controller.zk.port import Create, Delete, Operation, SetData
from broker.controller.zk.quotas import CLIENTS, encode_node, entity_path
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import MetadataImage, QuotaEntity, ResourceType

Note = tuple[str, bytes]
"""A numbered node to make: how its path begins, and its data."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """What is known of the nodes that configurations stand in: every write is conditional on it."""

    configs: Mapping[str, ConfigNode] = field(default_factory=dict)
    acls: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ConfigPlan:
    """Writes, and what will be known of the nodes when they have happened. A version of None: the
    node is gone."""

    operations: list[Operation] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    configs: dict[str, ConfigNode] = field(default_factory=dict)
    acls: dict[str, int | None] = field(default_factory=dict)


def config_path(kind: ResourceType, name: str) -> str:
    """Below `/config`, as notes name it."""
    if kind is ResourceType.TOPIC:
        return f"topics/{name}"
    return f"brokers/{name or znodes.DEFAULT_ENTITY}"


def plan_configs(
    after: MetadataImage,
    configs: Iterable[tuple[ResourceType, str]],
    new_topics: Iterable[str],
    nodes: Nodes,
) -> ConfigPlan:
    """Configurations of topics and brokers; a new topic's is written in any case (an older topic of
    that name may have left one behind), and needs no note."""
    made = ConfigPlan()
    topics = {(ResourceType.TOPIC, name): None for name in new_topics}
    for key in dict.fromkeys((*configs, *topics)):
        path = config_path(*key)
        _write(made, nodes, path, znodes.encode_config(after.configs.get(key, {})))
        if key not in topics:
            made.notes.append(_note(path))
    return made


def add_quotas(
    made: ConfigPlan, after: MetadataImage, entities: Iterable[QuotaEntity], nodes: Nodes
) -> None:
    """Quotas; credentials that stand in the same node stay."""
    for entity in entities:
        path = entity_path(entity)
        if f"/{CLIENTS}/" in path:
            user = path.split(f"/{CLIENTS}/")[0]
            for folder in (user, f"{user}/{CLIENTS}"):
                if f"/config/{folder}" not in {**nodes.configs, **made.configs}:
                    made.operations.append(Create(f"/config/{folder}"))
                    made.configs[f"/config/{folder}"] = ConfigNode(0)
        held = nodes.configs.get(f"/config/{path}")
        kept = {} if held is None else held.kept
        data = encode_node(after.client_quotas.get(entity, {}), kept)
        _write(made, nodes, path, data, kept)
        made.notes.append(_note(path))


def add_acls(
    made: ConfigPlan, after: MetadataImage, resources: Iterable[acls.ResourceKey], nodes: Nodes
) -> None:
    """All rules about a resource stand in one node, which goes with the last of them."""
    for resource in resources:
        path = acls.path_of(resource)
        rules = [one for one in after.acls.values() if acls.resource_of(one) == resource]
        version = nodes.acls.get(path)
        if version is None:
            if rules:
                made.operations.append(Create(path, acls.encode_rules(rules)))
                made.acls[path] = 0
        elif rules:
            made.operations.append(SetData(path, acls.encode_rules(rules), version))
            made.acls[path] = version + 1
        else:
            made.operations.append(Delete(path, version))
            made.acls[path] = None
        made.notes.append(acls.note_of(resource))


def _write(
    made: ConfigPlan,
    nodes: Nodes,
    path: str,
    data: bytes,
    kept: Mapping[str, str] | None = None,
) -> None:
    full = f"/config/{path}"
    held = made.configs.get(full) or nodes.configs.get(full)
    if held is None:
        made.operations.append(Create(full, data))
        made.configs[full] = ConfigNode(0, kept or {})
    else:
        made.operations.append(SetData(full, data, held.version))
        made.configs[full] = ConfigNode(held.version + 1, kept or {})


def _note(path: str) -> Note:
    return znodes.CONFIG_CHANGE_PREFIX, znodes.encode_change(path)
