"""The group coordinator: what members and administrators ask of groups.

Core: `ClassicGroup`. Shell: finds the shard (`leadership`), runs the group's machine and has its
effects carried out; offsets are `commits`'.
Never: a rule about groups beyond which shard they are in.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.appender import ErrorCallback
from broker.coordinator.clock_reading import read_clock
from broker.coordinator.commits import Commits, log_failure
from broker.coordinator.effects import JoinRequest, JoinResult, SyncRequest, SyncResult
from broker.coordinator.group import ClassicGroup
from broker.coordinator.shard import Shard
from broker.coordinator.states import GroupState
from bus.errors import ErrorCode


class GroupCoordinator(Commits):
    """All groups whose partition of `__consumer_offsets` this broker leads."""

    # -- membership ------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> None:
        """Answered through `request.token`, called with a `JoinResult`."""
        answer: Callable[[JoinResult], None] = request.token  # type: ignore[assignment]
        if not group_id:
            answer(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
            return
        limits = self._limits
        shortest, longest = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            answer(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            answer(JoinResult(shard, request.member_id))
            return
        now = read_clock(self._clock)
        if request.member_id and group_id not in shard.groups:
            answer(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        group = shard.get_or_create(group_id, now)
        self._carry_out(shard, group, group.join(request, now))

    def sync(self, group_id: str, request: SyncRequest) -> None:
        """Answered through `request.token`, called with a `SyncResult`."""
        answer: Callable[[SyncResult], None] = request.token  # type: ignore[assignment]
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            answer(SyncResult(found))
            return
        shard, group = found
        self._carry_out(shard, group, group.sync(request, read_clock(self._clock)))

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A member lives."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        shard, group = found
        error, effects = group.heartbeat(
            member_id, group_instance_id, generation, read_clock(self._clock)
        )
        self._carry_out(shard, group, effects)
        return error

    def leave(
        self, group_id: str, member_id: str, group_instance_id: str | None
    ) -> tuple[ErrorCode, str]:
        """A member goes; its id, which a static member need not have named."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found, member_id
        shard, group = found
        error, left, effects = group.leave(member_id, group_instance_id, read_clock(self._clock))
        self._carry_out(shard, group, effects)
        return error, left

    def _find(self, group_id: str) -> tuple[Shard, ClassicGroup] | ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else (shard, group)

    # -- administration --------------------------------------------------------------------

    def groups(self) -> list[ClassicGroup]:
        """Every group that is loaded here."""
        return [
            group
            for shard in self._shards.values()
            if shard.loaded
            for group in shard.groups.values()
        ]

    def describe(self, group_id: str) -> ClassicGroup | ErrorCode:
        """The group, GROUP_ID_NOT_FOUND, or why this coordinator cannot say."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.groups.get(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def delete(self, group_id: str, done: ErrorCallback) -> None:
        """Remove a group without members, with its offsets."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            done(shard)
            return
        group = shard.groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.state is not GroupState.EMPTY:
            done(ErrorCode.NON_EMPTY_GROUP)
            return

        def stored(error: ErrorCode) -> None:
            if not error:
                self._drop(shard, group_id)
            done(error)

        self._append(shard, shard.deletion(group_id), stored)

    def expire(self) -> None:
        """Remove what has outlived `offsets.retention.minutes`."""
        for shard in list(self._shards.values()):
            if not shard.loaded:
                continue
            records, gone = shard.expiry(self._clock.now_ms())
            self._append(shard, records, self._dropper(shard, gone))

    def _dropper(self, shard: Shard, gone: list[str]) -> ErrorCallback:
        def stored(error: ErrorCode) -> None:
            log_failure(error)
            for group_id in gone if not error else ():
                self._drop(shard, group_id)

        return stored

    def _drop(self, shard: Shard, group_id: str) -> None:
        group = shard.groups.pop(group_id, None)
        if group is not None and group.state is GroupState.EMPTY:
            group.die(ErrorCode.GROUP_ID_NOT_FOUND, read_clock(self._clock))
