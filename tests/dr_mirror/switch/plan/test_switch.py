"""What a switch does next, and who is primary, by what both sites answer."""

from __future__ import annotations

import random

import pytest

from bus.client.model import TopicPartition
from bus.contracts.mirror_status import MirrorStatus, PartitionStatus, TopicStatus
from bus.contracts.site_epoch import EpochKind, SiteEpoch, SiteEpochError, check_follows
from bus.domain.site_epochs import SiteClusters, SiteEpochs
from dr_mirror.report.plan.switch_report import (
    PLANNED,
    ReportError,
    decode_statements,
    drained_partitions,
    encode_statement,
    statement,
)
from dr_mirror.switch.plan.switch import (
    PartitionEnd,
    Undrained,
    handover_obstacles,
    is_still_fenced,
    status_obstacles,
    topic_handovers,
    undrained,
)
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import SOURCE_CLUSTER_KEY, MirrorTopic

CLUSTERS = SiteClusters("A", "B")


def epoch(number: int, primary: str, kind: EpochKind = EpochKind.PLANNED) -> SiteEpoch:
    return SiteEpoch(number, kind, primary, CLUSTERS.other(primary), number * 1000, "anna@desk")


def epochs(source: SiteEpoch | None, target: SiteEpoch | None) -> SiteEpochs:
    return SiteEpochs(CLUSTERS, source, target)


@pytest.mark.parametrize(
    ("at_a", "at_b", "primary", "copied_from"),
    [
        (None, None, "A", "A"),
        (epoch(1, "B"), None, "B", "A"),  # the switch has begun: the rest is still copied
        (epoch(1, "B"), epoch(1, "B"), "B", "B"),
        (None, epoch(1, "B", EpochKind.FORCED), "B", "B"),
        (epoch(1, "B"), epoch(2, "A"), "A", "B"),
        (epoch(2, "A"), epoch(2, "A"), "A", "A"),
        (epoch(2, "B", EpochKind.REJOINED), epoch(1, "B", EpochKind.FORCED), "B", "B"),
    ],
)
def test_a_mirror_reads_the_primary_that_knows_of_itself_and_never_writes_into_it(
    at_a: SiteEpoch | None, at_b: SiteEpoch | None, primary: str, copied_from: str
) -> None:
    """Until the new primary has its epoch, the former one is drained."""
    found = epochs(at_a, at_b)
    assert (found.primary, found.copied_from) == (primary, copied_from)


def test_only_a_planned_switch_that_is_not_handed_over_can_be_given_up() -> None:
    """Giving up the giving up would open a site that does not hold all."""
    assert epochs(epoch(1, "B"), None).is_handed_over
    assert not epochs(epoch(1, "B"), epoch(1, "B")).is_handed_over
    assert not epochs(epoch(1, "B"), epoch(2, "A", EpochKind.CANCELLED)).is_handed_over
    assert not epochs(None, None).is_handed_over


def test_epochs_of_other_clusters_are_seen() -> None:
    """Settings that name another pair."""
    assert not epochs(epoch(1, "B"), None).is_foreign
    assert SiteEpochs(SiteClusters("A", "C"), epoch(1, "B"), None).is_foreign


def test_no_number_ever_has_two_primaries_whatever_is_killed_and_whoever_switches(
    dice: random.Random,
) -> None:
    """Commands at once, forced ones with one site away, killed between the two clusters."""
    for _ in range(300):
        held: dict[str, SiteEpoch | None] = {"A": None, "B": None}
        primaries: dict[int, set[str]] = {}
        begun: list[tuple[str, SiteEpoch]] = []
        for _ in range(30):
            if begun and dice.random() < 0.7:
                cluster, wanted = begun.pop(dice.randrange(len(begun)))
                try:
                    check_follows(held[cluster], wanted)
                except SiteEpochError:
                    continue
                held[cluster] = wanted
                primaries.setdefault(wanted.number, set()).add(wanted.primary)
                continue
            away = dice.choice(["A", "B", "", ""])
            seen = epochs(*(None if away == each else held[each] for each in "AB"))
            new = CLUSTERS.other(seen.primary)
            if away == new:
                continue
            kind = EpochKind.FORCED if away else EpochKind.PLANNED
            wanted = seen.next(kind, new, dice.randrange(1000), dice.choice(["anna", "bert"]))
            order = [new] if away else [CLUSTERS.other(new), new]
            begun += [(each, wanted) for each in order]
        assert all(len(each) == 1 for each in primaries.values())


def topic(name: str, source: str = "", partitions: int = 2) -> MirrorTopic:
    return MirrorTopic(name, b"1" * 16, partitions, {SOURCE_CLUSTER_KEY: source} if source else {})


