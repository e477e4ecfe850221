"""Groups' offsets, copied every second to the target's coordinators.

In: the groups of the source. Out: commits at the target, without a leader epoch. Core:
`GroupMirror`. Never: a commit for a group that has members at the target; its coordinator refuses
those, since they come from no member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from bus.client.model import GroupOffsets, OffsetAndMetadata, TopicPartition
from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.offset_requests import commit_of_group, committed_offsets, offsets_of_groups
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.list_groups import ListGroupsRequest
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.plan.copied_topics import HeldOffsets
from dr_mirror.groups.plan.groups import GroupMirror, GroupSelection

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""A forced switch takes a group back by at most twice this."""
AGAIN_S = 3600.0
"""All are committed again so often; brokers forget the offsets of an idle group after days."""
TIMEOUT_MS = 10_000
BY_NAME = 9
"""The newest version of OffsetFetch and OffsetCommit that names topics."""
GROUP = 0


class GroupTarget(Protocol):
    """Where groups go on: `AppendTarget`, or `ProduceTarget`."""

    def held(self) -> Mapping[TopicPartition, HeldOffsets]:
        """What the target holds of every partition that is copied, named as at the source."""

    def translated(self, groups: Mapping[str, GroupOffsets]) -> Mapping[str, GroupOffsets]:
        """Groups' offsets of the source in the target's."""


class GroupCopier:
    """`run` until cancelled. Invariant: `refused` has the groups whose last commit was refused;
    what was committed at the source before `copied_ms` is at the target, but for those."""

    def __init__(self, context: CopyContext, target: GroupTarget) -> None:
        self._context = context
        self._target = target
        settings = context.settings
        self._selection = GroupSelection(settings.group_white_list, settings.group_black_list)
        self._mirror = GroupMirror()
        self._coordinators: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.copied_ms = -1

    async def run(self) -> None:
        """Copy again and again."""
        clock = self._context.clock
        again_s = clock.monotonic() + AGAIN_S
        while True:
            await clock.sleep(EVERY_S)
            if clock.monotonic() > again_s:
                self._mirror.forget()
                again_s = clock.monotonic() + AGAIN_S
            began_ms = now_ms()
            try:
                await self._copy_all()
                self.copied_ms = began_ms
            except (BusError, PeerError) as error:
                log.info("groups' offsets are copied later: %s", error)

    async def _copy_all(self) -> None:
        nodes = self._context.copied.source_nodes
        found = await asyncio.gather(*(self._of_node(node) for node in nodes))
        for of_node in found:
            for group, committed in self._target.translated(of_node).items():
                # Read last: never beyond what the target holds at the moment of the commit.
                named = self._context.names.keys_at_target(committed)
                held = self._context.names.keys_at_target(self._target.held())
                changed = self._mirror.changed(group, named, held)
                if changed:
                    await self._copy_group(group, changed)

    async def _of_node(self, node: int) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """The selected groups that this broker of the source coordinates."""
        channel = self._context.source.channel(node, "groups")
        listed = await channel.request(
            ApiKey.LIST_GROUPS, ListGroupsRequest(), timeout_ms=TIMEOUT_MS
        )
        groups = [g.group_id for g in listed.groups if self._selection.selects(g.group_id)]
        return await _fetch_offsets(channel, groups) if groups else {}

    async def _copy_group(
        self, group: str, changed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        try:
            channel = await self._coordinator(group)
            at_target = (await _fetch_offsets(channel, [group])).get(group, {})
            commits = self._mirror.commits(group, changed, at_target)
            if commits:
                accepted = await self._commit(channel, group, commits)
                self._mirror.on_committed(group, accepted)
            self.refused.pop(group, None)
        except (BusError, PeerError) as error:
            self._coordinators.pop(group, None)
            if group not in self.refused:
                log.info("offsets of group %s are not copied: %s", group, error)
            self.refused[group] = str(error)

    async def _coordinator(self, group: str) -> PeerChannel:
        node = self._coordinators.get(group)
        if node is None:
            asked = next(iter(self._context.copied.target_nodes), None)
            if asked is None:
                raise BusError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker of the target")
            answer = await self._context.target.channel(asked, "groups").request(
                ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", GROUP, [group]),
                timeout_ms=TIMEOUT_MS,
            )  # fmt: skip
            found = answer.coordinators[0]
            _check(found.error_code, group)
            node = self._coordinators[group] = found.node_id
        return self._context.target.channel(node, "groups")

    async def _commit(
        self,
        channel: PeerChannel,
        group: str,
        commits: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was accepted. Raises BusError where the group was refused."""
        answer = await channel.request(
            ApiKey.OFFSET_COMMIT, commit_of_group(group, commits),
            timeout_ms=TIMEOUT_MS, max_version=BY_NAME,
        )  # fmt: skip
        accepted = {}
        for topic in answer.topics:
            for one in topic.partitions:
                _check(one.error_code, group)
                partition = TopicPartition(topic.name, one.partition_index)
                accepted[partition] = commits[partition]
        return accepted


async def _fetch_offsets(
    channel: PeerChannel, groups: list[str]
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Everything that these groups have committed; one that its broker refuses is left out."""
    answer = await channel.request(
        ApiKey.OFFSET_FETCH, offsets_of_groups(groups), timeout_ms=TIMEOUT_MS, max_version=BY_NAME
    )
    return committed_offsets(answer)


def _check(code: int, detail: str) -> None:
    if code:
        raise BusError(ErrorCode.of(code), detail)
