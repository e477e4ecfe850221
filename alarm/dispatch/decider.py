"""A member of the group `decider`: it decides on commands of every kind, or stands by.

The one that is given the partition of `control.watchlist` decides, also what stands on the other
topics of requests: it reads what was decided and answered to the end, then decides in each log's
order: decisions are recorded and acknowledged first, then the answers, then the group's offset is
committed. Killed between any two of them, the next one finds on the topics how far it came. Two
never decide at the same time (`CommitLease`). A site whose data are another's decides nothing.

Rules that an earlier version kept on `control.watchlist` itself are taken over once, before the
topic gets the policy of requests. Core: `alarm.decisions`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import Any

from alarm.decisions.alarm_machine import AlarmMachine
from alarm.decisions.known_lists import KnownLists
from alarm.decisions.known_rules import KnownRules
from alarm.decisions.list_machine import ListMachine
from alarm.decisions.machine import DecisionMachine, decide
from alarm.decisions.requests import CommandRequest, UnreadableRequest, independent
from alarm.decisions.rule_machine import RuleMachine
from alarm.decisions.rule_records import recorded
from alarm.dispatch.commit_lease import CommitLease
from alarm.dispatch.decision_topics import CLIENT_ID, DecisionTopics
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.watchlist_reader import has_earlier_rules
from bus.client.committed import valid_offsets
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import ClusterUnavailable, admin_client, wait_for_topics
from bus.client.kafka.compacted_topic import CatchUpTimeout
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.site_role import SiteRole
from bus.client.kafka.standby_group import MEMBERSHIP
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.commands import CommandAnswer
from bus.contracts.groups import DECIDER
from bus.contracts.plate_lists import ListRecord
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    EVENT_COMMAND,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.domain.feature_models import Models
from bus.domain.policy import PolicySettings
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

LOCK = TopicPartition(CONTROL_WATCHLIST, 0)
"""The member that has it assigned decides on the requests of all topics."""
NOT_TAKEN_OVER = "rules are being taken over"
"""In the place of the topic's id: a position that does not count."""
MAX_BATCH = 500
POLL_TIMEOUT_S = 0.1
RETRY_S = 0.2
AWAY_S = 2.0  # between two attempts while the bus is away
ANSWER_S = 5.0  # of the group, as of the one of candidates


def machines_of(
    policy: PolicySettings,
    alarms: AlarmMachine,
    lists_in_force: Callable[[], Mapping[str, ListRecord]] = dict,
    models: Models | None = None,
) -> Mapping[str, DecisionMachine[Any, Any]]:
    """By their topics, `REQUEST_TOPICS`, which have one partition each. `lists_in_force`: for
    rules; `models`: of galleries."""
    machines = (RuleMachine(policy, lists_in_force), ListMachine(models, policy), alarms)
    return {one.requests_topic: one for one in machines}


