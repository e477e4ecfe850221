"""Decisions about brokers: register, unfence, fence, shut down, unregister.

In: the image, the policy, the broker's request. Out: records and a reply. Never: sessions and
clocks; whether a broker is still alive is a parameter. Kafka: ClusterControlManager and
ReplicationControlManager.handleBroker….
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.leadership import (
    leader_and_isr_changes,
    partitions_in_isr,
    partitions_in_isr_or_elr,
    partitions_without_leader,
)
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.site_confirmations import leave
from broker.metadata.image import (
    UNKNOWN_BROKER_EPOCH,
    BrokerImage,
    Endpoint,
    FeatureRange,
    MetadataImage,
)
from broker.metadata.image_writer import broker_as_record
from broker.metadata.versions import METADATA_VERSION
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker that starts. `previous_epoch` is its last broker epoch if it can prove that its log
    is the one it had then (KIP-966); -1 if it cannot."""

    broker_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_dirs: tuple[bytes, ...]
    rack: str | None = None
    cluster_id: str | None = None
    features: tuple[FeatureRange, ...] = ()
    previous_epoch: int = UNKNOWN_BROKER_EPOCH
    cordoned_log_dirs: tuple[bytes, ...] = ()
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """The reply to a registration: the broker's epoch, or the error."""

    epoch: int = UNKNOWN_BROKER_EPOCH
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def register(
    image: MetadataImage,
    policy: PartitionPolicy,
    registration: Registration,
    new_epoch: int,
    session_is_valid: bool = False,
) -> Decision[RegistrationResult]:
    """Registers a broker, fenced, and removes it from all in-sync sets of its previous incarnation.

    `session_is_valid` says whether the incarnation that is registered now still sends heartbeats.
    The same incarnation that registers again (its response was lost) keeps its epoch.
    """
    try:
        old = image.brokers.get(registration.broker_id)
        _check_registration(image, registration)
        same = old is not None and old.incarnation_id == registration.incarnation_id
        if old is not None and session_is_valid and not same:
            _check_not_alive(old, registration)
    except RefusedError as error:
        refusal = error.refusal
        return Decision((), RegistrationResult(error=refusal.error, message=refusal.message))
    if same and old is not None:
        return Decision(
            (_registration_record(registration, old.epoch, old),), RegistrationResult(old.epoch)
        )
    changes = [] if old is None else _previous_incarnation_changes(image, policy, old, registration)
    changes += leave(image, {registration.broker_id: registration.incarnation_id})
    record = _registration_record(registration, new_epoch, None)
    return Decision((record, *changes), RegistrationResult(new_epoch))


def _check_registration(image: MetadataImage, registration: Registration) -> None:
    if registration.cluster_id is not None and registration.cluster_id != image.cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {registration.cluster_id}",
        )
    if registration.is_migrating_zk_broker:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION,
            "Controller does not support registering ZK brokers.",
        )
    if not registration.endpoints:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION, "No listeners specified in request"
        )
    if image.metadata_version and not registration.log_dirs:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION, "No directories specified in request"
        )
    for other in image.brokers.values():
        shared = set(other.log_dirs) & set(registration.log_dirs)
        if other.broker_id != registration.broker_id and shared:
            raise RefusedError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {registration.broker_id} cannot register because directory "
                f"{min(shared).hex()} is already used by broker {other.broker_id}",
            )
    _check_features(image, {one.name: one for one in registration.features})


def _check_features(image: MetadataImage, offered: Mapping[str, FeatureRange]) -> None:
    for name, level in sorted(image.features.items()):
        held = offered.get(name)
        low, high = (0, 0) if held is None else (held.min_level, held.max_level)
        if not low <= level <= high:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version "
                f"{level} of {name}. The broker wants a version between {low} and {high}, "
                f"inclusive.",
            )
    if image.metadata_version and METADATA_VERSION not in offered:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION, "the broker does not say its metadata.version"
        )


def _check_not_alive(old: BrokerImage, registration: Registration) -> None:
    """Two live brokers may not share an id. The registered incarnation has certainly ended if the
    new one holds the lock of its directories and listens on its address, or if it was shutting
    down; then its session need not expire first."""
    addresses = {(end.host, end.port) for end in old.endpoints}
    same_place = any((end.host, end.port) in addresses for end in registration.endpoints)
    if same_place and set(old.log_dirs) & set(registration.log_dirs):
        return
    if old.in_controlled_shutdown:
        return
    raise RefusedError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        "Another broker is registered with that broker id. If the broker was recently restarted "
        "this should self-resolve once its session has expired or a probe of it has failed.",
    )


