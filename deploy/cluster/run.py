"""`cluster up`: the brokers of one cluster, kept alive on this machine.

In: settings, a plan. Out: supervised processes until Ctrl-C or SIGTERM. Never: the rest of the
product: `demo --brokers` starts that on such a cluster.
"""

from __future__ import annotations

from deploy.cluster.children import cluster_children
from deploy.cluster.layout import ClusterPlan
from deploy.settings import Settings
from deploy.up import in_the_background, refuse_if_taken, supervise


async def up(settings: Settings, plan: ClusterPlan) -> int:
    """Supervise until asked to stop; exit status 1 when a broker was given up."""
    processes = cluster_children(settings, plan)
    refuse_if_taken(settings.site.data_path, processes)
    return await supervise(processes, settings.site.data_path, told=addresses(plan))


def detach(settings: Settings, plan: ClusterPlan, words: list[str]) -> int:
    """The same in the background; `words` are those of the verb."""
    refuse_if_taken(settings.site.data_path, cluster_children(settings, plan))
    return in_the_background(settings, ["cluster", "up", *words])


def addresses(plan: ClusterPlan) -> list[str]:
    """Where everything answers, in words."""
    said = [f"bootstrap servers: {plan.bootstrap}"]
    for node in plan.nodes:
        controller = f", controller on {node.controller_port}" if node.controller_port else ""
        said.append(
            f"{node.name}: {node.address}{controller}, metrics http://127.0.0.1:{node.metrics_port}/metrics"
        )
    said += [f"{server.name}: 127.0.0.1:{server.port}" for server in plan.zookeepers]
    return said
