"""The site epoch: which of two mirrored clusters is the primary, since when, by whose word. Pure.

In: the text of the cluster-wide key `mirror.site.epoch`. Out: `SiteEpoch`, or SiteEpochError.
Never: an epoch that replaces another one of the same number, nor a newer one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

SITE_EPOCH_KEY = "mirror.site.epoch"
"""The dynamic configuration of all brokers of a cluster that holds its newest site epoch."""

MAX_NUMBER = (1 << 31) - 1
MAX_WHO_CHARACTERS = 100
_NOT_IN_WHO = re.compile(r"[^A-Za-z0-9_.@-]")
_TEXT = re.compile(
    r"number=([1-9][0-9]{0,9});kind=([a-z]{1,20});primary=([A-Za-z0-9_-]{1,64});"
    r"secondary=([A-Za-z0-9_-]{1,64});at_ms=(0|[1-9][0-9]{0,14});who=([A-Za-z0-9_.@-]{1,100})",
    re.ASCII,
)


class SiteEpochError(ValueError):
    """A text that is no site epoch, or an epoch that may not follow on the present one."""


class EpochKind(Enum):
    """Why the epoch began."""

    PLANNED = "planned"
    """Both sites answered: drained, fenced, handed over."""
    FORCED = "forced"
    """The primary did not answer; what it had alone is missing."""
    CANCELLED = "cancelled"
    """A planned switch was given up before the new primary took records."""
    REJOINED = "rejoined"
    """A former primary was cut back to what both sites hold; the primary is the same."""


@dataclass(frozen=True, slots=True)
class SiteEpoch:
    """`primary` and `secondary` are cluster ids; `at_ms` is the clock of `who`."""

    number: int
    kind: EpochKind
    primary: str
    secondary: str
    at_ms: int
    who: str

    @property
    def text(self) -> str:
        """As the key holds it."""
        return (
            f"number={self.number};kind={self.kind.value};primary={self.primary};"
            f"secondary={self.secondary};at_ms={self.at_ms};who={self.who}"
        )


def parse_site_epoch(text: str) -> SiteEpoch:
    """Raises SiteEpochError."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise SiteEpochError(f"{text[:200]!r} is no site epoch")
    number, kind, primary, secondary, at_ms, who = found.groups()
    if int(number) > MAX_NUMBER:
        raise SiteEpochError(f"site epoch {number} is too large")
    if primary == secondary:
        raise SiteEpochError(f"cluster {primary} cannot be both primary and secondary")
    try:
        return SiteEpoch(int(number), EpochKind(kind), primary, secondary, int(at_ms), who)
    except ValueError:
        raise SiteEpochError(f"{kind!r} is no kind of a site epoch") from None


def check_follows(present: SiteEpoch | None, wanted: SiteEpoch) -> None:
    """Raises SiteEpochError unless `wanted` is newer than `present`, or the same."""
    if present is None or wanted == present or wanted.number > present.number:
        return
    raise SiteEpochError(
        f"site epoch {wanted.number} of {wanted.who} comes too late: since {present.at_ms} this "
        f"cluster has site epoch {present.number} of {present.who} ({present.kind.value}, primary "
        f"{present.primary})"
    )


def who_text(user: str, host: str) -> str:
    """Who switches, in the characters that an epoch may hold."""
    return _NOT_IN_WHO.sub("_", f"{user}@{host}")[:MAX_WHO_CHARACTERS]
