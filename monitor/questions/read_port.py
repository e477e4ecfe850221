"""The one way by which a person's question that names somebody reaches a store.

In: a question, how it is put to a reader. Out: the answer, after the question is on the device.
Never: an answer to a question without a reason where the site asks for one, or while the questions'
file cannot be written.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from bus.domain.policy import PolicySettings
from ingest.store.port import RecordReader
from monitor.ports import AlarmReader
from monitor.questions.question import PersonQuestion, check_reason
from monitor.questions.question_log import QuestionLog

SAME_MS = 600_000
"""A question that comes again so soon, as that for its next page, is one line."""
MAX_RECENT = 2_000

Reader_co = TypeVar("Reader_co", covariant=True)
Answer = TypeVar("Answer")


class QueryPool(Protocol[Reader_co]):
    """A store that is asked in other threads; see `monitor.api.pool.ReaderPool`."""

    async def run(self, query: Callable[[Reader_co], Answer], /) -> Answer:
        """Put the question."""


class QuestionPort:
    """One per console. Invariant: what is in `_recent` is on the device."""

    def __init__(
        self,
        records: QueryPool[RecordReader],
        alarms: QueryPool[AlarmReader],
        previews: QueryPool[RecordReader],
        kept: QuestionLog,
        policy: PolicySettings,
        now_ms: Callable[[], int],
    ) -> None:
        self.policy = policy
        self.kept = kept
        self._records = records
        self._alarms = alarms
        self._previews = previews
        self._now_ms = now_ms
        self._recent: OrderedDict[bytes, int] = OrderedDict()

    async def records(
        self, question: PersonQuestion, query: Callable[[RecordReader], Answer]
    ) -> Answer:
        """Raises what `note` does, and `QueryUnavailable`."""
        await self.note(question)
        return await self._records.run(query)

    async def alarms(
        self, question: PersonQuestion, query: Callable[[AlarmReader], Answer]
    ) -> Answer:
        """The same of alarms."""
        await self.note(question)
        return await self._alarms.run(query)

    async def preview(
        self, question: PersonQuestion, query: Callable[[RecordReader], Answer]
    ) -> Answer:
        """The same of records, at the lowest priority."""
        await self.note(question)
        return await self._previews.run(query)

    async def note(self, question: PersonQuestion) -> None:
        """Keep it; one that names nobody is not kept. Raises `ReasonMissing`,
        `QuestionsUnavailable`."""
        check_reason(question, self.policy)
        if not question.names_somebody:
            return
        key, now_ms = _key(question), self._now_ms()
        last_ms = self._recent.get(key)
        if last_ms is not None and 0 <= now_ms - last_ms < SAME_MS:
            return
        await asyncio.to_thread(self.kept.add, question, now_ms)
        self._recent[key] = now_ms
        self._recent.move_to_end(key)
        while len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)


def _key(question: PersonQuestion) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(question, order="deterministic")).digest()
