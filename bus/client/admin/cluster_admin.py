"""One cluster, asked and changed by a program that knows it by its bootstrap servers. Blocking.

In: brokers, names, changes. Out: `ClusterView` and other values. Raises BusError. Never: a
decision; what to change is said by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bus.client.admin import commands, queries, site_keys
from bus.client.admin.config_resources import BROKER, TOPIC, ConfigChanges
from bus.client.admin.group_offsets import commit_offsets
from bus.client.admin.site_keys import SiteKeys
from bus.client.model import GroupOffsets, StoredReplica, TopicDescription, TopicPartition
from bus.client.wire.offset_requests import committed_offsets, offsets_of_groups
from bus.client.wire.ports import Address
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_confirmation import ConfirmedBy, SiteConfirmation
from bus.contracts.site_epoch import SiteEpoch
from bus.domain.site_epochs import Confirm, FormerPrimaryFence
from bus.errors import BusError, ErrorCode
from bus.protocol.acls import AclBinding, Resource
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from bus.protocol.generated.list_groups import ListGroupsRequest
from bus.settings import BusSettings

ALL_BROKERS = ""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster as it answered: where its brokers are, and its topics with their leaders."""

    cluster_id: str
    nodes: Mapping[int, Address]
    topics: Mapping[str, TopicDescription]

    @property
    def names_by_id(self) -> dict[bytes, str]:
        """Of topics."""
        return {topic.topic_id: name for name, topic in self.topics.items()}


