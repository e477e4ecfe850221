"""Drives a machine: feeds it events, has its effects carried out in order, wakes it in time.

In: events (requests, answers, lost connections, time). Out: effects to the carrier, requests to
other nodes. Core: `machine.Machine`. Never: what an effect does to the disk or the images.
Invariant: every effect of an event is carried out before the next event; while one cannot be,
nothing is said to anybody.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from broker.clock.port import TimerHandle
from broker.controller.kraft.messages import Effect, Fetch, Moment, Request
from broker.controller.kraft.wire import answer_of, endpoints_in, request_of
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.peer.errors import PeerError, making_sense_of
from bus.errors import BusError, ErrorCode

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

log = logging.getLogger("broker.controller")

Result = TypeVar("Result")

DISK_PAUSE_S = 1.0
"""After the disk refused: how long until this node tries again."""

DOUBLED_S = 15.0
"""A leader that refuses this node as a namesake for so long does hear another one."""

LONGEST_SLEEP_MS = 3_600_000
"""A timer further away is set again then; nothing is due so late anyway."""


class Driver:
    """The loop around one machine."""

    def __init__(self, node: RaftNode) -> None:
        self._node = node
        self._effects: deque[Effect] = deque()
        self._timer: TimerHandle | None = None
        self._settling = False
        self._strangers: dict[int, None] = {}
        self._doubled_since: float | None = None
        self.is_stalled = False
        self.is_stopped = False

    def moment(self) -> Moment:
        """Now."""
        clock = self._node.clock
        return Moment(int(clock.monotonic() * 1000), clock.random.random())

    def stop(self) -> None:
        """Nothing happens any more."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # -- events -----------------------------------------------------------------------------

    def step(self, call: Callable[[Moment], Result]) -> Result:
        """One event with all that follows from it. Raises BusError while the disk refuses: nothing
        may be said that it has not stored, a vote least of all."""
        if not self.is_stalled:
            result = call(self.moment())
            self.settle()
        if self.is_stalled:
            raise BusError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata directory refuses")
        return result

    def event(self, call: Callable[[Moment], object]) -> None:
        """As `step`, for what nobody waits for."""
        if not self.is_stalled and not self.is_stopped:
            call(self.moment())
            self.settle()

    def connection_lost(self, node_id: int) -> None:
        """The other side reset a connection."""
        self.event(lambda now: self._node.machine.on_connection_lost(node_id, now))

    def settle(self) -> None:
        """Carry everything out, and wait for what comes next."""
        if self._settling or self.is_stopped:
            return
        self._settling = True
        was_stalled = self.is_stalled
        try:
            self._carry_all_out()
            self.is_stalled = False
        except (DiskError, LogError) as error:
            # The effect stays first in line. Meanwhile this node is silent, so that others take
            # over; it goes on where it was as soon as there is room again.
            self.is_stalled = True
            log.error("the metadata directory refuses, this node waits: %s", error)
        finally:
            self._settling = False
            self._arm()
        if not self.is_stalled:
            self._node.parked.wake()
            if was_stalled:
                self._node.flush_soon()

    def _carry_all_out(self) -> None:
        machine, effects = self._node.machine, self._effects
        while True:
            effects += machine.take_effects()
            if not effects:
                machine.poll(self.moment())
                effects += machine.take_effects()
                if not effects:
                    return
            while effects:
                try:
                    self._node.carrier.carry_out(effects[0])
                except (DiskError, LogError):
                    raise  # and it stays first
                except BaseException:
                    effects.popleft()  # a bug: it would only come again
                    raise
                effects.popleft()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.is_stopped:
            return
        wait_ms = self._node.machine.deadline_ms - self.moment().now_ms
        wait_s = min(max(wait_ms, 1), LONGEST_SLEEP_MS) / 1000
        if self.is_stalled:
            wait_s = DISK_PAUSE_S
        self._timer = self._node.clock.call_later(wait_s, self.settle)

    # -- requests to others -----------------------------------------------------------------

    def send(self, to: int, request: Request) -> None:
        """Send; the answer or its failure is an event."""
        node = self._node
        key, body = request_of(
            request,
            node.cluster_id,
            node.config["controller.quorum.fetch.max.bytes"],
            (node.endpoint,) if node.endpoint is not None else (),
        )

        def done(response: object) -> None:
            try:
                with making_sense_of(f"quorum node {to}"):
                    node.links.learn(endpoints_in(response))
                    answer = answer_of(request, response)
            except PeerError:
                failed(False)
                return
            if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._met_stranger(to)
            if isinstance(request, Fetch):
                self._is_doubled(to, answer.error is ErrorCode.DUPLICATE_VOTER)
            self.event(lambda now: node.machine.on_answer(to, request, answer, now))

        def failed(refused: bool) -> None:
            self.event(lambda now: node.machine.on_failure(to, request, now, refused=refused))

        node.links.send(
            to,
            type(request).__name__,
            key,
            body,
            node.config["controller.quorum.request.timeout.ms"],
            done,
            failed,
        )

    def _is_doubled(self, leader_id: int, refused: bool) -> None:
        """The leader hears another voter with this node's id. For a moment that may be this node's
        own last life with a directory that was replaced."""
        now = self._node.clock.monotonic()
        if not refused:
            self._doubled_since = None
        elif self._doubled_since is None:
            self._doubled_since = now
        elif now - self._doubled_since >= DOUBLED_S:
            self._doubled_since = None
            self._node.tell_namesake(f"fetches from the leader, node {leader_id}")

    def _met_stranger(self, node_id: int) -> None:
        """Another cluster's node. For a voter one may be misplaced; if most are, it is this node
        that is. An observer asks one at a time and takes the first one's word."""
        if node_id in self._strangers:
            return
        self._strangers[node_id] = None
        node = self._node
        log.error(
            "node %d belongs to another cluster than %s: correct the quorum's addresses "
            "or this node's log.dirs; nothing was changed", node_id, node.cluster_id,
        )  # fmt: skip
        enough = node.voters.majority if node.machine.core.is_voter else 1
        if len(self._strangers) >= enough and node.leader_id < 0:
            node.tell_misplaced(node_id)
