"""Replays metadata records on an image and yields the next image. Pure.

In: the records of `__cluster_metadata-0`, by offset. Out: the next image, and which topics,
partitions, configurations and brokers differ, so that each subscriber handles only its own.
Never: I/O. No other code changes an image (decide, record, replay). Kafka: MetadataDelta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from broker.metadata.delta_topics import LEADER_NOT_CHANGED, TopicsDelta
from broker.metadata.image import (
    AclImage,
    BrokerImage,
    ConfigKey,
    ControllerImage,
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
    frozen,
)
from bus.protocol.generated.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

__all__ = ["LEADER_NOT_CHANGED", "Changes", "MetadataDelta"]


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two images, by name. A recreated topic is in both topic sets."""

    image: MetadataImage
    deleted_topics: tuple[TopicImage, ...] = ()
    changed_partitions: tuple[tuple[TopicImage, PartitionImage], ...] = ()
    changed_configs: tuple[ConfigKey, ...] = ()
    changed_brokers: tuple[int, ...] = ()
    changed_features: tuple[str, ...] = ()
    changed_quotas: tuple[QuotaEntity, ...] = ()
    previous: MetadataImage = field(default_factory=MetadataImage)


@dataclass(slots=True)
class MetadataDelta:
    """Records replayed on `base`.

    Invariant: `base` is never touched, and what no record changes is shared with it; `apply` may
    be called once.
    """

    base: MetadataImage
    _topics: TopicsDelta = field(init=False)
    _maps: dict[str, dict[Any, Any]] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _configs: dict[ConfigKey, None] = field(default_factory=dict)
    _brokers: dict[int, None] = field(default_factory=dict)
    _features: dict[str, None] = field(default_factory=dict)
    _quotas: dict[QuotaEntity, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._topics = TopicsDelta(self.base)

    def replay(self, record: object) -> None:
        """Replay one record. Inside a metadata transaction (KIP-868) records wait for its end."""
        kind = type(record).__name__
        waiting = self._values.get("transaction", self.base.transaction)
        if kind in _TRANSACTION:
            _TRANSACTION[kind](self, record)
        elif waiting is not None:
            self._values["transaction"] = (*waiting, record)
        else:
            self._replay(kind, record)

    def _replay(self, kind: str, record: object) -> None:
        """A kind that nothing here uses (NoOpRecord, one of a later Kafka) changes nothing."""
        handler = _REPLAY.get(kind)
        if handler is not None:
            handler(self, record)

    def apply(self, offset: int, epoch: int) -> Changes:
        """The next image, `offset` being that of the last record replayed."""
        topics, names = self._topics.apply()
        changed: dict[str, Any] = {name: frozen(held) for name, held in self._maps.items()}
        changed |= self._values
        image = replace(
            self.base, offset=offset, epoch=epoch, topics=topics, topic_names=names, **changed
        )
        return Changes(
            image=image,
            deleted_topics=tuple(self._topics.deleted),
            changed_partitions=tuple(self._topics.surviving(image)),
            changed_configs=tuple(self._configs),
            changed_brokers=tuple(self._brokers),
            changed_features=tuple(self._features),
            changed_quotas=tuple(self._quotas),
            previous=self.base,
        )

    @property
    def skipped(self) -> list[str]:
        """What `apply` could not put into the image, in words."""
        return self._topics.skipped

    def _map(self, name: str) -> dict[Any, Any]:
        """The image's mapping of this name, copied at the first change."""
        held = self._maps.get(name)
        if held is None:
            held = self._maps[name] = dict(getattr(self.base, name))
        return held

    # -- brokers and controllers ------------------------------------------------------

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        old = self._map("brokers").get(record.broker_id)
        self._put_broker(
            BrokerImage(
                broker_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                log_dirs=tuple(sorted(record.log_dirs)),
                features=_ranges(record),
                cordoned_log_dirs=tuple(sorted(record.cordoned_log_dirs or ())),
                is_migrating_zk_broker=record.is_migrating_zk_broker,
                last_unfenced_epoch=record.broker_epoch if old is None else old.last_unfenced_epoch,
            )
        )

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._map("brokers").get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            return  # of an incarnation that has been replaced
        fenced = {1: True, -1: False}.get(record.fenced, broker.fenced)
        stopping = {1: True, -1: False}.get(
            int(record.in_controlled_shutdown), broker.in_controlled_shutdown
        )
        cordoned = record.cordoned_log_dirs
        self._put_broker(
            replace(
                broker,
                fenced=fenced,
                in_controlled_shutdown=stopping,
                log_dirs=tuple(sorted(record.log_dirs)) or broker.log_dirs,
                cordoned_log_dirs=(
                    broker.cordoned_log_dirs if cordoned is None else tuple(sorted(cordoned))
                ),
            )
        )

    def _fence_broker(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        broker = self._map("brokers").get(record.id)
        if broker is not None and broker.epoch == record.epoch:
            self._put_broker(replace(broker, fenced=type(record).__name__ == "FenceBrokerRecord"))

    def _put_broker(self, broker: BrokerImage) -> None:
        if not broker.fenced:
            broker = replace(broker, last_unfenced_epoch=broker.epoch)
        self._map("brokers")[broker.broker_id] = broker
        self._brokers[broker.broker_id] = None

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._map("brokers").pop(record.broker_id, None)
        self._brokers[record.broker_id] = None

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._map("controllers")[record.controller_id] = ControllerImage(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record),
            features=_ranges(record),
            zk_migration_ready=record.zk_migration_ready,
        )

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self._map("controllers").pop(record.controller_id, None)

    # -- topics -----------------------------------------------------------------------

    def _topic(self, record: TopicRecord) -> None:
        self._topics.topic(record)

    def _partition(self, record: PartitionRecord) -> None:
        self._topics.partition(record)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        self._topics.change(record)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        self._topics.clear_elr(record)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topics.remove(record)
        self._map("configs").pop((ResourceType.TOPIC, topic.name), None)

    # -- everything else --------------------------------------------------------------

    def _config(self, record: ConfigRecord) -> None:
        key = (ResourceType(record.resource_type), record.resource_name)
        configs = self._map("configs")
        values = dict(configs.get(key, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[key] = frozen(values)
        else:
            configs.pop(key, None)
        self._configs[key] = None

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self._map("features")[record.name] = record.feature_level
        else:
            self._map("features").pop(record.name, None)
        self._features[record.name] = None

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._values["next_producer_id"] = record.next_producer_id

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity: QuotaEntity = tuple(
            sorted(
                ((part.entity_type, part.entity_name) for part in record.entity),
                key=lambda part: part[0],
            )
        )
        quotas = self._map("client_quotas")
        values = dict(quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            quotas[entity] = frozen(values)
        else:
            quotas.pop(entity, None)
        self._quotas[entity] = None

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self._map("acls")[record.id] = AclImage.of(record)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._map("acls").pop(record.id, None)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._map("scram")[record.mechanism, record.name] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._map("scram").pop((record.mechanism, record.name), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self._map("delegation_tokens")[record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._map("delegation_tokens").pop(record.token_id, None)

    def _migration(self, record: ZkMigrationStateRecord) -> None:
        self._values["zk_migration_state"] = record.zk_migration_state

    # -- metadata transactions (KIP-868) ----------------------------------------------

    def _begin(self, record: BeginTransactionRecord) -> None:
        self._values["transaction"] = ()

    def _end(self, record: EndTransactionRecord) -> None:
        waiting = self._values.get("transaction", self.base.transaction) or ()
        self._values["transaction"] = None
        for held in waiting:
            self._replay(type(held).__name__, held)

    def _abort(self, record: AbortTransactionRecord) -> None:
        self._values["transaction"] = None


def _endpoints(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(end.name, end.host, end.port, end.security_protocol) for end in record.end_points
    )


def _ranges(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(one.name, one.min_supported_version, one.max_supported_version)
        for one in record.features
    )


_Replay = Callable[[MetadataDelta, Any], None]

_TRANSACTION: dict[str, _Replay] = {
    "BeginTransactionRecord": MetadataDelta._begin,
    "EndTransactionRecord": MetadataDelta._end,
    "AbortTransactionRecord": MetadataDelta._abort,
}

_REPLAY: dict[str, _Replay] = {
    "RegisterBrokerRecord": MetadataDelta._register_broker,
    "BrokerRegistrationChangeRecord": MetadataDelta._change_registration,
    "FenceBrokerRecord": MetadataDelta._fence_broker,
    "UnfenceBrokerRecord": MetadataDelta._fence_broker,
    "UnregisterBrokerRecord": MetadataDelta._unregister_broker,
    "RegisterControllerRecord": MetadataDelta._register_controller,
    "UnregisterControllerRecord": MetadataDelta._unregister_controller,
    "TopicRecord": MetadataDelta._topic,
    "PartitionRecord": MetadataDelta._partition,
    "PartitionChangeRecord": MetadataDelta._change_partition,
    "ClearElrRecord": MetadataDelta._clear_elr,
    "RemoveTopicRecord": MetadataDelta._remove_topic,
    "ConfigRecord": MetadataDelta._config,
    "FeatureLevelRecord": MetadataDelta._feature_level,
    "ProducerIdsRecord": MetadataDelta._producer_ids,
    "ClientQuotaRecord": MetadataDelta._client_quota,
    "AccessControlEntryRecord": MetadataDelta._acl,
    "RemoveAccessControlEntryRecord": MetadataDelta._remove_acl,
    "UserScramCredentialRecord": MetadataDelta._scram,
    "RemoveUserScramCredentialRecord": MetadataDelta._remove_scram,
    "DelegationTokenRecord": MetadataDelta._token,
    "RemoveDelegationTokenRecord": MetadataDelta._remove_token,
    "ZkMigrationStateRecord": MetadataDelta._migration,
}
