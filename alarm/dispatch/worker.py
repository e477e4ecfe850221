"""A member of the group that reads `event.candidate`: it raises alarms, or stands by.

The one that is given the partition first reads `event.alarm` to its end, then decides; it
publishes, and commits what it has decided when the alarms are acknowledged. Files have no part in
it.

Two never publish the same at the same time: alarms are sent only within the member's `CommitLease`.
So long a coordinator may be away: commits are not waited for. Core: `decide`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import NamedTuple

import msgspec

from alarm.dispatch.alarm_topic import AlarmTopic
from alarm.dispatch.commit_lease import CommitLease
from alarm.dispatch.decide import decide
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.lists.base_tables import tables_folder
from alarm.settings import DispatcherSettings
from alarm.watchlist_reader import CatchUpTimeout, WatchlistReader
from bus.client.committed import unread_records, valid_offsets, void_position
from bus.client.followed_topics import UnreadRecords
from bus.client.kafka.cluster import (
    ClusterUnavailable,
    admin_client,
    wait_for_topics,
)
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.send_all import send_all
from bus.client.kafka.standby_group import MEMBERSHIP
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.kafka.topic_reader import CATCH_UP_TIMEOUT_S
from bus.client.model import ConsumedRecord, KeyedValue, TopicPartition
from bus.client.register_follower import RegisterFollower
from bus.confusion_file import source_of
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.groups import DISPATCHER
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import (
    CONTROL_REGISTER,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    EVENT_SUPPRESSED,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

POLL_TIMEOUT_S = 0.1  # how long a stop may wait for the consumer; another one takes over meanwhile
COMMIT_EVERY_S = 1.0  # a commit is a record on the coordinator's topic
CATCH_UP_S = 2.0  # how often it is read what is raised: who takes over reads no more
RETRY_S = 0.2
FORMER_PLACE_S = 3.0  # some looks of `TopicFollower`
ANSWER_S = 5.0  # of the group: a commit that takes longer proves nothing, and a stop waits for it


class _Commit(NamedTuple):
    """One that is under way."""

    asked_s: float
    member: str
    answer: Future[None]


class AlarmWorker:
    """A service: `run` in a thread until `stopping`.

    Invariant: `_next` has the partitions that are ours now; every alarm of what lies before is on
    the topic, or was decided against.
    """

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        settings: DispatcherSettings,
        may_begin: threading.Event,
        stopping: threading.Event,
        metrics: DispatcherMetrics,
    ) -> None:
        """`may_begin` is set when nothing of an earlier version waits any more."""
        self._site = site
        self._bus = bus
        self._settings = settings
        self._may_begin = may_begin
        self._stopping = stopping
        self._metrics = metrics
        self._rebalances = 0
        self._assigned: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        self._committing: _Commit | None = None
        self._begun: dict[TopicPartition, int] = {}
        self._handled: dict[TopicPartition, int] = {}  # by us, also of what is no longer ours
        self._given_up_s = 0.0
        self._commit_at_s = 0.0
        self._caught_up_s = 0.0
        self._unpublished: list[Incident] = []
        self._reported_ids: set[str] = set()  # of topics made anew: a handful per process

    def run(self) -> None:
        """Until stopped. Raises when the bus is away for too long, for a restart."""
        admin = admin_client(self._bus)
        topics = (
            EVENT_CANDIDATE, EVENT_ALARM, EVENT_SUPPRESSED, STATE_WATCHLIST, STATE_LISTS,
            CONTROL_REGISTER,
        )  # fmt: skip
        try:
            self._cluster = wait_for_topics(admin, topics, self._stopping)
            with closing(TopicFollower(self._bus, [EVENT_CANDIDATE]).start()) as self._topics:
                self._join()
        except (ClusterUnavailable, CatchUpTimeout) as error:
            if not self._stopping.is_set():
                raise
            log.info("dispatcher: stopped while the bus was away: %s", error)

    def _join(self) -> None:
        """The consumer is closed first: who stands by goes on at once."""
        path = self._site.data_path / "register.json"
        register = RegisterFollower(self._bus, path, f"{DISPATCHER}-register")
        with (
            closing(register.start()),
            closing(
                WatchlistReader(
                    self._bus, f"{DISPATCHER}-commands", tables_folder(self._site), register,
                    source_of(self._site), stopping=self._stopping,
                )
            ) as self._watchlist,
            closing(
                AlarmTopic(
                    self._site, self._bus, DISPATCHER, self._stopping
                )
            ) as self._alarms,
            Consumer(
                self._bus, client_id=DISPATCHER, group=DISPATCHER, timeout_s=ANSWER_S,
                overrides={**MEMBERSHIP, **FOLLOWS_LEADERS},  # sees more partitions, or fewer, too
            ) as self._consumer,
        ):
            # Without places a candidate of a rule that names one would be no alarm.
            if not register.wait_until_read(CATCH_UP_TIMEOUT_S):
                raise CatchUpTimeout("the register could not be read")
            self._lease = CommitLease(self._consumer, lambda: self._cluster.topic_ids)
            self._work()

    def _work(self) -> None:
        while not self._may_begin.wait(POLL_TIMEOUT_S):
            if self._stopping.is_set():
                return
        self._watchlist.catch_up()
        self._catch_up()
        self._consumer.subscribe(
            [EVENT_CANDIDATE], on_assign=self._on_assign, on_revoke=self._on_revoke
        )
        log.info(
            "dispatcher: ready, %d rules in force, %d alarms remembered",
            len(self._watchlist.rules), len(self._alarms),
        )  # fmt: skip
        while not self._stopping.is_set():
            self._step()
        if self._next:
            self._lease.commit(self._decided())

    def _step(self) -> None:
        before = self._rebalances
        self._follow_topic()
        records = self._consumer.poll(self._settings.max_batch, POLL_TIMEOUT_S)
        if self._rebalances != before:  # what was read may be of an assignment that has ended
            log.info("dispatcher: %s", "works" if self._assigned else "stands by")
            self._metrics.rebalances.inc()
            self._metrics.works.set(bool(self._assigned))
            self._give_up_place()
        self._take_answer()
        if time.monotonic() - self._caught_up_s > CATCH_UP_S:
            self._read_others()
        if self._assigned and not self._next:
            self._take_over()
        elif self._next and records and not self._process(records):
            self._give_up_place()
            self._stopping.wait(RETRY_S)
        self._begin_commit()

    def _follow_topic(self) -> None:
        """Where the candidates' topic was made anew, the new one is taken over, from its start."""
        renewed = self._topics.renewed(self._cluster, [EVENT_CANDIDATE])
        if not renewed or (now := self._topics.identity) is None:
            self._forget_former_places()
            return
        before, self._cluster = self._cluster, self._cluster.with_topics_of(now, renewed)
        former, topic_id = (one.topic_ids[EVENT_CANDIDATE] for one in (before, now))
        if former == topic_id:
            return  # it has grown, which the group sees by itself
        log.warning("dispatcher: %s was made anew: read from its start", EVENT_CANDIDATE)
        if self._handled:
            self._unpublished += self._unread_of(former, topic_id)
            self._reported_ids.add(topic_id)
            self._handled = {}
        self._give_up_place()

    def _unread_of(self, former: str, topic_id: str) -> list[Incident]:
        """What nobody had handled of the former topic's partitions that were ours to the last."""
        positions = {(p.topic, p.partition): at for p, at in self._handled.items()}
        counts, is_all = self._topics.unread(EVENT_CANDIDATE, former, positions)
        ours = {place: n for place, n in counts.items() if place in positions}
        unread = UnreadRecords(ours, is_all)
        return unread_records(DISPATCHER, EVENT_CANDIDATE, topic_id, unread, wall_clock.now_ms())

    def _forget_former_places(self) -> None:
        """Somebody else handles what was ours, unless its topic is gone: the group takes partitions
        of a deleted one away before a look finds that."""
        if self._is_topic_there() and time.monotonic() - self._given_up_s > FORMER_PLACE_S:
            self._handled = {p: at for p, at in self._handled.items() if p in self._next}

    def _is_topic_gone(self) -> bool:
        """By a look of this moment. Raises `ClusterUnavailable`."""
        self._topics.refresh()
        return not self._is_topic_there()

    def _is_topic_there(self) -> bool:
        now = self._topics.identity
        known = self._cluster.topic_ids[EVENT_CANDIDATE]
        return now is not None and now.topic_ids.get(EVENT_CANDIDATE) == known

    def _on_assign(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned.update(places)

    def _on_revoke(self, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._assigned.difference_update(places)

    def _give_up_place(self) -> None:
        """Nothing is certain any more: take over again before anything is decided."""
        self._next = {}
        self._begun = {}
        self._committing = None
        self._lease.end()
        self._given_up_s = time.monotonic()

    def _take_over(self) -> None:
        """Begin where the group stands, knowing every alarm that is raised. Called again by the
        next step if the group does not answer, or a void position cannot be told."""
        try:
            committed = self._consumer.committed_offsets(self._assigned)
            valid, void = valid_offsets(committed, self._cluster.topic_ids)
            if len(valid) + len(void) < len(self._assigned) and self._is_topic_gone():
                return  # and its positions with it; the next step goes on with the new one
            for topic in sorted({topic for topic, _ in void}):
                self._report_void(topic)
            self._publish_lost()
        except (BusError, ClusterUnavailable) as error:
            log.warning("dispatcher: the group's positions cannot be read yet: %s", error)
            self._stopping.wait(RETRY_S)
            return
        self._catch_up()
        self._next = {place: valid.get(place, BEGINNING) for place in self._assigned}
        for place, at in self._next.items():  # a deleted topic's positions may be gone already
            self._handled[place] = max(at, self._handled.get(place, 0))
        self._consumer.reassign(self._next)
        if void:  # who takes over after us need not tell it again
            self._lease.commit({place: 0 for place in self._assigned if place in void})

    def _report_void(self, topic: str) -> None:
        """Of an earlier topic of that name is the position."""
        log.error(
            "the group's position on %s is of an earlier topic of that name and void; "
            "reading begins at the first record there is",
            topic,
        )
        topic_id = self._cluster.topic_ids[topic]
        if topic_id not in self._reported_ids:
            self._unpublished += void_position(DISPATCHER, topic, topic_id, wall_clock.now_ms())
            self._reported_ids.add(topic_id)

    def _publish_lost(self) -> None:
        """What was lost and is not on the bus yet. Raises `BusError`."""
        if not self._unpublished:
            return
        values = [
            KeyedValue(one.incident_id.encode(), msgspec.json.encode(one))
            for one in self._unpublished
        ]
        send_all(
            self._bus, f"{DISPATCHER}-incidents", EVENT_INCIDENT, values,
            headers=[(SCHEMA, TOPICS[EVENT_INCIDENT].schema), (SITE, self._site.name)],
            timeout_s=ANSWER_S, what="incidents",
        )  # fmt: skip
        self._unpublished = []

    def _process(self, records: Sequence[ConsumedRecord]) -> bool:
        """Decide and publish; False where it has to be done again.

        Reads the commands after the candidates, so that each candidate meets the rule that it was
        found by.
        """
        self._watchlist.catch_up()
        decisions = decide(records, self._watchlist.rules, wall_clock.now_ms())
        for reason in decisions.unreadable:
            log.error("%s", reason)
        if not self._publish(decisions.alarms, _starts(records)):
            return False
        self._metrics.candidates.inc(len(records))
        handled = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
        self._next |= handled
        self._handled |= handled
        return True

    def _publish(self, alarms: Sequence[Alarm], starts: dict[TopicPartition, int]) -> bool:
        """What is new of them, then what other alarms stand for; whether all is acknowledged."""
        rules = self._watchlist.rules.rules
        quiet_ms = {one.rule_id: rules[one.rule_id].command.quiet_s * 1000 for one in alarms}
        refused: set[str] = set()
        new = self._alarms.new_of(alarms, quiet_ms)
        while new.raised:
            if not (
                self._lease.renew(starts)
                and self._alarms.publish(new.raised, self._lease.until_s)
            ):
                return False
            refused_now = self._alarms.refused
            raised = [one for one in new.raised if one.alarm_id not in refused_now]
            self._metrics.raised(raised, wall_clock.now_ms())
            if not refused_now:
                break
            refused |= refused_now  # those that they would have stood for are raised
            new = self._alarms.new_of(alarms, quiet_ms, refused)
        if new.suppressed and not (
            self._lease.renew(starts)
            and self._alarms.publish_suppressed(new.suppressed, self._lease.until_s)
        ):
            return False
        self._metrics.suppressed.inc(len(new.suppressed))
        return True

    def _decided(self) -> dict[TopicPartition, int]:
        return {place: end for place, end in self._next.items() if end >= 0}

    def _begin_commit(self) -> None:
        """What is decided, if it is more than before, once a second at most: who takes over decides
        again what no commit names, and finds on `event.alarm` what was raised of it. While a commit
        is under way, by a later step."""
        decided, asked_s = self._decided(), time.monotonic()
        if not decided or decided == self._begun or asked_s < self._commit_at_s:
            return
        member = self._consumer.member_id
        answer = self._consumer.begin_commit(decided, self._lease.ids(decided))
        if answer is not None:
            self._begun, self._committing = decided, _Commit(asked_s, member, answer)
            self._commit_at_s = asked_s + COMMIT_EVERY_S

    def _take_answer(self) -> None:
        if self._committing is None or not self._committing.answer.done():
            return
        asked_s, member, answer = self._committing
        self._committing = None
        try:
            answer.result()
        except BusError as error:
            log.warning("dispatcher: the commit was not accepted, and is repeated: %s", error)
            self._begun = {}
        else:
            self._lease.on_accepted(asked_s, member)

    def _read_others(self) -> None:
        """Who works is alone, and must not wait for the leader of the alarms between two of
        them."""
        if not self._next:
            self._catch_up()
            return
        self._alarms.read_what_came()
        self._caught_up_s = time.monotonic()

    def _catch_up(self) -> None:
        self._alarms.catch_up()
        self._caught_up_s = time.monotonic()


def _starts(records: Sequence[ConsumedRecord]) -> dict[TopicPartition, int]:
    """Where each partition's records begin."""
    return {TopicPartition(r.topic, r.partition): r.offset for r in reversed(records)}
