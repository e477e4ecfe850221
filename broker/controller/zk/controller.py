"""The controller of one broker in ZooKeeper mode: one of all, active on the elected one.

In: decisions to write, session news, watches, brokers' answers. Out: answers after the znodes
stand; who is controller. Cores: `term.Term`, `uptake`, `election`. Never: two events at a time;
everything that changes the metadata goes through one line in the order it came (C-GEN-05).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.clock.port import Clock, TaskHandle
from broker.controller.decisions.decision import Decide
from broker.controller.decisions.rules import Rules
from broker.controller.port import NO_LEADER
from broker.controller.zk import election, uptake, znodes
from broker.controller.zk.channels import Answers, Send
from broker.controller.zk.member import NoteFound
from broker.controller.zk.plan import Fence
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    WatchKind,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.states import ReplicaState
from broker.controller.zk.term import Deposed, GivenUp, Office, Term
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller.zk")

Reply = TypeVar("Reply")
Event = Callable[[Term], Awaitable[None]]
Done = Callable[[Reply], None]
Failed = Callable[[ErrorCode], None]

MAX_QUEUED = 20_000
"""Events that wait while ZooKeeper is slow or away. Each watched node and each broker has a few at
most; the rest are writes, which are refused from here on, and their senders come again."""

PROPAGATION_S = 1.0
"""How long the answer to a change of topics waits for all brokers to have heard of it: a client
that asks the next broker for its new topic finds it. Kafka waits for one broker only."""

REREAD_S = 0.1
"""From a write that met a foreign one to taking up what else may have changed: while somebody
writes by hand this is not done after each of his writes."""

RETRY_ELECTION_S = 1.0
"""After an election that failed for a reason that no watch will tell the end of."""


class ZooKeeperController:
    """Implements `broker.controller.port.Controller`.

    Invariant: `_term` is set exactly while this broker holds the office as far as it can know;
    everything is carried out by `_run`, one event at a time.
    """

    def __init__(
        self,
        node_id: int,
        session: ZooKeeperSession,
        clock: Clock,
        *,
        rules: Callable[[], Rules],
        send: Send,
        committed: Callable[[], MetadataImage],
        deletion_enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._node_id = node_id
        self._session = session
        self._clock = clock
        self._committed = committed
        self._office = Office(
            node_id=node_id,
            session=session,
            clock=clock,
            rules=rules,
            send=send,
            answers=Answers(self._on_isr_errors, self._on_stopped, self._on_fenced),
            connected=self._connected,
            deletion_enabled=deletion_enabled,
            reread=self._reread,
        )
        self._term: Term | None = None
        self._leader_id = NO_LEADER
        self._seen_epoch = 0
        self._events: deque[tuple[Event, Failed | None]] = deque()
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._electing = False
        self._is_taking_office = False
        """Everything is being read: a watch that fires meanwhile is an event of the new term."""
        self._task: TaskHandle | None = None
        self.on_active: list[Callable[[int, MetadataImage], None]] = []
        self.on_inactive: list[Callable[[], None]] = []
        self.on_leader_change: list[Callable[[int], None]] = []

    # -- the Controller port --------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image: the term's while active, else what the controller has told us."""
        return self._committed() if self._term is None else self._term.image

    @property
    def committed(self) -> MetadataImage:
        """What the controller has told this broker."""
        return self._committed()

    @property
    def is_active(self) -> bool:
        """Whether this broker holds the office."""
        return self._term is not None

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self._seen_epoch if self._term is None else self._term.fence.epoch

    @property
    def leader_id(self) -> int:
        """Who holds the office, as far as this broker knows."""
        return self._leader_id

    @property
    def end_offset(self) -> int:
        """Changes of this term so far; broker epochs come from ZooKeeper here."""
        return self.image.offset + 1

    def write(
        self, decide: Decide[Reply], done: Done[Reply], failed: Failed | None = None
    ) -> None:
        """Decide on the newest image; `done` once the znodes stand."""
        refuse = failed or _nobody_hears
        if self._term is None:
            refuse(ErrorCode.NOT_CONTROLLER)
        elif len(self._events) >= MAX_QUEUED:
            refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:

            async def event(term: Term) -> None:
                topics = term.image.topics
                try:
                    reply = await term.transact(decide)
                except GivenUp as error:
                    log.error("a change was given up: %s", error)
                    refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
                except (Deposed, ZooKeeperError):
                    refuse(ErrorCode.NOT_CONTROLLER)
                    raise
                else:
                    if term.image.topics.keys() == topics.keys():
                        done(reply)
                    else:
                        self._once_known(term, lambda: done(reply))

            self._put(event, refuse)

    def _once_known(self, term: Term, answer: Callable[[], None]) -> None:
        """Call `answer` when all brokers have confirmed, or after PROPAGATION_S."""
        answers = [answer]

        def now() -> None:
            if answers:
                timer.cancel()
                answers.pop()()

        async def wait() -> None:
            await term.lines.confirmed()
            now()

        task = self._clock.spawn(wait(), name="propagation")

        def late() -> None:
            task.cancel()
            now()

        timer = self._clock.call_later(PROPAGATION_S, late)

    def leave_orderly(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Failed,
    ) -> None:
        """ControlledShutdown of a broker: whether it is known, and what it still leads."""
        if self._term is None:
            failed(ErrorCode.NOT_CONTROLLER)
            return

        async def event(term: Term) -> None:
            try:
                known, left = await uptake.leave_orderly(term, broker_id, broker_epoch)
            except (Deposed, GivenUp, ZooKeeperError):
                failed(ErrorCode.NOT_CONTROLLER)
                raise
            done(known, left)

        self._put(event, failed)

    def replica_state(self, topic: str, index: int, broker_id: int) -> ReplicaState:
        """Where the replica state machine has a replica; NonExistent where there is no term."""
        if self._term is None:
            return ReplicaState.NON_EXISTENT
        return self._term.replicas.state((topic, index, broker_id))

    # -- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work off events; the election comes with `stand`."""
        self._task = self._clock.spawn(self._run(), name="zookeeper-controller")

    async def stop(self) -> None:
        """Resign and end."""
        term = self._term
        self._end_term()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if term is not None and self._session.state is SessionState.CONNECTED:
            try:
                await election.resign(self._session, term.fence)
            except ZooKeeperError as error:
                log.info("the office was not given up: %s", error)

    def stand(self) -> None:
        """This broker is registered: look who is controller, or become it."""
        if not self._electing:
            self._electing = True
            self._wake.set()

    def on_session(self, state: SessionState) -> None:
        """News of the session; a lost one ends the office at once (G-25)."""
        news, self._news = self._news, asyncio.Event()
        news.set()
        if state is SessionState.EXPIRED:
            self._end_term()
            self._know_leader(NO_LEADER)
        elif state is SessionState.CONNECTED and self._term is not None:
            self._put(_reload)
        elif state is SessionState.CONNECTED:
            self.stand()

    def on_watch(self, event: WatchEvent) -> None:
        """A watched node changed."""
        if event.path == znodes.CONTROLLER:
            self.stand()
            return
        if self._term is None and not self._is_taking_office:
            return
        if event.kind is WatchKind.CHILDREN and event.path in uptake.CHILDREN:
            self._put(uptake.CHILDREN[event.path])
        elif event.path in uptake.DATA:
            self._put(uptake.DATA[event.path])
        elif event.path.startswith(f"{znodes.TOPICS}/") and event.kind is WatchKind.CHANGED:
            name = event.path.removeprefix(f"{znodes.TOPICS}/")

            async def take(term: Term) -> None:
                await uptake.take_topic(term, name)
                await uptake.bear_partitions(term)

            self._put(take)

    def on_notes(self, notes: list[NoteFound]) -> None:
        """This broker has read what these notes name; its controller must know it too."""
        if notes and (self._term is not None or self._is_taking_office):
            self._put(lambda term: uptake.take_notes(term, notes))

    # -- what brokers answer ----------------------------------------------------------------

    def _on_isr_errors(self, broker_id: int, errors: dict[PartitionId, ErrorCode]) -> None:
        for (topic_id, index), error in errors.items():
            log.warning("broker %d on %s-%d: %s", broker_id, topic_id.hex(), index, error.name)
        lost = {one for one, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR}
        if lost:
            self._put(lambda term: uptake.replicas_lost(term, broker_id, lost))

    def _on_stopped(
        self, broker_id: int, results: dict[tuple[str, int], ErrorCode]
    ) -> None:
        async def event(term: Term) -> None:
            if term.deletions.answered(broker_id, results):
                await uptake.finish_deletions(term)

        self._put(event)

    def _on_fenced(self, broker_id: int, error: ErrorCode) -> None:
        if error is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._put(_look_at_office)
        else:
            self._put(uptake.take_brokers)

    # -- the one line of events ---------------------------------------------------------------

    def _put(self, event: Event, failed: Failed | None = None) -> None:
        self._events.append((event, failed))
        self._wake.set()

    def _reread(self) -> None:
        def due() -> None:
            if self._term is not None:
                self._put(uptake.take_all)

        self._clock.call_later(REREAD_S, due)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._electing or self._events:
                if self._electing:
                    self._electing = False
                    await self._guarded(self._elect())
                elif self._term is None:
                    self._refuse_all()
                else:
                    event, _ = self._events.popleft()
                    await self._guarded(self._carry_out(event, self._term))

    async def _carry_out(self, event: Event, term: Term) -> None:
        await event(term)
        if self._term is term:
            await uptake.finish_reassignments(term)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """A listener's fault ends neither the watches nor the controller (C-LSN-10)."""
        try:
            await work
        except Deposed as error:
            log.warning("controller no longer: %s", error)
            self._end_term()
            if self._session.state is SessionState.CONNECTED:
                self.stand()
        except GivenUp as error:
            log.error("%s", error)
        except ZooKeeperError as error:
            # The connection is away: with it the watches; all is read anew when it is back.
            log.info("left for later: %s", error)
            if self._session.state is SessionState.CONNECTED:
                if error.kind is ZooKeeperErrorKind.CONNECTION_LOSS and self._term is not None:
                    self._put(_reload)
                elif self._term is None:
                    self._clock.call_later(RETRY_ELECTION_S, self.stand)
        except Exception:
            log.exception("an event of the controller failed")
            if self._term is None:
                self._clock.call_later(RETRY_ELECTION_S, self.stand)

    def _refuse_all(self) -> None:
        events, self._events = self._events, deque()
        for _, failed in events:
            if failed is not None:
                failed(ErrorCode.NOT_CONTROLLER)

    # -- the office -----------------------------------------------------------------------

    async def _elect(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return
        if self._term is not None:
            if await election.still_holds(self._session, self._term.fence):
                return
            self._end_term()
        outcome = await election.elect(self._session, self._node_id, self._clock.now_ms)
        if outcome.fence is None:
            self._know_leader(outcome.leader_id)
            if outcome.leader_id == election.NOBODY:
                self._clock.call_later(RETRY_ELECTION_S, self.stand)
            return
        await self._take_office(outcome.fence)

    async def _take_office(self, fence: Fence) -> None:
        """Failover, in the book's order: the epoch is raised, now watches with the state, then
        leadership, then what was left undone (C-FO-01..12)."""
        log.info("broker %d is controller, epoch %d", self._node_id, fence.epoch)
        term = Term(self._office, fence)
        self._is_taking_office = True
        try:
            await term.reload()
        except BaseException:
            term.close()
            raise
        finally:
            self._is_taking_office = False
        self._term, self._seen_epoch = term, fence.epoch
        self._know_leader(self._node_id)
        for heard in self.on_active:
            heard(fence.epoch, term.image)
        await uptake.take_all(term)

    def _end_term(self) -> None:
        """Resignation: whoever waits hears NOT_CONTROLLER, no broker hears anything more."""
        term, self._term = self._term, None
        if term is None:
            return
        term.close()
        self._refuse_all()
        if self._leader_id == self._node_id:
            self._know_leader(NO_LEADER)
        for heard in self.on_inactive:
            heard()

    def _know_leader(self, leader_id: int) -> None:
        if leader_id != self._leader_id:
            self._leader_id = leader_id
            for heard in self.on_leader_change:
                heard(leader_id)

    def note_epoch(self, controller_id: int, epoch: int) -> None:
        """A request of a controller that this broker believes."""
        if epoch >= self._seen_epoch:
            self._seen_epoch = epoch
            if self._term is None:
                self._know_leader(controller_id)

    async def _connected(self) -> None:
        while self._session.state is not SessionState.CONNECTED:
            if self._session.state in (SessionState.EXPIRED, SessionState.CLOSED):
                raise Deposed("the session has ended")
            await self._news.wait()


async def _reload(term: Term) -> None:
    await term.reload()
    await uptake.take_all(term)


async def _look_at_office(term: Term) -> None:
    if not await election.still_holds(term.office.session, term.fence):
        raise Deposed("a broker knows a newer controller")


def _nobody_hears(error: ErrorCode) -> None:
    """Whoever writes without asking about failures will write again."""
