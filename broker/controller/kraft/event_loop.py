"""The event loop around the Raft core: passes it one event at a time, executes its effects, sets
its timer.

In: events (requests of other nodes, responses, lost connections, time). Out: effects to `effects`,
requests to other nodes, responses. Never: what an effect does to the disk or the metadata.

Invariant: all effects of an event are executed, then it is answered, and only then the next event
is processed. While an effect waits for the disk, events wait in `_mailbox` and the asyncio loop
goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.clock.port import TaskHandle, TimerHandle
from broker.controller.kraft.context import QuorumContext, current_tick
from broker.controller.kraft.effects import EffectExecutor, MetadataDirectoryFailed, ShellEffect
from broker.controller.kraft.raft.messages import Effect, Fetch, RaftRequest, Tick
from broker.controller.kraft.transport.codec import decode_response, encode_request, node_endpoints
from broker.disk.port import DiskError
from broker.log.errors import LogError
from bus.client.wire.errors import PeerError, decoding_response
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller")

Result = TypeVar("Result")

DISK_PAUSE_S = 1.0
"""How long this node waits after a disk error before it tries again."""

MAX_WAITING = 2000
"""Requests of other nodes that wait while Raft waits for its disk: one of each node of the largest
cluster. Further ones get an error that makes them retry."""

DUPLICATE_ID_S = 15.0
"""A leader that rejects this node as a duplicate for this long does fetch from another one."""

LONGEST_SLEEP_MS = 3_600_000
"""A timer further away is set again then; nothing is due that late."""


def _ignore(*_: object) -> None:
    """No caller waits for the result."""


@dataclass(slots=True)
class PendingEvent:
    """An event for the Raft core. `on_refused` is None for events of this node itself."""

    call: Callable[[Tick], Any]
    on_stored: Callable[[Any], None] = _ignore
    on_refused: Callable[[], None] | None = None
    result: Any = None


class EventLoopHost(Protocol):
    """What the loop needs from the node."""

    def on_idle(self) -> None:
        """All effects are executed: answer waiting fetches, flush what was appended."""

    def on_directory_failed(self, error: Exception) -> None:
        """The metadata directory has lost data; the Raft core has resigned."""

    def report_wrong_cluster(self, node_id: int) -> None:
        """Most of the quorum is of another cluster; `node_id` is one of those nodes."""

    def report_duplicate_id(self, does: str) -> None:
        """Another process has this node's id; `does` says where it was found."""


