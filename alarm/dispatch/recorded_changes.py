"""What a batch of the topics that the recorder reads changes in the operations store.

In: records of `READ`, the commands known so far, the topics' ids. Out: `BatchChanges`, positions.
Never: the store, the bus, a clock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from alarm.dispatch.alarm_state_table import StateChange
from alarm.dispatch.decide import raised
from alarm.dispatch.operations import BatchChanges
from alarm.dispatch.replicated_incidents import ReplicatedIncident
from alarm.rules import accepted
from alarm.watchlist_reader import command_of, rule_id_of
from bus.client.kafka.consumer import BEGINNING
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.commands import DecidedRule
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.topics import (
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    EVENT_SUPPRESSED,
    STATE_ALARM,
    STATE_WATCHLIST,
)
from bus.domain.alarm_life import alarm_state
from bus.domain.table_versions import TableVersions
from ingest.store.port import Position
from ingest.store.positions import valid_positions

log = logging.getLogger(__name__)

RECORDER = "recorder"
RECORDED_TOPICS = (
    EVENT_ALARM, EVENT_SUPPRESSED, EVENT_INCIDENT, EVENT_NOTIFIED, EVENT_ACKNOWLEDGED,
    STATE_ALARM,
)  # fmt: skip
READ = (*RECORDED_TOPICS, STATE_WATCHLIST)
# The watch list is read from its beginning: it is a state.


def changes_of(
    messages: Sequence[ConsumedRecord],
    newest: TableVersions,
    cluster: ClusterIdentity,
    shadow_since_ms: int | None,
    notify_since_ms: int,
    now_ms: int,
) -> BatchChanges:
    """A notice that would be given up at its first failure is not made at all (`notify_since_ms`):
    a file that was lost is filled from a month of alarms."""
    found = raised(one for one in messages if one.header(MIRROR_ORIGIN) is None)
    foreign = raised(one for one in messages if one.header(MIRROR_ORIGIN) is not None)
    for reason in [*found.unreadable, *foreign.unreadable]:
        log.error("%s", reason)
    return BatchChanges(
        commands=_commands(messages, newest),
        alarm_states=_alarm_states(messages),
        alarms=found.alarms,
        suppressed=[*found.suppressed, *foreign.suppressed],
        incidents=found.incidents,
        shadow_since_ms=shadow_since_ms,
        foreign_alarms=foreign.alarms,
        foreign_incidents=[
            ReplicatedIncident(one, foreign.origins[one.incident_id]) for one in foreign.incidents
        ],
        foreign_notified=foreign.notified,
        notified=found.notified,
        acknowledged=[*found.acknowledged, *foreign.acknowledged],
        positions=_positions(messages, cluster),
        notify_since_ms=notify_since_ms,
        now_ms=now_ms,
    )


def starting_positions(
    stored: Iterable[Position], cluster: ClusterIdentity
) -> dict[TopicPartition, int]:
    """The stored positions that are still valid in this cluster, else the beginning: what is stored
    already is known by its id."""
    valid = valid_positions(stored, cluster)
    read = [partition for partition in cluster.partitions if partition[0] in READ]
    return {TopicPartition(*partition): valid.get(partition, BEGINNING) for partition in read}


def _commands(messages: Iterable[ConsumedRecord], newest: TableVersions) -> list[DecidedRule]:
    """Those that change the rules in force."""
    found = []
    for one in messages:
        if one.topic != STATE_WATCHLIST:
            continue
        if one.value is None:
            newest.forget(rule_id_of(one))
        elif (command := command_of(one)) is not None and accepted(command, newest):
            found.append(command)
    return found


def _alarm_states(messages: Iterable[ConsumedRecord]) -> list[StateChange]:
    """What is not ours is passed over."""
    found = []
    for one in messages:
        if one.topic != STATE_ALARM:
            continue
        if one.value is None:
            found.append(StateChange((one.key or b"").decode("utf-8", "replace"), None))
        elif (state := alarm_state(one.value)) is not None:
            found.append(StateChange(state.alarm_id, state))
        else:
            log.error("the record %s@%d is no state of an alarm", one.topic, one.offset)
    return found


def _positions(messages: Sequence[ConsumedRecord], cluster: ClusterIdentity) -> list[Position]:
    ends = {
        (m.topic, m.partition): m.offset + 1 for m in messages if m.topic in RECORDED_TOPICS
    }  # ascending: the last one counts
    return [
        Position(
            application=RECORDER,
            cluster_id=cluster.cluster_id,
            topic=topic,
            topic_id=cluster.topic_ids[topic],
            partition=partition,
            end_offset=end_offset,
        )
        for (topic, partition), end_offset in sorted(ends.items())
    ]
