"""Drives a machine: feeds it events one at a time, has their effects carried out, wakes it in time.

In: events (requests of others, answers, lost connections, time). Out: effects to the carrier,
requests to other nodes, answers. Core: `machine.Machine`. Never: what an effect does to the disk or
the images.
Invariant: every effect of an event is carried out, and only then its answer given, before the next
event is taken. While an effect waits for the disk the events wait in `_mailbox`; the loop goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.clock.port import TaskHandle, TimerHandle
from broker.controller.kraft.carrier import Carrier, DirectoryFailed, ShellEffect
from broker.controller.kraft.context import QuorumContext, moment
from broker.controller.kraft.messages import Effect, Fetch, Moment, Request
from broker.controller.kraft.wire import answer_of, endpoints_in, request_of
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.peer.errors import PeerError, making_sense_of
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller")

Result = TypeVar("Result")

DISK_PAUSE_S = 1.0
"""After the disk refused: how long until this node tries again."""

MAX_WAITING = 2000
"""Requests of others that wait while this node's Raft waits for its disk: one of each node of the
largest cluster. Those beyond it are told that this node is busy, and come again."""

DOUBLED_S = 15.0
"""A leader that refuses this node as a namesake for so long does hear another one."""

LONGEST_SLEEP_MS = 3_600_000
"""A timer further away is set again then; nothing is due so late anyway."""


def _nothing(*_: object) -> None:
    """Nobody waits for it."""


@dataclass(slots=True)
class Event:
    """Something the machine must hear of. `refused` is None for what this node itself waits for."""

    call: Callable[[Moment], Any]
    answer: Callable[[Any], None] = _nothing
    refused: Callable[[], None] | None = None
    result: Any = None


class DriverHost(Protocol):
    """What the loop needs of the node."""

    def on_settled(self) -> None:
        """Every effect is carried out: answer the fetches that wait, flush what was appended."""

    def directory_failed(self, error: Exception) -> None:
        """The metadata directory has lost something; the machine has resigned."""

    def tell_misplaced(self, node_id: int) -> None:
        """Most of the quorum is of another cluster; `node_id` is one of these."""

    def tell_namesake(self, does: str) -> None:
        """Another process has this node's id; `does` says where it was met."""


