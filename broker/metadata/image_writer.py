"""Writes an image as records: the contents of a snapshot of the metadata log.

It yields the fewest records that rebuild the image, each after the records it refers to. Offsets
and files are those of the quorum's snapshots. Property: replaying them on an empty image gives the
same image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from broker.metadata.image import (
    AclImage,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from broker.metadata.versions import METADATA_VERSION
from bus.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)


def image_records(image: MetadataImage) -> Iterator[object]:
    """Every record of a snapshot. metadata.version comes first: it says how to read the rest."""
    yield from _features(image)
    yield from (_controller(image.controllers[key]) for key in sorted(image.controllers))
    yield from (broker_as_record(image.brokers[key]) for key in sorted(image.brokers))
    for topic in image.topics.values():
        yield from topic_records(topic)
    yield from _configs(image)
    yield from _quotas(image)
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    yield from _access(image)
    if image.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    if image.transaction is not None:
        yield BeginTransactionRecord(name=None)
        yield from image.transaction


def topic_records(topic: TopicImage) -> Iterator[object]:
    """One topic with its partitions."""
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for partition in topic.partitions:
        yield partition_as_record(topic.topic_id, partition)


def partition_as_record(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
    """One partition as a whole."""
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=int(partition.recovery),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _features(image: MetadataImage) -> Iterator[object]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _controller(controller: ControllerImage) -> object:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=end.name,
                host=end.host,
                port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in controller.endpoints
        ],
        features=[
            ControllerFeature(
                name=one.name,
                min_supported_version=one.min_level,
                max_supported_version=one.max_level,
            )
            for one in controller.features
        ],
    )


def broker_as_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """One broker as it is registered."""
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=end.name,
                host=end.host,
                port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in broker.endpoints
        ],
        features=[
            BrokerFeature(
                name=one.name,
                min_supported_version=one.min_level,
                max_supported_version=one.max_level,
            )
            for one in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=list(broker.cordoned_log_dirs) or None,
    )


def acl_as_record(acl_id: bytes, acl: AclImage) -> AccessControlEntryRecord:
    """One entry of the access lists."""
    return AccessControlEntryRecord(id=acl_id, **asdict(acl))


def _configs(image: MetadataImage) -> Iterator[object]:
    for (kind, name), values in sorted(image.configs.items()):
        for key, value in sorted(values.items()):
            yield ConfigRecord(
                resource_type=int(ResourceType(kind)), resource_name=name, name=key, value=value
            )


def _quotas(image: MetadataImage) -> Iterator[object]:
    for entity, values in image.client_quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, value in sorted(values.items()):
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _access(image: MetadataImage) -> Iterator[object]:
    for acl_id, acl in image.acls.items():
        yield acl_as_record(acl_id, acl)
    yield from image.scram.values()
    yield from image.delegation_tokens.values()
