"""Decisions about feature levels: what a new cluster begins with, upgrades, downgrades (57).

In: the image, what is asked. Out: records and a result per feature. Never: what a level means;
`metadata.versions` and the decisions that look at it know. Kafka: FeatureControlManager,
ActivationRecordsGenerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.partition_policy import MIN_ISR, PartitionPolicy
from broker.metadata.image import FeatureRange, MetadataImage, ResourceType
from broker.metadata.versions import (
    ELR_DEFAULT_LEVEL,
    ELR_LEVEL,
    ELR_VERSION,
    KRAFT_VERSION,
    LEVEL_NAMES,
    MAX_LEVEL,
    METADATA_VERSION,
    SUPPORTED,
    loses_metadata,
)
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord


class UpgradeType(IntEnum):
    """UpdateFeatures' ways (FeatureUpdate.UpgradeType)."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that one feature shall have; 0 takes it back."""

    name: str
    level: int
    way: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureResult:
    """What became of one feature."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def bootstrap(
    image: MetadataImage,
    policy: PartitionPolicy | None = None,
    level: int = MAX_LEVEL,
    formatted: Iterable[object] = (),
) -> Decision[None]:
    """The first records of an empty cluster, behind them those that `formatted` asked for. One that
    has levels keeps them."""
    if image.features:
        return Decision((), None)
    records: list[object] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    if level >= ELR_DEFAULT_LEVEL:
        records.append(FeatureLevelRecord(name=ELR_VERSION, feature_level=1))
        if policy is not None:
            records.append(_min_isr_record(policy))
    return Decision((*records, *formatted), None)


def _min_isr_record(policy: PartitionPolicy) -> ConfigRecord:
    """With eligible leader replicas the minimum of in-sync replicas must be the same in the eyes
    of every controller, so it is a value of the cluster and not of one node's file (KIP-966)."""
    return ConfigRecord(
        resource_type=int(ResourceType.BROKER),
        resource_name="",
        name=MIN_ISR,
        value=str(policy.min_insync_replicas),
    )


def update_features(
    image: MetadataImage,
    policy: PartitionPolicy,
    updates: Sequence[FeatureUpdate],
    validate_only: bool = False,
    kraft_level: int | None = None,
    node_id: int = -1,
) -> Decision[tuple[FeatureResult, ...]]:
    """All or none, as the controller `node_id` can have them.

    `kraft_level` is kraft.version as the quorum has it, None where there is no quorum; raising it
    is the quorum's affair and leaves no record here.
    """
    results = []
    levels = dict(image.features)
    records: list[object] = []
    seen: set[str] = set()
    for update in updates:
        try:
            if update.name in seen:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the feature is named twice")
            seen.add(update.name)
            records += _update(image, policy, update, kraft_level, node_id)
            levels[update.name] = update.level
            results.append(FeatureResult(update.name))
        except RefusedError as error:
            refusal = error.refusal
            results.append(FeatureResult(update.name, refusal.error, refusal.message))
    results = _with_dependencies(levels, results)
    failed = any(result.error for result in results)
    return Decision(() if failed or validate_only else tuple(records), tuple(results))


def _update(
    image: MetadataImage,
    policy: PartitionPolicy,
    update: FeatureUpdate,
    kraft_level: int | None,
    node_id: int,
) -> list[object]:
    if update.way is UpgradeType.UNKNOWN:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    if update.name == KRAFT_VERSION:
        if kraft_level is None:
            raise RefusedError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{KRAFT_VERSION} is kept by a quorum of controllers; there is none here",
            )
        _check_kraft_version(update, kraft_level, node_id)
        return []
    _check_supported(image, update, node_id)
    _check_way(image, update)
    if update.level == image.features.get(update.name, 0):
        return []
    records: list[object] = [FeatureLevelRecord(name=update.name, feature_level=update.level)]
    if update.name == ELR_VERSION:
        records += _elr_records(image, policy, update.level)
    return records


