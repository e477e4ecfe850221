"""The controller of one broker in ZooKeeper mode; active on the elected broker.

In: decisions to write, session events, watches, brokers' responses. Out: replies once the znodes
are written; the controller's id. Cores: `controller_context.ControllerContext`, `event_handlers`,
`election`. Never: two events at a time; every change of the metadata goes through one queue
(`event_queue`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.clock.port import Clock
from broker.controller.decisions.decision import Decide
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.port import NO_LEADER
from broker.controller.zk import election, znodes
from broker.controller.zk.broker_znode import ChangeNotification
from broker.controller.zk.channels import ResponseHandlers, SendToBroker
from broker.controller.zk.controller_context import (
    ControllerContext,
    ControllerDeps,
    ControllerMoved,
    WriteConflict,
)
from broker.controller.zk.deferred_reply import DeferredReply
from broker.controller.zk.event_handlers import brokers
from broker.controller.zk.event_handlers.configurations import apply_change_notifications
from broker.controller.zk.event_handlers.deletions import finish_deletions
from broker.controller.zk.event_handlers.directories import on_replicas_lost
from broker.controller.zk.event_handlers.reassignments import finish_reassignments
from broker.controller.zk.event_handlers.registry import handler_for, resync_all
from broker.controller.zk.event_queue import ControllerEventQueue, Event, Failed
from broker.controller.zk.plan import Fence
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.propagation import when_propagated
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.state_machines import ControllerReplicaState
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller.zk")

Reply = TypeVar("Reply")
Done = Callable[[Reply], None]

RESYNC_DELAY_S = 0.1
"""From a write that met a foreign one to processing what else may have changed: while a person
writes by hand this is not done after each of the writes."""

RETRY_ELECTION_S = 1.0
"""The wait after an election that failed for a reason whose end no watch reports."""


class ZooKeeperController:
    """Implements `broker.controller.port.Controller`.

    Invariant: `_context` is set exactly while this broker is the controller as far as it can know;
    the queue processes everything, one event at a time.
    """

    def __init__(
        self,
        node_id: int,
        session: ZooKeeperSession,
        clock: Clock,
        *,
        policy: Callable[[], PartitionPolicy],
        send: SendToBroker,
        committed: Callable[[], MetadataImage],
        deletion_enabled: Callable[[], bool] = lambda: True,
        on_unclean: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._node_id = node_id
        self._session = session
        self._clock = clock
        self._committed = committed
        self._deps = ControllerDeps(
            node_id=node_id,
            session=session,
            clock=clock,
            policy=policy,
            send=send,
            response_handlers=ResponseHandlers(
                self._on_isr_errors, self._on_stopped, self._on_request_fenced, self._on_contact
            ),
            connected=self._connected,
            deletion_enabled=deletion_enabled,
            on_unclean=on_unclean,
            resync=self._resync,
        )
        self._context: ControllerContext | None = None
        self._leader_id = NO_LEADER
        self._seen_epoch = 0
        self._events = ControllerEventQueue(
            clock,
            lambda: self._context,
            lambda: self._guarded(self._elect()),
            lambda event, context: self._guarded(self._process(event, context)),
        )
        self._session_changed = asyncio.Event()
        self._is_failing_over = False
        """Everything is being read: a watch that fires meanwhile is an event of the new term."""
        self.on_active: list[Callable[[int, MetadataImage], None]] = []
        self.on_inactive: list[Callable[[], None]] = []
        self.on_leader_change: list[Callable[[int], None]] = []
        self.on_broker_contact: list[Callable[[int, int], None]] = []

    # -- the Controller port --------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image: the context's while active, else what the controller has sent."""
        return self._committed() if self._context is None else self._context.image

    @property
    def committed(self) -> MetadataImage:
        """The metadata that the controller has sent to this broker."""
        return self._committed()

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._context is not None

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self._seen_epoch if self._context is None else self._context.fence.epoch

    @property
    def leader_id(self) -> int:
        """The controller as far as this broker knows."""
        return self._leader_id

    @property
    def end_offset(self) -> int:
        """The number of changes so far; broker epochs come from ZooKeeper here."""
        return self.image.offset + 1

    def write(
        self, decide: Decide[Reply], done: Done[Reply], failed: Failed | None = None
    ) -> None:
        """Decides on the newest image; `done` once the znodes are written, `failed` if ZooKeeper is
        unavailable for longer than clients wait."""
        refuse = failed or _ignore
        if self._context is None:
            refuse(ErrorCode.NOT_CONTROLLER)
        elif self._events.is_full:
            refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            deferred = DeferredReply(self._clock, self._is_connected, refuse)

            async def event(context: ControllerContext) -> None:
                if deferred.is_sent:
                    return
                topics = context.image.topics
                try:
                    reply = await context.transact(decide)
                except WriteConflict as error:
                    log.error("a change was given up: %s", error)
                    deferred.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
                except (ControllerMoved, ZooKeeperError):
                    deferred.refuse(ErrorCode.NOT_CONTROLLER)
                    raise
                else:
                    if context.image.topics.keys() == topics.keys():
                        deferred.send(lambda: done(reply))
                    else:
                        when_propagated(
                            self._clock, context, lambda: deferred.send(lambda: done(reply))
                        )

            self._events.put(event, deferred.refuse)

    def _is_connected(self) -> bool:
        return self._session.state is SessionState.CONNECTED

    def controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Failed,
    ) -> None:
        """ControlledShutdown of a broker: whether it is known, and the partitions it still
        leads."""
        if self._context is None:
            failed(ErrorCode.NOT_CONTROLLER)
            return

        async def event(context: ControllerContext) -> None:
            try:
                known, left = await brokers.controlled_shutdown(context, broker_id, broker_epoch)
            except (ControllerMoved, WriteConflict, ZooKeeperError):
                failed(ErrorCode.NOT_CONTROLLER)
                raise
            done(known, left)

        self._events.put(event, failed)

    def replica_state(self, topic: str, index: int, broker_id: int) -> ControllerReplicaState:
        """A replica's state in the state machine; NonExistent on a broker that is not
        controller."""
        if self._context is None:
            return ControllerReplicaState.NON_EXISTENT
        return self._context.replicas.state((topic, index, broker_id))

    # -- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Starts processing events; the election comes with `elect`."""
        self._events.start()

    async def stop(self) -> None:
        """Resigns and stops."""
        context = self._context
        self._on_resignation()
        self._events.stop()
        if context is not None and self._session.state is SessionState.CONNECTED:
            try:
                await election.resign(self._session, context.fence)
            except ZooKeeperError as error:
                log.info("the office was not given up: %s", error)

    def elect(self) -> None:
        """This broker is registered: find the controller, or become it."""
        self._events.request_election()

    def on_session(self, state: SessionState) -> None:
        """The session changed; an expired one ends the controllership at once (G-25)."""
        news, self._session_changed = self._session_changed, asyncio.Event()
        news.set()
        if state is SessionState.EXPIRED:
            self._on_resignation()
            self._set_leader(NO_LEADER)
        elif state is SessionState.CONNECTED and self._context is not None:
            self._events.put(_reload)
        elif state is SessionState.CONNECTED:
            self.elect()

    def on_watch(self, event: WatchEvent) -> None:
        """A watched node changed."""
        if event.path == znodes.CONTROLLER:
            self.elect()
            return
        if self._context is None and not self._is_failing_over:
            return
        handler = handler_for(event)
        if handler is not None:
            self._events.put(handler)

    def on_change_notifications(self, notes: list[ChangeNotification]) -> None:
        """This broker has read what these notifications name; its controller must know it too."""
        if notes and (self._context is not None or self._is_failing_over):
            self._events.put(lambda context: apply_change_notifications(context, notes))

    # -- brokers' responses ------------------------------------------------------------------

    def _on_isr_errors(self, broker_id: int, errors: dict[PartitionId, ErrorCode]) -> None:
        for (topic_id, index), error in errors.items():
            log.warning("broker %d on %s-%d: %s", broker_id, topic_id.hex(), index, error.name)
        lost = {one for one, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR}
        if lost:
            self._events.put(lambda context: on_replicas_lost(context, broker_id, lost))

    def _on_stopped(
        self, broker_id: int, results: dict[tuple[str, int], ErrorCode]
    ) -> None:
        async def event(context: ControllerContext) -> None:
            if context.deletions.on_stop_replica_response(broker_id, results):
                await finish_deletions(context)

        self._events.put(event)

    def _on_request_fenced(self, broker_id: int, error: ErrorCode) -> None:
        if error is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._events.put(_check_still_controller)
        else:
            self._events.put(brokers.on_broker_change)

    def _on_contact(self, broker_id: int, broker_epoch: int) -> None:
        for callback in self.on_broker_contact:
            callback(broker_id, broker_epoch)

    # -- events -----------------------------------------------------------------------------

    def _resync(self) -> None:
        def due() -> None:
            if self._context is not None:
                self._events.put(resync_all)

        self._clock.call_later(RESYNC_DELAY_S, due)

    async def _process(self, event: Event, context: ControllerContext) -> None:
        await event(context)
        if self._context is context:
            await finish_reassignments(context)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """An event that fails ends neither the watches nor the controller (C-LSN-10)."""
        try:
            await work
        except ControllerMoved as error:
            log.warning("controller no longer: %s", error)
            self._on_resignation()
            if self._session.state is SessionState.CONNECTED:
                self.elect()
        except WriteConflict as error:
            log.error("%s", error)
        except ZooKeeperError as error:
            # The connection is lost and with it the watches; everything is read on reconnect.
            log.info("left for later: %s", error)
            if self._session.state is SessionState.CONNECTED:
                if error.kind is ZooKeeperErrorKind.CONNECTION_LOSS and self._context is not None:
                    self._events.put(_reload)
                elif self._context is None:
                    self._clock.call_later(RETRY_ELECTION_S, self.elect)
        except Exception:
            log.exception("an event of the controller failed")
            if self._context is None:
                self._clock.call_later(RETRY_ELECTION_S, self.elect)

    # -- election and resignation ----------------------------------------------------------

    async def _elect(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return
        if self._context is not None:
            if await election.still_holds(self._session, self._context.fence):
                return
            self._on_resignation()
        outcome = await election.elect(self._session, self._node_id, self._clock.now_ms)
        if outcome.fence is None:
            self._set_leader(outcome.leader_id)
            if outcome.leader_id == election.NO_CONTROLLER:
                self._clock.call_later(RETRY_ELECTION_S, self.elect)
            return
        await self._on_failover(outcome.fence)

    async def _on_failover(self, fence: Fence) -> None:
        """Failover in the book's order: the epoch is raised; then the state is read with watches,
        then leaders are elected, then unfinished work is resumed (C-FO-01..12)."""
        log.info("broker %d is controller, epoch %d", self._node_id, fence.epoch)
        context = ControllerContext(self._deps, fence)
        self._is_failing_over = True
        try:
            await context.reload()
        except BaseException:
            context.close()
            raise
        finally:
            self._is_failing_over = False
        self._context, self._seen_epoch = context, fence.epoch
        self._set_leader(self._node_id)
        for callback in self.on_active:
            callback(fence.epoch, context.image)
        await resync_all(context)

    def _on_resignation(self) -> None:
        """Waiting writes fail with NOT_CONTROLLER; no broker gets further requests."""
        context, self._context = self._context, None
        if context is None:
            return
        context.close()
        self._events.refuse_all()
        if self._leader_id == self._node_id:
            self._set_leader(NO_LEADER)
        for callback in self.on_inactive:
            callback()

    def _set_leader(self, leader_id: int) -> None:
        if leader_id != self._leader_id:
            self._leader_id = leader_id
            for callback in self.on_leader_change:
                callback(leader_id)

    def on_controller_epoch(self, controller_id: int, epoch: int) -> None:
        """A request of a controller that this broker accepts."""
        if epoch >= self._seen_epoch:
            self._seen_epoch = epoch
            if self._context is None:
                self._set_leader(controller_id)

    async def _connected(self) -> None:
        while self._session.state is not SessionState.CONNECTED:
            if self._session.state in (SessionState.EXPIRED, SessionState.CLOSED):
                raise ControllerMoved("the session has ended")
            await self._session_changed.wait()


async def _reload(context: ControllerContext) -> None:
    await context.reload()
    await resync_all(context)


async def _check_still_controller(context: ControllerContext) -> None:
    if not await election.still_holds(context.deps.session, context.fence):
        raise ControllerMoved("a broker knows a newer controller")


def _ignore(error: ErrorCode) -> None:
    """A caller without an error callback retries by itself."""
