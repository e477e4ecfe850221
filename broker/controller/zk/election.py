"""The controller election: the controller is the broker whose session created `/controller`, under
a new epoch (C-EL-01..13).

The ephemeral node and the increment of `/controller_epoch` are one `multi`, so there is never an
elected controller without an epoch of its own, nor an epoch that two of them share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.controller.zk import znodes
from broker.controller.zk.plan import Fence
from broker.controller.zk.port import (
    Create,
    Delete,
    SetData,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.state_reader import get_or_none

MAX_ROUNDS = 10
"""Each lost round means that another broker was elected or resigned meanwhile; after this many the
broker waits for the watch on `/controller`."""

FIRST_EPOCH = 0
NO_CONTROLLER = -1

_LOST_RACES = (
    ZooKeeperErrorKind.NODE_EXISTS, ZooKeeperErrorKind.BAD_VERSION, ZooKeeperErrorKind.NO_NODE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ControllerElectionResult:
    """`leader_id` is the controller; `fence` is set if that is this broker."""

    leader_id: int
    fence: Fence | None = None


async def elect(
    session: ZooKeeperSession, node_id: int, now_ms: Callable[[], int]
) -> ControllerElectionResult:
    """Finds the controller, or tries to become it if there is none. `/controller` is watched."""
    for _ in range(MAX_ROUNDS):
        await session.exists(znodes.CONTROLLER, watch=True)
        held = await get_or_none(session, znodes.CONTROLLER)
        if held is not None:
            leader_id = znodes.decode_controller(held[0])
            if leader_id != node_id:
                return ControllerElectionResult(leader_id)
            # Left by this broker before a restart, or by this session before a lost response:
            # it is elected again, under a new epoch (C-EL-11).
            await _remove(session, held[1].version)
            continue
        fence = await _try_elect(session, node_id, now_ms())
        if fence is not None:
            return ControllerElectionResult(node_id, fence)
    return ControllerElectionResult(NO_CONTROLLER)


async def current_leader(session: ZooKeeperSession) -> int:
    """The controller now, NO_CONTROLLER if there is none."""
    held = await get_or_none(session, znodes.CONTROLLER)
    return NO_CONTROLLER if held is None else znodes.decode_controller(held[0])


async def still_holds(session: ZooKeeperSession, fence: Fence) -> bool:
    """Whether no other broker was elected since."""
    stat = await session.exists(znodes.CONTROLLER_EPOCH)
    held = await get_or_none(session, znodes.CONTROLLER)
    return (
        stat is not None
        and stat.version == fence.zk_version
        and held is not None
        and held[1].ephemeral_owner == session.session_id
    )


async def resign(session: ZooKeeperSession, fence: Fence) -> None:
    """Removes `/controller`, unless another broker holds it."""
    try:
        await session.multi((fence.check, Delete(znodes.CONTROLLER)))
    except ZooKeeperError as error:
        if error.kind not in _LOST_RACES:
            raise


async def _remove(session: ZooKeeperSession, version: int) -> None:
    try:
        await session.delete(znodes.CONTROLLER, version)
    except ZooKeeperError as error:
        if error.kind not in _LOST_RACES:
            raise


async def _try_elect(session: ZooKeeperSession, node_id: int, now_ms: int) -> Fence | None:
    epoch, version = await _controller_epoch(session)
    try:
        await session.multi((
            Create(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), ephemeral=True),
            SetData(znodes.CONTROLLER_EPOCH, str(epoch + 1).encode(), version),
        ))  # fmt: skip
    except ZooKeeperError as error:
        if error.kind in _LOST_RACES:
            return None
        raise
    return Fence(epoch + 1, version + 1)


async def _controller_epoch(session: ZooKeeperSession) -> tuple[int, int]:
    """The last controller's epoch and its node's version; creates the node for the first one."""
    held = await get_or_none(session, znodes.CONTROLLER_EPOCH)
    if held is None:
        try:
            await session.create(znodes.CONTROLLER_EPOCH, str(FIRST_EPOCH).encode())
        except ZooKeeperError as error:
            if error.kind is not ZooKeeperErrorKind.NODE_EXISTS:
                raise
        held = await session.get(znodes.CONTROLLER_EPOCH)
    try:
        return int(held[0]), held[1].version
    except ValueError as error:
        raise znodes.ZnodeError(
            f"{znodes.CONTROLLER_EPOCH} holds no number: {held[0][:40]!r}"
        ) from error
