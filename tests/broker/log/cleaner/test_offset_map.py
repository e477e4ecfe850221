"""The newest offset of each key, in memory of a fixed size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.cleaner.digests import PADDING, KeyHash
from broker.log.cleaner.offset_map import BYTES_PER_SLOT, NOT_FOUND, KeyDigests, OffsetMap


def digests_of(keys: list[bytes], seed: bytes = b"test") -> KeyDigests:
    sizes = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(sizes) - sizes
    buffer = np.frombuffer(b"".join(keys) + bytes(PADDING), np.uint8)
    return KeyHash(seed).digests(buffer, starts, sizes)


def equal_halves(numbers: list[int]) -> KeyDigests:
    """Digests that all begin their search at few slots, and meet each other there."""
    low = np.array(numbers, np.uint64)
    return KeyDigests(low % np.uint64(3), low)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=6),
    st.integers(0, 100 * BYTES_PER_SLOT),
    st.sampled_from([0.01, 0.5, 0.9, 1.0]),
    st.booleans(),
)
def test_a_map_holds_what_a_dict_of_so_many_keys_holds(
    pieces: list[list[int]], memory_bytes: int, load_factor: float, meets: bool
) -> None:
    made = equal_halves if meets else lambda numbers: digests_of([b"%d" % n for n in numbers])
    table = OffsetMap(memory_bytes, load_factor)
    expected: dict[int, int] = {}
    offset = 0
    for piece in pieces:
        offsets = np.arange(offset, offset + len(piece))
        noted = table.put(made(piece), offsets)
        for number, at in zip(piece[:noted], offsets[:noted].tolist(), strict=True):
            expected[number] = at
        if noted < len(piece):
            assert len(expected) == table.max_keys
            assert piece[noted] not in expected
        offset += len(piece)
        assert table.keys == len(expected) <= table.max_keys
    wanted = list(range(70))
    found = table.get(made(wanted)).tolist()
    assert found == [expected.get(number, NOT_FOUND) for number in wanted]


@pytest.mark.parametrize("memory_bytes", [0, 1, 24, 48, 71, 72])
def test_one_key_fits_at_least(memory_bytes: int) -> None:
    table = OffsetMap(memory_bytes, 0.9)
    assert table.put(digests_of([b"a", b"a"]), np.array([0, 1])) == 2
    assert table.get(digests_of([b"a", b"b"])).tolist() == [1, NOT_FOUND]


def test_a_map_of_a_megabyte_is_filled_to_its_last_key_and_no_byte_more() -> None:
    """24 bytes a slot, nine of ten of which are taken: what its documentation says."""
    tracemalloc.start()
    table = OffsetMap(1 << 20, 0.9)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.99 * (1 << 20) < size_bytes < 1.01 * (1 << 20)
    assert table.max_keys == pytest.approx(0.9 * (1 << 20) / BYTES_PER_SLOT, rel=0.001)
    count = table.max_keys + 500
    digests = digests_of([b"key-%d" % number for number in range(count)])
    assert table.put(digests, np.arange(count)) == table.max_keys
    assert table.keys == table.max_keys
    found = table.get(digests)
    assert (found[: table.max_keys] == np.arange(table.max_keys)).all()
    assert (found[table.max_keys :] == NOT_FOUND).all()


@given(st.lists(st.binary(max_size=300), unique=True, max_size=50))
def test_keys_that_differ_have_digests_that_differ_wherever_they_lie(keys: list[bytes]) -> None:
    digests = digests_of(keys)
    pairs = set(zip(digests.high.tolist(), digests.low.tolist(), strict=True))
    assert len(pairs) == len(keys)
    alone = [digests_of([b"", key]).at(slice(1, 2)) for key in keys]
    assert [int(one.high[0]) for one in alone] == digests.high.tolist()
    assert [int(one.low[0]) for one in alone] == digests.low.tolist()


def test_who_does_not_know_a_pass_s_seed_cannot_make_a_key_with_another_s_digest() -> None:
    """The sums are linear in the words of a key: with fixed numbers a client could make one."""
    key = b"group-7/topic/0"
    one, another = digests_of([key], b"pass 1"), digests_of([key], b"pass 2")
    assert one.high[0] != another.high[0]
    assert one.low[0] != another.low[0]


def test_keys_that_differ_little_have_digests_that_differ_in_half_of_their_bits() -> None:
    keys = [b"", b"\x00", b"\x00\x00", b"\x00" * 4, b"\x00" * 5, b"\x00" * 256, b"\x00" * 257]
    keys += [bytes([byte]) + b"same end" for byte in range(64)]
    keys += [b"same beginning" + bytes([byte]) for byte in range(64)]
    digests = digests_of(keys)
    for half in digests:
        bits = np.unpackbits(half.view(np.uint8)).reshape(len(keys), 64).mean(axis=0)
        assert ((bits > 0.2) & (bits < 0.8)).all()
    first = digests_of([b"\x00" * 256])
    second = digests_of([b"\x00" * 255 + b"\x01"])
    changed = np.unpackbits((first.high ^ second.high).view(np.uint8)).sum()
    assert 10 < changed < 54
