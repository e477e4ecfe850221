"""Cutting a stream into frames, however it arrives."""

from __future__ import annotations

import os
import random

import pytest

from broker.network.frames import FrameDecoder, FrameError
from broker.network.memory_pool import MemoryPool

SHARED = 4096
LIMIT = 100_000


def cutter(budget: MemoryPool | None = None) -> FrameDecoder:
    return FrameDecoder(memoryview(bytearray(SHARED)), budget or MemoryPool(10 * LIMIT), LIMIT)


def feed(made: FrameDecoder, data: bytes) -> list[bytes]:
    """Give `data` as the socket would: into what is lent, as much as fits."""
    frames = []
    while data:
        room = made.writable()
        size = min(len(room), len(data))
        room[:size] = data[:size]
        data = data[size:]
        made.received(size)
        while (frame := made.next_frame()) is not None:
            frames.append(bytes(frame))
        assert made.compact()
    return frames


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_any_stream_cut_anywhere_gives_the_same_frames() -> None:
    """Small, large, many at once, byte by byte."""
    seed = int(os.environ.get("DATABUS_SEED", "1"))
    dice = random.Random(seed)
    for _ in range(60):
        bodies = [
            dice.randbytes(dice.choice((1, 3, 50, 4000, 9000, 60_000)))
            for _ in range(dice.randrange(1, 12))
        ]
        stream = b"".join(map(framed, bodies))
        budget = MemoryPool(10 * LIMIT)
        made = cutter(budget)
        found = []
        while stream:
            size = dice.choice((1, 5, 700, 5000, 70_000))
            found += feed(made, stream[:size])
            stream = stream[size:]
        assert found == bodies, f"seed {seed}"
        assert budget.used_bytes == 0, f"seed {seed}"


@pytest.mark.parametrize("length", [0, -1, LIMIT + 1, 0x47455420])
def test_an_impossible_length_is_an_error_at_once(length: int) -> None:
    """Also an HTTP request: 'GET ' read as a length."""
    with pytest.raises(FrameError):
        feed(cutter(), length.to_bytes(4, "big", signed=True))


def test_a_half_frame_waits_when_the_memory_of_the_broker_is_used_up() -> None:
    """Received bytes are kept; reading continues when another connection is done."""
    budget = MemoryPool(10_000)
    first, second = cutter(budget), cutter(budget)
    feed(first, framed(bytes(9000))[:100])
    room = second.writable()
    room[:100] = framed(bytes(8000))[:100]
    second.received(100)
    assert second.next_frame() is None
    assert not second.compact()
    woken = []
    budget.wait(lambda: woken.append(second.compact()))
    first.close()
    assert woken == [True]
    rest = framed(bytes(8000))[100:]
    assert feed(second, rest) == [bytes(8000)]
    assert budget.used_bytes == 0


def test_one_frame_larger_than_the_budget_passes_when_it_is_alone() -> None:
    """Only the frame size limits it; without this rule it would wait for ever."""
    assert feed(cutter(MemoryPool(10)), framed(bytes(50_000))) == [bytes(50_000)]


def test_what_stands_in_line_has_room_for_a_little_more() -> None:
    """The order is kept; when the extra memory is used up, no more is granted."""
    budget = MemoryPool(10_000)
    made = cutter(budget)
    first, more = framed(b"first") * 3, framed(b"second")
    made.writable()[: len(first)] = first
    made.received(len(first))
    assert made.compact(len(more))
    assert made.has_frame
    assert made.has_space
    assert budget.used_bytes == len(first) + len(more)
    made.writable()[:] = more
    made.received(len(more))
    assert not made.has_space
    frames = []
    while (frame := made.next_frame()) is not None:
        frames.append(bytes(frame))
    assert frames == [b"first", b"first", b"first", b"second"]
    assert made.compact()
    assert budget.used_bytes == 0