class Driver:
    """The loop around one machine.

    Invariant: `_event` is the one whose effects are being carried out; `_storing` is the task that
    waits for the disk on behalf of the first of `_effects`.
    """

    def __init__(self, context: QuorumContext, carrier: Carrier, host: DriverHost) -> None:
        self._context = context
        self._machine = context.machine
        self._carrier = carrier
        self._host = host
        self._effects: deque[Effect | ShellEffect] = deque()
        self._mailbox: deque[Event] = deque()
        self._event: Event | None = None
        self._storing: TaskHandle | None = None
        self._timer: TimerHandle | None = None
        self._is_settling = self._is_polled = False
        self._strangers: dict[int, None] = {}
        self._doubled_since: float | None = None
        self.is_stalled = False
        """The disk refuses for lack of room: nothing is said to anybody until there is some."""
        self.is_failed = False
        """The disk has lost something: nothing is said to anybody for ever."""
        self.is_stopped = False

    def stop(self) -> None:
        """Nothing happens any more."""
        self.is_stopped = True
        for running in (self._timer, self._storing):
            if running is not None:
                running.cancel()

    # -- events -----------------------------------------------------------------------------

    def step(
        self,
        call: Callable[[Moment], Result],
        answer: Callable[[Result], None] = _nothing,
        refused: Callable[[], None] = _nothing,
    ) -> None:
        """An event on behalf of somebody else. `answer` hears its result when everything that
        follows from it is stored; `refused` is called instead if the disk refuses, or if too many
        wait for it already: nothing may be said that is not stored, a vote least of all."""
        if self.is_silent or len(self._mailbox) >= MAX_WAITING:
            refused()
            return
        self._mailbox.append(Event(call, answer, refused))
        self.settle()

    def event(self, call: Callable[[Moment], object]) -> None:
        """As `step`, for what nobody else waits for. There are never many: one answer to each
        request under way, one timer of each parked fetch."""
        if not self.is_stopped and not self.is_failed:
            self._mailbox.append(Event(call))
            self.settle()

    def carry(self, effect: ShellEffect) -> None:
        """Something the shell itself wants done, between two events."""
        self.event(lambda _: self._effects.append(effect))

    def connection_lost(self, node_id: int) -> None:
        """The other side reset a connection. News that may be lost: silence tells it too."""
        if not self.is_silent and len(self._mailbox) < MAX_WAITING:
            self.event(lambda now: self._machine.on_connection_lost(node_id, now))

    @property
    def is_silent(self) -> bool:
        """Whether this node says nothing to anybody now."""
        return self.is_stalled or self.is_failed or self.is_stopped

    @property
    def waits_for_disk(self) -> bool:
        """Whether an effect is with the disk: the log may be changing at this moment."""
        return self._storing is not None

    def settle(self) -> None:
        """Go on until there is nothing left to do, or the disk is waited for."""
        if self._is_settling or self.waits_for_disk or self.is_silent:
            return
        self._is_settling, self._is_polled = True, False
        try:
            while self._advance():
                pass
        finally:
            self._is_settling = False
            self._arm()
        if not self.waits_for_disk and not self.is_silent:
            self._host.on_settled()

    def _advance(self) -> bool:
        """One effect, or the answer to the event they came from, or the next event. False if there
        is none, or one that has to wait."""
        machine, effects = self._machine, self._effects
        effects += machine.take_effects()
        if not effects and not self._is_polled:
            self._is_polled = True
            machine.poll(self._now())
            effects += machine.take_effects()
        if effects:
            self._is_polled = False
            return self._carry_out(effects[0])
        event, self._event = self._event, None
        if event is not None:
            event.answer(event.result)
        elif self._mailbox:
            event = self._event = self._mailbox.popleft()
            self._is_polled = False
            event.result = event.call(self._now())
        else:
            return False
        return not self.is_silent

    def _carry_out(self, effect: Effect | ShellEffect) -> bool:
        if self._carrier.needs_disk(effect):
            clock = self._context.clock
            self._storing = clock.spawn(self._store(effect), name="metadata disk")
            return False
        self._effects.popleft()
        try:
            self._carrier.carry_out(effect)
        except (DiskError, LogError) as error:
            self._effects.appendleft(effect)
            self._stall(error)
        return not self.is_silent

    async def _store(self, effect: Effect | ShellEffect) -> None:
        """Meanwhile no event is taken, so no time passes for the machine: nobody was silent."""
        clock = self._context.clock
        began = clock.monotonic()
        try:
            await self._carrier.store(effect)
        except DirectoryFailed as error:
            self.fail(error)
        except (DiskError, LogError) as error:
            if not self.is_silent:
                self._storing = None
                self._stall(error)
                self._arm()
        else:
            if not self.is_silent:
                self._storing = None
                self._effects.popleft()
                held_ms = int((clock.monotonic() - began) * 1000)
                self._machine.on_held_up(held_ms)
                self.settle()

    # -- a disk that refuses ----------------------------------------------------------------

    def _stall(self, error: Exception) -> None:
        """The effect stays first in line. Meanwhile this node is silent, so that others take over;
        it goes on where it was as soon as there is room again."""
        self.is_stalled = True
        log.error("the metadata directory refuses, this node waits: %s", error)
        self._refuse_all()

    def _refuse_all(self) -> None:
        """Whoever waits may go elsewhere; what this node itself waits for stays."""
        waiting = [*([self._event] if self._event is not None else []), *self._mailbox]
        self._event = None
        self._mailbox = deque(event for event in self._mailbox if event.refused is None)
        for event in waiting:
            if event.refused is not None:
                event.refused()

    def _go_on(self) -> None:
        """There may be room again."""
        self.is_stalled = False
        self.settle()

    def fail(self, error: Exception) -> None:
        """A flush failed: what the device has kept is not known, and asking it again would be
        answered with success (the kernel drops what it could not write). Others may lead; here only
        the next life may look at what is there.

        A leader says farewell, then nothing is said any more. Farewell needs no disk, its epoch is
        stored."""
        if self.is_failed or self.is_stopped:
            return
        log.error("the metadata log %s; this node takes no further part", error)
        machine = self._machine
        machine.take_effects()
        self._effects.clear()
        machine.resign(self._now())
        for effect in machine.take_effects():
            self._carrier.carry_out(effect)
        self.is_failed = True
        self._refuse_all()
        self._arm()
        self._host.directory_failed(error)

    def _now(self) -> Moment:
        return moment(self._context.clock)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.is_stopped or self.is_failed or self.waits_for_disk:
            return
        if self.is_stalled:
            self._timer = self._context.clock.call_later(DISK_PAUSE_S, self._go_on)
            return
        wait_ms = self._machine.deadline_ms - self._now().now_ms
        wait_s = min(max(wait_ms, 1), LONGEST_SLEEP_MS) / 1000
        self._timer = self._context.clock.call_later(wait_s, self.settle)

    # -- requests to others -----------------------------------------------------------------

    def send(self, to: int, request: Request) -> None:
        """Send; the answer or its failure is an event."""
        context, machine = self._context, self._machine
        key, body = request_of(
            request,
            context.cluster_id,
            context.config["controller.quorum.fetch.max.bytes"],
            (context.endpoint,) if context.endpoint is not None else (),
        )

        def done(response: object) -> None:
            try:
                with making_sense_of(f"quorum node {to}"):
                    context.links.learn(endpoints_in(response))
                    answer = answer_of(request, response)
            except PeerError:
                failed(False)
                return
            if context.epoch_limit.refuses(f"quorum node {to}", answer.epoch, context.epoch):
                failed(False)
                return
            if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._met_stranger(to)
            if isinstance(request, Fetch):
                self._is_doubled(to, answer.error is ErrorCode.DUPLICATE_VOTER)
            self.event(lambda now: machine.on_answer(to, request, answer, now))

        def failed(refused: bool) -> None:
            self.event(lambda now: machine.on_failure(to, request, now, refused=refused))

        context.links.send(
            to,
            type(request).__name__,
            key,
            body,
            context.config["controller.quorum.request.timeout.ms"],
            done,
            failed,
        )

    def _is_doubled(self, leader_id: int, refused: bool) -> None:
        """The leader hears another voter with this node's id. For a moment that may be this node's
        own last life with a directory that was replaced."""
        now = self._context.clock.monotonic()
        if not refused:
            self._doubled_since = None
        elif self._doubled_since is None:
            self._doubled_since = now
        elif now - self._doubled_since >= DOUBLED_S:
            self._doubled_since = None
            self._host.tell_namesake(f"fetches from the leader, node {leader_id}")

    def _met_stranger(self, node_id: int) -> None:
        """Another cluster's node. For a voter one may be misplaced; if most are, it is this node
        that is. An observer asks one at a time and takes the first one's word."""
        if node_id in self._strangers:
            return
        self._strangers[node_id] = None
        context = self._context
        log.error(
            "node %d belongs to another cluster than %s: correct the quorum's addresses "
            "or this node's log.dirs; nothing was changed", node_id, context.cluster_id,
        )  # fmt: skip
        enough = context.voters.majority if self._machine.core.is_voter else 1
        if len(self._strangers) >= enough and context.leader_id < 0:
            self._host.tell_misplaced(node_id)
