"""`cluster up`: the brokers of one cluster, kept alive on this machine.

In: settings, a plan. Out: supervised processes until Ctrl-C or SIGTERM. Never: the rest of the
product: `demo --brokers` starts that on such a cluster.
"""

from __future__ import annotations

from deploy.cluster.layout import ClusterPlan, plan_options
from deploy.cluster.processes import cluster_processes, metrics_pages
from deploy.settings.composed import Settings
from deploy.supervisor.state_file import CLUSTER_ADDRESSES
from deploy.supervisor.supervise import check_not_running, in_the_background, supervise


async def up(settings: Settings, plan: ClusterPlan) -> int:
    """Supervise until asked to stop; exit status 1 when a broker was given up."""
    processes = cluster_processes(settings, plan)
    check_not_running(settings.site.data_path, processes)
    folder = settings.site.data_path
    return await supervise(processes, folder, announcements=addresses(plan), about=about(plan))


def detach(settings: Settings, plan: ClusterPlan, words: list[str]) -> int:
    """The same in the background; `words` are those of the verb."""
    check_not_running(settings.site.data_path, cluster_processes(settings, plan))
    status = in_the_background(settings, ["cluster", "up", *words])
    print("\n".join(addresses(plan)))
    return status


def about(plan: ClusterPlan) -> dict[str, object]:
    """What `cluster status` and `secure convert` have to know of a cluster that runs, for the
    supervisor's state."""
    return {
        "cluster": plan_options(plan),
        CLUSTER_ADDRESSES: {
            "bus.bootstrap_servers": plan.bootstrap, "console.brokers": metrics_pages(plan),
        },
    }  # fmt: skip


def addresses(plan: ClusterPlan) -> list[str]:
    """Where everything answers, in words."""
    lines = [f"bootstrap servers: {plan.bootstrap}"]
    for node in plan.nodes:
        controller = f", controller on {node.controller_port}" if node.controller_port else ""
        lines.append(
            f"{node.name}: {node.address}{controller}, metrics http://127.0.0.1:{node.metrics_port}/metrics"
        )
    lines += [f"{server.name}: 127.0.0.1:{server.port}" for server in plan.zookeepers]
    return lines
