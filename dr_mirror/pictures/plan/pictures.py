"""Which pictures are copied to the other site, when one is tried again, what is said of them. Pure.

In: records of the target's topics, what a copy came to. Out: names, the next time, `PictureStatus`.
Never: a host of a record's; a picture that is given up without its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from bus.contracts.mirror_status import PictureStatus
from bus.contracts.pictures import picture_names as names_in_record
from bus.contracts.topics import DAY_MS, EVENT_ALARM
from dr_mirror.policy.proof_pace import ProofPace

MAX_PICTURES = 8
"""Of one record: the contracts know three addresses in one."""
FIRST_RETRY_MS, LAST_RETRY_MS = 5_000, 600_000
GIVE_UP_MS = DAY_MS
"""An edge whose picture store was away brings a picture later than its record."""
MAX_LISTED = 20


class _Alarmed(msgspec.Struct):
    """Of an alarm what names pictures; other keys are passed over."""

    picture_url: str = ""
    record: str = ""


_ALARMED = msgspec.json.Decoder(_Alarmed)


def picture_names(topic: str, value: bytes | None) -> list[str]:
    """The pictures of one record, by their names in the store of any site."""
    if value is None:
        return []
    if topic != EVENT_ALARM:
        return names_in_record(value)[:MAX_PICTURES]
    try:
        alarm = _ALARMED.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return names_in_record(alarm.record, alarm.picture_url)[:MAX_PICTURES]


class CopyOutcome(StrEnum):
    """What trying to copy one picture came to. `COPIED`: read back and equal; `PRESENT`: was there
    and equal; `ABSENT`: the source has none (yet); `OTHER`: the target has another picture of that
    name; `REFUSED`: the target takes none like it; `AWAY`: one of both does not answer."""

    COPIED = "copied"
    PRESENT = "present"
    ABSENT = "absent"
    OTHER = "other"
    REFUSED = "refused"
    AWAY = "away"

    @property
    def is_done(self) -> bool:
        """Whether the target has it."""
        return self in (CopyOutcome.COPIED, CopyOutcome.PRESENT)


class TriedPicture(NamedTuple):
    """`digest`: SHA-256 of the source's bytes, empty where none were read. `detail`: what was
    answered."""

    name: str
    outcome: CopyOutcome
    digest: bytes = b""
    size: int = 0
    detail: str = ""


class WaitingPicture(NamedTuple):
    """One that the target lacks. `first_ms`: since when it is known; `attempts`: so far."""

    name: str
    first_ms: int
    attempts: int


class RetainedPicture(NamedTuple):
    """One that was copied and is compared again. `at_ms`: when it was copied."""

    name: str
    digest: bytes
    at_ms: int


def next_try_ms(waiting: WaitingPicture, outcome: CopyOutcome, now_ms: int) -> int | None:
    """When it is tried again; None: it is given up."""
    if outcome is CopyOutcome.ABSENT and now_ms - waiting.first_ms >= GIVE_UP_MS:
        return None
    if outcome in (CopyOutcome.OTHER, CopyOutcome.REFUSED):
        return None
    return now_ms + min(FIRST_RETRY_MS << min(waiting.attempts, 20), LAST_RETRY_MS)


def next_comparison_ms(picture: RetainedPicture, pace: ProofPace, now_ms: int) -> int:
    """When it is compared again: every interval while it is recent, then once a scrub."""
    is_recent = now_ms - picture.at_ms < pace.recent_ms
    return now_ms + (pace.interval_ms if is_recent else pace.scrub_ms)


class PictureCheck(StrEnum):
    """What comparing a copied picture again came to. `GONE`: past its days at the target, or
    deleted by somebody."""

    EQUAL = "equal"
    DIFFERS = "differs"
    GONE = "gone"
    AWAY = "away"


def in_all(found: Sequence[PictureStatus]) -> PictureStatus:
    """Of several directions at once; none: nothing is copied."""
    if len(found) < 2:
        return found[0] if found else PictureStatus()
    return PictureStatus(
        policy=found[0].policy,
        waiting=sum(one.waiting for one in found),
        oldest_ms=_oldest(one.oldest_ms for one in found),
        unread_records=-1 if any(one.unread_records < 0 for one in found)
        else sum(one.unread_records for one in found),
        copied=sum(one.copied for one in found),
        copied_bytes=sum(one.copied_bytes for one in found),
        present=sum(one.present for one in found),
        given_up=sum(one.given_up for one in found),
        shown_given_up=tuple(each for one in found for each in one.shown_given_up)[:MAX_LISTED],
        other=tuple(each for one in found for each in one.other)[:MAX_LISTED],
        compared=sum(one.compared for one in found),
        differing=tuple(each for one in found for each in one.differing)[:MAX_LISTED],
        oldest_compared_ms=_oldest(one.oldest_compared_ms for one in found),
        problem="; ".join(dict.fromkeys(one.problem for one in found if one.problem)),
    )  # fmt: skip


def _oldest(times: Iterable[int]) -> int:
    return min((each for each in times if each >= 0), default=-1)
