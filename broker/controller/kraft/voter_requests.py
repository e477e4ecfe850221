"""Runs a voter change from the request to the commit of its record.

Each change calls back exactly once. A change that is not committed in time is answered
REQUEST_TIMED_OUT, and may still be committed.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.raft import Raft
from broker.controller.kraft.raft.voter_changes import BUSY, VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter
from bus.errors import ErrorCode

POLL_S = 0.02
"""How often a pending change is checked; a commit takes about as long."""

DEFAULT_WAIT_MS = 5_000
MAX_WAIT_MS = 60_000

OnResult = Callable[[VoterChangeResult], None]


def add_voter(
    node: RaftNode, voter: Voter, timeout_ms: int, when_committed: bool, on_result: OnResult
) -> None:
    """Adds a voter; waits until it has caught up."""
    _run(
        node,
        lambda raft: raft.voter_changes.add(voter),
        lambda: node.voters.has(voter.key),
        timeout_ms,
        when_committed,
        on_result,
    )


def remove_voter(node: RaftNode, key: ReplicaKey, on_result: OnResult) -> None:
    """Removes a voter."""
    _run(
        node,
        lambda raft: raft.voter_changes.remove(key),
        lambda: not node.voters.has(key),
        DEFAULT_WAIT_MS,
        True,
        on_result,
    )


def update_voter(node: RaftNode, voter: Voter, on_result: OnResult) -> None:
    """Records a voter's endpoint and supported kraft.version."""
    _run(
        node,
        lambda raft: raft.voter_changes.update(voter),
        lambda: node.voters.find(voter.key.id) == voter,
        DEFAULT_WAIT_MS,
        True,
        on_result,
    )


def raise_version(node: RaftNode, level: int, validate_only: bool, on_result: OnResult) -> None:
    """Raises kraft.version: from then on the log names the voters."""

    def registered(result: VoterChangeResult) -> None:
        if result is BUSY:
            on_result(result)
            return
        _run(
            node,
            lambda raft: raft.voter_changes.raise_version(level, validate_only=validate_only),
            lambda: not node.raft.quorum.voters.static,
            DEFAULT_WAIT_MS,
            True,
            on_result,
        )

    node.register_endpoint(registered)


def _run(
    node: RaftNode,
    change: Callable[[Raft], VoterChangeResult],
    appended: Callable[[], bool],
    timeout_ms: int,
    when_committed: bool,
    on_result: OnResult,
) -> None:
    wait_ms = min(timeout_ms if timeout_ms > 0 else DEFAULT_WAIT_MS, MAX_WAIT_MS)
    deadline = node.clock.monotonic() + wait_ms / 1000
    epoch = node.epoch

    def poll() -> None:
        quorum = node.raft.quorum
        if appended() and quorum.high_watermark > quorum.voters.latest_offset:
            # also where a leader has just removed itself
            on_result(VoterChangeResult(ErrorCode.NONE))
            return
        if node.epoch != epoch or not node.is_active:
            on_result(
                VoterChangeResult(ErrorCode.NOT_CONTROLLER, "another node leads the quorum now")
            )
            return
        if appended():
            if not when_committed:
                on_result(VoterChangeResult(ErrorCode.NONE))
                return
            wait()
        else:
            node.change_voters(
                change, lambda result: wait() if result.is_pending else on_result(result)
            )

    def wait() -> None:
        if node.clock.monotonic() >= deadline:
            on_result(
                VoterChangeResult(ErrorCode.REQUEST_TIMED_OUT, "the change is not committed yet")
            )
            return
        node.clock.call_later(POLL_S, poll)

    node.change_voters(change, lambda result: poll() if result.is_pending else on_result(result))
