"""A simulated member of a consumer group (classic protocol): joins, reads its share, commits.

A static member restarts occasionally; a cooperative one goes on reading the partitions it keeps.

In: the group's name and its topics. Out: events `poll`, `commit`, `committed`, `outofrange`. Never: a
commit past its own position, or one outside of the generation it knows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.heartbeat import HeartbeatRequest
from bus.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bus.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bus.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.checker.history import Commit, CommittedEvent, OutOfRange
from tests.simulation.client import Client, ClientSurroundings
from tests.simulation.consumer import Reader, Reading
from tests.simulation.membership import (
    Membership,
    Ownership,
    Share,
    owned_in,
    pack_share,
    spread,
    spread_without_claims,
    subscription,
    unpack_share,
)
from tests.simulation.wire import WireError

SESSION_TIMEOUT_MS = 6000
REBALANCE_TIMEOUT_MS = 8000
HEARTBEAT_S = 1.0
PAUSE_S = (0.1, 0.4)

STARTS_AGAIN = 0.05
"""Probability per heartbeat that a static member restarts."""


class GroupError(Exception):
    """The coordinator refused; `code` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


class Member:
    """One member; `run` until `stopping`."""

    def __init__(
        self,
        name: str,
        around: ClientSurroundings,
        group: str,
        kind: Membership = Membership.EAGER,
        ownership: Ownership | None = None,
    ) -> None:
        """`ownership` is shared by all members of the group and records their shares."""
        self.client = Client(name, around)
        self.around, self.group, self.kind = around, group, kind
        self.ownership = ownership or Ownership(around.complain)
        self._instance_id = name if kind is Membership.STATIC else None
        self.reader = Reader(self.client, group)
        self.stopping = False
        self.commits = 0
        self._member_id = ""
        self._generation = -1
        self._coordinator = -1
        self._readings: list[Reading] = []
        self._committed: dict[tuple[str, int], int] = {}

    async def run(self, topics: list[str]) -> None:
        """Joins, reads and commits; rejoins after every error."""
        while not self.stopping:
            try:
                await self.client.refresh(topics)
                if any(topic not in self.client.topics for topic in topics):
                    # This broker does not know them yet; an empty assignment would stay.
                    await self._pause()
                    continue
                await self._find()
                share = await self._join(topics)
                if await self._start(share):
                    continue  # revoked partitions get a new owner once all members have rejoined
                await self._read()
            except WireError as error:
                self.around.trace(f"{self.client.name} leaves broker {self._coordinator}: {error}")
                self._coordinator = -1
                self._readings = []
            except GroupError as error:
                self.around.trace(f"{self.client.name} hears {error} of {self._coordinator}")
                self._on_refusal(error.code)
            await self._pause()

    def _on_refusal(self, code: ErrorCode) -> None:
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self._readings = []  # they may have another owner by now
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id, self._generation = "", -1
        elif code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = -1

    async def _pause(self) -> None:
        low, high = PAUSE_S
        await asyncio.sleep(low + (high - low) * self.around.dice.random())

    async def _ask(self, key: ApiKey, body: Any, timeout_s: float = 5.0) -> Any:
        answer = await self.client.ask(self._coordinator, key, body, timeout_s=timeout_s)
        code = getattr(answer, "error_code", 0)
        if code:
            if key is ApiKey.JOIN_GROUP and code == ErrorCode.MEMBER_ID_REQUIRED:
                return answer
            raise GroupError(code)
        return answer

    # --- joining ---------------------------------------------------------------------------------

    async def _find(self) -> None:
        if self._coordinator >= 0:
            return
        request = FindCoordinatorRequest(key=self.group, key_type=0, coordinator_keys=[self.group])
        answer = await self.client.ask(-1, ApiKey.FIND_COORDINATOR, request)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            raise GroupError(found.error_code)
        self.client.brokers[found.node_id] = (found.host, found.port)
        self._coordinator = found.node_id

    async def _join(self, topics: list[str]) -> Share:
        request = JoinGroupRequest(
            group_id=self.group, session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, member_id=self._member_id,
            group_instance_id=self._instance_id, protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name=self.kind.protocol, metadata=subscription(topics, self._owned())
                )
            ],
        )  # fmt: skip
        joined = await self._ask(ApiKey.JOIN_GROUP, request, REBALANCE_TIMEOUT_MS / 1000 + 4)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = joined.member_id
            joined = await self._ask(ApiKey.JOIN_GROUP, request, REBALANCE_TIMEOUT_MS / 1000 + 4)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        shares: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            members = {one.member_id: owned_in(bytes(one.metadata)) for one in joined.members}
            shares = self._shares(members, topics, not joined.skip_assignment)
        synced = await self._ask(
            ApiKey.SYNC_GROUP,
            SyncGroupRequest(
                group_id=self.group, generation_id=self._generation, member_id=self._member_id,
                group_instance_id=self._instance_id, protocol_type="consumer",
                protocol_name=self.kind.protocol, assignments=shares,
            ),
            REBALANCE_TIMEOUT_MS / 1000 + 4,
        )  # fmt: skip
        share = unpack_share(bytes(synced.assignment))
        self.ownership.owns(self._generation, self.client.name, share)
        return share

    def _owned(self) -> Share:
        """The partitions that it keeps reading during the rebalance."""
        if self.kind is not Membership.COOPERATIVE:
            return []
        return [(one.topic, one.partition) for one in self._readings]

    def _shares(
        self, members: dict[str, Share], topics: list[str], is_news: bool
    ) -> list[SyncGroupRequestAssignment]:
        everything = [
            (topic, index)
            for topic in sorted(topics)
            if topic in self.client.topics
            for index in sorted(self.client.topics[topic].partitions)
        ]
        cooperates = self.kind is Membership.COOPERATIVE
        shares = spread_without_claims(everything, members) if cooperates else spread(
            everything, members
        )
        if is_news:
            self.ownership.shared_out(self._generation, shares.values())
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=pack_share(share))
            for member, share in shares.items()
        ]

    async def _start(self, share: Share) -> bool:
        """Starts every new partition of the share at its committed offset. Returns whether it has
        revoked any of its own."""
        owned, wanted = self._owned(), set(share)
        kept = [one for one in self._readings if (one.topic, one.partition) in wanted & set(owned)]
        self._readings = kept
        await self._start_new([pair for pair in share if pair not in owned])
        return not wanted.issuperset(owned)

    async def _start_new(self, share: Share) -> None:
        if not share:
            return
        asked_ms = self.client.now_ms
        by_topic: dict[str, list[int]] = {}
        for topic, partition in share:
            by_topic.setdefault(topic, []).append(partition)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, topics=self._asked(by_topic))],
            require_stable=True,
        )
        answer = await self._ask(ApiKey.OFFSET_FETCH, request)
        group = answer.groups[0]
        if group.error_code:
            raise GroupError(group.error_code)
        names = {view.topic_id: view.name for view in self.client.topics.values()}
        for topic in group.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for one in topic.partitions:
                if one.error_code:
                    raise GroupError(one.error_code)
                await self._begin(name, one.partition_index, one.committed_offset, asked_ms)

    def _asked(self, by_topic: dict[str, list[int]]) -> list[OffsetFetchRequestTopics]:
        return [
            OffsetFetchRequestTopics(
                name=topic, topic_id=self.client.topics[topic].topic_id, partition_indexes=indexes
            )
            for topic, indexes in by_topic.items()
            if topic in self.client.topics
        ]

    async def _begin(self, topic: str, partition: int, offset: int, asked_ms: int) -> None:
        self.around.record(
            CommittedEvent(
                at_ms=self.client.now_ms, asked_ms=asked_ms, group=self.group, topic=topic,
                partition=partition, offset=offset,
            )
        )  # fmt: skip
        start = offset if offset >= 0 else await self.reader.start_of(topic, partition)
        self._committed[topic, partition] = start
        self._readings.append(self.reader.begin(topic, partition, start, False))

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self) -> None:
        heartbeat_at = self.client.clock.monotonic() + HEARTBEAT_S
        while not self.stopping:
            for reading in self._readings:
                try:
                    await self.reader.poll(reading)
                except WireError as error:
                    self.around.trace(f"{self.client.name} cannot poll {reading.topic}: {error}")
                    if "OFFSET_OUT_OF_RANGE" in str(error):
                        await self._begin_at_start(reading)
                    await self._pause()
            if not self._readings:
                await self._pause()
            if self.client.clock.monotonic() >= heartbeat_at:
                await self._commit()
                await self._heartbeat()
                if self._instance_id and self.around.dice.random() < STARTS_AGAIN:
                    self.around.trace(f"{self.client.name} starts again")
                    self._member_id, self._generation, self._readings = "", -1, []
                    return
                heartbeat_at = self.client.clock.monotonic() + HEARTBEAT_S

    async def _begin_at_start(self, reading: Reading) -> None:
        """Resets to the log's start, because the records at the position are deleted."""
        with suppress(WireError):
            start = await self.reader.start_of(reading.topic, reading.partition)
            self.around.record(
                OutOfRange(
                    at_ms=self.client.now_ms, group=self.group, topic=reading.topic,
                    partition=reading.partition, start=start,
                )
            )  # fmt: skip
            fresh = self.reader.begin(reading.topic, reading.partition, start, False)
            self._committed[reading.topic, reading.partition] = start
            self._readings[self._readings.index(reading)] = fresh

    async def _heartbeat(self) -> None:
        await self._ask(
            ApiKey.HEARTBEAT,
            HeartbeatRequest(
                group_id=self.group, generation_id=self._generation, member_id=self._member_id,
                group_instance_id=self._instance_id,
            ),
        )  # fmt: skip

    async def _commit(self) -> None:
        moved = [
            one for one in self._readings
            if one.position != self._committed[one.topic, one.partition]
        ]  # fmt: skip
        if not moved:
            return
        positions = [(one.topic, one.partition, one.position) for one in moved]
        ops = [self.around.next_op() for _ in positions]
        self._note(ops, positions, "asked")
        answer = await self._ask(ApiKey.OFFSET_COMMIT, self._commit_request(positions))
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        for code in codes:
            if code:
                self._note(ops, positions, "refused")
                raise GroupError(code)
        self._note(ops, positions, "ok")
        self.commits += 1
        for topic, partition, offset in positions:
            self._committed[topic, partition] = offset

    def _commit_request(self, positions: list[tuple[str, int, int]]) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for topic, partition, offset in positions:
            view = self.client.topics[topic]
            entry = topics.setdefault(
                topic, OffsetCommitRequestTopic(name=topic, topic_id=view.topic_id, partitions=[])
            )
            entry.partitions.append(
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            )
        return OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self._generation,
            member_id=self._member_id, group_instance_id=self._instance_id,
            topics=list(topics.values()),
        )  # fmt: skip

    def _note(self, ops: list[int], positions: list[tuple[str, int, int]], outcome: str) -> None:
        for op, (topic, partition, offset) in zip(ops, positions, strict=True):
            self.around.record(
                Commit(
                    at_ms=self.client.now_ms, op=op, group=self.group, topic=topic,
                    partition=partition, offset=offset, outcome=outcome,
                )
            )  # fmt: skip
