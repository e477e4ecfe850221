"""For how long nobody else can be given the partitions of this member of a group.

In: commits that the group accepted, and when they were asked for. Out: until when what is sent has
arrived before another member works. Never: longer than `MEMBER_FOR_S` behind an accepted commit:
with `DELIVERY_TIMEOUT_S`, after which what was sent is given up, that is one session, which must
have passed before another member is given the partitions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from alarm.dispatch.leased_producer import DELIVERY_TIMEOUT_S
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.standby_group import SESSION_TIMEOUT_S
from bus.client.model import TopicPartition
from bus.errors import BusError

log = logging.getLogger(__name__)

MEMBER_FOR_S = SESSION_TIMEOUT_S - DELIVERY_TIMEOUT_S


class CommitLease:
    """One thread, the consumer's. Invariant: before `until_s` (monotonic) what is sent is sent as a
    member that nobody follows yet."""

    def __init__(self, consumer: Consumer, topic_ids: Callable[[], Mapping[str, str]]) -> None:
        """`topic_ids`: of the topics as they are read, which a position is void without."""
        self._consumer = consumer
        self._topic_ids = topic_ids
        self.until_s = 0.0

    def end(self) -> None:
        """Nothing is certain any more, until a commit is accepted again."""
        self.until_s = 0.0

    def renew(
        self, starts: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> bool:  # fmt: skip
        """Whether nobody else can be given the partitions before what is sent now has arrived. If
        that is not known, where the records begin is committed first."""
        if time.monotonic() >= self.until_s:
            self.commit(starts, metadata)
        return time.monotonic() < self.until_s

    def commit(
        self, positions: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> None:  # fmt: skip
        """One that fails is no harm: what follows is not published before another succeeds.
        `metadata`: in place of the topics' ids."""
        asked_s, member = time.monotonic(), self._consumer.member_id
        try:
            self._consumer.commit(positions, metadata or self.ids(positions))
        except BusError as error:
            log.warning("dispatcher: the commit was not accepted: %s", error)
        else:
            self.on_accepted(asked_s, member)

    def ids(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The metadata of a commit."""
        topic_ids = self._topic_ids()
        return {place: topic_ids[place.topic] for place in places}

    def on_accepted(self, asked_s: float, member: str) -> None:
        """A commit that was asked for then. A client that is no member may commit for a group that
        has none."""
        if member and member == self._consumer.member_id:
            self.until_s = max(asked_s + MEMBER_FOR_S, self.until_s)
