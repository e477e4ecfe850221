"""What the edge answers. Pure.

In: outcomes. Out: JSON bodies with what is wrong where, in English and Chinese. Never: HTTP
machinery.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ingest.edge.intake import Taken
from ingest.normalise.faults import texts


class RejectedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the request that is not valid; it is kept in the quarantine with this
    reason."""

    index: int
    reason: str
    field: str
    message: str
    message_zh: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`ids[i]` is the identity of record i, null where it was rejected."""

    accepted: int
    ids: list[str | None]
    rejected: list[RejectedItem]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A request of which nothing was taken."""

    error: str
    message: str
    message_zh: str


def answer(taken: Sequence[Taken]) -> Answer:
    """For a request whose records are all durable."""
    ids = [None if record.reason else record.record_id for record in taken]
    rejected = []
    for index, record in enumerate(taken):
        if record.reason:
            english, chinese = texts(record.reason)
            rejected.append(
                RejectedItem(
                    index=index,
                    reason=record.reason,
                    field=record.field,
                    message=english,
                    message_zh=chinese,
                )
            )
    return Answer(accepted=len(taken) - len(rejected), ids=ids, rejected=rejected)


def status_of(given: Answer) -> int:
    """422 only when nothing at all was accepted."""
    return 422 if given.rejected and not given.accepted else 200
