"""One spelling of a plate, and identities."""

from __future__ import annotations

import random
import re

import pytest

from bus.domain.identity import bus_id, key_of, sender_scoped_id, uuid7
from bus.domain.plate_search import patterns
from bus.domain.plates import plate_key


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("浙 AWL999", "浙AWL999"), ("浙ＡＷＬ９９９", "浙AWL999"), ("浙awl999", "浙AWL999"), ("浙A·WL999", "浙AWL999"),
        ("　浙A\tWL999 ", "浙AWL999"), ("WJ浙1234X", "WJ浙1234X"), ("使014578", "使014578"), ("", ""), ("无车牌", ""),
        ("识别异常", ""), ("未识别", ""), ("unknown", ""), ("浙A-L999", ""), ("浙A*L999", ""), ("浙A？L999", ""),
        ("x" * 17, ""),
    ],
)  # fmt: skip
def test_plates_have_one_spelling_and_unread_ones_none(written: str, key: str):
    """Spaces, width, case and the dot go; a masked plate names no vehicle."""
    assert plate_key(written) == key
    assert plate_key(key) == key


def test_a_search_pattern_keeps_its_stars():
    """Also the full-width one."""
    assert patterns("浙a*9＊") == ("浙A*9*",)


def test_vehicles_are_keyed_by_plate_everything_else_by_device():
    """Unread plates have no key, so that they spread (I-2)."""
    assert key_of("vehicle", plate_number="浙 awl999", camera_ip="1") == "浙AWL999".encode()
    assert key_of("vehicle", plate_number="无车牌", camera_ip="1") is None
    assert key_of("face", camera_ip="10.0.0.1") == b"10.0.0.1"
    assert key_of("video") is None


def test_uuid7_has_its_version_its_time_and_keeps_order(dice: random.Random):
    """RFC 9562: sorted by text is sorted by time."""
    times = sorted(dice.randrange(1 << 48) for _ in range(200))
    ids = [uuid7(now, dice.randbytes(10)) for now in times]
    shape = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(shape.fullmatch(one) for one in ids)
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)
    assert [int(one[:8] + one[9:13], 16) for one in ids] == times


def test_a_senders_numbers_are_scoped_by_sender_device_kind_and_capture_time():
    """Every device counts from one, and again after a restart; a retry keeps its identity; text of
    strangers is hashed away."""
    ids = {sender_scoped_id(*parts) for parts in [("a", "c", "vehicle", "1"), ("b", "c", "vehicle", "1"), ("a", "d", "vehicle", "1"),
                                        ("a", "c", "face", "1"), ("a", "c", "vehicle", "2"), ("ac", "", "vehicle", "1")]}  # fmt: skip
    ids |= {sender_scoped_id("a", "c", "vehicle", "1", at) for at in ("2026-11-23 08:00:00", "2026-11-23 09:00:00")}
    assert len(ids) == 8
    assert sender_scoped_id("a", "c", "vehicle", "../../x") == sender_scoped_id("a", "c", "vehicle", "../../x")
    assert re.fullmatch(r"own-[0-9a-f]{32}", sender_scoped_id("a", "c", "vehicle", "../../x 中"))


def test_a_record_on_the_bus_without_an_identity_is_its_place_and_its_bytes():
    """A topic created again has the same offsets; a mirror keeps place and bytes."""
    first = bus_id("data.vehicle", 3, 7, b"one")
    assert first == bus_id("data.vehicle", 3, 7, b"one")
    assert len({first, bus_id("data.vehicle", 3, 7, b"two"), bus_id("data.vehicle", 3, 8, b"one"),
                bus_id("data.vehicle", 4, 7, b"one"), bus_id("data.face", 3, 7, b"one")}) == 5  # fmt: skip
    assert re.fullmatch(r"data\.vehicle-3-7-[0-9a-f]{8}", first)
