"""One side of the mirror: what a cluster holds, in the source's names, and a plan's changes to it.

In: the cluster's admin, plans. Out: `ClusterView`, `MirrorTopic`s. Blocking; for a thread. Raises
BusError. Core: `dr_mirror.topics.topics`. Never: a topic that the mirror would call otherwise seen
at the target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bus.client.admin import commands
from bus.client.admin.cluster_admin import ClusterAdmin, ClusterView
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.admin.leader_requests import LeaderRequests
from bus.client.model import StoredReplica, TopicPartition
from bus.errors import BusError
from bus.settings import BusSettings
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.topics.topics import MirrorTopic, TopicPlan, mirror_topic


class MirroredCluster:
    """With `names`, the target: its topics are called as at its source."""

    def __init__(
        self, bus: BusSettings, client_id: str, names: TopicNames = SAME_NAMES
    ) -> None:
        self.admin = ClusterAdmin(bus, client_id)
        self._names = names

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()

    def view(self) -> ClusterView:
        """Brokers and topics, without configurations."""
        found = self.admin.view()
        topics = {
            name: topic
            for at_target, topic in found.topics.items()
            if (name := self._names.at_source(at_target)) is not None
        }
        return replace(found, topics=topics)

    def with_configs(self, view: ClusterView, names: Iterable[str]) -> dict[str, MirrorTopic]:
        """These topics with their effective configurations; one that is gone is left out."""
        called = {view.topics[name].name: name for name in names if name in view.topics}
        found = self.admin.with_configs(_own(view), called)
        return {called[each]: mirror_topic(topic, called[each]) for each, topic in found.items()}

    def stored_replicas(self, broker: int) -> dict[TopicPartition, StoredReplica]:
        """Where each replica of a broker lies, and how large it is."""
        return {
            TopicPartition(name, partition.partition): stored
            for partition, stored in self.admin.stored_replicas(broker).items()
            if (name := self._names.at_source(partition.topic)) is not None
        }

    def ends(
        self, view: ClusterView, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """High watermarks; a partition without a leader that answers is left out."""
        called = {
            TopicPartition(view.topics[name].name, index): TopicPartition(name, index)
            for name, index in partitions
        }
        leaders = LeaderRequests(self.admin.client)
        leaders.view = _own(view)
        return {called[each]: end for each, end in leaders.ends(called).items()}

    def apply(self, plan: TopicPlan, replication_factor: int) -> str:
        """Make the plan's changes; why the cluster refused one, or empty."""
        try:
            self._apply(plan, self._names.at_target(plan.name), replication_factor)
        except BusError as error:
            return f"{error.code.name}: {error.detail or error.code.text}"
        return ""

    def _apply(self, plan: TopicPlan, name: str, replication_factor: int) -> None:
        if plan.create:
            self.admin.create_topic(
                name, plan.copied, replication_factor=replication_factor, configs=plan.configure
            )
            return
        if plan.configure:
            changes = [(k, AlterConfigOp.SET, v) for k, v in sorted(plan.configure.items())]
            commands.alter_configs(self.admin.client, {(TOPIC, name): changes})
        if plan.add_to:
            self.admin.add_partitions(name, plan.add_to)


def _own(view: ClusterView) -> ClusterView:
    """The view in the cluster's own names."""
    return replace(view, topics={topic.name: topic for topic in view.topics.values()})
