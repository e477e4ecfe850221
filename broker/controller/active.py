"""What only the active controller knows and does: sessions, probes, work that comes by time.

Core: `Sessions` and the decisions. Every change goes through `Controller.write`, so a controller
that has been replaced changes nothing. Never: a rule about partitions or brokers.

A broker is fenced when its session has expired, or when its connection was reset and a probe of
its address failed: a reset connection is news, not a verdict. A paused broker resets nothing; it
is found by its session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.controller.decisions import brokers, elections
from broker.controller.decisions.brokers import Done, Registered, Registration
from broker.controller.decisions.decision import Decide, Decision
from broker.controller.decisions.heartbeat import (
    Answer,
    BrokerState,
    Heartbeat,
    answer_heartbeat,
)
from broker.controller.decisions.rules import Rules
from broker.controller.port import Controller, Failed
from broker.controller.probe import answers
from broker.controller.sessions import Sessions
from broker.metadata.image import BrokerImage, MetadataImage
from broker.peer.port import Network
from bus.errors import BusError, ErrorCode

Reply = TypeVar("Reply")

log = logging.getLogger("broker.controller")

TICK_S = 0.1
"""How often sessions are looked at: a fraction of the shortest that is useful."""

OWN_PAUSE_S = 1.0
"""A tick that comes so much too late was held up by this process, not by the brokers."""

PROBES = 3
"""A process that dies may still answer the first probe; after this many answers it lives."""

PROBE_GAP_S = 0.2

NOBODY = -1


class ActiveController:
    """The active controller's memory. Made once; alive between `on_active` and `on_inactive`.

    Invariant: while inactive it has no task and no session. `watches_sessions` is False under
    ZooKeeper, whose own sessions tell who is there.
    """

    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        network: Network,
        config: Callable[[], BrokerConfig],
        site: int = 0,
        *,
        watches_sessions: bool = True,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._network = network
        self._config = config
        self._watches_sessions = watches_sessions
        self.site = site
        self._sessions = Sessions(0)
        self._tick_task: TaskHandle | None = None
        self._probes: dict[int, TaskHandle] = {}
        self._balance_at = 0.0
        self._unclean_at = 0.0
        self._seen_configs: object = None

    @property
    def rules(self) -> Rules:
        """The controller's own part of the partitions' configuration."""
        return Rules.of(self._config())

    # -- life -------------------------------------------------------------------------

    def on_active(self) -> None:
        """This node leads now: every broker in service gets a whole session."""
        self.on_inactive()
        now = self._clock.monotonic()
        self._sessions = Sessions(self._config()["broker.session.timeout.ms"] / 1000)
        self._sessions.begin(self._controller.image, now)
        self._balance_at = now + self._balance_interval_s
        self._unclean_at = now + self._unclean_interval_s
        self._seen_configs = None
        self._tick_task = self._clock.spawn(self._run(), name="active-controller")

    def on_inactive(self) -> None:
        """Another node leads, or nobody: what was remembered is void."""
        tasks = [*self._probes.values()]
        if self._tick_task is not None:
            tasks.append(self._tick_task)
        self._tick_task, self._probes = None, {}
        for task in tasks:
            task.cancel()

    # -- what brokers say ---------------------------------------------------------------

    def register(
        self, asked: Registration, done: Callable[[Registered], None], failed: Failed
    ) -> None:
        """A broker starts. One that seems to live already is probed meanwhile."""

        def decide(image: MetadataImage) -> Decision[Registered]:
            return brokers.register(
                image,
                self.rules,
                asked,
                self._controller.end_offset,
                self._lives(image, asked.broker_id),
            )

        def registered(reply: Registered) -> None:
            held = self._controller.image.brokers.get(asked.broker_id)
            if reply.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION and held is not None:
                self._begin_probe(held)
            elif not reply.error:
                self._sessions.touch(asked.broker_id, reply.epoch, self._clock.monotonic())
                log.info("broker %d registered with epoch %d", asked.broker_id, reply.epoch)
            done(reply)

        self._controller.write(decide, registered, failed)

    def heartbeat(self, beat: Heartbeat, done: Callable[[Answer], None], failed: Failed) -> None:
        """A broker says that it lives, and what it wants."""
        now = self._clock.monotonic()
        before: list[BrokerState | None] = [None]

        def decide(image: MetadataImage) -> Decision[Answer]:
            known = self._sessions.others_know(
                beat.broker_id, [one.broker_id for one in image.alive_brokers()]
            )
            decision = answer_heartbeat(image, self.rules, beat, known)
            if not decision.reply.error:
                self._sessions.touch(beat.broker_id, beat.epoch, now, beat.metadata_offset)
                before[0] = decision.reply.state if decision.records else None
            return decision

        def answered(answer: Answer) -> None:
            if before[0] is not None:
                state = answer.state.value
                log.info("broker %d (epoch %d) is %s", beat.broker_id, beat.epoch, state)
            done(answer)

        self._controller.write(decide, answered, failed)
        if before[0] is BrokerState.CONTROLLED_SHUTDOWN:
            # Read when the records are stored: whoever has read so far knows of the new leaders.
            self._sessions.begin_shutdown(beat.broker_id, self._controller.end_offset - 1)

    def note_offset(self, broker_id: int, offset: int) -> None:
        """How far a broker has read the metadata, as seen by who serves it its records."""
        self._sessions.note_offset(broker_id, offset)

    def connection_lost(self, broker_id: int) -> None:
        """A broker's connection was reset: look whether it is still there."""
        broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self._begin_probe(broker)

    def _begin_probe(self, broker: BrokerImage) -> None:
        broker_id = broker.broker_id
        if self._tick_task is None or not self._watches_sessions or broker_id in self._probes:
            return
        if not broker.endpoints:
            return  # found by its session
        self._probes[broker_id] = self._clock.spawn(
            self._probe(broker_id, broker.epoch), name=f"probe-{broker_id}"
        )

    # -- time ---------------------------------------------------------------------------

    @property
    def _balance_interval_s(self) -> float:
        return float(self._config()["leader.imbalance.check.interval.seconds"])

    @property
    def _unclean_interval_s(self) -> float:
        return float(self._config()["unclean.leader.election.interval.ms"] / 1000)

    async def _run(self) -> None:
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_S)
            now = self._clock.monotonic()
            if now - last > TICK_S + OWN_PAUSE_S:
                self._sessions.extend(now - last - TICK_S)
            last = now
            if self._watches_sessions:
                self._fence_expired(now)
            self._balance(now)
            self._elect_uncleanly(now)

    def _fence_expired(self, now: float) -> None:
        for broker_id, epoch in self._sessions.expired(now):
            self._fence(broker_id, epoch, "its session has expired")

    def _balance(self, now: float) -> None:
        config = self._config()
        if now < self._balance_at or not config["auto.leader.rebalance.enable"]:
            return
        self._balance_at = now + self._balance_interval_s
        self._try(lambda image: elections.balance_leaders(image, self.rules), self._balanced)

    def _balanced(self, more: bool) -> None:
        if more:
            self._balance_at = self._clock.monotonic()

    def _elect_uncleanly(self, now: float) -> None:
        """By its interval, and at once when a configuration changed: somebody may just have
        allowed it."""
        configs = self._controller.image.configs
        if now < self._unclean_at and configs is self._seen_configs:
            return
        self._seen_configs = configs
        self._unclean_at = now + self._unclean_interval_s
        self._try(lambda image: elections.elect_uncleanly(image, self.rules), self._elected)

    def _elected(self, more: bool) -> None:
        if more:
            self._unclean_at = self._clock.monotonic()

    # -- who is gone --------------------------------------------------------------------

    def _lives(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether the registered life of a broker still reports."""
        broker = image.brokers.get(broker_id)
        return broker is not None and self._sessions.is_valid(
            broker_id, broker.epoch, self._clock.monotonic()
        )

    async def _probe(self, broker_id: int, epoch: int) -> None:
        began = self._clock.monotonic()
        try:
            for _ in range(PROBES):
                broker = self._controller.image.brokers.get(broker_id)
                if broker is None or broker.epoch != epoch:
                    return
                there = await answers(self._network, self._clock, broker.endpoints[0])
                if self._sessions.heard_since(broker_id, began):
                    return
                if not there:
                    self._fence(broker_id, epoch, "its connection was reset and a probe failed")
                    return
                await self._clock.sleep(PROBE_GAP_S)
        finally:
            self._probes.pop(broker_id, None)

    def _fence(self, broker_id: int, epoch: int, why: str) -> None:
        def done(reply: Done) -> None:
            self._sessions.drop(broker_id, epoch)
            if reply.changed:
                log.warning("broker %d (epoch %d) is fenced: %s", broker_id, epoch, why)

        self._try(lambda image: brokers.fence(image, self.rules, broker_id, epoch), done)

    def _try(self, decide: Decide[Reply], done: Callable[[Reply], None]) -> None:
        """Write what nobody waits for; it comes again by time where it cannot be stored now."""
        try:
            self._controller.write(decide, done, _ignore)
        except BusError as error:
            log.error("the controller cannot store a decision: %s", error)
        except Exception:  # committed records no rule foresaw: the next controller has them too
            log.exception("the controller cannot decide")


def _ignore(error: ErrorCode) -> None:
    """Not the controller any more: whoever is decides for itself."""
