"""Decisions about brokers: they register, are unfenced, are fenced, stop, are forgotten.

In: the image, the rules, what a broker said. Out: records and a reply. Never: sessions and clocks;
whether a broker is still alive comes in as a value. Kafka: ClusterControlManager and
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
from broker.controller.decisions.rules import Rules
from broker.metadata.image import BrokerImage, Endpoint, FeatureRange, MetadataImage
from broker.metadata.records import broker_as_record
from broker.metadata.versions import METADATA_VERSION
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1
UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker that starts. `previous_epoch` is that of its last life, if it can vouch that the
    log it holds is the one it had then (KIP-966); -1 if it cannot."""

    broker_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_dirs: tuple[bytes, ...]
    rack: str | None = None
    cluster_id: str | None = None
    features: tuple[FeatureRange, ...] = ()
    previous_epoch: int = UNKNOWN_EPOCH
    cordoned_log_dirs: tuple[bytes, ...] = ()
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration: the broker's epoch, or why it was refused."""

    epoch: int = UNKNOWN_EPOCH
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def register(
    image: MetadataImage,
    rules: Rules,
    asked: Registration,
    new_epoch: int,
    session_is_valid: bool = False,
) -> Decision[Registered]:
    """Take a broker in, fenced, and out of everything its last life was counted on for.

    `session_is_valid` says whether the life that is registered now still reports. The same
    incarnation that asks again (its answer was lost) keeps its epoch.
    """
    try:
        old = image.brokers.get(asked.broker_id)
        _check_registration(image, asked)
        same = old is not None and old.incarnation_id == asked.incarnation_id
        if old is not None and session_is_valid and not same:
            _check_replaced(old, asked)
    except RefusedError as error:
        refusal = error.refusal
        return Decision((), Registered(error=refusal.error, message=refusal.message))
    if same and old is not None:
        return Decision((_registration_record(asked, old.epoch, old),), Registered(old.epoch))
    changes = [] if old is None else _previous_life(image, rules, old, asked)
    record = _registration_record(asked, new_epoch, None)
    return Decision((record, *changes), Registered(new_epoch))


def _check_registration(image: MetadataImage, asked: Registration) -> None:
    if asked.cluster_id is not None and asked.cluster_id != image.cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {asked.cluster_id}",
        )
    if asked.is_migrating_zk_broker:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION,
            "Controller does not support registering ZK brokers.",
        )
    if not asked.endpoints:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION, "No listeners specified in request"
        )
    if image.metadata_version and not asked.log_dirs:
        raise RefusedError(
            ErrorCode.INVALID_REGISTRATION, "No directories specified in request"
        )
    for other in image.brokers.values():
        shared = set(other.log_dirs) & set(asked.log_dirs)
        if other.broker_id != asked.broker_id and shared:
            raise RefusedError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {asked.broker_id} cannot register because directory "
                f"{min(shared).hex()} is already used by broker {other.broker_id}",
            )
    _check_features(image, {one.name: one for one in asked.features})


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


def _check_replaced(old: BrokerImage, asked: Registration) -> None:
    """Two live brokers may not share an id. The life that is registered has surely ended if the
    new one holds the lock of its directories and listens on its address, or if it said that it
    was stopping; then nobody need wait for its session."""
    addresses = {(end.host, end.port) for end in old.endpoints}
    same_place = any((end.host, end.port) in addresses for end in asked.endpoints)
    if same_place and set(old.log_dirs) & set(asked.log_dirs):
        return
    if old.in_controlled_shutdown:
        return
    raise RefusedError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        "Another broker is registered with that broker id. If the broker was recently restarted "
        "this should self-resolve once its session has expired or a probe of it has failed.",
    )


def _previous_life(
    image: MetadataImage, rules: Rules, old: BrokerImage, asked: Registration
) -> list[object]:
    """The broker starts again: it leads nothing until it has caught up. If it cannot vouch for
    its log it is also no longer eligible for what it may have lost (KIP-966)."""
    broker_id = old.broker_id
    if not image.elr_enabled or asked.previous_epoch == old.epoch:
        pairs = partitions_in_isr(image, broker_id)
        return list(leader_and_isr_changes(image, rules, pairs, remove=broker_id))
    pairs = partitions_in_isr_or_elr(image, broker_id)
    return list(leader_and_isr_changes(image, rules, pairs, unclean_shutdown=broker_id))


def _registration_record(
    asked: Registration, epoch: int, old: BrokerImage | None
) -> RegisterBrokerRecord:
    """Fenced, unless the same incarnation is here already and is not."""
    broker = BrokerImage(
        broker_id=asked.broker_id,
        epoch=epoch,
        incarnation_id=asked.incarnation_id,
        endpoints=asked.endpoints,
        rack=asked.rack,
        fenced=old is None or old.fenced,
        in_controlled_shutdown=old is not None and old.in_controlled_shutdown,
        log_dirs=asked.log_dirs,
        features=asked.features,
        cordoned_log_dirs=asked.cordoned_log_dirs,
    )
    return broker_as_record(broker)


@dataclass(frozen=True, slots=True)
class Done:
    """A change of a broker; `changed` is False where it already was as wanted."""

    changed: bool = True
    error: ErrorCode = ErrorCode.NONE
    message: str | None = field(default=None)


def fence(image: MetadataImage, rules: Rules, broker_id: int, epoch: int) -> Decision[Done]:
    """A broker is gone, or wants to be counted as gone: it leads nothing and is in sync nowhere."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or broker.fenced:
        return Decision((), Done(changed=False))
    pairs = partitions_in_isr(image, broker_id)
    changes = leader_and_isr_changes(image, rules, pairs, remove=broker_id)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE
    )
    return Decision((*changes, record), Done())


def unfence(image: MetadataImage, rules: Rules, broker_id: int, epoch: int) -> Decision[Done]:
    """A broker has caught up with the metadata: it may lead what nobody leads. One that was about
    to stop must begin another life first."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or not broker.fenced or broker.in_controlled_shutdown:
        return Decision((), Done(changed=False))
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE
    )
    pairs = partitions_without_leader(image)
    changes = leader_and_isr_changes(image, rules, pairs, add=broker_id)
    return Decision((record, *changes), Done())


def enter_controlled_shutdown(
    image: MetadataImage, rules: Rules, broker_id: int, epoch: int
) -> Decision[Done]:
    """A broker is about to stop: everything it leads goes to others while it still serves."""
    broker = broker_of_epoch(image, broker_id, epoch)
    if broker is None or broker.fenced:
        return Decision((), Done(changed=False))
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
    records += leader_and_isr_changes(image, rules, pairs, remove=broker_id)
    return Decision(tuple(records), Done(changed=bool(records)))


def unregister(image: MetadataImage, rules: Rules, broker_id: int) -> Decision[Done]:
    """Forget a broker that will not come back."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        message = f"Broker ID {broker_id} is not currently registered"
        return Decision((), Done(False, ErrorCode.BROKER_ID_NOT_REGISTERED, message))
    pairs = partitions_in_isr_or_elr(image, broker_id)
    changes = leader_and_isr_changes(image, rules, pairs, unclean_shutdown=broker_id)
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*changes, record), Done())


def broker_of_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerImage | None:
    """The broker, if it is still in the life that is meant."""
    broker = image.brokers.get(broker_id)
    return broker if broker is not None and broker.epoch == epoch else None
