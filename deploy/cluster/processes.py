"""The processes of a cluster, for the supervisor.

In: settings and a plan. Out: `Child` values; the settings every other role then has. Never:
starting anything.
"""

from __future__ import annotations

import base64
import contextlib
import sys
import uuid
from collections.abc import Mapping

from deploy.cluster.layout import HOST, BrokerNode, ClusterPlan, ControllerKind, ZooKeeperNode
from deploy.cluster.zookeeper import EnsembleStores, ensemble_stores, write_config
from deploy.roles.table import ROLES, environment
from deploy.secure.layout import IN_FORCE
from deploy.settings.composed import Settings, with_changes
from deploy.supervisor.child import Child, ServiceEndpoint

READY_LINE = " ready on "
PORT_OPTION = "--port"


def cluster_settings(settings: Settings, plan: ClusterPlan) -> Settings:
    """The same settings for clients of this cluster."""
    changes = {
        "bus.bootstrap_servers": plan.bootstrap, "console.brokers": metrics_pages(plan),
    }  # fmt: skip
    if plan.controller is ControllerKind.ZOOKEEPER:
        changes["console.zookeeper"] = plan.nodes[0].properties["zookeeper.connect"]
    return with_changes(settings, changes)


def metrics_pages(plan: ClusterPlan) -> str:
    """Where each broker shows its metrics, as `[console] brokers` has it."""
    return ",".join(
        f"{node.node_id}=http://{HOST}:{node.metrics_port}/metrics" for node in plan.nodes
    )


def cluster_processes(settings: Settings, plan: ClusterPlan) -> list[Child]:
    """The ensemble first; all brokers at once, because a quorum waits for its members."""
    folder = settings.security.folder_path(settings.site)
    stores = ensemble_stores(folder) if plan.zookeepers else None
    servers = [zookeeper_process(node, stores=stores) for node in plan.zookeepers]
    needs = tuple(server.name for server in servers)
    more = {"cluster.id": cluster_id(plan)} if plan.controller is ControllerKind.KRAFT else {}
    return [*servers, *(_broker(settings, node, needs, more) for node in plan.nodes)]


def cluster_id(plan: ClusterPlan) -> str:
    """What all nodes are formatted with: made once, kept beside their data.

    Under ZooKeeper the first broker makes it and the ensemble keeps it.
    """
    path = plan.home / "cluster.id"
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="ascii").strip()
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    if made.startswith("-"):
        made = "A" + made[1:]  # as Kafka's own tool: an id must not look like an option
    plan.home.mkdir(parents=True, exist_ok=True)
    path.write_text(made + "\n", encoding="ascii")
    return made


def _broker(
    settings: Settings, node: BrokerNode, needs: tuple[str, ...], more: Mapping[str, str]
) -> Child:
    words = [sys.executable, "-m", "deploy", *settings.arguments]
    for key, value in {**node.properties, **more}.items():
        words += ["--set", f"broker.{key}={value}"]
    return Child(
        name=node.name,
        command=(*words, "run", "broker"),
        environment=environment(),
        needs=needs,
        endpoint=ServiceEndpoint(HOST, node.port, PORT_OPTION),
        ready_line=IN_FORCE if settings.security.folder else READY_LINE,
        stop_timeout_s=ROLES["broker"].stop_timeout_s,
    )


def zookeeper_process(
    node: ZooKeeperNode,
    name: str = "",
    port_option: str = "--zookeeper-port",
    *,
    stores: EnsembleStores | None = None,
) -> Child:
    """A ZooKeeper server; `name` is its own unless given. `stores`: of a secured site."""
    write_config(node, stores)
    return Child(
        name=name or node.name,
        command=(sys.executable, "-m", "deploy.cluster.zookeeper", str(node.folder)),
        environment=environment(),
        endpoint=ServiceEndpoint(HOST, node.port, port_option),
        stop_timeout_s=10,
    )
