"""The events between two snapshots of a cluster (pure).

In: two snapshots. Out: events in an operator's order: brokers, controller, partitions. Never: a
request to the cluster. A change that is undone before the next snapshot leaves no event; only a
raised leader epoch still shows that there was an election.
"""

from __future__ import annotations

import msgspec

from monitor.cluster.snapshot import ClusterSnapshot, PartitionRow

MAX_NAMED = 3
"""Partitions named in one event; a broker's death concerns thousands."""


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is a key of the texts; `severity`: critical, warning, good, info. `values` fill the
    sentence; the history sets `number`."""

    at_ms: int
    kind: str
    severity: str
    values: dict[str, str | int] = {}
    number: int = 0


def events(before: ClusterSnapshot | None, now: ClusterSnapshot) -> list[ClusterEvent]:
    """The differences of the two; a first snapshot, or one of another cluster, is one event."""
    if before is None or before.cluster_id != now.cluster_id:
        return [_event(now, "first", "info", brokers=now.alive, partitions=len(now.partitions))]
    return [*_broker_events(before, now), *_controller_events(before, now),
            *_partition_events(before, now)]  # fmt: skip


def _event(now: ClusterSnapshot, kind: str, severity: str, **values: str | int) -> ClusterEvent:
    return ClusterEvent(at_ms=now.taken_at_ms, kind=kind, severity=severity, values=values)


def _broker_events(before: ClusterSnapshot, now: ClusterSnapshot) -> list[ClusterEvent]:
    was = {one.broker_id: one for one in before.brokers}
    found = []
    for one in now.brokers:
        earlier = was.get(one.broker_id)
        if earlier is None:
            found.append(_event(now, "broker_new", "good", broker=one.broker_id))
        elif earlier.state == "alive" and one.state != "alive":
            found.append(
                _event(now, "broker_lost", "critical", broker=one.broker_id, led=earlier.leads)
            )
        elif earlier.state != "alive" and one.state == "alive":
            found.append(_event(now, "broker_back", "good", broker=one.broker_id))
    return found


def _controller_events(before: ClusterSnapshot, now: ClusterSnapshot) -> list[ClusterEvent]:
    if now.controller_id < 0 <= before.controller_id:
        return [_event(now, "controller_none", "critical")]
    if (now.controller_id, now.controller_epoch) == (before.controller_id, before.controller_epoch):
        return []
    if now.controller_id < 0:
        return []
    return [_event(now, "controller_new", "warning", broker=now.controller_id,
                   epoch=now.controller_epoch)]  # fmt: skip


def _partition_events(before: ClusterSnapshot, now: ClusterSnapshot) -> list[ClusterEvent]:
    was = {(one.topic, one.index): one for one in before.partitions}
    groups: dict[tuple[str, str], list[PartitionRow]] = {}
    shrunk: dict[tuple[int, ...], list[PartitionRow]] = {}
    grown: dict[tuple[int, ...], list[PartitionRow]] = {}
    for one in now.partitions:
        earlier = was.get((one.topic, one.index))
        if earlier is None:
            continue
        if one.offline and not earlier.offline:
            groups.setdefault(("offline", "critical"), []).append(one)
        elif earlier.offline and not one.offline:
            # Without a leader the in-sync set does not change.
            clean = one.leader in (*earlier.isr, *earlier.elr)
            word = ("online", "good") if clean else ("unclean_election", "critical")
            groups.setdefault(word, []).append(one)
        elif one.leader != earlier.leader:
            groups.setdefault(("leader_moved", "info"), []).append(one)
        left = tuple(sorted(set(earlier.isr) - set(one.isr)))
        came = tuple(sorted(set(one.isr) - set(earlier.isr)))
        if left and not one.offline:
            shrunk.setdefault(left, []).append(one)
        if came:
            grown.setdefault(came, []).append(one)
    found = [_about(now, *key, group) for key, group in sorted(groups.items())]
    for kind, severity, changed in (("isr_shrank", "warning", shrunk), ("isr_grew", "good", grown)):
        found += [_about(now, kind, severity, rows, who) for who, rows in sorted(changed.items())]
    return found


def _about(
    now: ClusterSnapshot,
    kind: str,
    severity: str,
    partitions: list[PartitionRow],
    brokers: tuple[int, ...] = (),
) -> ClusterEvent:
    theirs_first = sorted(partitions, key=lambda one: one.topic.startswith("__"))
    names = [f"{one.topic}-{one.index}" for one in theirs_first[:MAX_NAMED]]
    more = " …" if len(partitions) > MAX_NAMED else ""
    return _event(
        now, kind, severity, count=len(partitions), names=", ".join(names) + more,
        brokers=", ".join(map(str, brokers)),
    )  # fmt: skip
