"""The message that says which records only a former primary had."""

from __future__ import annotations

import random

from bus.contracts.diverged_ranges import (
    MAX_ID_CHARACTERS,
    MAX_IDS,
    DivergedRange,
    decode_diverged_range,
    encode_diverged_range,
)


def drawn(dice: random.Random) -> DivergedRange:
    first = dice.randrange(1 << 40)
    ids = ["".join(map(chr, dice.choices(range(1, 0xD000), k=dice.randrange(60))))
           for _ in range(dice.choice([0, 1, 7, MAX_IDS]))]  # fmt: skip
    return DivergedRange(
        epoch=dice.randrange(1, 1 << 31), topic=dice.choice(["data.vehicle", "data.face", "x"]),
        partition=dice.randrange(1 << 31), offset=first, end_offset=first + len(ids), ids=tuple(ids),
    )  # fmt: skip


def test_every_part_is_read_back_and_a_repetition_has_the_same_key(dice: random.Random) -> None:
    """Ids in any script, none or as many as a part may have."""
    for _ in range(100):
        part = drawn(dice)
        again = decode_diverged_range(encode_diverged_range(part))
        assert again == part
        assert again.key == part.key


def test_random_and_damaged_bytes_are_no_part_or_a_part_and_never_an_error(
    dice: random.Random,
) -> None:
    """Any client may write to a topic; what is still read is within the bounds."""
    for _ in range(3000):
        value = bytearray(dice.randbytes(dice.randrange(80)))
        if dice.random() < 0.7:
            value = bytearray(encode_diverged_range(drawn(dice))[:2000])
            for _ in range(dice.randrange(4)):
                value[dice.randrange(len(value))] = dice.randrange(256)
        found = decode_diverged_range(bytes(value))
        assert found is None or decode_diverged_range(encode_diverged_range(found)) == found
    for foreign in (None, b"", b"[" * 100_000, b'{"epoch": 1}', b"\xff\xfe"):
        assert decode_diverged_range(foreign) is None


def test_more_or_longer_ids_than_a_message_may_have_are_no_part() -> None:
    """Whoever reads it has bounded memory."""
    base = {"epoch": 1, "topic": "data.face", "partition": 0, "offset": 0, "end_offset": 9}
    whole = DivergedRange(**base, ids=("x",) * MAX_IDS)
    assert decode_diverged_range(encode_diverged_range(whole)) == whole
    assert decode_diverged_range(encode_diverged_range(DivergedRange(**base, ids=("x",) * (MAX_IDS + 1)))) is None
    too_long = DivergedRange(**base, ids=("x" * (MAX_ID_CHARACTERS + 1),))
    assert decode_diverged_range(encode_diverged_range(too_long)) is None
