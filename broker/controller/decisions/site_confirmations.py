"""Whether a cluster may take records of the topics it copies to a second site. Pure.

In: the image; a confirmation, or a broker that is heard. Out: the key `mirror.site.members`, which
names the broker processes that are confirmed. A process becomes a member by a confirmation of the
site epoch in force, or because a member is alive beside it: then the cluster has not been down as a
whole since it was confirmed. Never: a member by the word of a process that may have ended before.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.decisions.config_values import Alteration, AlterOperation
from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.site_epochs import ALL_BROKERS, site_epoch
from broker.metadata.image import MetadataImage, ResourceType
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import (
    NO_INCARNATION,
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    TARGET_CLUSTER_KEY,
    SiteConfirmation,
    SiteConfirmationError,
    members_text,
    parse_confirmation,
    parse_members,
)
from bus.contracts.site_epoch import SiteEpoch
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord

ANY_OFFSET = (1 << 63) - 1

_NO_MEMBERS: Mapping[int, bytes] = {}


def members(image: MetadataImage) -> Mapping[int, bytes] | None:
    """Broker id -> incarnation of those that are confirmed; None where nobody ever confirmed, so
    that there is no second site."""
    text = image.configs.get((ResourceType.BROKER, ALL_BROKERS), {}).get(SITE_MEMBERS_KEY)
    if text is None:
        return None
    try:
        return parse_members(text)
    except SiteConfirmationError:  # written past the controller: nobody is known to be confirmed
        return _NO_MEMBERS


def is_closed(image: MetadataImage, topic: str, incarnation: bytes) -> bool:
    """Whether this process takes no records of the topic although it leads it: it is copied to a
    second site, and this process is not confirmed, or the cluster is the secondary by now."""
    if not image.topic_config(topic).get(TARGET_CLUSTER_KEY):
        return False
    epoch = site_epoch(image)
    if epoch is not None and epoch.secondary == image.cluster_id:
        return True
    confirmed = members(image)
    return confirmed is not None and incarnation not in confirmed.values()


def newcomers(image: MetadataImage, up_to_epoch: int = ANY_OFFSET) -> list[int]:
    """Registered brokers that are no members, none registered later than `up_to_epoch`; none where
    nobody ever confirmed."""
    confirmed = members(image)
    if confirmed is None:
        return []
    return [
        broker.broker_id
        for broker in image.brokers.values()
        if broker.incarnation_id != NO_INCARNATION
        and confirmed.get(broker.broker_id) != broker.incarnation_id
        and broker.epoch <= up_to_epoch
    ]


def vouch(
    image: MetadataImage, broker_id: int, epoch: int, up_to_epoch: int = ANY_OFFSET
) -> Decision[list[int]]:
    """This broker was heard under this broker epoch, after all those had registered whose broker
    epoch is not above `up_to_epoch`: if it is a member they become members."""
    confirmed, registered = members(image), image.brokers.get(broker_id)
    is_member = (
        confirmed is not None
        and registered is not None
        and registered.epoch == epoch
        and confirmed.get(broker_id) == registered.incarnation_id
    )
    found = newcomers(image, up_to_epoch) if is_member else []
    if not found or confirmed is None:
        return Decision((), [])
    added = {one: image.brokers[one].incarnation_id for one in found}
    return Decision((_members_record({**confirmed, **added}),), found)


def leave(image: MetadataImage, started: Mapping[int, bytes]) -> list[object]:
    """These brokers, with their incarnations, have started: a member of the same id that was
    another process has ended."""
    confirmed = members(image) or _NO_MEMBERS
    left = {
        broker_id: member
        for broker_id, member in confirmed.items()
        if started.get(broker_id, member) == member
    }
    return [] if len(left) == len(confirmed) else [_members_record(left)]


def with_members(
    image: MetadataImage,
    name: str,
    alterations: tuple[Alteration, ...],
    changed: dict[str, str | None],
    epoch: SiteEpoch | None,
) -> dict[str, str | None]:
    """What changes on all brokers, with the members of a confirmation among it. `epoch`: the one in
    force with the request. RefusedError INVALID_UPDATE_VERSION where another one is confirmed than
    it, or the cluster is its secondary; INVALID_CONFIG for what nobody may write."""
    given = {one.name: one for one in alterations}
    if SITE_MEMBERS_KEY in given:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"{SITE_MEMBERS_KEY} is written by the controller alone."
        )
    if SITE_CONFIRMATION_KEY not in given:
        return changed
    _check_is_for_all(name)
    if given[SITE_CONFIRMATION_KEY].operation == AlterOperation.DELETE:
        return changed | {SITE_MEMBERS_KEY: None}  # the second site is given up
    wanted = _parsed(given[SITE_CONFIRMATION_KEY])
    _check_is_newest(image, wanted, epoch)
    registered = {
        broker.broker_id: broker.incarnation_id
        for broker in image.brokers.values()
        if broker.incarnation_id != NO_INCARNATION
    }
    if members(image) is not None and not newcomers(image):
        return {key: value for key, value in changed.items() if key != SITE_CONFIRMATION_KEY}
    return changed | {SITE_MEMBERS_KEY: members_text(registered)}


def keep_confirmation(changed: Mapping[str, str | None]) -> dict[str, str | None]:
    """Without an unsetting, which AlterConfigs does to all that it does not name."""
    only_set = (SITE_CONFIRMATION_KEY, SITE_MEMBERS_KEY)
    return {
        name: value
        for name, value in changed.items()
        if name not in only_set or value is not None
    }


def is_copied_out(image: MetadataImage, topic: str) -> bool:
    """Whether it is copied to a second site and takes clients' records."""
    held = image.topic_config(topic)
    return bool(held.get(TARGET_CLUSTER_KEY)) and not held.get(SOURCE_CLUSTER_KEY)


def _check_is_for_all(name: str) -> None:
    if name != ALL_BROKERS:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{SITE_CONFIRMATION_KEY} is one for all brokers of the cluster.",
        )


def _parsed(one: Alteration) -> SiteConfirmation:
    if one.operation != AlterOperation.SET or one.value is None:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"{SITE_CONFIRMATION_KEY} can only be set or unset."
        )
    try:
        return parse_confirmation(one.value)
    except SiteConfirmationError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{SITE_CONFIRMATION_KEY}: {error}") from error


def _check_is_newest(
    image: MetadataImage, wanted: SiteConfirmation, epoch: SiteEpoch | None
) -> None:
    held = 0 if epoch is None else epoch.number
    if wanted.epoch != held:
        raise RefusedError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"site epoch {wanted.epoch} cannot be confirmed: this cluster has site epoch {held}",
        )
    if epoch is not None and epoch.secondary == image.cluster_id:
        raise RefusedError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"cluster {image.cluster_id} is the secondary since site epoch {held} of {epoch.who}",
        )


def _members_record(confirmed: Mapping[int, bytes]) -> ConfigRecord:
    return ConfigRecord(
        resource_type=int(ResourceType.BROKER), resource_name=ALL_BROKERS, name=SITE_MEMBERS_KEY,
        value=members_text(confirmed),
    )
