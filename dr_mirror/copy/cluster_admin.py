"""What one of the two clusters holds, and the changes a plan makes to it. Blocking; for a thread.

In: brokers, plans. Out: `ClusterView`. Raises BusError. Core: `dr_mirror.topics.topics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bus.client.admin import commands, queries, site_keys
from bus.client.admin.config_resources import TOPIC, AlterConfigOp, ConfigChanges
from bus.client.admin.site_keys import SiteKeys
from bus.client.model import AclBinding, StoredReplica, TopicDescription, TopicPartition
from bus.client.wire.ports import Address
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY, ConfirmedBy, SiteConfirmation
from bus.contracts.site_epoch import SiteEpoch
from bus.domain.site_epochs import Confirm, FormerPrimaryFence
from bus.errors import BusError
from bus.protocol.acls import Resource
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.describe_acls import DescribeAclsRequest
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from bus.settings import BusSettings
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.topics.topics import MirrorTopic, TopicPlan

ANY = 1
"""Of a filter of ACLs: all patterns, operations, permissions."""
TOPICS_AT_ONCE = 200
"""Topics whose configurations are asked or changed in one request: an answer of about a megabyte;
one batch of the metadata log, one multi of ZooKeeper."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster as it answered: where its brokers are, and its topics with their leaders."""

    cluster_id: str
    nodes: Mapping[int, Address]
    topics: Mapping[str, TopicDescription]


class ClusterAdmin:
    """One connection per broker that was asked; closed with the object."""

    def __init__(
        self, bus: BusSettings, client_id: str, names: TopicNames = SAME_NAMES
    ) -> None:
        """With `names`, the target of a mirror: topics are called as at its source, and those that
        the mirror would call otherwise are not seen."""
        self._client = SyncClient.of(bus, client_id)
        self._names = names

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def view(self) -> ClusterView:
        """Brokers and topics, without configurations."""
        cluster = queries.cluster(self._client)
        nodes = {each.broker_id: Address(each.host, each.port) for each in cluster.alive}
        topics = {
            name: topic
            for topic in queries.topics(self._client)
            if (name := self._names.at_source(topic.name)) is not None
        }
        return ClusterView(cluster.cluster_id, nodes, topics)

    def supports(self, api_key: int) -> bool:
        """Whether the cluster serves this API."""
        return self._client.supports(api_key)

    def cluster_id(self) -> str:
        """Its id."""
        return queries.cluster(self._client).cluster_id

    def site_number(self) -> int | None:
        """The number of the site in producer ids; None where the brokers know no such key."""
        return site_keys.site_number(self._client)

    def site_epoch(self) -> SiteEpoch | None:
        """The site epoch in force; None where there was none yet, or the brokers know no such
        key."""
        return self.site_keys().epoch

    def site_keys(self) -> SiteKeys:
        """The site epoch and who has confirmed it."""
        return site_keys.read(self._client)

    def confirm(self, confirmation: SiteConfirmation) -> None:
        """Of the site epoch in force there. Raises BusError INVALID_UPDATE_VERSION where it is
        another one."""
        site_keys.confirm(self._client, confirmation)

    def confirm_or_fence(
        self, one: Confirm | FormerPrimaryFence, by: ConfirmedBy, who: str, reason: str
    ) -> None:
        """What the other site's epoch means for this one."""
        site_keys.confirm_or_fence(self._client, one, by, who, reason)

    def mark(self, topics: Iterable[str], target_cluster_id: str) -> None:
        """Let these topics say that they are copied to that cluster."""
        names = sorted(topics)
        change: ConfigChanges = [(TARGET_CLUSTER_KEY, AlterConfigOp.SET, target_cluster_id)]
        for begin in range(0, len(names), TOPICS_AT_ONCE):
            chunk = names[begin : begin + TOPICS_AT_ONCE]
            request = commands.alter_configs_request({(TOPIC, name): change for name in chunk})
            answer = self._client.request_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
            for result in answer.responses:
                queries.raise_for_error(result.error_code, result.error_message)

    def with_configs(self, view: ClusterView, names: Iterable[str]) -> dict[str, MirrorTopic]:
        """These topics with their effective configurations; one that is gone is left out."""
        wanted = sorted(name for name in names if name in view.topics)
        found: dict[str, MirrorTopic] = {}
        for begin in range(0, len(wanted), TOPICS_AT_ONCE):
            chunk = wanted[begin : begin + TOPICS_AT_ONCE]
            resources = [
                DescribeConfigsResource(TOPIC, self._names.at_target(name), None) for name in chunk
            ]
            answer = self._client.request(
                ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources)
            )
            for result in answer.results:
                name = self._names.at_source(result.resource_name)
                topic = view.topics.get(name) if name is not None else None
                if name is not None and topic is not None and not result.error_code:
                    configs = {e.name: e.value for e in result.configs if e.value is not None}
                    found[name] = MirrorTopic(
                        name, topic.topic_id, len(topic.partitions), configs
                    )
        return found

    def stored_replicas(self, broker: int) -> dict[TopicPartition, StoredReplica]:
        """Where each replica of a broker lies, and how large it is."""
        return {
            TopicPartition(name, partition.partition): StoredReplica(one.path, held.size_bytes)
            for one in queries.log_dirs(self._client, broker)
            for partition, held in one.replicas.items()
            if not held.future and (name := self._names.at_source(partition.topic)) is not None
        }

    def acls(self, resources: Iterable[Resource]) -> list[AclBinding]:
        """All of these kinds of resources. Raises BusError: SECURITY_DISABLED where there is no
        authorizer."""
        found: list[AclBinding] = []
        for resource in resources:
            request = DescribeAclsRequest(
                resource, None, ANY, principal_filter=None, host_filter=None, operation=ANY,
                permission_type=ANY,
            )  # fmt: skip
            answer = self._client.request(ApiKey.DESCRIBE_ACLS, request)
            queries.raise_for_error(answer.error_code, answer.error_message)
            found += [
                AclBinding(
                    one.resource_type, one.resource_name, one.pattern_type, acl.principal,
                    acl.host, acl.operation, acl.permission_type,
                )
                for one in answer.resources
                for acl in one.acls
            ]  # fmt: skip
        return found

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Raises BusError where one is refused."""
        request = CreateAclsRequest([AclCreation(*each) for each in acls])
        answer = self._client.request_controller(ApiKey.CREATE_ACLS, request)
        for result in answer.results:
            queries.raise_for_error(result.error_code, result.error_message)

    def apply(self, plan: TopicPlan, replication_factor: int) -> str:
        """Make the plan's changes; why the cluster refused one, or empty."""
        name = self._names.at_target(plan.name)
        try:
            if plan.create:
                commands.create_topic(
                    self._client, name, partitions=plan.copied,
                    replication_factor=replication_factor, configs=plan.configure,
                )  # fmt: skip
                return ""
            if plan.configure:
                changes = [(k, AlterConfigOp.SET, v) for k, v in sorted(plan.configure.items())]
                commands.alter_configs(self._client, {(TOPIC, name): changes})
            if plan.add_to:
                commands.add_partitions(self._client, name, plan.add_to)
        except BusError as error:
            return f"{error.code.name}: {error.detail or error.code.text}"
        return ""