class CommandDecider:
    """A service: `run` in a thread until `stopping`. Invariant: of each topic every request before
    its place in `_next` is answered, or nobody can be answered; `_topics` are open, and `_next` has
    all places, while we decide."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        stopping: threading.Event,
        metrics: DispatcherMetrics,
        policy: PolicySettings,
        models: Models | None = None,
    ) -> None:
        alarms = AlarmMachine(lambda: self._role.site_epoch)
        self._machines = machines_of(policy, alarms, self._lists_in_force, models)
        self._places = tuple(TopicPartition(topic, 0) for topic in self._machines)
        self._site = site
        self._bus = bus
        self._stopping = stopping
        self._metrics = metrics
        self._assigned = False
        self._rebalances = 0
        self._next: dict[TopicPartition, int] = {}
        self._topics: DecisionTopics | None = None

    @property
    def decides(self) -> bool:
        """Whether the lock is held and all that was decided is known."""
        return bool(self._next)

    def run(self) -> None:
        """Until stopped. While the bus is away commands wait; alarms do not depend on it."""
        while not self._stopping.is_set():
            try:
                self._run_while_up()
            except (ClusterUnavailable, CatchUpTimeout, BusError) as error:
                if not self._stopping.is_set():
                    log.warning("decider: commands wait: %s", error)
                    self._stopping.wait(AWAY_S)

    def _run_while_up(self) -> None:
        states = [one.state_topic for one in self._machines.values()]
        needed = (*self._machines, *states, EVENT_COMMAND)
        self._cluster = wait_for_topics(admin_client(self._bus), needed, self._stopping)
        with (
            closing(Admin(self._bus, client_id=CLIENT_ID)) as self._admin,
            closing(TopicFollower(self._bus, self._machines).start()) as self._followed,
            closing(
                SiteRole(self._bus, f"{CLIENT_ID}-role", asks_epoch=True).start()
            ) as self._role,
            Consumer(
                self._bus, client_id=CLIENT_ID, group=DECIDER, timeout_s=ANSWER_S,
                overrides={**MEMBERSHIP, **FOLLOWS_LEADERS},
            ) as self._consumer,
            Consumer(
                self._bus, client_id=f"{CLIENT_ID}-requests", overrides=FOLLOWS_LEADERS
            ) as self._requests,
        ):  # fmt: skip
            self._lease = CommitLease(self._consumer, lambda: self._cluster.topic_ids)
            self._assigned = False
            self._consumer.subscribe(
                [CONTROL_WATCHLIST], on_assign=self._on_assign, on_revoke=self._on_revoke
            )
            try:
                while not self._stopping.is_set():
                    self._step()
            finally:
                self._give_up_place()

    def _step(self) -> None:
        before = self._rebalances
        self._follow_topics()
        self._consumer.poll(1, 0 if self._next else POLL_TIMEOUT_S)  # for the group alone
        if self._rebalances != before:
            log.info("decider: %s", "decides" if self._assigned else "stands by")
            self._give_up_place()
        if not self._assigned:
            return
        if not self._next:
            self._take_over()
            return
        records = self._requests.poll(MAX_BATCH, POLL_TIMEOUT_S)
        if not all(self._process(t, list(some)) for t, some in groupby(records, _topic_of)):
            self._give_up_place()
            self._stopping.wait(RETRY_S)

    def _on_assign(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned = self._assigned or LOCK in places

    def _on_revoke(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned = self._assigned and LOCK not in places

    def _follow_topics(self) -> None:
        """Where a topic of requests was recreated, the new one is read from its start."""
        renewed = self._followed.renewed(self._cluster, self._machines)
        if not renewed or (now := self._followed.identity) is None:
            return
        self._cluster = self._cluster.with_topics_of(now, renewed)
        log.warning("decider: %s made anew: read from the start", ", ".join(sorted(renewed)))
        self._give_up_place()

    def _give_up_place(self) -> None:
        """Nothing is certain any more: take over again before anything is decided."""
        self._next = {}
        self._requests.assign({})
        self._lease.end()
        self._metrics.decides.set(0)
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _take_over(self) -> None:
        """Begin where the group stands, knowing all that was decided. Called again by the next step
        if the group does not answer, or it is not known which of both sites is the primary."""
        self._consumer.pause([LOCK])
        if not self._role.is_known or self._role.is_unconfirmed:
            return
        try:
            committed = self._consumer.committed_offsets(self._places)
        except BusError as error:
            log.warning("decider: the group's position cannot be read yet: %s", error)
            self._stopping.wait(RETRY_S)
            return
        valid, _ = valid_offsets(committed, self._cluster.topic_ids)
        self._topics = topics = DecisionTopics(
            self._site, self._bus, list(self._machines.values()), self._stopping
        )
        for machine in self._machines.values():
            topics.catch_up(machine.state_topic)
        begin = {place: valid.get(place, BEGINNING) for place in self._places}
        if has_earlier_rules(self._admin):
            first = self._take_over_rules(topics, valid.get(LOCK))
            if first is None:
                self._give_up_place()
                self._stopping.wait(RETRY_S)
                return
            begin[LOCK] = first
        self._next = begin
        self._requests.assign(begin)
        self._metrics.decides.set(1)
        log.info("decider: ready")

    def _take_over_rules(self, topics: DecisionTopics, committed: int | None) -> int | None:
        """The rules of an earlier version become decisions, then its topic one of requests. Where
        requests begin; None where it has to be done again."""
        begin = committed
        if begin is None:
            earlier = topics.read_earlier()
            known = topics.state(STATE_WATCHLIST)
            assert isinstance(known, KnownRules)
            missing, begin = earlier.missing(known), earlier.end_offset
            decisions = [recorded(one) for one in missing]
            if not (
                self._lease.renew({LOCK: 0}, {LOCK: NOT_TAKEN_OVER})
                and topics.record(STATE_WATCHLIST, decisions, self._lease.until_s)
            ):
                return None
            log.warning("decider: %d rules of an earlier version are taken over", len(missing))
        self._lease.end()  # and get another one by a commit that counts
        if not self._lease.renew({LOCK: begin}):
            return None
        self._admin.replace_policy(TOPICS[CONTROL_WATCHLIST])
        return begin

    def _process(self, topic: str, records: Sequence[ConsumedRecord]) -> bool:
        """Decide, record, answer, commit; False where it has to be done again."""
        machine, place = self._machines[topic], TopicPartition(topic, 0)
        requests = self._readable(machine, records)
        for group in independent(requests, machine.names):
            if not self._decide(machine, group, {place: records[0].offset}):
                return False
        self._next[place] = records[-1].offset + 1
        self._lease.commit({place: self._next[place]})
        return True

    def _readable(
        self, machine: DecisionMachine[Any, Any], records: Iterable[ConsumedRecord]
    ) -> Iterable[CommandRequest[Any]]:
        topic_id = self._cluster.topic_ids[machine.requests_topic]
        for record in records:
            try:
                yield machine.decode(record, topic_id)
            except UnreadableRequest as error:
                where = f"{record.topic} at offset {record.offset}"
                log.error("the request on %s is passed over: %s", where, error)

    def _decide(
        self,
        machine: DecisionMachine[Any, Any],
        requests: Sequence[CommandRequest[Any]],
        start: Mapping[TopicPartition, int],
    ) -> bool:
        topics = self._topics
        if topics is None or self._role.is_unconfirmed:
            return False
        topics.catch_up(machine.state_topic, *machine.asked_topics)
        state = topics.state(machine.state_topic)
        now_ms, is_primary = wall_clock.now_ms(), self._role.is_primary
        decided = [
            decide(
                machine, one, state, topics.answered, now_ms,
                is_primary=is_primary, site_changed_ms=self._role.epoch_at_ms,
            )
            for one in requests
        ]
        records = [record for one in decided for record in one.records]
        answers = [one.answer for one in decided if one.answer is not None]
        if not (
            self._lease.renew(start)
            and topics.record(machine.state_topic, records, self._lease.until_s)
            and self._lease.renew(start) and topics.answer(answers, self._lease.until_s)
        ):  # fmt: skip
            return False
        self._report(answers)
        return True

    def _lists_in_force(self) -> Mapping[str, ListRecord]:
        """As of the last `catch_up`."""
        assert self._topics is not None
        known = self._topics.state(STATE_LISTS)
        assert isinstance(known, KnownLists)
        return known.in_force

    def _report(self, answers: Iterable[CommandAnswer]) -> None:
        for one in answers:
            self._metrics.commands.labels(one.state).inc()
            if one.state == "refused":
                log.info("decider: %s on %s is refused: %s", one.command_id, one.key, one.text)


_topic_of = attrgetter("topic")
