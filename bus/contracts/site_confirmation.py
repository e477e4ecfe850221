"""Who has confirmed that a cluster's site epoch is the newest, for which broker processes. Pure.

In: the texts of two cluster-wide keys. Out: `SiteConfirmation` and members, or
SiteConfirmationError. Never: a member that may be another process than the one that was confirmed:
a broker is known by its incarnation, which every start draws anew.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from bus.contracts.site_epoch import MAX_NUMBER

SITE_CONFIRMATION_KEY = "mirror.site.confirmation"
"""The dynamic configuration of all brokers that says who confirmed the site epoch last, and why."""
SITE_MEMBERS_KEY = "mirror.site.members"
"""The dynamic configuration of all brokers with the processes that are confirmed; the controller
alone writes it."""
TARGET_CLUSTER_KEY = "mirror.target.cluster.id"
"""The topic's key that says that it is copied to that cluster: it takes records only of a leader
whose process is confirmed."""

MAX_REASON_CHARACTERS = 200
MAX_MEMBERS = 10_000
NO_INCARNATION = bytes(16)
"""Of a broker that draws none (Apache Kafka's under ZooKeeper): it is never a member."""
_NOT_IN_REASON = re.compile(r"[^\x20-\x7e\u00a1-\ud7ff\uf900-\uffef]")
_TEXT = re.compile(
    r"epoch=(0|[1-9][0-9]{0,9});by=([a-z]{1,20});at_ms=(0|[1-9][0-9]{0,14});"
    r"who=([A-Za-z0-9_.@-]{1,100});reason=([\x20-\x7e\u00a1-\ud7ff\uf900-\uffef]{1,200})",
    re.ASCII,
)
_MEMBER = re.compile(r"(0|[1-9][0-9]{0,9}):([A-Za-z0-9_-]{22})", re.ASCII)


class SiteConfirmationError(ValueError):
    """A text that is no confirmation, or no list of members."""


class ConfirmedBy(Enum):
    """Whose word it is."""

    MIRROR = "mirror"
    """It has asked both sites, and neither knows a newer site epoch."""
    EDGE = "edge"
    """As the mirror's, by an edge that knows both sites."""
    OPERATOR = "operator"
    """`databus mirror primary --force`: the other site was not asked, or did not answer."""
    SWITCH = "switch"
    """The site epoch has just been taken here, which makes this cluster the primary."""


@dataclass(frozen=True, slots=True)
class SiteConfirmation:
    """`epoch` is the number of the site epoch that is the newest, 0 before the first; `at_ms` is
    the clock of `who`."""

    epoch: int
    by: ConfirmedBy
    at_ms: int
    who: str
    reason: str

    @property
    def text(self) -> str:
        """As the key holds it."""
        return (
            f"epoch={self.epoch};by={self.by.value};at_ms={self.at_ms};who={self.who};"
            f"reason={self.reason}"
        )


def parse_confirmation(text: str) -> SiteConfirmation:
    """Raises SiteConfirmationError."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise SiteConfirmationError(f"{text[:300]!r} is no confirmation of a site epoch")
    number, by, at_ms, who, reason = found.groups()
    if int(number) > MAX_NUMBER:
        raise SiteConfirmationError(f"site epoch {number} is too large")
    try:
        return SiteConfirmation(int(number), ConfirmedBy(by), int(at_ms), who, reason)
    except ValueError:
        raise SiteConfirmationError(f"nobody called {by!r} confirms a site epoch") from None


def reason_text(words: str) -> str:
    """A person's words in the characters that a confirmation may hold; empty: none are left."""
    return _NOT_IN_REASON.sub(" ", words).strip()[:MAX_REASON_CHARACTERS]


def members_text(members: Mapping[int, bytes]) -> str:
    """As the key holds them: by broker id."""
    return ",".join(
        f"{broker_id}:{urlsafe_b64encode(members[broker_id]).decode().rstrip('=')}"
        for broker_id in sorted(members)
    )


@lru_cache(maxsize=8)
def parse_members(text: str) -> Mapping[int, bytes]:
    """Broker id -> incarnation; not to be changed. Raises SiteConfirmationError."""
    members: dict[int, bytes] = {}
    for one in text.split(",") if text else ():
        found = _MEMBER.fullmatch(one)
        if found is None or len(members) >= MAX_MEMBERS:
            raise SiteConfirmationError(f"{text[:200]!r} is no list of confirmed brokers")
        members[int(found[1])] = urlsafe_b64decode(found[2] + "==")
    if members_text(members) != text:
        raise SiteConfirmationError(f"{text[:200]!r}: brokers twice, or not in their order")
    return members
