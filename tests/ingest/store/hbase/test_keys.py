"""Keys sort in reading order, decode to their parts, and never collide."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bus.domain.plates import plate_key
from ingest.store.hbase import keys
from ingest.store.hbase.keys import Facet
from ingest.store.hbase.plate_places import places_of
from tests.ingest.store.made import row

MOMENTS = st.integers(-(1 << 45), 1 << 45)
TEXTS = st.text(max_size=12)


@given(MOMENTS, MOMENTS)
def test_the_later_moment_comes_first(one: int, other: int) -> None:
    """Moments before 1970 too."""
    assert (keys.newest_first(one) < keys.newest_first(other)) is (one > other)


@given(TEXTS, st.lists(st.one_of(TEXTS, st.integers(-(1 << 62), 1 << 62)), max_size=6))
def test_a_cell_key_tells_its_parts(spread: str, parts: list[str | int]) -> None:
    """For any name of a device, zero bytes included."""
    shape = "".join("n" if isinstance(part, int) else "s" for part in parts)
    assert keys.parts_of(keys.cell_key(b"Q", spread, *parts), shape) == parts


ZEROS = st.text("a\0\x01\x7f\x80ÀÿĀ", max_size=6)


@given(TEXTS | ZEROS, TEXTS | ZEROS)
@example("a", "a\0b")
@example("a", "a\0")
@example("", "\0")
def test_no_text_is_the_beginning_of_another(one: str, other: str) -> None:
    """Regression: a scan over `a` met what lies at `a\\0b`. Those without a zero byte sort by it."""
    first, second = keys.text(one), keys.text(other)
    assert one == other or not second.startswith(first)
    if "\0" not in one + other:
        assert (first < second) is (one.encode() < other.encode())
        assert first == keys.former_text(one)


@given(ZEROS, ZEROS, MOMENTS, st.booleans())
@example("a", "a\0b", 0, True)
def test_what_an_earlier_version_wrote_is_found_under_its_own_text_alone(
    one: str, other: str, moment_ms: int, is_former: bool
) -> None:
    """Either way of writing a zero byte lies in one range of its own text, in none of another."""
    written = keys.former_text(other) if is_former else keys.text(other)
    entry = keys.salt(other) + Facet.PLATE.value + written + keys.newest_first(moment_ms) + b"id"
    found = [prefix for prefix in keys.prefixes(Facet.PLATE, one) if prefix <= entry < prefix + keys.BEHIND_ALL]
    assert len(found) == (one == other)


@given(TEXTS | ZEROS, st.lists(st.one_of(ZEROS, st.integers(-(1 << 62), 1 << 62)), max_size=4))
def test_a_cell_of_an_earlier_version_tells_its_parts(spread: str, parts: list[str | int]) -> None:
    """Its zero bytes are read as they were written then."""
    shape = "".join("n" if isinstance(part, int) else "s" for part in parts)
    about = b"".join(keys.number(p) if isinstance(p, int) else keys.former_text(p) for p in parts)
    followed_by_zero = any(p.startswith("\0") for p in parts if isinstance(p, str))
    if not followed_by_zero:
        assert keys.parts_of(keys.salt(spread) + b"Q" + about, shape) == parts


@given(TEXTS, TEXTS, MOMENTS, TEXTS)
def test_an_index_key_tells_moment_and_identity(
    plate: str, checkpoint: str, moment_ms: int, record_id: str
) -> None:
    plate = plate_key(plate)
    made = row(1, record_id=record_id, plate_key=plate, checkpoint_id=checkpoint, kind="face",
               captured_at_ms=moment_ms)  # fmt: skip
    prefixes = [
        prefix
        for facet, text in ((Facet.TIME, ""), (Facet.CHECKPOINT, checkpoint), (Facet.PLATE, plate))
        for prefix in keys.prefixes(facet, text)
    ]  # fmt: skip
    entries = list(keys.index_keys(made, places_of(plate)))
    assert len(entries) == (3 if plate else 2)
    for entry in entries:
        [prefix] = [one for one in prefixes if one <= entry < one + keys.BEHIND_ALL]
        assert keys.moment_of(entry, prefix) == moment_ms
        assert keys.identity_of(entry, prefix) == record_id


def test_the_salt_is_the_same_for_ever() -> None:
    """What was stored by another process is found again."""
    assert keys.row_key("id-1") == b"\x0crid-1"
    assert keys.record_id_of(b"\x0crid-1") == "id-1"
    assert {keys.salt(str(number)) for number in range(200)} == {bytes([n]) for n in range(16)}


@given(TEXTS, TEXTS)
def test_a_camera_tells_its_checkpoints(camera: str, checkpoint: str) -> None:
    key = keys.camera_key(row(1, camera_ip=camera, checkpoint_id=checkpoint))
    assert keys.checkpoint_of(key, keys.prefixes(Facet.CAMERA, camera)[0]) == checkpoint