def _previous_incarnation_changes(
    image: MetadataImage, policy: PartitionPolicy, old: BrokerImage, registration: Registration
) -> list[object]:
    """The broker restarts: it leads nothing until it has caught up. If it cannot prove that it kept
    its log it is also no longer eligible for what it may have lost (KIP-966)."""
    broker_id = old.broker_id
    if not image.elr_enabled or old.is_continued_by(registration.previous_epoch):
        pairs = partitions_in_isr(image, broker_id)
        return list(leader_and_isr_changes(image, policy, pairs, remove=broker_id))
    pairs = partitions_in_isr_or_elr(image, broker_id)
    return list(leader_and_isr_changes(image, policy, pairs, unclean_shutdown=broker_id))


def _registration_record(
    registration: Registration, epoch: int, old: BrokerImage | None
) -> RegisterBrokerRecord:
    """Fenced, unless the same incarnation is registered and unfenced."""
    broker = BrokerImage(
        broker_id=registration.broker_id,
        epoch=epoch,
        incarnation_id=registration.incarnation_id,
        endpoints=registration.endpoints,
        rack=registration.rack,
        fenced=old is None or old.fenced,
        in_controlled_shutdown=old is not None and old.in_controlled_shutdown,
        log_dirs=registration.log_dirs,
        features=registration.features,
        cordoned_log_dirs=registration.cordoned_log_dirs,
    )
    return broker_as_record(broker)


@dataclass(frozen=True, slots=True)
class BrokerChangeResult:
    """The result of a broker change; `changed` is False where nothing had to change."""

    changed: bool = True
    error: ErrorCode = ErrorCode.NONE
    message: str | None = field(default=None)


def fence(
    image: MetadataImage, policy: PartitionPolicy, broker_id: int, epoch: int
) -> Decision[BrokerChangeResult]:
    """A broker is gone, or wants to be treated as gone: it leads nothing and is in sync nowhere."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or broker.fenced:
        return Decision((), BrokerChangeResult(changed=False))
    pairs = partitions_in_isr(image, broker_id)
    changes = leader_and_isr_changes(image, policy, pairs, remove=broker_id)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE
    )
    return Decision((*changes, record), BrokerChangeResult())


def unfence(
    image: MetadataImage, policy: PartitionPolicy, broker_id: int, epoch: int
) -> Decision[BrokerChangeResult]:
    """A broker has caught up with the metadata: it may lead partitions without a leader. One that
    was shutting down must restart first."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or not broker.fenced or broker.in_controlled_shutdown:
        return Decision((), BrokerChangeResult(changed=False))
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE
    )
    pairs = partitions_without_leader(image)
    changes = leader_and_isr_changes(image, policy, pairs, add=broker_id)
    return Decision((record, *changes), BrokerChangeResult())


def enter_controlled_shutdown(
    image: MetadataImage, policy: PartitionPolicy, broker_id: int, epoch: int
) -> Decision[BrokerChangeResult]:
    """A broker is about to stop: its leaderships move to others while it still serves."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or broker.fenced:
        return Decision((), BrokerChangeResult(changed=False))
    records: list[object] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id,
                broker_epoch=broker.epoch,
                in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
            )
        )
    pairs = partitions_in_isr(image, broker_id)
    records += leader_and_isr_changes(image, policy, pairs, remove=broker_id)
    return Decision(tuple(records), BrokerChangeResult(changed=bool(records)))


def unregister(
    image: MetadataImage, policy: PartitionPolicy, broker_id: int
) -> Decision[BrokerChangeResult]:
    """Removes a broker that will not come back."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        message = f"Broker ID {broker_id} is not currently registered"
        return Decision((), BrokerChangeResult(False, ErrorCode.BROKER_ID_NOT_REGISTERED, message))
    pairs = partitions_in_isr_or_elr(image, broker_id)
    changes = leader_and_isr_changes(image, policy, pairs, unclean_shutdown=broker_id)
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*changes, record), BrokerChangeResult())


def broker_of_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerImage | None:
    """The broker, if this is still its epoch."""
    broker = image.brokers.get(broker_id)
    return broker if broker is not None and broker.epoch == epoch else None
