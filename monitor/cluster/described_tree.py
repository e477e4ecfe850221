"""A cluster's metadata as its brokers describe them, for who may not read the metadata themselves.

In: answers of brokers. Out: a tree of the shape of `monitor.cluster.tree`. Pure. Never: what only a
controller knows (producer ids, registrations), nor users: their passwords' hashes lie beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bus.client.model import (
    ClusterDescription,
    ConfigEntry,
    PartitionDescription,
    QuorumDescription,
    TopicDescription,
)
from bus.protocol.acls import AclBinding
from monitor.cluster.tree import Tree, id_text

DYNAMIC_SOURCES = frozenset({1, 2, 3})
"""Of a topic, a broker, all brokers: what stands in the metadata; the rest stands in files."""


def described_tree(
    cluster: ClusterDescription,
    topics: Sequence[TopicDescription],
    quorum: QuorumDescription | None,
    configs: Mapping[str, Iterable[ConfigEntry]],
    acls: Iterable[AclBinding],
) -> Tree:
    """`configs`: by the name that the tree has for a resource, as `topic data.face`. Branches with
    nothing in them are left out."""
    brokers = {
        str(one.broker_id): {
            "host": one.host, "port": one.port, "rack": one.rack, "fenced": one.fenced,
        }
        for one in cluster.brokers
    }  # fmt: skip
    tree: Tree = {
        "cluster": {"id": cluster.cluster_id},
        "brokers": brokers,
        "quorum": {} if quorum is None else _quorum(quorum),
        "topics": {topic.name: _topic(topic) for topic in topics},
        "configs": {name: own for name, entries in configs.items() if (own := _dynamic(entries))},
        "acls": {str(at): acl.text for at, acl in enumerate(sorted(acls), 1)},
    }
    return {name: branch for name, branch in tree.items() if branch}


def _topic(topic: TopicDescription) -> Tree:
    partitions = {str(one.index): _partition(one) for one in topic.partitions}
    return {"id": id_text(topic.topic_id), "partitions": partitions}


def _partition(one: PartitionDescription) -> Tree:
    return {
        "replicas": list(one.replicas), "isr": list(one.isr), "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        **({"eligible_leader_replicas": list(one.elr)} if one.elr else {}),
    }  # fmt: skip


def _quorum(quorum: QuorumDescription) -> Tree:
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": {str(one.node_id): one.end_offset for one in quorum.voters},
        "observers": {str(one.node_id): one.end_offset for one in quorum.observers},
    }


def _dynamic(entries: Iterable[ConfigEntry]) -> dict[str, Any]:
    """A secret's value comes from no broker."""
    return {
        one.name: "(secret)" if one.sensitive else one.value
        for one in entries
        if one.source in DYNAMIC_SOURCES
    }
