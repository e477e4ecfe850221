"""Keys sort in reading order, decode to their parts, and never collide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.store.hbase import keys
from ingest.store.hbase.keys import Facet
from ingest.store.hbase.search import BEHIND_ALL
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


@given(TEXTS, TEXTS)
def test_texts_sort_by_their_bytes_and_none_is_the_beginning_of_another(one: str, other: str) -> None:
    first, second = keys.text(one), keys.text(other)
    assert (first < second) is (one.encode() < other.encode())
    assert one == other or not second.startswith(first)


@given(TEXTS, TEXTS, MOMENTS, TEXTS)
def test_an_index_key_tells_moment_and_identity(
    plate: str, checkpoint: str, moment_ms: int, record_id: str
) -> None:
    made = row(1, record_id=record_id, plate_key=plate, checkpoint_id=checkpoint, kind="face",
               captured_at_ms=moment_ms)  # fmt: skip
    prefixes = [
        prefix
        for facet, text in ((Facet.TIME, ""), (Facet.CHECKPOINT, checkpoint), (Facet.PLATE, plate))
        for prefix in keys.prefixes(facet, text)
    ]  # fmt: skip
    entries = list(keys.index_keys(made))
    assert len(entries) == (3 if plate else 2)
    for entry in entries:
        [prefix] = [one for one in prefixes if one <= entry < one + BEHIND_ALL]
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
    assert keys.checkpoint_of(key, keys.camera_prefix(camera)) == checkpoint
