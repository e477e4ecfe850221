"""Which site is the primary: a compare-and-set entry in the cluster's metadata. Pure.

In: the image, the alterations of one request. Out: the site epoch in force with the request, or
`RefusedError`. The entry is the key `mirror.site.epoch` of all brokers. A new one must have a
larger number; the present one may be set again, which makes it a condition: a request that sets it
is refused as a whole where another site epoch is in force. Nothing unsets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.controller.decisions.config_values import Alteration, AlterOperation
from broker.controller.decisions.decision import RefusedError
from broker.metadata.image import MetadataImage, ResourceType
from bus.contracts.mirror import REFUSED_COMMITS_KEY
from bus.contracts.site_epoch import (
    SITE_EPOCH_KEY,
    SiteEpoch,
    SiteEpochError,
    check_follows,
    parse_site_epoch,
)
from bus.errors import ErrorCode

ALL_BROKERS = ""


def site_epoch(image: MetadataImage) -> SiteEpoch | None:
    """The one in force; None before the first, and for a text written past the controller."""
    text = image.configs.get((ResourceType.BROKER, ALL_BROKERS), {}).get(SITE_EPOCH_KEY)
    try:
        return None if text is None else parse_site_epoch(text)
    except SiteEpochError:
        return None


def refuses_commits(image: MetadataImage, topic: str) -> bool:
    """Whether a switch has closed the topic to groups' commits, and is not over."""
    number = image.configs.get((ResourceType.TOPIC, topic), {}).get(REFUSED_COMMITS_KEY)
    if number is None:
        return False
    epoch = site_epoch(image)
    return epoch is not None and number == str(epoch.number)


def next_site_epoch(
    image: MetadataImage, resources: Iterable[tuple[int, str, Iterable[Alteration]]]
) -> SiteEpoch | None:
    """The epoch in force with the request of these resources. RefusedError INVALID_UPDATE_VERSION
    where it comes too late, INVALID_CONFIG where it is none or on one broker only."""
    present = wanted = site_epoch(image)
    for kind, name, alterations in resources:
        for one in alterations:
            if kind == ResourceType.BROKER and one.name == SITE_EPOCH_KEY:
                wanted = _checked(present, name, one)
    return wanted


def _checked(present: SiteEpoch | None, name: str, one: Alteration) -> SiteEpoch:
    if name != ALL_BROKERS:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"{SITE_EPOCH_KEY} is one for all brokers of the cluster."
        )
    if one.operation != AlterOperation.SET or one.value is None:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"{SITE_EPOCH_KEY} can only be set to a newer site epoch."
        )
    try:
        wanted = parse_site_epoch(one.value)
    except SiteEpochError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{SITE_EPOCH_KEY}: {error}") from error
    try:
        check_follows(present, wanted)
    except SiteEpochError as error:
        raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, str(error)) from error
    return wanted


def keep_site_epoch(changed: Mapping[str, str | None]) -> dict[str, str | None]:
    """Without an unsetting of the site epoch: AlterConfigs unsets all that it does not name."""
    return {
        name: value
        for name, value in changed.items()
        if name != SITE_EPOCH_KEY or value is not None
    }
