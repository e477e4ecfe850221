"""What the topics say was asked, decided and answered on the watch list, and what is wrong with it.

In: a broker. Out: faults in words; none where each request has one answer, each accepted one its one
decision, each alarm is raised once, each state follows from the one before, and each list is whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from operators_at_work import LINES, LIST, AskedCommand, ConsoleOperator, Importing, RuleOperator

from alarm.lists.stored_lists import StoredLists
from bus.client.kafka.consumer import Consumer
from bus.client.model import ConsumedRecord
from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from bus.contracts.commands import CommandAnswer
from bus.contracts.plate_lists import is_chunk_key
from bus.contracts.topics import (
    CONTROL_ALARM,
    CONTROL_LISTS,
    CONTROL_WATCHLIST,
    EVENT_ALARM,
    EVENT_COMMAND,
    REQUEST_TOPICS,
    STATE_ALARM,
    STATE_LISTS,
    STATE_WATCHLIST,
)
from bus.settings import BusSettings

STATES = {
    CONTROL_WATCHLIST: STATE_WATCHLIST, CONTROL_LISTS: STATE_LISTS, CONTROL_ALARM: STATE_ALARM,
}  # fmt: skip


@dataclass(frozen=True)
class DecidedWatchList:
    """All that stands on the topics, in their order."""

    records: Mapping[str, Sequence[ConsumedRecord]]

    def values(self, topic: str) -> Iterator[dict[str, Any]]:
        """Of what is no chunk of lines and no tombstone."""
        for one in self.records[topic]:
            is_chunk = topic == STATE_LISTS and is_chunk_key((one.key or b"").decode())
            if one.value is not None and not is_chunk:
                yield msgspec.json.decode(one.value)

    def structs(self, topic: str, kind: type[Any]) -> list[Any]:
        return [msgspec.json.decode(one.value or b"", type=kind) for one in self.records[topic] if one.value]

    def requests(self, topic: str) -> set[str]:
        return {one["command_id"] for one in self.values(topic)}

    @property
    def is_answered(self) -> bool:
        """Whether nobody has to wait any more."""
        given = {one.command_id for one in self.structs(EVENT_COMMAND, CommandAnswer)}
        return all(self.requests(topic) <= given for topic in REQUEST_TOPICS)


def read_decided(bootstrap: str) -> DecidedWatchList:
    """The topics as they stand."""
    topics = (*REQUEST_TOPICS, *STATES.values(), EVENT_COMMAND, EVENT_ALARM)
    bus = BusSettings(bootstrap_servers=bootstrap)
    return DecidedWatchList({topic: _read(bus, topic) for topic in topics})


def _read(bus: BusSettings, topic: str) -> list[ConsumedRecord]:
    with Consumer(bus, client_id="decided") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_of(topic), 0))
        found: list[ConsumedRecord] = []
        while not consumer.at_end:
            found += consumer.poll(1000, 0.2)
        return found


def faults_of_answers(found: DecidedWatchList, asked: Iterable[AskedCommand]) -> list[str]:
    """Each request has one answer, which is the one that was given to who asked."""
    answers: dict[str, list[CommandAnswer]] = defaultdict(list)
    for one in found.structs(EVENT_COMMAND, CommandAnswer):
        answers[one.command_id].append(one)
    times = {
        topic: Counter(one["command_id"] for one in found.values(topic)) for topic in REQUEST_TOPICS
    }
    faults = []
    for topic, counts in times.items():
        for command_id, count in counts.items():
            given = answers.pop(command_id, [])
            if not 1 <= len(given) <= count:  # asked again, it is answered again: the same
                faults.append(f"{topic}: {command_id} was asked {count} times, answered {len(given)}")
            if len({(one.state, one.version, one.code) for one in given}) > 1:
                faults.append(f"{topic}: {command_id} has different answers: {given}")
            for one in asked:
                if one.command.command_id == command_id and one.answer not in given:
                    faults.append(f"{topic}: {command_id} was told {one.answer}, the topic has {given}")
    return faults + [f"{command_id} was answered and never asked" for command_id in answers]


def faults_of_decisions(found: DecidedWatchList) -> list[str]:
    """Each accepted request has one decision, a refused one none; a take of who has it already is
    accepted and changes nothing."""
    faults = []
    for topic, states in STATES.items():
        decided = Counter(one["command_id"] for one in found.values(states))
        faults += [f"{states}: {one} is there {n} times" for one, n in decided.items() if n > 1]
        asked = {one["command_id"]: one for one in found.values(topic)}
        answers = found.structs(EVENT_COMMAND, CommandAnswer)
        for answer in {one.command_id: one for one in answers}.values():  # asked again, answered again
            if answer.topic != topic or answer.command_id not in asked:
                continue
            repeats = asked[answer.command_id].get("op") == "take"
            count = decided.pop(answer.command_id, 0)
            if answer.state == "refused" and count:
                faults.append(f"{states}: {answer.command_id} was refused and is there")
            if answer.state == "accepted" and not count and not repeats:
                faults.append(f"{states}: {answer.command_id} was accepted and is not there")
        faults += [f"{states}: {one} was decided and never answered" for one in decided if one]
    return faults


def faults_of_alarm_states(found: DecidedWatchList, console: ConsoleOperator) -> list[str]:
    """Each state is the one before and one step more; what the console was told stands there once."""
    faults = []
    last: dict[str, AlarmState] = {}
    texts: Counter[str] = Counter()
    for one in found.structs(STATE_ALARM, AlarmState):
        before = last.get(one.alarm_id)
        steps = [] if before is None else before.history
        if one.history[:-1] != steps or (before is not None and one.version <= before.version):
            faults.append(f"{one.alarm_id}: {one} does not follow {before}")
        last[one.alarm_id] = one
    for state in last.values():
        texts.update(step.text for step in state.history if step.text.startswith("console "))
    faults += [f"{one!r} was done and stands there {texts[one]} times" for one in console.said if texts[one] != 1]
    unknown = {one: n for one, n in texts.items() if one not in console.said}
    faults += [
        f"{one!r} stands there {n} times" for one, n in unknown.items()
        if n > 1 or one not in console.perhaps
    ]  # fmt: skip
    return faults


def faults_of_stored_states(found: DecidedWatchList, stored: Mapping[str, AlarmState]) -> list[str]:
    """The operations store has the last state of each."""
    last = {one.alarm_id: one for one in found.structs(STATE_ALARM, AlarmState)}
    return [
        f"{alarm_id}: the store has {stored.get(alarm_id)}, the topic {state}"
        for alarm_id, state in last.items()
        if stored.get(alarm_id) is None or stored[alarm_id].version != state.version
        or [one.at_ms for one in stored[alarm_id].history] != [one.at_ms for one in state.history]
    ]  # fmt: skip


def faults_of_alarms(found: DecidedWatchList, rules: RuleOperator) -> list[str]:
    """No alarm twice, those of the operator's rules as they must be."""
    times = Counter(one.alarm_id for one in found.structs(EVENT_ALARM, Alarm))
    faults = [f"alarm {one} stands there {n} times" for one, n in times.items() if n > 1]
    faults += [f"alarm {one} is missing" for one in rules.expected - times.keys()]
    own = {one for one in times if one.startswith("kills-")}
    return faults + [f"alarm {one} was not expected" for one in own - rules.expected]


def faults_of_list(found: DecidedWatchList, imports: Collection[Importing]) -> list[str]:
    """At each moment at which the list changed it was whole, of one version; what was imported and
    said so was in force."""
    faults: list[str] = []
    notes: list[str] = []
    state = StoredLists(None)
    for record in found.records[STATE_LISTS]:
        state.apply(record)
        if (record.key or b"").decode() != LIST or record.value is None:
            continue
        lines = list(state.lines(state.in_force[LIST]))
        said = Counter(line.note for line in lines)
        if len(said) != 1 or len(lines) != LINES:
            faults.append(f"the list at offset {record.offset} has {len(lines)} lines: {said}")
        notes += list(said)
    for one in imports:
        times = notes.count(f"v{one.version}")
        if times > 1 or (one.status == 0 and times == 0):
            faults.append(f"version {one.version} ended with {one.status} and was in force {times} times")
    if [int(one[1:]) for one in notes] != sorted(int(one[1:]) for one in notes):
        faults.append(f"versions were in force in the order {notes}")
    return faults
