"""The topics of states and `event.command`, as the one who decides knows them, and how more is put
there.

A decision counts as recorded when the brokers have acknowledged it, an answer as given. One whose
acknowledgement did not come may stand there all the same: whoever goes on reads to the end first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.earlier_commands import EarlierCommands
from alarm.decisions.machine import DecisionMachine
from alarm.dispatch.leased_producer import LeasedProducer
from bus.client.compacted_state import State, TopicState
from bus.client.kafka.compacted_topic import CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.producer import DeliveryReport, RecordMetadata
from bus.client.model import KeyedValue
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.commands import CommandAnswer
from bus.contracts.topics import CONTROL_WATCHLIST, EVENT_COMMAND
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

CLIENT_ID = "decider"


class DecisionTopics:
    """One thread at a time; opened by the member that decides. Invariant: `state` and `answered`
    are what was read, nothing that was only sent."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        machines: Sequence[DecisionMachine[Any, Any]],
        stopping: threading.Event,
    ) -> None:
        """Raises `CatchUpTimeout`, BusError."""
        self._bus = bus
        self._stopping = stopping
        self._states: Mapping[str, CompactedTopic[Any]] = {
            one.state_topic: self._followed(one.state_topic, one.make_state) for one in machines
        }
        self._answers = self._followed(EVENT_COMMAND, AnsweredCommands)
        self._producer = LeasedProducer(bus, CLIENT_ID, site.name)

    def state(self, topic: str) -> TopicState:
        """As of the last `catch_up`, of the kind that its machine makes."""
        found: TopicState = self._states[topic].state
        return found

    @property
    def answered(self) -> AnsweredCommands:
        """As of the last `catch_up`."""
        return self._answers.state

    def catch_up(self, *state_topics: str) -> None:
        """Learn all that stands there and on the answers' topic. Raises `CatchUpTimeout`."""
        for topic in state_topics:
            self._states[topic].catch_up()
        self._answers.catch_up()

    def read_earlier(self) -> EarlierCommands:
        """The commands of an earlier version. Raises `CatchUpTimeout`, BusError."""
        with self._followed(CONTROL_WATCHLIST, EarlierCommands) as topic:
            topic.catch_up()
            return topic.state

    def record(self, topic: str, decisions: Sequence[KeyedValue], until_s: float) -> bool:
        """Put decisions there, in their order; whether all are acknowledged. Sends nothing after
        `until_s` of the monotonic clock."""
        return self._send(topic, decisions, until_s)

    def answer(self, answers: Sequence[CommandAnswer], until_s: float) -> bool:
        """The same of answers."""
        values = [KeyedValue(one.command_id.encode(), msgspec.json.encode(one)) for one in answers]
        return self._send(EVENT_COMMAND, values, until_s)

    def close(self) -> None:
        """Leave; nothing is on its way between two calls."""
        self._producer.close()
        for one in self._states.values():
            one.close()
        self._answers.close()

    def _followed(self, topic: str, make_state: Callable[[], State]) -> CompactedTopic[State]:
        return CompactedTopic(
            self._bus, topic, make_state, client_id=f"{CLIENT_ID}-{topic}",
            leaders=PartitionLeaders(self._bus, f"{CLIENT_ID}-ends"), overrides=FOLLOWS_LEADERS,
            stopping=self._stopping,
        )  # fmt: skip

    def _send(self, topic: str, values: Sequence[KeyedValue], until_s: float) -> bool:
        if not values:
            return True
        reports = self._producer.send(topic, values, until_s)
        missing = [n for n in range(len(values)) if not _is_there(reports.get(n))]
        if missing:
            why = reports.get(missing[0], "not sent")
            log.warning("decider: %d records wait for %s: %s", len(missing), topic, why)
        return not missing


def _is_there(report: DeliveryReport | None) -> bool:
    return isinstance(report, RecordMetadata)
