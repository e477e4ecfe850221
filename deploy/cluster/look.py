"""How a cluster on this machine is: what its supervisor says, and what its brokers say.

In: settings of a data directory. Out: one row per process. Never: a change, a wait without a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, ClusterMetadata

from bus.client.config import admin_config
from bus.settings import BusSettings
from deploy.cluster.layout import ClusterPlan
from deploy.settings import Settings
from deploy.state_file import is_held, read_state

ASK_TIMEOUT_S = 5.0


def rows(settings: Settings, plan: ClusterPlan) -> list[dict[str, Any]]:
    """Every process of the plan: state, process, restarts; of brokers also what they lead."""
    folder = settings.site.data_path
    state = (read_state(folder) or {}).get("roles", {}) if is_held(folder) else {}
    metadata = ask(plan.bootstrap) if state else None
    found = [_process(server.name, f"127.0.0.1:{server.port}", state) for server in plan.zookeepers]
    for node in plan.nodes:
        row = _process(node.name, node.address, state)
        row |= {"node_id": node.node_id, "metrics_port": node.metrics_port}
        if node.controller_port:
            row["controller_port"] = node.controller_port
        if metadata is not None:
            row |= _of_broker(node.node_id, metadata)
        found.append(row)
    for row in found:
        row["log"] = str(folder / "log" / f"{row['name']}.log")
    return found


def ask(bootstrap: str) -> ClusterMetadata | None:
    """The cluster's metadata from any broker that answers; None where none does."""
    settings = BusSettings(bootstrap_servers=bootstrap)
    try:
        return AdminClient(admin_config(settings, "databus-cluster")).list_topics(
            timeout=ASK_TIMEOUT_S
        )
    except confluent_kafka.KafkaException:
        return None


def faults(metadata: ClusterMetadata | None) -> Counter[str]:
    """Partitions that are under-replicated, and those without a leader."""
    count: Counter[str] = Counter()
    for partition in _partitions(metadata):
        count["under_replicated"] += len(partition.isrs) < len(partition.replicas)
        count["offline"] += partition.leader < 0
        count["partitions"] += 1
    return count


def _process(name: str, address: str, state: dict[str, Any]) -> dict[str, Any]:
    role = state.get(name, {})
    return {
        "name": name,
        "address": address,
        "state": role.get("state", "stopped"),
        "pid": role.get("pid"),
        "restarts": role.get("restarts", 0),
    }


def _of_broker(node_id: int, metadata: ClusterMetadata) -> dict[str, Any]:
    partitions = list(_partitions(metadata))
    return {
        "registered": node_id in metadata.brokers,
        "controller": node_id == metadata.controller_id,
        "leads": sum(1 for each in partitions if each.leader == node_id),
        "replicas": sum(1 for each in partitions if node_id in each.replicas),
        "in_sync": sum(1 for each in partitions if node_id in each.isrs),
    }


def _partitions(metadata: ClusterMetadata | None) -> Iterable[Any]:
    for topic in metadata.topics.values() if metadata else ():
        yield from topic.partitions.values()
