"""Notices that may have been sent before: each marked, or one digest where there are too many.

In: the bodies of notices. Out: marked ones, or a digest's body. Pure. Never: a notice left out of
the digest's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bus.contracts.alarms import Alarm, Incident, NoticeDigest

MOST_SINGLE = 20
"""Of one notifier; a person reads no more mails of one minute than that."""
LISTED_IDS = 100
SEVERITIES = ("info", "warning", "critical")


class RepeatedNotice(NamedTuple):
    """A notice that may have been sent before."""

    subject: str
    event: Alarm | Incident

    @property
    def severity(self) -> str:
        return self.event.severity

    @property
    def began_at_ms(self) -> int:
        return self.event.raised_at_ms if isinstance(self.event, Alarm) else self.event.opened_at_ms

    @property
    def body(self) -> bytes:
        """Marked; of an alarm without the record, which its reader asks for by the id."""
        marked = msgspec.structs.replace(self.event, perhaps_sent_before=True)
        if isinstance(marked, Alarm):
            marked = msgspec.structs.replace(marked, record="")
        return msgspec.json.encode(marked)


def event_of(body: bytes) -> Alarm | Incident:
    """What a notice is about. Raises `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(body, type=Alarm)
    except msgspec.ValidationError:
        return msgspec.json.decode(body, type=Incident)


def digest_of(digest_id: str, notices: Sequence[RepeatedNotice]) -> NoticeDigest:
    """One for all of them; there is at least one."""
    alarms = sum(isinstance(one.event, Alarm) for one in notices)
    in_order = sorted(notices, key=lambda one: (one.began_at_ms, one.subject))
    return NoticeDigest(
        digest_id=digest_id,
        severity=max((one.severity for one in notices), key=_rank),
        alarms=alarms,
        incidents=len(notices) - alarms,
        first_at_ms=in_order[0].began_at_ms,
        last_at_ms=in_order[-1].began_at_ms,
        ids=[one.subject for one in in_order[:LISTED_IDS]],
    )


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