def _check_kraft_version(update: FeatureUpdate, present: int, node_id: int) -> None:
    """The voters know what they support; there is no way back from voters in the log."""
    low, high = SUPPORTED[KRAFT_VERSION]
    if not low <= update.level <= high:
        raise _invalid(update, f"Local controller {node_id} only supports versions {low}-{high}")
    if update.level < present:
        raise _invalid(update, "Can't downgrade the version of this feature.")


def _check_supported(image: MetadataImage, update: FeatureUpdate, node_id: int) -> None:
    ours = SUPPORTED.get(update.name)
    if ours is None:
        raise _invalid(update, f"Local controller {node_id} does not support this feature.")
    nodes = [(f"Local controller {node_id}", ours), *_other_nodes(image, update.name, node_id)]
    for who, (low, high) in nodes:
        if not low <= update.level <= high:
            raise _invalid(update, f"{who} only supports versions {low}-{high}")


def _other_nodes(
    image: MetadataImage, feature: str, node_id: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """A controller that is registered counts whether it runs or not: it may lead next."""
    for broker in image.alive_brokers():
        yield f"Broker {broker.broker_id}", _range_of(broker.features, feature)
    for controller in image.controllers.values():
        if controller.controller_id != node_id:
            who = f"Controller {controller.controller_id}"
            yield who, _range_of(controller.features, feature)


def _range_of(features: Sequence[FeatureRange], name: str) -> tuple[int, int]:
    return next(((one.min_level, one.max_level) for one in features if one.name == name), (0, 0))


def _check_way(image: MetadataImage, update: FeatureUpdate) -> None:
    present = image.features.get(update.name, 0)
    if update.level >= present:
        if update.level > present and update.way is not UpgradeType.UPGRADE:
            raise _invalid(update, "Can't downgrade to a newer version.")
        return
    if update.way is UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if update.name == METADATA_VERSION:
        _check_metadata_downgrade(present, update)


def _check_metadata_downgrade(present: int, update: FeatureUpdate) -> None:
    if update.way is UpgradeType.UNSAFE_DOWNGRADE:
        level = LEVEL_NAMES.get(update.level, str(update.level))
        raise RefusedError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid metadata.version {level}. Unsafe metadata downgrade is not supported in "
            f"this version.",
        )
    if loses_metadata(present, update.level):
        raise RefusedError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {present} to {update.level}. Refusing to "
            f"perform the requested downgrade because it might delete metadata information.",
        )


def _invalid(update: FeatureUpdate, why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {why}",
    )


def _elr_records(image: MetadataImage, policy: PartitionPolicy, level: int) -> list[object]:
    """Switched on, the minimum becomes the cluster's; switched off, what was kept is void."""
    if not level:
        return [ClearElrRecord(topic_name="")]
    shared = image.configs.get((ResourceType.BROKER, ""), {})
    records: list[object] = [] if MIN_ISR in shared else [_min_isr_record(policy)]
    for (kind, name), values in sorted(image.configs.items()):
        if kind is ResourceType.BROKER and name and MIN_ISR in values:
            records.append(
                ConfigRecord(resource_type=int(kind), resource_name=name, name=MIN_ISR, value=None)
            )
    return records


def _with_dependencies(levels: dict[str, int], results: list[FeatureResult]) -> list[FeatureResult]:
    """Eligible leader replicas need records that can carry them."""
    if levels.get(ELR_VERSION, 0) == 0 or levels.get(METADATA_VERSION, 0) >= ELR_LEVEL:
        return results
    message = (
        f"{ELR_VERSION}=1 depends on {METADATA_VERSION} of at least {ELR_LEVEL} "
        f"({LEVEL_NAMES[ELR_LEVEL]})"
    )
    return [
        result
        if result.error
        else FeatureResult(result.name, ErrorCode.INVALID_UPDATE_VERSION, message)
        for result in results
    ]
