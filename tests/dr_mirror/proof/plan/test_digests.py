"""Both sides compared by digests."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.records.batch import assign
from dr_mirror.proof.plan.digests import (
    BatchDifference,
    BatchDigest,
    BlockDigester,
    differing_batches,
    differing_blocks,
    recorded_range,
)
from tests.dr_mirror.batch_log import a_log

BLOCK = 8


def with_other_epochs(log, dice):
    """The same log as another cluster stores it."""
    copied = []
    for base, end, batch in log:
        own = bytearray(batch)
        assign(own, 0, base, dice.randrange(100))
        copied.append((base, end, bytes(own)))
    return copied


def blocks(log, dice):
    """Read as fetches bring it: in pieces that end anywhere."""
    digester, end = BlockDigester(BLOCK), log[-1][1]
    position = log[0][0]
    while position < end:
        data = b"".join(batch for _, until, batch in log if until > position)
        whole = len(next(batch for _, until, batch in log if until > position))
        position = digester.add(data[: whole + dice.randrange(300)], position, end)
    return digester.finish()


def batches(log):
    digester = BlockDigester(1)
    digester.add(b"".join(batch for _, _, batch in log), 0, log[-1][1])
    return [BatchDigest.of(one) for one in digester.finish()]


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_copy_is_equal_whatever_its_leader_epochs_and_however_it_is_read(dice):
    """Block by block and batch by batch; the digest is plain SHA-256 with the epochs as 0."""
    log = a_log(dice, dice.randrange(1, 20))
    copied = with_other_epochs(log, dice)
    of_source = blocks(log, dice)
    assert differing_blocks(of_source, blocks(copied, dice), BLOCK) == []
    assert differing_batches(batches(log), batches(copied)) == []
    first = [batch for base, _, batch in log if base // BLOCK == log[0][0] // BLOCK]
    without = b"".join(batch[:12] + bytes(4) + batch[16:] for batch in first)
    assert of_source[0].digest == hashlib.sha256(without).digest()
    assert sum(block.batches for block in of_source) == len(log)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_flipped_bit_a_lost_and_an_added_batch_are_found_at_their_offset(dice):
    """The first differing offset is named, by batches; by blocks its block."""
    log = a_log(dice, dice.randrange(2, 20))
    at = dice.randrange(len(log))
    base, end, batch = log[at]
    other = list(log)
    if dice.random() < 0.5:
        own = bytearray(batch)
        own[dice.randrange(61, len(own))] ^= 1 << dice.randrange(8)  # of its records
        other[at] = (base, end, bytes(own))
    else:
        del other[at]
    [found] = differing_batches(batches(log), batches(other))
    assert (found.first_offset, found.end_offset) == (base, end)
    assert differing_blocks(blocks(log, dice), blocks(other, dice), BLOCK) == [base // BLOCK]


def test_one_side_that_holds_less_is_one_range_at_its_end(dice):
    """Both are given the same range of offsets, so a missing tail is missing."""
    log = a_log(dice, 6, hole=0)
    found = differing_batches(batches(log), batches(log)[:4])
    assert found == [BatchDifference(log[4][0], log[5][1], "only the source has this batch")]
    assert not differing_batches([], [])


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_records_of_blocks_stand_in_as_far_as_they_go_without_a_break(dice):
    """Holes of the log are no break; a record that is missing is one, and a block that is not whole."""
    log = a_log(dice, dice.randrange(1, 25))
    recorded = blocks(log, dice)
    end = log[-1][1]
    first = recorded[0].first_offset // BLOCK * BLOCK
    taken, stop = recorded_range(recorded, first, end, BLOCK)
    assert taken == recorded[: len(taken)]
    assert stop <= end
    assert all(one.first_offset >= stop for one in recorded[len(taken) :]) or stop % BLOCK == 0
    if len(recorded) > 2:
        lost = dice.randrange(1, len(recorded) - 1)
        taken, stop = recorded_range(recorded[:lost] + recorded[lost + 1 :], first, end, BLOCK)
        assert len(taken) <= lost
        assert stop <= recorded[lost].first_offset
