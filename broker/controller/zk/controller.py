"""The controller of one broker in ZooKeeper mode: one of all, active on the elected one.

In: decisions to write, session news, watches, brokers' answers. Out: answers after the znodes
stand; who is controller. Cores: `term.Term`, `uptake`, `election`. Never: two events at a time;
everything that changes the metadata goes through one line (`events`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.clock.port import Clock
from broker.controller.decisions.decision import Decide
from broker.controller.decisions.rules import Rules
from broker.controller.port import NO_LEADER
from broker.controller.zk import election, znodes
from broker.controller.zk.answer import Answer
from broker.controller.zk.channels import Answers, Send
from broker.controller.zk.events import Event, EventLine, Failed
from broker.controller.zk.member import NoteFound
from broker.controller.zk.plan import Fence
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.propagation import once_known
from broker.controller.zk.requests import PartitionId
from broker.controller.zk.states import ReplicaState
from broker.controller.zk.term import Deposed, GivenUp, Office, Term
from broker.controller.zk.uptake import brokers
from broker.controller.zk.uptake.configurations import take_notes
from broker.controller.zk.uptake.deletions import finish_deletions
from broker.controller.zk.uptake.directories import replicas_lost
from broker.controller.zk.uptake.reassignments import finish_reassignments
from broker.controller.zk.uptake.watches import take_all, taking
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

log = logging.getLogger("broker.controller.zk")

Reply = TypeVar("Reply")
Done = Callable[[Reply], None]

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
        on_unclean: Callable[[int], None] = lambda count: None,
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
            on_unclean=on_unclean,
            reread=self._reread,
        )
        self._term: Term | None = None
        self._leader_id = NO_LEADER
        self._seen_epoch = 0
        self._events = EventLine(
            clock,
            lambda: self._term,
            lambda: self._guarded(self._elect()),
            lambda event, term: self._guarded(self._carry_out(event, term)),
        )
        self._news = asyncio.Event()
        self._is_taking_office = False
        """Everything is being read: a watch that fires meanwhile is an event of the new term."""
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
        """Decide on the newest image; `done` once the znodes stand, `failed` if ZooKeeper is away
        for longer than clients wait."""
        refuse = failed or _nobody_hears
        if self._term is None:
            refuse(ErrorCode.NOT_CONTROLLER)
        elif self._events.is_full:
            refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            answer = Answer(self._clock, self._is_connected, refuse)

            async def event(term: Term) -> None:
                if answer.is_given:
                    return
                topics = term.image.topics
                try:
                    reply = await term.transact(decide)
                except GivenUp as error:
                    log.error("a change was given up: %s", error)
                    answer.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
                except (Deposed, ZooKeeperError):
                    answer.refuse(ErrorCode.NOT_CONTROLLER)
                    raise
                else:
                    if term.image.topics.keys() == topics.keys():
                        answer.give(lambda: done(reply))
                    else:
                        once_known(self._clock, term, lambda: answer.give(lambda: done(reply)))

            self._events.put(event, answer.refuse)

    def _is_connected(self) -> bool:
        return self._session.state is SessionState.CONNECTED

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
                known, left = await brokers.leave_orderly(term, broker_id, broker_epoch)
            except (Deposed, GivenUp, ZooKeeperError):
                failed(ErrorCode.NOT_CONTROLLER)
                raise
            done(known, left)

        self._events.put(event, failed)

    def replica_state(self, topic: str, index: int, broker_id: int) -> ReplicaState:
        """Where the replica state machine has a replica; NonExistent where there is no term."""
        if self._term is None:
            return ReplicaState.NON_EXISTENT
        return self._term.replicas.state((topic, index, broker_id))

    # -- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work off events; the election comes with `stand`."""
        self._events.start()

    async def stop(self) -> None:
        """Resign and end."""
        term = self._term
        self._end_term()
        self._events.stop()
        if term is not None and self._session.state is SessionState.CONNECTED:
            try:
                await election.resign(self._session, term.fence)
            except ZooKeeperError as error:
                log.info("the office was not given up: %s", error)

    def stand(self) -> None:
        """This broker is registered: look who is controller, or become it."""
        self._events.stand()

    def on_session(self, state: SessionState) -> None:
        """News of the session; a lost one ends the office at once (G-25)."""
        news, self._news = self._news, asyncio.Event()
        news.set()
        if state is SessionState.EXPIRED:
            self._end_term()
            self._know_leader(NO_LEADER)
        elif state is SessionState.CONNECTED and self._term is not None:
            self._events.put(_reload)
        elif state is SessionState.CONNECTED:
            self.stand()

    def on_watch(self, event: WatchEvent) -> None:
        """A watched node changed."""
        if event.path == znodes.CONTROLLER:
            self.stand()
            return
        if self._term is None and not self._is_taking_office:
            return
        take = taking(event)
        if take is not None:
            self._events.put(take)

    def on_notes(self, notes: list[NoteFound]) -> None:
        """This broker has read what these notes name; its controller must know it too."""
        if notes and (self._term is not None or self._is_taking_office):
            self._events.put(lambda term: take_notes(term, notes))

    # -- what brokers answer ----------------------------------------------------------------

    def _on_isr_errors(self, broker_id: int, errors: dict[PartitionId, ErrorCode]) -> None:
        for (topic_id, index), error in errors.items():
            log.warning("broker %d on %s-%d: %s", broker_id, topic_id.hex(), index, error.name)
        lost = {one for one, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR}
        if lost:
            self._events.put(lambda term: replicas_lost(term, broker_id, lost))

    def _on_stopped(
        self, broker_id: int, results: dict[tuple[str, int], ErrorCode]
    ) -> None:
        async def event(term: Term) -> None:
            if term.deletions.answered(broker_id, results):
                await finish_deletions(term)

        self._events.put(event)

    def _on_fenced(self, broker_id: int, error: ErrorCode) -> None:
        if error is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._events.put(_look_at_office)
        else:
            self._events.put(brokers.take_brokers)

    # -- the one line of events ---------------------------------------------------------------

    def _reread(self) -> None:
        def due() -> None:
            if self._term is not None:
                self._events.put(take_all)

        self._clock.call_later(REREAD_S, due)

    async def _carry_out(self, event: Event, term: Term) -> None:
        await event(term)
        if self._term is term:
            await finish_reassignments(term)

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
                    self._events.put(_reload)
                elif self._term is None:
                    self._clock.call_later(RETRY_ELECTION_S, self.stand)
        except Exception:
            log.exception("an event of the controller failed")
            if self._term is None:
                self._clock.call_later(RETRY_ELECTION_S, self.stand)

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
        await take_all(term)

    def _end_term(self) -> None:
        """Resignation: whoever waits hears NOT_CONTROLLER, no broker hears anything more."""
        term, self._term = self._term, None
        if term is None:
            return
        term.close()
        self._events.refuse_all()
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
    await take_all(term)


async def _look_at_office(term: Term) -> None:
    if not await election.still_holds(term.office.session, term.fence):
        raise Deposed("a broker knows a newer controller")


def _nobody_hears(error: ErrorCode) -> None:
    """Whoever writes without asking about failures will write again."""
