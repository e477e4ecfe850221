"""What edges keep makes the RPO through them; what they sent again is taken off what is missing."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from bus.contracts.mirror_status import EdgeStatus
from bus.contracts.sent_again import (
    SentAgain,
    SentAgainError,
    SentAgainPartition,
    decode_sent_again,
    union,
)
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from dr_mirror.edges.plan.edge_status import FRESH_MS, covers, edge_status, rpo_through_edges_s
from dr_mirror.report.plan.switch_loss import edge_statement, switch_loss
from dr_mirror.report.plan.switch_report import FORCED, REJOINED, PartitionStatement, statement
from ingest.spool import Delivered
from ingest.spool.sent_again import MAX_RANGES, SentAgainPlaces

NOW_MS = 1_790_000_000_000
EPOCH = SiteEpoch(4, EpochKind.FORCED, "B", "A", NOW_MS, "me@here")
URL = "http://edge:8650"


def sent_again(unacknowledged: int = 0, **ranges: list[tuple[int, int]]) -> SentAgain:
    return SentAgain(
        former_cluster_id="A", new_cluster_id="B", at_ms=NOW_MS, records=0,
        unacknowledged=unacknowledged,
        partitions=tuple(
            SentAgainPartition(topic=f"data.{name}", partition=0, ranges=tuple(each))
            for name, each in ranges.items()
        ),
    )  # fmt: skip


def forced(end: int, heard_end: int):
    one = PartitionStatement(
        topic="data.face", partition=0, end=end, heard_end=heard_end,
        known_missing=max(heard_end - end, 0),
    )  # fmt: skip
    return statement(FORCED, EPOCH, NOW_MS, [one])


def test_the_rpo_is_zero_only_while_every_edge_answers_and_keeps_all() -> None:
    well = EdgeStatus(url=URL, heard_ms=NOW_MS)
    assert rpo_through_edges_s(7.0, [well, well], NOW_MS) == 0
    for unwell in (
        msgspec.structs.replace(well, uncovered_records=1),
        msgspec.structs.replace(well, heard_ms=NOW_MS - FRESH_MS - 1),
        msgspec.structs.replace(well, problem="no answer"),
        EdgeStatus(url=URL),
    ):
        assert rpo_through_edges_s(7.0, [well, unwell], NOW_MS) == 7
    assert rpo_through_edges_s(0.0, [], NOW_MS) == -1, "nobody is named"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"{}", "no second site"),
        (b"[]", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b'{"second_site":{"active":"home"}}', "cannot be read"),
    ],
)
def test_an_edge_that_says_nothing_of_a_second_site_covers_nothing(
    answer: bytes, problem: str
) -> None:
    found = edge_status(URL, answer, NOW_MS)
    assert problem in found.problem
    assert not covers(found, NOW_MS)


def test_only_offsets_that_an_edge_names_are_taken_off_and_never_one_twice(
    dice: random.Random,
) -> None:
    """Against a set of offsets: what was known, what nobody had heard of."""
    for _ in range(300):
        end = dice.randrange(40)
        heard_end = dice.choice([-1, dice.randrange(60)])
        offsets = {dice.randrange(80) for _ in range(dice.randrange(30))}
        ranges = union((one, one + 1) for one in offsets)
        one = edge_statement(EPOCH, URL, sent_again(face=list(ranges)), forced(end, heard_end), 1)
        parts = one.partitions
        again = sum(each.sent_again for each in parts)
        beyond = sum(each.sent_again_beyond for each in parts)
        known = set(range(end, heard_end))
        assert again == len(known & offsets)
        assert beyond == len({each for each in offsets if each >= max(end, heard_end)})
        told = switch_loss([forced(end, heard_end), one])
        assert told is not None
        assert told.missing == len(known - offsets)


def test_what_an_edge_had_in_flight_is_said_and_not_subtracted() -> None:
    """The lost site may have taken it without that edge having heard."""
    one = edge_statement(EPOCH, URL, sent_again(30, face=[(10, 15)]), forced(10, 20), NOW_MS)
    told = switch_loss([forced(10, 20), one])
    assert told is not None
    assert (told.missing, told.perhaps_there, told.is_final) == (5, 5, False)
    ended = switch_loss([forced(10, 20), one, statement(REJOINED, EPOCH, NOW_MS, [])])
    assert ended is not None
    assert ended.is_final
    assert switch_loss([one]) is None, "no switch was forced"


def test_partitions_that_were_not_switched_are_passed_over() -> None:
    one = edge_statement(EPOCH, URL, sent_again(other=[(0, 9)]), forced(0, 9), NOW_MS)
    assert one.partitions == ()


def test_ranges_hold_the_same_offsets_in_order_and_do_not_meet(dice: random.Random) -> None:
    for _ in range(300):
        ranges = [(first, first + dice.randrange(4)) for first in dice.sample(range(60), 12)]
        found = union(ranges)
        assert {o for a, b in found for o in range(a, b)} == {o for a, b in ranges for o in range(a, b)}
        assert all(a < b for a, b in found)
        assert all(b < c for (_, b), (c, _) in itertools.pairwise(found))


def test_what_a_move_sends_is_told_by_the_places_it_had_within_a_bound() -> None:
    places = SentAgainPlaces()
    places.add(Delivered(n, "data.face", 1, 7 + n) for n in range(5))
    [one] = places.partitions()
    assert (one.topic, one.partition, one.ranges) == ("data.face", 1, ((7, 12),))
    places.add(Delivered(n, "data.face", 2, 2 * n) for n in range(MAX_RANGES + 10))
    assert sum(len(one.ranges) for one in places.partitions()) == MAX_RANGES


def test_any_bytes_are_an_answer_of_an_edge_or_an_error(dice: random.Random) -> None:
    whole = msgspec.json.encode(sent_again(3, face=[(1, 5), (4, 9)], car=[(7, 7)]))
    assert decode_sent_again(whole).partitions[0].ranges == ((1, 9),)
    assert decode_sent_again(whole).partitions[1].ranges == ()
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            found = decode_sent_again(bytes(data[: dice.randrange(len(data) + 1)]))
        except SentAgainError:
            continue
        assert all(0 <= a < b for each in found.partitions for a, b in each.ranges)
