"""What an operator learns between two polls, and what is kept of it."""

from __future__ import annotations

from itertools import pairwise
from zoneinfo import ZoneInfo

from bus.client.model import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
)
from monitor.cluster.events import ClusterEvent, events
from monitor.cluster.history import MAX_EVENTS, SAMPLES, ClusterHistory
from monitor.cluster.snapshot import ClusterSnapshot, build_snapshot
from monitor.console.cluster_rows import broker_row, event_row, partition_row, tiles
from monitor.i18n import LANGUAGES, texts

THREE = (1, 2, 3)


def seen(
    *partitions: tuple[int, tuple[int, ...]],
    alive: tuple[int, ...] = THREE,
    fenced: tuple[int, ...] = (),
    controller: int = 1,
    epoch: int = 5,
    before: ClusterSnapshot | None = None,
    at_ms: int = 1000,
) -> ClusterSnapshot:
    """A cluster of three with one topic of these (leader, isr)."""
    brokers = [BrokerDescription(b, "127.0.0.1", 9000 + b, "north", b in fenced)
               for b in sorted((*alive, *fenced))]  # fmt: skip
    topic = TopicDescription(
        "plates",
        bytes(16),
        False,
        tuple(PartitionDescription(i, leader, 0, THREE, isr) for i, (leader, isr) in enumerate(partitions)),
    )
    voters = tuple(QuorumReplica(b, bytes(16), 100 - b, 0, 0) for b in THREE)
    quorum = QuorumDescription(controller, epoch, 90, voters, ())
    return build_snapshot(
        ClusterDescription("id", controller, tuple(brokers)), [topic], quorum, now_ms=at_ms, before=before
    )


WELL = ((1, THREE), (2, THREE))


def kinds(found: list[ClusterEvent]) -> list[tuple[str, str]]:
    return [(one.kind, one.severity) for one in found]


def test_the_first_look_says_what_there_is():
    assert kinds(events(None, seen(*WELL))) == [("first", "info")]


def test_nothing_happened():
    assert events(seen(*WELL), seen(*WELL)) == []


def test_a_broker_dies_and_comes_back():
    before = seen(*WELL)
    dead = seen((2, (2, 3)), (2, (2, 3)), alive=(2, 3), fenced=(1,), controller=2, epoch=6)
    found = events(before, dead)
    assert kinds(found) == [
        ("broker_lost", "critical"),
        ("controller_new", "warning"),
        ("leader_moved", "info"),
        ("isr_shrank", "warning"),
    ]
    assert found[0].values == {"broker": 1, "led": 1}
    assert found[3].values == {"count": 2, "names": "plates-0, plates-1", "brokers": "1"}
    again = events(dead, seen((2, THREE), (2, THREE), controller=2, epoch=6))
    assert kinds(again) == [("broker_back", "good"), ("isr_grew", "good")]


def test_a_partition_without_a_leader_is_critical_until_it_has_one():
    gone = seen((-1, (1,)), (2, THREE))
    assert ("offline", "critical") in kinds(events(seen((1, (1,)), (2, THREE)), gone))
    assert ("online", "good") in kinds(events(gone, seen((1, (1,)), (2, THREE))))
    assert gone.offline == 1
    assert [one.index for one in gone.unwell] == [0]


def test_a_leader_that_was_not_in_sync_is_no_good_news():
    """Kafka's unclean election: what only the lost ones had is gone."""
    gone = seen((-1, (1,)), (2, THREE))
    found = events(gone, seen((3, (3,)), (2, THREE)))
    assert ("unclean_election", "critical") in kinds(found)
    assert ("online", "good") not in kinds(found)


def test_a_controller_that_is_nowhere_is_told_once():
    lost = seen(*WELL, controller=-1)
    assert kinds(events(seen(*WELL), lost)) == [("controller_none", "critical")]
    assert events(lost, lost) == []
    assert kinds(events(lost, seen(*WELL, epoch=7))) == [("controller_new", "warning")]


def test_many_partitions_are_one_event_that_names_a_few():
    many, moved = [(1, THREE)] * 40, [(2, THREE)] * 40
    (one,) = events(seen(*many), seen(*moved))
    assert one.values["count"] == 40
    assert str(one.values["names"]).endswith("plates-2 …")


def test_a_broker_that_nobody_registers_stays_on_the_list_while_partitions_name_it():
    """And is forgotten when none does."""
    now = seen((2, (2, 3)), alive=(2, 3))
    assert next((b.broker_id, b.state) for b in now.brokers) == (1, "lost")
    empty = build_snapshot(ClusterDescription("id", 2, ()), [], None, now_ms=1, before=now)
    assert [b.broker_id for b in empty.brokers] == [2, 3]
    assert build_snapshot(ClusterDescription("id", 2, ()), [], None, now_ms=1, before=empty).brokers == ()


def test_the_history_is_bounded_and_numbers_its_events():
    history = ClusterHistory()
    for at in range(SAMPLES + 10):
        history.add(seen(*WELL, at_ms=at, epoch=at))
    assert len(history.samples) == SAMPLES
    assert len(history.events) == MAX_EVENTS
    numbers = [one.number for one in history.events]
    assert numbers == sorted(set(numbers))


def test_curves_keep_only_the_steps():
    history = ClusterHistory()
    for at in range(100):
        isr = THREE if at < 50 else (1, 2)
        history.add(seen((1, isr), at_ms=at))
    assert history.curves()["under_replicated"] == [[0, 0], [49, 0], [50, 1], [99, 1]]


def test_every_event_state_and_tile_has_its_words_in_both_languages():
    pictures = [
        None,
        seen(*WELL),
        seen((-1, (1,)), (3, (2, 3)), alive=(2, 3), fenced=(1,), controller=2, epoch=6),
        seen((-1, (1,)), (3, (2, 3)), alive=(2,), controller=-1),
        seen(*WELL, epoch=9),
    ]
    for language in LANGUAGES:
        t = texts(language)
        for before, now in pairwise(pictures):
            assert now is not None
            for number, event in enumerate(events(before, now)):
                assert "{" not in event_row(event, ZoneInfo("Asia/Shanghai"), t)["text"], number
            for one in now.brokers:
                assert broker_row(one, None, t)["state_text"]
            for row in now.unwell:
                assert partition_row(row, t)["state_text"]
            assert set(tiles(now, t)) == {
                "alive", "controller", "under_replicated", "offline", "not_preferred", "moving",
            }  # fmt: skip
