"""Questions to the leaders of partitions: where logs begin and end, what stands at an offset.

librdkafka asks the leader that it remembers, and waits for a dead one to come back. Here a leader
that hangs up or refuses is asked no more, and the question goes to whom the cluster names by then.
In: partitions. Out: answers of those whose leader has answered. Never: a wait for a partition that
has no leader; a second question to a leader that did not answer the first one. Blocking, for one
thread at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeVar

from bus.client.model import TopicAndPartition
from bus.client.wire.offset_requests import EARLIEST, LATEST, list_offsets
from bus.client.wire.one_fetch import FetchFrom, fetched, one_fetch
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_LEADER_TIMEOUT_MS
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.wire import NO_UUID, Buffer
from bus.settings import BusSettings

READ_COMMITTED = 1

Offsets = dict[TopicAndPartition, int]
Value = TypeVar("Value")
AskLeader = Callable[[int, list[TopicAndPartition]], dict[TopicAndPartition, Value]]
"""Asks one node of partitions that it leads; what it refuses is left out. Raises BusError."""


class PartitionLeaders:
    """Invariant: `_leaders` has nobody who did not answer since he was named."""

    def __init__(
        self, bus: BusSettings, client_id: str, timeout_ms: int = CLIENT_LEADER_TIMEOUT_MS
    ) -> None:
        """`timeout_ms`: how long one node is waited for."""
        self._nodes = SyncClient.of(
            bus, client_id, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
        )
        self._timeout_ms = timeout_ms
        self._leaders: dict[TopicAndPartition, int] = {}
        self._ids: dict[str, bytes] = {}
        self.failure: BusError | None = None
        """Why the last question has an answer that is not whole."""

    def end_offsets(self, places: Collection[TopicAndPartition]) -> Offsets:
        """Ends (exclusive), of those partitions whose leader answers now. Raises BusError
        SECURITY_DISABLED where our own client cannot log in."""
        return self._ask(places, partial(self._offsets, LATEST))

    def start_offsets(self, places: Collection[TopicAndPartition]) -> Offsets:
        """Where logs begin; otherwise as `end_offsets`."""
        return self._ask(places, partial(self._offsets, EARLIEST))

    def fetch(self, place: TopicAndPartition, offset: int, max_bytes: int) -> Buffer | None:
        """Batches from the one that contains `offset` on, the first however large it is; empty at
        the last stable offset, None where no leader answers now. Raises as `end_offsets`."""
        return self._ask([place], partial(self._batches, offset, max_bytes)).get(place)

    def close(self) -> None:
        """Ask no more."""
        self._nodes.close()

    def _ask(
        self, places: Collection[TopicAndPartition], ask: AskLeader[Value]
    ) -> dict[TopicAndPartition, Value]:
        self.failure = None
        found = self._asked(places, ask, silent={})
        left = [place for place in places if place not in found]
        if left:
            silent = {place: self._leaders.pop(place, -1) for place in left}
            found |= self._asked(left, ask, silent)
        return found

    def _asked(
        self,
        places: Collection[TopicAndPartition],
        ask: AskLeader[Value],
        silent: Mapping[TopicAndPartition, int],
    ) -> dict[TopicAndPartition, Value]:
        """`silent`: who has just not answered for a partition."""
        found: dict[TopicAndPartition, Value] = {}
        try:
            self._learn({topic for topic, number in places if (topic, number) not in self._leaders})
        except BusError as error:
            self._failed(error)
        by_leader: defaultdict[int, list[TopicAndPartition]] = defaultdict(list)
        for place in places:
            leader = self._leaders.get(place, -1)
            if leader >= 0 and leader != silent.get(place, -1):
                by_leader[leader].append(place)
        for leader, led in by_leader.items():
            try:
                found |= ask(leader, led)
            except BusError as error:
                self._failed(error)
        return found

    def _learn(self, topics: Iterable[str]) -> None:
        """Who leads the partitions of these topics. Raises BusError."""
        wanted = [MetadataRequestTopic(name=name) for name in sorted(topics)]
        if not wanted:
            return
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        for topic in self._nodes.request(ApiKey.METADATA, request).topics:
            if topic.error_code:
                self._failed(BusError(ErrorCode.of(topic.error_code), topic.name or ""))
            self._ids[topic.name or ""] = topic.topic_id
            for one in topic.partitions:
                self._leaders[topic.name or "", one.partition_index] = one.leader_id

    def _offsets(self, timestamp: int, leader: int, led: list[TopicAndPartition]) -> Offsets:
        request = list_offsets(led, timestamp, self._timeout_ms)
        answer = self._nodes.request_node(leader, ApiKey.LIST_OFFSETS, request)
        found: Offsets = {}
        for topic in answer.topics:
            for one in topic.partitions:
                if self._is_answered(one.error_code, topic.name):
                    found[topic.name, one.partition_index] = one.offset
        return found

    def _batches(
        self, offset: int, max_bytes: int, leader: int, led: list[TopicAndPartition]
    ) -> dict[TopicAndPartition, Buffer]:
        [(topic, number)] = led
        key = self._ids.get(topic, NO_UUID), number
        request = one_fetch(
            key, FetchFrom(topic, offset), max_bytes=max_bytes, isolation_level=READ_COMMITTED
        )
        answer = self._nodes.request_node(leader, ApiKey.FETCH, request)
        if not self._is_answered(answer.error_code, topic):
            return {}
        one = answer.responses[0].partitions[0]
        return {led[0]: fetched(one.records)} if self._is_answered(one.error_code, topic) else {}

    def _is_answered(self, error_code: int, topic: str) -> bool:
        if error_code:
            self._failed(BusError(ErrorCode.of(error_code), topic))
        return not error_code

    def _failed(self, error: BusError) -> None:
        if error.code is ErrorCode.SECURITY_DISABLED:
            raise error
        self.failure = error
