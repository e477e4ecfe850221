"""The active controller's own state and work: broker sessions, probes, periodic tasks.

Core: `BrokerHeartbeatManager` and the decisions. Every change goes through `Controller.write`, so a
controller that has been replaced changes nothing. Never: a rule about partitions or brokers.

A broker is fenced when its session has expired, or when its connection was reset and a probe of its
address failed: a reset connection is a hint, not a verdict. A paused broker resets nothing; it is
found by its session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.controller.decisions import brokers, delegation_tokens, elections
from broker.controller.decisions.brokers import BrokerChangeResult, Registration, RegistrationResult
from broker.controller.decisions.decision import Decide, Decision
from broker.controller.decisions.heartbeat import (
    BrokerControlState,
    Heartbeat,
    HeartbeatReply,
    answer_heartbeat,
)
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.site_confirmations import ANY_OFFSET, newcomers, vouch
from broker.controller.heartbeat_manager import BrokerHeartbeatManager
from broker.controller.port import Controller, Failed
from broker.controller.probe import is_reachable
from broker.metadata.image import BrokerImage, MetadataImage
from bus.client.wire.ports import Connector
from bus.errors import BusError, ErrorCode
from bus.protocol.generated.metadata_records import DelegationTokenRecord

Reply = TypeVar("Reply")

log = logging.getLogger("broker.controller")

TICK_S = 0.1
"""How often sessions are checked: a fraction of the shortest useful session timeout."""

OWN_STALL_S = 1.0
"""A tick this much too late means that this process stalled, not the brokers."""

PROBES = 3
"""A process that is being killed may still answer the first probe; after this many it is alive."""

PROBE_GAP_S = 0.2

NOBODY = -1


class ActiveController:
    """The active controller's state. Created once; running between `on_active` and `on_inactive`.

    Invariant: while inactive it has no task and no session. `watches_sessions` is False under
    ZooKeeper, whose own sessions detect dead brokers.
    """

    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        network: Connector,
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
        self._heartbeats = BrokerHeartbeatManager(0)
        self._tick_task: TaskHandle | None = None
        self._probes: dict[int, TaskHandle] = {}
        self._balance_at = 0.0
        self._unclean_at = 0.0
        self._tokens_at = 0.0
        self._seen_configs: object = None

    @property
    def policy(self) -> PartitionPolicy:
        """The controller's own part of the partitions' configuration."""
        return PartitionPolicy.of(self._config())

    # -- life -------------------------------------------------------------------------

    def on_active(self) -> None:
        """This node is the active controller: every broker in service gets a full session."""
        self.on_inactive()
        now = self._clock.monotonic()
        self._heartbeats = BrokerHeartbeatManager(
            self._config()["broker.session.timeout.ms"] / 1000
        )
        self._heartbeats.begin(self._controller.image, now)
        self._balance_at = now + self._balance_interval_s
        self._unclean_at = now + self._unclean_interval_s
        self._tokens_at = now + self._tokens_interval_s
        self._seen_configs = None
        self._tick_task = self._clock.spawn(self._run(), name="active-controller")

    def on_inactive(self) -> None:
        """This node is no longer the active controller: drops all state."""
        tasks = [*self._probes.values()]
        if self._tick_task is not None:
            tasks.append(self._tick_task)
        self._tick_task, self._probes = None, {}
        for task in tasks:
            task.cancel()

    # -- requests of brokers ------------------------------------------------------------

    def register(
        self, registration: Registration, done: Callable[[RegistrationResult], None], failed: Failed
    ) -> None:
        """A broker starts. If its id seems to be alive already, that one is probed meanwhile."""

        def decide(image: MetadataImage) -> Decision[RegistrationResult]:
            return brokers.register(
                image,
                self.policy,
                registration,
                self._controller.end_offset,
                self._session_valid(image, registration.broker_id),
            )

        def registered(reply: RegistrationResult) -> None:
            held = self._controller.image.brokers.get(registration.broker_id)
            if reply.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION and held is not None:
                self._begin_probe(held)
            elif not reply.error:
                self._heartbeats.touch(registration.broker_id, reply.epoch, self._clock.monotonic())
                log.info("broker %d registered with epoch %d", registration.broker_id, reply.epoch)
            done(reply)

        self._controller.write(decide, registered, failed)

    def heartbeat(
        self, beat: Heartbeat, done: Callable[[HeartbeatReply], None], failed: Failed
    ) -> None:
        """A broker's heartbeat, with the state it wants."""
        now = self._clock.monotonic()
        before: list[BrokerControlState | None] = [None]

        def decide(image: MetadataImage) -> Decision[HeartbeatReply]:
            known = self._heartbeats.others_caught_up(
                beat.broker_id, [one.broker_id for one in image.alive_brokers()]
            )
            decision = answer_heartbeat(image, self.policy, beat, known)
            if not decision.reply.error:
                self._heartbeats.touch(beat.broker_id, beat.epoch, now, beat.metadata_offset)
                before[0] = decision.reply.state if decision.records else None
            return decision

        def answered(answer: HeartbeatReply) -> None:
            if before[0] is not None:
                state = answer.state.value
                log.info("broker %d (epoch %d) is %s", beat.broker_id, beat.epoch, state)
            done(answer)

        self._controller.write(decide, answered, failed)
        self.on_contact(beat.broker_id, beat.epoch, beat.metadata_offset)
        if before[0] is BrokerControlState.CONTROLLED_SHUTDOWN:
            # Read when the records are stored: brokers that have read so far know the new leaders.
            self._heartbeats.begin_shutdown(beat.broker_id, self._controller.end_offset - 1)

    def on_contact(self, broker_id: int, epoch: int, up_to_epoch: int = ANY_OFFSET) -> None:
        """A broker's process is alive; it was so after all those had registered whose broker epoch
        is not above `up_to_epoch`."""
        if not newcomers(self._controller.image, up_to_epoch):
            return

        def vouched(found: list[int]) -> None:
            if found:
                log.info("brokers %s are confirmed: broker %d was up beside them", found, broker_id)

        self._write_unattended(lambda image: vouch(image, broker_id, epoch, up_to_epoch), vouched)

    def note_offset(self, broker_id: int, offset: int) -> None:
        """How far a broker has read the metadata, as seen by the node that serves it its
        records."""
        self._heartbeats.note_offset(broker_id, offset)

    def connection_lost(self, broker_id: int) -> None:
        """A broker's connection was reset: probe it."""
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

    # -- periodic work ------------------------------------------------------------------

    @property
    def _balance_interval_s(self) -> float:
        return float(self._config()["leader.imbalance.check.interval.seconds"])

    @property
    def _unclean_interval_s(self) -> float:
        return float(self._config()["unclean.leader.election.interval.ms"] / 1000)

    @property
    def _tokens_interval_s(self) -> float:
        return float(self._config()["delegation.token.expiry.check.interval.ms"] / 1000)

    async def _run(self) -> None:
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_S)
            now = self._clock.monotonic()
            if now - last > TICK_S + OWN_STALL_S:
                self._heartbeats.extend(now - last - TICK_S)
            last = now
            if self._watches_sessions:
                self._fence_expired(now)
            self._balance(now)
            self._elect_uncleanly(now)
            self._remove_expired_tokens(now)

    def _fence_expired(self, now: float) -> None:
        for broker_id, epoch in self._heartbeats.expired(now):
            self._fence(broker_id, epoch, "its session has expired")

    def _balance(self, now: float) -> None:
        config = self._config()
        if now < self._balance_at or not config["auto.leader.rebalance.enable"]:
            return
        self._balance_at = now + self._balance_interval_s
        self._write_unattended(
            lambda image: elections.balance_leaders(image, self.policy), self._balanced
        )

    def _balanced(self, more: bool) -> None:
        if more:
            self._balance_at = self._clock.monotonic()

    def _elect_uncleanly(self, now: float) -> None:
        """At its interval, and at once when a configuration changed: it may just have been
        allowed."""
        configs = self._controller.image.configs
        if now < self._unclean_at and configs is self._seen_configs:
            return
        self._seen_configs = configs
        self._unclean_at = now + self._unclean_interval_s
        self._write_unattended(
            lambda image: elections.elect_uncleanly(image, self.policy), self._elected
        )

    def _elected(self, more: bool) -> None:
        if more:
            self._unclean_at = self._clock.monotonic()

    def _remove_expired_tokens(self, now: float) -> None:
        if now < self._tokens_at:
            return
        self._tokens_at = now + self._tokens_interval_s
        if self._config()["delegation.token.secret.key"]:
            now_ms = self._clock.now_ms()
            self._write_unattended(
                lambda image: delegation_tokens.remove_expired(image, now_ms), self._removed
            )

    def _removed(self, tokens: tuple[DelegationTokenRecord, ...]) -> None:
        for one in tokens:
            log.info("the delegation token %s of %s has expired", one.token_id, one.owner)
        if len(tokens) >= delegation_tokens.MOST_EXPIRED:
            self._tokens_at = self._clock.monotonic()

    # -- fencing ------------------------------------------------------------------------

    def _session_valid(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether the registered incarnation of a broker still sends heartbeats."""
        broker = image.brokers.get(broker_id)
        return broker is not None and self._heartbeats.is_valid(
            broker_id, broker.epoch, self._clock.monotonic()
        )

    async def _probe(self, broker_id: int, epoch: int) -> None:
        began = self._clock.monotonic()
        try:
            for _ in range(PROBES):
                broker = self._controller.image.brokers.get(broker_id)
                if broker is None or broker.epoch != epoch:
                    return
                is_up = await is_reachable(self._network, self._clock, broker.endpoints[0])
                if self._heartbeats.contact_since(broker_id, began):
                    return
                if not is_up:
                    self._fence(broker_id, epoch, "its connection was reset and a probe failed")
                    return
                await self._clock.sleep(PROBE_GAP_S)
        finally:
            self._probes.pop(broker_id, None)

    def _fence(self, broker_id: int, epoch: int, why: str) -> None:
        def done(reply: BrokerChangeResult) -> None:
            self._heartbeats.drop(broker_id, epoch)
            if reply.changed:
                log.warning("broker %d (epoch %d) is fenced: %s", broker_id, epoch, why)

        self._write_unattended(
            lambda image: brokers.fence(image, self.policy, broker_id, epoch), done
        )

    def _write_unattended(self, decide: Decide[Reply], done: Callable[[Reply], None]) -> None:
        """Writes a decision that no caller waits for; periodic work retries it where it cannot be
        stored now."""
        try:
            self._controller.write(decide, done, _ignore)
        except BusError as error:
            log.error("the controller cannot store a decision: %s", error)
        except Exception:  # committed records no rule foresaw: the next controller has them too
            log.exception("the controller cannot decide")


def _ignore(error: ErrorCode) -> None:
    """No longer the active controller: the new one decides for itself."""