def test_topics_change_hands_that_are_mirrored_and_those_an_earlier_try_has_fenced() -> None:
    """A topic of the new primary's own, one deleted at the former, one of a third: none of them."""
    former = {"m": topic("m"), "f": topic("f", "B"), "o": topic("o", "B"), "own": topic("own"),
              "third": topic("third")}  # fmt: skip
    new = {"m": topic("m", "A"), "f": topic("f", "A"), "o": topic("o"), "own": topic("own"),
           "third": topic("third", "C"), "gone": topic("gone", "A")}  # fmt: skip
    found = topic_handovers(former, new, former_id="A", new_id="B")
    assert {(one.topic, one.fence, one.open) for one in found} == {
        ("m", True, True), ("f", False, True), ("o", False, False),
    }  # fmt: skip


def test_a_topic_with_fewer_partitions_there_and_no_topic_at_all_are_obstacles() -> None:
    """Nothing is handed over in part."""
    former, new = {"m": topic("m", "", 3)}, {"m": topic("m", "A", 2)}
    found = topic_handovers(former, new, former_id="A", new_id="B")
    assert [one.topic for one in handover_obstacles(former, new, found)] == ["m"]
    assert handover_obstacles({}, {}, [])


def status(state: str = "copying", lag_s: float = 0.0, **more: object) -> MirrorStatus:
    one = PartitionStatus(
        topic="m", partition=1, state=state, detail="", source_end=5, target_end=5, lag_records=0,
        lag_bytes=0, lag_s=lag_s, missing=0, copied_records=5, copied_bytes=50,
    )  # fmt: skip
    given = {
        "at_ms": 0, "source_cluster_id": "A", "target_cluster_id": "B", "generation": 1,
        "unreachable": "", "buffered_bytes": 0, "rpo_s": 0.0, "topics": (), "partitions": (one,),
        "groups_not_copied": {}, **more,
    }  # fmt: skip
    return MirrorStatus(**given)  # type: ignore[arg-type]


def obstacles(found: MirrorStatus, age_ms: int = 0) -> list[tuple[str, int]]:
    said = status_obstacles(found, copied_from="A", age_ms=age_ms, max_age_ms=10, max_lag_s=30)
    return [(one.topic, one.partition) for one in said]


def test_a_mirror_that_is_behind_unknown_stopped_or_reads_another_site_is_refused() -> None:
    """The list names what; a hole that is stated is no reason."""
    assert obstacles(status()) == []
    assert obstacles(status("hole", 1.0)) == []
    assert obstacles(status(lag_s=31.0)) == obstacles(status(lag_s=-1.0)) == [("m", 1)]
    for state in MirrorState:
        assert (obstacles(status(state.value)) == []) is state.copies
    assert obstacles(status(), age_ms=11) == [("", -1)]
    assert obstacles(status(source_cluster_id="B")) == [("", -1)]
    assert obstacles(status(unreachable="A is away")) == [("", -1)]
    topics = tuple(
        TopicStatus(topic=state.value, state=state.value, detail="") for state in MirrorState
    )
    named = {name for name, _ in obstacles(status(topics=topics))}
    kept = {"loop", "deleted_at_source"}
    assert named == {one.value for one in MirrorState if not one.copies} - kept


def test_it_is_drained_when_every_end_is_the_same_and_none_has_moved(dice: random.Random) -> None:
    """An end that is not known is never the same."""
    for _ in range(200):
        partitions = [TopicPartition("m", index) for index in range(5)]
        ends = {each: PartitionEnd(1, dice.randrange(3)) for each in partitions}
        held = {each: dice.randrange(3) for each in partitions}
        for lost in (ends, held):
            if dice.random() < 0.3:
                del lost[dice.choice(partitions)]  # type: ignore[attr-defined]
        left = undrained(ends, held, partitions)
        for each in partitions:
            is_same = each in ends and each in held and ends[each].end == held[each]
            assert is_same is (each not in {one.partition for one in left})
    one = TopicPartition("m", 0)
    assert undrained({one: PartitionEnd(1, 7)}, {one: 5}, [one]) == [Undrained(one, 2)]
    assert is_still_fenced({one: PartitionEnd(1, 7)}, {one: PartitionEnd(1, 7)})
    assert not is_still_fenced({one: PartitionEnd(1, 7)}, {one: PartitionEnd(2, 7)})


def test_a_report_is_read_back_and_a_torn_line_was_never_said(dice: random.Random) -> None:
    """Bytes that are no report raise its own error."""
    ends = {TopicPartition("m", index): dice.randrange(100) for index in range(4)}
    said = [
        statement(PLANNED, epoch(number, "B"), 5, drained_partitions(ends), notes=("a note",))
        for number in (1, 2)
    ]
    data = b"".join(map(encode_statement, said))
    assert decode_statements(data) == said
    first = len(encode_statement(said[0]))
    for _ in range(50):
        assert decode_statements(data[: dice.randrange(first, len(data))]) == said[:1]
    for _ in range(300):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] = dice.randrange(256)
        try:
            decode_statements(bytes(damaged))
        except ReportError:
            continue