class RaftEventLoop:
    """The loop around one Raft core.

    Invariant: `_event` is the event whose effects are being executed; `_storing` is the task that
    waits for the disk for the first of `_effects`.
    """

    def __init__(
        self, context: QuorumContext, executor: EffectExecutor, host: EventLoopHost
    ) -> None:
        self._context = context
        self._raft = context.raft
        self._executor = executor
        self._host = host
        self._effects: deque[Effect | ShellEffect] = deque()
        self._mailbox: deque[PendingEvent] = deque()
        self._event: PendingEvent | None = None
        self._storing: TaskHandle | None = None
        self._timer: TimerHandle | None = None
        self._is_running = self._is_polled = False
        self._foreign_nodes: dict[int, None] = {}
        self._duplicate_since: float | None = None
        self.is_stalled = False
        """The disk is full: this node is silent until there is room."""
        self.is_failed = False
        """The disk has lost data: this node stays silent."""
        self.is_stopped = False

    def stop(self) -> None:
        """Processes no further event."""
        self.is_stopped = True
        for running in (self._timer, self._storing):
            if running is not None:
                running.cancel()

    # -- events -----------------------------------------------------------------------------

    def step(
        self,
        call: Callable[[Tick], Result],
        on_stored: Callable[[Result], None] = _ignore,
        on_refused: Callable[[], None] = _ignore,
    ) -> None:
        """Processes an event for a caller. `on_stored` gets its result when everything that follows
        from it is stored; `on_refused` is called instead if the disk fails, or if too many events
        wait for it already: nothing may be answered that is not stored, least of all a vote."""
        if self.is_silent or len(self._mailbox) >= MAX_WAITING:
            on_refused()
            return
        self._mailbox.append(PendingEvent(call, on_stored, on_refused))
        self.run_until_idle()

    def enqueue(self, call: Callable[[Tick], object]) -> None:
        """Like `step`, for events that no caller waits for. Their number is bounded: one response
        to each request in flight, one timer of each waiting fetch."""
        if not self.is_stopped and not self.is_failed:
            self._mailbox.append(PendingEvent(call))
            self.run_until_idle()

    def enqueue_effect(self, effect: ShellEffect) -> None:
        """Executes an effect of the shell itself between two events."""
        self.enqueue(lambda _: self._effects.append(effect))

    def on_connection_lost(self, node_id: int) -> None:
        """The other side reset a connection. The event may be dropped: silence shows the same."""
        if not self.is_silent and len(self._mailbox) < MAX_WAITING:
            self.enqueue(lambda now: self._raft.on_connection_lost(node_id, now))

    @property
    def is_silent(self) -> bool:
        """Whether this node sends nothing now."""
        return self.is_stalled or self.is_failed or self.is_stopped

    @property
    def waits_for_disk(self) -> bool:
        """Whether an effect is at the disk: the log may be changing right now."""
        return self._storing is not None

    def run_until_idle(self) -> None:
        """Runs until nothing is left to do, or until it waits for the disk."""
        if self._is_running or self.waits_for_disk or self.is_silent:
            return
        self._is_running, self._is_polled = True, False
        try:
            while self._advance():
                pass
        finally:
            self._is_running = False
            self._set_timer()
        if not self.waits_for_disk and not self.is_silent:
            self._host.on_idle()

    def _advance(self) -> bool:
        """Executes one effect, or answers the event they came from, or starts the next event. False
        if there is nothing to do now."""
        raft, effects = self._raft, self._effects
        effects += raft.drain_effects()
        if not effects and not self._is_polled:
            self._is_polled = True
            raft.poll(self._now())
            effects += raft.drain_effects()
        if effects:
            self._is_polled = False
            return self._execute(effects[0])
        event, self._event = self._event, None
        if event is not None:
            event.on_stored(event.result)
        elif self._mailbox:
            event = self._event = self._mailbox.popleft()
            self._is_polled = False
            event.result = event.call(self._now())
        else:
            return False
        return not self.is_silent

    def _execute(self, effect: Effect | ShellEffect) -> bool:
        if self._executor.needs_disk(effect):
            clock = self._context.clock
            self._storing = clock.spawn(self._store(effect), name="metadata disk")
            return False
        self._effects.popleft()
        try:
            self._executor.execute(effect)
        except (DiskError, LogError) as error:
            self._effects.appendleft(effect)
            self._stall(error)
        return not self.is_silent

    async def _store(self, effect: Effect | ShellEffect) -> None:
        """Meanwhile no event is processed, so no time passes for the Raft core."""
        clock = self._context.clock
        began = clock.monotonic()
        try:
            await self._executor.store(effect)
        except MetadataDirectoryFailed as error:
            self.fail(error)
        except (DiskError, LogError) as error:
            if not self.is_silent:
                self._storing = None
                self._stall(error)
                self._set_timer()
        else:
            if not self.is_silent:
                self._storing = None
                self._effects.popleft()
                held_ms = int((clock.monotonic() - began) * 1000)
                self._raft.on_disk_wait(held_ms)
                self.run_until_idle()

    # -- disk errors --------------------------------------------------------------------------

    def _stall(self, error: Exception) -> None:
        """The effect stays first in the queue. Meanwhile this node is silent, so that others take
        over; it resumes as soon as there is room."""
        self.is_stalled = True
        log.error("the metadata directory refuses, this node waits: %s", error)
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Callers that wait may go elsewhere; events of this node itself stay."""
        waiting = [*([self._event] if self._event is not None else []), *self._mailbox]
        self._event = None
        self._mailbox = deque(event for event in self._mailbox if event.on_refused is None)
        for event in waiting:
            if event.on_refused is not None:
                event.on_refused()

    def _resume(self) -> None:
        """Tries again: there may be room now."""
        self.is_stalled = False
        self.run_until_idle()

    def fail(self, error: Exception) -> None:
        """A flush failed: what the device has kept is unknown, and another flush would report
        success (the kernel drops what it could not write). Other nodes may lead; this process must
        not touch the directory again.

        A leader sends its resignation, which needs no disk because its epoch is stored; then this
        node is silent.
        """
        if self.is_failed or self.is_stopped:
            return
        log.error("the metadata log %s; this node takes no further part", error)
        raft = self._raft
        raft.drain_effects()
        self._effects.clear()
        raft.resign(self._now())
        for effect in raft.drain_effects():
            self._executor.execute(effect)
        self.is_failed = True
        self._refuse_waiting()
        self._set_timer()
        self._host.on_directory_failed(error)

    def _now(self) -> Tick:
        return current_tick(self._context.clock)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.is_stopped or self.is_failed or self.waits_for_disk:
            return
        if self.is_stalled:
            self._timer = self._context.clock.call_later(DISK_PAUSE_S, self._resume)
            return
        wait_ms = self._raft.deadline_ms - self._now().now_ms
        wait_s = min(max(wait_ms, 1), LONGEST_SLEEP_MS) / 1000
        self._timer = self._context.clock.call_later(wait_s, self.run_until_idle)

    # -- requests to other nodes -------------------------------------------------------------

    def send(self, to: int, request: RaftRequest) -> None:
        """Sends a request; its response or failure is an event."""
        context, raft = self._context, self._raft
        key, body = encode_request(
            request,
            context.cluster_id,
            context.config["controller.quorum.fetch.max.bytes"],
            (context.endpoint,) if context.endpoint is not None else (),
        )

        def done(response: object) -> None:
            try:
                with decoding_response(f"quorum node {to}"):
                    context.connections.update_endpoints(node_endpoints(response))
                    decoded = decode_response(request, response)
            except PeerError:
                failed(False)
                return
            if context.epoch_limit.rejects(f"quorum node {to}", decoded.epoch, context.epoch):
                failed(False)
                return
            if decoded.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._on_foreign_node(to)
            if isinstance(request, Fetch):
                self._check_duplicate(to, decoded.error is ErrorCode.DUPLICATE_VOTER)
            self.enqueue(lambda now: raft.on_response(to, request, decoded, now))

        def failed(refused: bool) -> None:
            self.enqueue(lambda now: raft.on_request_failed(to, request, now, is_refused=refused))

        context.connections.send(
            to,
            type(request).__name__,
            key,
            body,
            context.config["controller.quorum.request.timeout.ms"],
            done,
            failed,
        )

    def _check_duplicate(self, leader_id: int, refused: bool) -> None:
        """The leader knows another voter with this node's id. For a moment that may be this node
        itself before its restart, with a directory that was replaced."""
        now = self._context.clock.monotonic()
        if not refused:
            self._duplicate_since = None
        elif self._duplicate_since is None:
            self._duplicate_since = now
        elif now - self._duplicate_since >= DUPLICATE_ID_S:
            self._duplicate_since = None
            self._host.report_duplicate_id(f"fetches from the leader, node {leader_id}")

    def _on_foreign_node(self, node_id: int) -> None:
        """A node of another cluster answered. For a voter one of them may be misconfigured; if most
        are, it is this node. An observer asks one at a time and believes the first."""
        if node_id in self._foreign_nodes:
            return
        self._foreign_nodes[node_id] = None
        context = self._context
        log.error(
            "node %d belongs to another cluster than %s: correct the quorum's addresses "
            "or this node's log.dirs; nothing was changed", node_id, context.cluster_id,
        )  # fmt: skip
        enough = context.voters.majority if self._raft.quorum.is_voter else 1
        if len(self._foreign_nodes) >= enough and context.leader_id < 0:
            self._host.report_wrong_cluster(node_id)
