"""A member of the group that reads `control.watchlist`: it decides on commands, or stands by.

The one that is given the partition reads what was decided and answered to the end, then decides in
the log's order: decisions are recorded and acknowledged first, then the answers, then the group's
offset is committed. Killed between any two of them, the next one finds on the topics how far it
came. Two never decide at the same time (`CommitLease`). A site whose data are another's decides
nothing.

Rules that an earlier version kept on `control.watchlist` itself are taken over once, before the
topic gets the policy of requests. Core: `alarm.decisions`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing

from alarm.decisions.requests import (
    CommandRequest,
    UnreadableRequest,
    decode_request,
    independent,
)
from alarm.decisions.rule_machine import decide
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
from bus.contracts.topics import CONTROL_WATCHLIST, EVENT_COMMAND, STATE_WATCHLIST, TOPICS
from bus.domain.policy import PolicySettings
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

PLACE = TopicPartition(CONTROL_WATCHLIST, 0)
NOT_TAKEN_OVER = "rules are being taken over"
"""In the place of the topic's id: a position that does not count."""
MAX_BATCH = 500
POLL_TIMEOUT_S = 0.1
RETRY_S = 0.2
AWAY_S = 2.0  # between two attempts while the bus is away
ANSWER_S = 5.0  # of the group, as of the one of candidates


class CommandDecider:
    """A service: `run` in a thread until `stopping`. Invariant: every request before `_next` is
    answered, or nobody can be answered; `_topics` are open while the partition is ours."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        stopping: threading.Event,
        metrics: DispatcherMetrics,
        policy: PolicySettings,
    ) -> None:
        self._policy = policy
        self._site = site
        self._bus = bus
        self._stopping = stopping
        self._metrics = metrics
        self._assigned = False
        self._rebalances = 0
        self._next: int | None = None
        self._topics: DecisionTopics | None = None

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
        needed = (CONTROL_WATCHLIST, STATE_WATCHLIST, EVENT_COMMAND)
        self._cluster = wait_for_topics(admin_client(self._bus), needed, self._stopping)
        with (
            closing(Admin(self._bus, client_id=CLIENT_ID)) as self._admin,
            closing(TopicFollower(self._bus, [CONTROL_WATCHLIST]).start()) as self._followed,
            closing(SiteRole(self._bus, f"{CLIENT_ID}-role").start()) as self._role,
            Consumer(
                self._bus, client_id=CLIENT_ID, group=DECIDER, timeout_s=ANSWER_S,
                overrides={**MEMBERSHIP, **FOLLOWS_LEADERS},
            ) as self._consumer,
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
        self._follow_topic()
        records = self._consumer.poll(MAX_BATCH, POLL_TIMEOUT_S)
        if self._rebalances != before:  # what was read may be of an assignment that has ended
            log.info("decider: %s", "decides" if self._assigned else "stands by")
            self._give_up_place()
        if not self._assigned:
            return
        if self._next is None:
            self._take_over()
        elif records and not self._process(records):
            self._give_up_place()
            self._stopping.wait(RETRY_S)

    def _on_assign(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned = self._assigned or PLACE in places

    def _on_revoke(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned = self._assigned and PLACE not in places

    def _follow_topic(self) -> None:
        """Where the requests' topic was made anew, the new one is read from its start."""
        renewed = self._followed.renewed(self._cluster, [CONTROL_WATCHLIST])
        if not renewed or (now := self._followed.identity) is None:
            return
        self._cluster = self._cluster.with_topics_of(now, renewed)
        log.warning("decider: %s was made anew: read from its start", CONTROL_WATCHLIST)
        self._give_up_place()

    def _give_up_place(self) -> None:
        """Nothing is certain any more: take over again before anything is decided."""
        self._next = None
        self._lease.end()
        self._metrics.decides.set(0)
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _take_over(self) -> None:
        """Begin where the group stands, knowing all that was decided. Called again by the next step
        if the group does not answer, or it is not known whether the site is a mirror."""
        if not self._role.is_known:
            return
        try:
            committed = self._consumer.committed_offsets([PLACE])
        except BusError as error:
            log.warning("decider: the group's position cannot be read yet: %s", error)
            self._stopping.wait(RETRY_S)
            return
        valid, _ = valid_offsets(committed, self._cluster.topic_ids)
        self._topics = topics = DecisionTopics(self._site, self._bus, self._stopping)
        topics.catch_up()
        begin: int | None = valid.get(PLACE, BEGINNING)
        if has_earlier_rules(self._admin):
            begin = self._take_over_rules(topics, valid.get(PLACE))
        if begin is None:
            self._give_up_place()
            self._stopping.wait(RETRY_S)
            return
        self._next = begin
        self._consumer.reassign({PLACE: begin})
        self._metrics.decides.set(1)
        log.info("decider: ready, %d rules known", len(topics.known.versions))

    def _take_over_rules(self, topics: DecisionTopics, committed: int | None) -> int | None:
        """The rules of an earlier version become decisions, then its topic one of requests. Where
        requests begin; None where it has to be done again."""
        begin = committed
        if begin is None:
            earlier = topics.read_earlier()
            missing, begin = earlier.missing(topics.known), earlier.end_offset
            if not (
                self._lease.renew({PLACE: 0}, {PLACE: NOT_TAKEN_OVER})
                and topics.record(missing, self._lease.until_s)
            ):
                return None
            log.warning("decider: %d rules of an earlier version are taken over", len(missing))
        self._lease.end()  # and get another one by a commit that counts
        if not self._lease.renew({PLACE: begin}):
            return None
        self._admin.replace_policy(TOPICS[CONTROL_WATCHLIST])
        return begin

    def _process(self, records: Sequence[ConsumedRecord]) -> bool:
        """Decide, record, answer, commit; False where it has to be done again."""
        for group in independent(self._requests(records)):
            if not self._decide(group, records[0].offset):
                return False
        self._next = records[-1].offset + 1
        self._lease.commit({PLACE: self._next})
        return True

    def _requests(self, records: Iterable[ConsumedRecord]) -> Iterable[CommandRequest]:
        topic_id = self._cluster.topic_ids[CONTROL_WATCHLIST]
        for record in records:
            try:
                yield decode_request(record, topic_id)
            except UnreadableRequest as error:
                log.error("the request at offset %d is passed over: %s", record.offset, error)

    def _decide(self, requests: Sequence[CommandRequest], start: int) -> bool:
        topics = self._topics
        if topics is None:
            return False
        topics.catch_up()
        now_ms, is_primary = wall_clock.now_ms(), self._role.secondary_since_ms is None
        decisions = [
            decide(
                one, topics.known, topics.answered, now_ms, is_primary=is_primary,
                policy=self._policy,
            )
            for one in requests
        ]  # fmt: skip
        rules = [record for one in decisions for record in one.records]
        answers = [one.answer for one in decisions if one.answer is not None]
        if not (
            self._lease.renew({PLACE: start}) and topics.record(rules, self._lease.until_s)
            and self._lease.renew({PLACE: start}) and topics.answer(answers, self._lease.until_s)
        ):  # fmt: skip
            return False
        self._report(answers)
        return True

    def _report(self, answers: Iterable[CommandAnswer]) -> None:
        for one in answers:
            self._metrics.commands.labels(one.state).inc()
            if one.state == "refused":
                log.info("decider: %s on %s is refused: %s", one.command_id, one.key, one.text)
