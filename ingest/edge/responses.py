"""Builds the edge's responses. Pure.

In: outcomes. Out: JSON bodies with what is wrong where, in English and Chinese. Never: HTTP
machinery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bus.contracts.headers import Reason
from bus.domain.kinds import COMMON_KIND
from bus.domain.parsed_message import ParsedMessage
from ingest.edge.admission import AdmittedRecord
from ingest.normalise.diagnostics import (
    Diagnostic,
    MessageContext,
    explain_message,
    reason_texts,
)

# How many records of a request get their damage located; a broken file has the same one everywhere.
MAX_EXPLAINED = 20
# Reasons whose place, or whose sender's interface, is worth more than the reason alone.
_EXPLAINED = frozenset(
    {Reason.NOT_JSON, Reason.NOT_UTF8, Reason.NOT_AN_OBJECT, Reason.NO_CHECKPOINT}
)


class RejectedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the request that is not valid; it is kept in the quarantine with this
    reason."""

    index: int
    reason: str
    field: str
    message: str
    message_zh: str


class WarnedItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something of an accepted record that is lost or changed."""

    index: int
    field: str
    message: str
    message_zh: str


class RecordsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`ids[i]` is the identity of record i, null where it was rejected."""

    accepted: int
    ids: list[str | None]
    rejected: list[RejectedItem]
    warnings: list[WarnedItem]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A request of which nothing was taken."""

    error: str
    message: str
    message_zh: str
    see: str = "docs/how-to-send.md"


def records_response(admitted: Sequence[AdmittedRecord], zone: str = "UTC") -> RecordsResponse:
    """For a request whose records are all durable; it says where the first unreadable ones are
    damaged."""
    ids = [None if record.reason else record.record_id for record in admitted]
    rejected: list[RejectedItem] = []
    warnings = [
        item
        for index, record in enumerate(admitted)
        for item in warning_items(index, record.warnings)
    ]
    for index, record in enumerate(admitted):
        if record.reason:
            english, chinese = reason_texts(record.reason)
            message, is_early = record.message, len(rejected) < MAX_EXPLAINED
            if record.reason in _EXPLAINED and message is not None and is_early:
                english, chinese = _locate(message, record.reason, zone)
            rejected.append(
                RejectedItem(
                    index=index,
                    reason=record.reason,
                    field=record.field,
                    message=english,
                    message_zh=chinese,
                )
            )
    accepted = len(admitted) - len(rejected)
    return RecordsResponse(accepted=accepted, ids=ids, rejected=rejected, warnings=warnings)


def warning_items(index: int, faults: Iterable[Diagnostic]) -> list[WarnedItem]:
    """What is to be said of one record or picture that was taken."""
    return [
        WarnedItem(index=index, field=f.field, message=f.message, message_zh=f.message_zh)
        for f in faults
    ]


def _locate(message: ParsedMessage, reason: str, zone: str) -> tuple[str, str]:
    """The fault with its place, as `check-message` says it."""
    for fault in explain_message(message, MessageContext(COMMON_KIND, zone)):
        if fault.reason == reason:
            return fault.message, fault.message_zh
    return reason_texts(reason)


def status_of(response: RecordsResponse) -> int:
    """422 only when nothing at all was accepted."""
    return 422 if response.rejected and not response.accepted else 200
