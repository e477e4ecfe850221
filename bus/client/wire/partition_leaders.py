"""Where partitions begin and end, asked of their leaders; a new leader is found at once.

librdkafka's admin client asks the leader that it remembers, and waits for a dead one to come back.
Here a leader that hangs up or refuses is asked no more: the next question goes to whom the cluster
names by then. In: partitions. Out: offsets of those whose leader has answered. Never: a wait for a
partition that has no leader; a second question to a leader that did not answer the first one.
Blocking, for one thread at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bus.client.model import TopicAndPartition
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_LEADER_TIMEOUT_MS
from bus.protocol.apis import ApiKey
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.settings import BusSettings

EARLIEST, LATEST = -2, -1
_CONSUMER = -1

Offsets = dict[TopicAndPartition, int]


class PartitionLeaders:
    """Invariant: `_leaders` has nobody who did not answer since he was named."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        self._nodes = SyncClient.with_short_timeouts(bus, client_id)
        self._leaders: dict[TopicAndPartition, int] = {}
        self.failure: BusError | None = None
        """Why the last question has an answer that is not whole."""

    def end_offsets(self, places: Collection[TopicAndPartition]) -> Offsets:
        """Ends (exclusive), of those partitions whose leader answers now. Raises BusError
        SECURITY_DISABLED where our own client cannot log in."""
        return self._offsets(places, LATEST)

    def start_offsets(self, places: Collection[TopicAndPartition]) -> Offsets:
        """Where logs begin; otherwise as `end_offsets`."""
        return self._offsets(places, EARLIEST)

    def close(self) -> None:
        """Ask no more."""
        self._nodes.close()

    def _offsets(self, places: Collection[TopicAndPartition], timestamp: int) -> Offsets:
        self.failure = None
        found = self._asked(places, timestamp, silent={})
        left = [place for place in places if place not in found]
        if left:
            silent = {place: self._leaders.pop(place, -1) for place in left}
            found |= self._asked(left, timestamp, silent)
        return found

    def _asked(
        self,
        places: Collection[TopicAndPartition],
        timestamp: int,
        silent: Mapping[TopicAndPartition, int],
    ) -> Offsets:
        """`silent`: who has just not answered for a partition."""
        found: Offsets = {}
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
                request = _list_offsets(led, timestamp)
                answer = self._nodes.request_node(leader, ApiKey.LIST_OFFSETS, request)
            except BusError as error:
                self._failed(error)
            else:
                found |= self._answered(answer)
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
            for one in topic.partitions:
                self._leaders[topic.name or "", one.partition_index] = one.leader_id

    def _answered(self, answer: Any) -> Offsets:
        found: Offsets = {}
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code:
                    self._failed(BusError(ErrorCode.of(one.error_code), topic.name))
                else:
                    found[topic.name, one.partition_index] = one.offset
        return found

    def _failed(self, error: BusError) -> None:
        if error.code is ErrorCode.SECURITY_DISABLED:
            raise error
        self.failure = error


def _list_offsets(places: Iterable[TopicAndPartition], timestamp: int) -> ListOffsetsRequest:
    by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, number in places:
        by_topic[topic].append(ListOffsetsPartition(number, -1, timestamp))
    topics = [ListOffsetsTopic(name, asked) for name, asked in by_topic.items()]
    return ListOffsetsRequest(_CONSUMER, 0, topics, timeout_ms=CLIENT_LEADER_TIMEOUT_MS)
