"""The keys of a cluster that say which of two sites it is, and whether it is the primary.

In: a client of the cluster. Out: `SiteKeys`, changes of them. Raises BusError. Never: a guess where
the brokers are not ours; they know no such keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from bus.client.admin import commands, queries
from bus.client.admin.config_resources import BROKER, AlterConfigOp
from bus.client.model import BrokerDescription
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    ConfirmedBy,
    SiteConfirmation,
    SiteConfirmationError,
    parse_confirmation,
    parse_members,
)
from bus.contracts.site_epoch import (
    SITE_EPOCH_KEY,
    SiteEpoch,
    SiteEpochError,
    parse_site_epoch,
)
from bus.domain.site_epochs import Confirm, FormerPrimaryFence
from bus.errors import BusError, ErrorCode
from bus.runtime.wall_clock import now_ms

log = logging.getLogger(__name__)

SITE_NUMBER_KEY = "site.number"
ALL_BROKERS = ""


@dataclass(frozen=True, slots=True)
class SiteKeys:
    """What a cluster holds about both sites. None: there was none yet, or the brokers know no such
    key. `members`: ids of the brokers whose processes are confirmed."""

    epoch: SiteEpoch | None = None
    confirmation: SiteConfirmation | None = None
    members: frozenset[int] | None = None

    def confirms(self, alive: Iterable[BrokerDescription]) -> bool:
        """Whether none of these brokers waits for somebody to say that its site is the primary."""
        return self.members is None or self.members >= {broker.broker_id for broker in alive}


def site_number(client: SyncClient) -> int | None:
    """The number of the site in producer ids; None where the brokers know no such key."""
    alive = queries.cluster(client).alive
    if not alive:
        raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker of the cluster is alive")
    for entry in queries.configs(client, BROKER, str(alive[0].broker_id)):
        if entry.name == SITE_NUMBER_KEY:
            return int(entry.value or 0)
    return None


def read(client: SyncClient) -> SiteKeys:
    """The site epoch and who has confirmed it."""
    held = {one.name: one.value for one in queries.configs(client, BROKER, ALL_BROKERS)}
    epoch, confirmation = held.get(SITE_EPOCH_KEY), held.get(SITE_CONFIRMATION_KEY)
    members = held.get(SITE_MEMBERS_KEY)
    try:
        return SiteKeys(
            parse_site_epoch(epoch) if epoch else None,
            parse_confirmation(confirmation) if confirmation else None,
            None if members is None else frozenset(parse_members(members)),
        )
    except (SiteEpochError, SiteConfirmationError) as error:
        raise BusError(ErrorCode.INVALID_CONFIG, str(error)) from None


def confirm(client: SyncClient, confirmation: SiteConfirmation) -> None:
    """Of the site epoch in force there. Raises BusError INVALID_UPDATE_VERSION where it is another
    one."""
    _set(client, SITE_CONFIRMATION_KEY, confirmation.text)


def confirm_or_fence(
    client: SyncClient, one: Confirm | FormerPrimaryFence, by: ConfirmedBy, who: str, reason: str
) -> None:
    """What the other site's epoch means for this cluster. Raises BusError INVALID_UPDATE_VERSION
    where a switch came between."""
    if isinstance(one, Confirm):
        confirm(client, SiteConfirmation(one.epoch, by, now_ms(), who, reason))
        return
    _set(client, SITE_EPOCH_KEY, one.epoch.text)
    log.warning("cluster %s takes no records of mirrored topics from now on, it did not know of a "
                "switch: %s", one.cluster_id, one.epoch.text)  # fmt: skip


def _set(client: SyncClient, key: str, value: str) -> None:
    change = [(key, AlterConfigOp.SET, value)]
    commands.alter_configs(client, {(BROKER, ALL_BROKERS): change})