class ClusterAdmin:
    """One connection per broker that was asked; closed with the object. `client`: for requests that
    have no method here."""

    def __init__(self, bus: BusSettings, client_id: str, **timeouts: int) -> None:
        """`timeouts`: as `SyncClient` takes them."""
        self.client = SyncClient.of(bus, client_id, **timeouts)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    # -- what it is ---------------------------------------------------------------------

    def view(self) -> ClusterView:
        """Brokers and topics, without configurations."""
        cluster = queries.cluster(self.client)
        nodes = {each.broker_id: Address(each.host, each.port) for each in cluster.alive}
        topics = {topic.name: topic for topic in queries.topics(self.client)}
        return ClusterView(cluster.cluster_id, nodes, topics)

    def supports(self, api_key: int) -> bool:
        """Whether the cluster serves this API."""
        return self.client.supports(api_key)

    def cluster_id(self) -> str:
        """Its id."""
        return queries.cluster(self.client).cluster_id

    def stored_replicas(self, broker: int) -> dict[TopicPartition, StoredReplica]:
        """Where each replica of a broker lies, and how large it is."""
        return {
            partition: StoredReplica(one.path, held.size_bytes)
            for one in queries.log_dirs(self.client, broker)
            for partition, held in one.replicas.items()
            if not held.future
        }

    # -- which site it is ---------------------------------------------------------------

    def site_number(self) -> int | None:
        """The number of the site in producer ids; None where the brokers know no such key."""
        return site_keys.site_number(self.client)

    def site_epoch(self) -> SiteEpoch | None:
        """The site epoch in force; None where there was none yet, or the brokers know no such
        key."""
        return self.site_keys().epoch

    def site_keys(self) -> SiteKeys:
        """The site epoch and who has confirmed it."""
        return site_keys.read(self.client)

    def confirm(self, confirmation: SiteConfirmation) -> None:
        """Of the site epoch in force there. Raises BusError INVALID_UPDATE_VERSION where it is
        another one."""
        site_keys.confirm(self.client, confirmation)

    def confirm_or_fence(
        self, one: Confirm | FormerPrimaryFence, by: ConfirmedBy, who: str, reason: str
    ) -> None:
        """What the other site's epoch means for this one."""
        site_keys.confirm_or_fence(self.client, one, by, who, reason)

    # -- topics -------------------------------------------------------------------------

    def with_configs(self, view: ClusterView, names: Iterable[str]) -> dict[str, TopicDescription]:
        """These topics with their effective configurations; one that is gone is left out."""
        found: dict[str, TopicDescription] = {}
        wanted = [name for name in names if name in view.topics]
        for result in queries.config_results(self.client, TOPIC, wanted):
            topic = view.topics.get(result.resource_name)
            if topic is not None and not result.error_code:
                configs = {e.name: e.value for e in result.configs if e.value is not None}
                found[topic.name] = replace(topic, configs=configs)
        return found

    def brokers_without(
        self, view: ClusterView, topics: Sequence[str], key: str, value: str
    ) -> list[int]:
        """Brokers that know another value of this key for one of the topics, or do not answer. One
        that does not live is none of them: it reads the metadata before it serves."""
        return [node for node in view.nodes if not self._all_have(node, topics, key, value)]

    def _all_have(self, node: int, topics: Sequence[str], key: str, value: str) -> bool:
        for chunk in queries.chunks(topics):
            request = DescribeConfigsRequest(
                resources=[DescribeConfigsResource(TOPIC, name, [key]) for name in chunk]
            )
            try:
                answer = self.client.request_node(node, ApiKey.DESCRIBE_CONFIGS, request)
            except BusError as error:
                if not (error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE):
                    raise
                return False
            for result in answer.results:
                if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # deleted meanwhile: nobody commits there
                if value not in [one.value for one in result.configs if one.name == key]:
                    return False
        return True

    def alter_topics(
        self, topics: Mapping[str, ConfigChanges], *, cluster: ConfigChanges = ()
    ) -> None:
        """Keys of many topics, in several requests. `cluster`: keys of the cluster that go with
        each of them, as a condition. Raises BusError at the first refusal; repeating is harmless.
        """
        of_cluster = {(BROKER, ALL_BROKERS): cluster} if cluster else {}
        chunks = queries.chunks(topics) or ([[]] if cluster else [])
        for chunk in chunks:
            changes = {**of_cluster, **{(TOPIC, name): topics[name] for name in chunk}}
            request = commands.alter_configs_request(changes)
            answer = self.client.request_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
            for result in answer.responses:
                message = result.error_message
                if result.error_code != ErrorCode.INVALID_UPDATE_VERSION:  # of the cluster's key
                    message = f"{result.resource_name}: {message}"
                queries.raise_for_error(result.error_code, message)

    def create_topic(
        self, name: str, partitions: int, *, replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """-1 is what the brokers' configuration says."""
        commands.create_topic(
            self.client, name, partitions=partitions, replication_factor=replication_factor,
            configs=configs,
        )  # fmt: skip

    def add_partitions(self, name: str, count: int) -> None:
        """Raise their number to `count`."""
        commands.add_partitions(self.client, name, count)

    def delete_topic(self, name: str) -> None:
        """With all that is in it."""
        commands.delete_topic(self.client, name)

    # -- ACLs and groups ----------------------------------------------------------------

    def acls(self, resources: Iterable[Resource]) -> list[AclBinding]:
        """All of these kinds of resources. Raises BusError: SECURITY_DISABLED where there is no
        authorizer."""
        return [acl for resource in resources for acl in queries.acls(self.client, resource)]

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Raises BusError where one is refused."""
        commands.create_acls(self.client, acls)

    def groups(self, view: ClusterView) -> dict[str, tuple[int, GroupOffsets]]:
        """Every group with its coordinator and what it has committed."""
        found: dict[str, tuple[int, GroupOffsets]] = {}
        for node in view.nodes:
            listed = self.client.request_node(node, ApiKey.LIST_GROUPS, ListGroupsRequest())
            groups = [one.group_id for one in listed.groups]
            if not groups:
                continue
            request = offsets_of_groups(groups)
            answer = self.client.request_node(node, ApiKey.OFFSET_FETCH, request)
            for group, offsets in committed_offsets(answer, view.names_by_id).items():
                found[group] = node, offsets
        return found

    def commit(self, view: ClusterView, group: str, node: int, offsets: GroupOffsets) -> None:
        """As nobody's member: refused where the group has members."""
        ids = {name: topic.topic_id for name, topic in view.topics.items()}
        commit_offsets(self.client, node, group, offsets, ids)
