"""How a cluster on this machine is: what its supervisor says, and what its brokers say.

In: settings of a data directory. Out: one row per process. Never: a change, a wait without a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bus.client.admin import queries
from bus.client.model import PartitionDescription, TopicDescription
from bus.client.wire.sync_client import SyncClient
from bus.settings import BusSettings
from deploy.cluster.layout import DEFAULT_BROKERS, ClusterPlan, ControllerKind, plan
from deploy.settings.composed import Settings
from deploy.supervisor.state_file import is_held, read_state

CLIENT_ID = "databus-cluster"
ASK_TIMEOUT_MS = 5_000


@dataclass(frozen=True)
class ClusterStatus:
    """What the brokers say: those that may lead, the active controller, the topics."""

    alive: frozenset[int]
    controller_id: int
    topics: tuple[TopicDescription, ...]

    @property
    def partitions(self) -> Iterator[PartitionDescription]:
        """Of all topics."""
        for topic in self.topics:
            yield from topic.partitions


def plan_of(folder: Path, given: Mapping[str, Any]) -> ClusterPlan:
    """The cluster that runs on this data directory, else the one of the defaults; what is `given`
    and is not None counts first."""
    running = (read_state(folder) or {}).get("cluster", {}) if is_held(folder) else {}
    words = {"brokers": DEFAULT_BROKERS, "controller": ControllerKind.KRAFT, **running}
    words |= {name: value for name, value in given.items() if value is not None}
    return plan(folder, **{**words, "controller": ControllerKind(words["controller"])})


def rows(settings: Settings, plan: ClusterPlan, seen: ClusterStatus | None) -> list[dict[str, Any]]:
    """Every process of the plan: state, process, restarts; of brokers also what they lead."""
    folder = settings.site.data_path
    state = (read_state(folder) or {}).get("roles", {}) if is_held(folder) else {}
    found = [_process(server.name, f"127.0.0.1:{server.port}", state) for server in plan.zookeepers]
    for node in plan.nodes:
        row = _process(node.name, node.address, state)
        row |= {"node_id": node.node_id, "metrics_port": node.metrics_port}
        if node.controller_port:
            row["controller_port"] = node.controller_port
        if seen is not None:
            row |= _broker_columns(node.node_id, seen)
        found.append(row)
    for row in found:
        row["log"] = str(folder / "log" / f"{row['name']}.log")
    return found


def fetch_status(bus: BusSettings) -> ClusterStatus:
    """The cluster as any broker that answers sees it. Raises BusError where none does.

    The active controller is asked of the quorum, where there is one: as in Kafka, the controller
    of the metadata and of DescribeCluster is just a broker that takes administrative requests.
    """
    with SyncClient.of(bus, CLIENT_ID, request_timeout_ms=ASK_TIMEOUT_MS) as nodes:
        cluster, quorum = queries.cluster(nodes), queries.quorum_or_none(nodes)
        return ClusterStatus(
            alive=frozenset(broker.broker_id for broker in cluster.alive),
            controller_id=quorum.leader_id if quorum else cluster.controller_id,
            topics=tuple(queries.topics(nodes)),
        )


def count_faults(seen: ClusterStatus) -> Counter[str]:
    """Partitions that are under-replicated, and those without a leader."""
    count: Counter[str] = Counter()
    for partition in seen.partitions:
        count["under_replicated"] += partition.under_replicated
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


def _broker_columns(node_id: int, seen: ClusterStatus) -> dict[str, object]:
    partitions = list(seen.partitions)
    return {
        "registered": node_id in seen.alive,
        "controller": node_id == seen.controller_id,
        "leads": sum(1 for each in partitions if each.leader == node_id),
        "replicas": sum(1 for each in partitions if node_id in each.replicas),
        "in_sync": sum(1 for each in partitions if node_id in each.isr),
    }
