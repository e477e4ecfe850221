"""Carrying a change of the voters through: from the request to the commit of its record.

In: the node, a change, where its outcome goes. Out: exactly one outcome. Core: `Membership`. Never:
a wait without end; what is not committed in time is answered REQUEST_TIMED_OUT, and may still be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.controller.kraft.machine import Machine
from broker.controller.kraft.membership import BUSY, Outcome
from broker.controller.kraft.voters import ReplicaKey, Voter
from bus.errors import ErrorCode

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

LOOK_S = 0.02
"""How often a waiting change looks whether it is done; a commit takes about as long."""

DEFAULT_WAIT_MS = 5_000
MAX_WAIT_MS = 60_000

Told = Callable[[Outcome], None]


def add_voter(
    node: RaftNode, voter: Voter, timeout_ms: int, when_committed: bool, told: Told
) -> None:
    """Give a vote; waits until the new voter has caught up."""
    _carry(
        node,
        lambda machine: machine.membership.add(voter),
        lambda: node.voters.has(voter.key),
        timeout_ms,
        when_committed,
        told,
    )


def remove_voter(node: RaftNode, key: ReplicaKey, told: Told) -> None:
    """Take a vote."""
    _carry(
        node,
        lambda machine: machine.membership.remove(key),
        lambda: not node.voters.has(key),
        DEFAULT_WAIT_MS,
        True,
        told,
    )


def update_voter(node: RaftNode, voter: Voter, told: Told) -> None:
    """Take a voter's word for where it is and what it can work with."""
    _carry(
        node,
        lambda machine: machine.membership.update(voter),
        lambda: node.voters.find(voter.key.id) == voter,
        DEFAULT_WAIT_MS,
        True,
        told,
    )


def raise_version(node: RaftNode, level: int, validate_only: bool, told: Told) -> None:
    """Raise kraft.version: from then on the log names the voters."""

    def placed(outcome: Outcome) -> None:
        if outcome is BUSY:
            told(outcome)
            return
        _carry(
            node,
            lambda machine: machine.membership.raise_version(level, validate_only=validate_only),
            lambda: not node.machine.core.voters.static,
            DEFAULT_WAIT_MS,
            True,
            told,
        )

    node.tell_own_place(placed)


def _carry(
    node: RaftNode,
    ask: Callable[[Machine], Outcome],
    appended: Callable[[], bool],
    timeout_ms: int,
    when_committed: bool,
    told: Told,
) -> None:
    wait_ms = min(timeout_ms if timeout_ms > 0 else DEFAULT_WAIT_MS, MAX_WAIT_MS)
    deadline = node.clock.monotonic() + wait_ms / 1000
    epoch = node.epoch

    def look() -> None:
        core = node.machine.core
        if appended() and core.high_watermark > core.voters.latest_offset:
            told(Outcome(ErrorCode.NONE))  # also where a leader has just removed itself
            return
        if node.epoch != epoch or not node.is_active:
            told(Outcome(ErrorCode.NOT_CONTROLLER, "another node leads the quorum now"))
            return
        if appended():
            if not when_committed:
                told(Outcome(ErrorCode.NONE))
                return
            wait_on()
        else:
            node.change_voters(ask, lambda outcome: wait_on() if outcome.waits else told(outcome))

    def wait_on() -> None:
        if node.clock.monotonic() >= deadline:
            told(Outcome(ErrorCode.REQUEST_TIMED_OUT, "the change is not committed yet"))
            return
        node.clock.call_later(LOOK_S, look)

    node.change_voters(ask, lambda outcome: look() if outcome.waits else told(outcome))
