"""Tells each of two clusters what the other one's site epoch means for it.

In: the epochs that both have just answered with. Out: confirmations, and fences of a former
primary. Core: `bus.domain.site_epochs`. Never: a word to brokers that are not ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.own_name import own_name
from bus.contracts.site_confirmation import ConfirmedBy
from bus.domain.site_epochs import SiteEpochs, due_confirmations
from bus.errors import BusError, ErrorCode

log = logging.getLogger(__name__)

REASON = "the mirror asked both sites: none has a newer site epoch"


class SiteConfirmer:
    """Invariant: a cluster is told only while both are ours. Repeating what was told is harmless: a
    confirmation of what is confirmed is not recorded."""

    def __init__(self, admins: Mapping[str, ClusterAdmin]) -> None:
        """`admins`: by cluster id."""
        self._admins = admins
        self._who = own_name()
        self._is_ours: bool | None = None
        self._failure = ""

    async def apply(self, epochs: SiteEpochs) -> None:
        """Both have answered with these a moment ago."""
        try:
            if self._is_ours is None:
                self._is_ours = await asyncio.to_thread(self._are_both_ours)
            for one in due_confirmations(epochs) if self._is_ours else ():
                apply = self._admins[one.cluster_id].confirm_or_fence
                await asyncio.to_thread(apply, one, ConfirmedBy.MIRROR, self._who, REASON)
            self._failure = ""
        except BusError as error:
            is_overtaken = error.code is ErrorCode.INVALID_UPDATE_VERSION  # by a switch
            is_new = str(error) != self._failure and not is_overtaken and not error.retriable
            log.log(logging.WARNING if is_new else logging.DEBUG,
                    "the site epoch could not be confirmed: %s", error)  # fmt: skip
            self._failure = str(error)

    def _are_both_ours(self) -> bool:
        return all(admin.site_number() is not None for admin in self._admins.values())
