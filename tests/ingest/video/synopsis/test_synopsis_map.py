"""A place in a synopsis leads to its frame of the film; bytes that are no map are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.paths import PROJECT_ROOT
from ingest.video.synopsis.synopsis_map import (
    MappedTarget,
    SynopsisMap,
    SynopsisMapError,
    decode_map,
    encode_map,
    map_schema,
    source_at,
)  # fmt: skip

pixels = st.integers(-500, 5000)
lengths = st.integers(1, 3000)
targets = st.builds(
    MappedTarget, st.integers(-5, 10**9), pixels, pixels, lengths, lengths, st.integers(0, 999),
    st.integers(0, 2**40), st.none() | st.tuples(pixels, pixels, lengths, lengths),
)  # fmt: skip
maps = st.builds(
    SynopsisMap, version=st.just(1), film=st.text(max_size=20), film_identity=st.text(max_size=20),
    source_fps=st.floats(0.1, 1000), source_frames=st.just(1000), begun=st.just(""),
    recognised_by=st.just("motion"), fps=st.floats(0.5, 120), width=lengths, height=lengths,
    seed=st.integers(0, 9), frames=st.lists(st.lists(targets, max_size=4), max_size=5),
)  # fmt: skip


def of(*frames: list[MappedTarget]) -> SynopsisMap:
    return SynopsisMap(
        version=1, film="yard.avi", film_identity="ab", source_fps=10, source_frames=1000,
        begun="", recognised_by="nanodet", fps=10, width=768, height=576, seed=1,
        frames=list(frames),
    )  # fmt: skip


BACK = MappedTarget(1, 100, 100, 50, 80, 70, 7000)
FRONT = MappedTarget(2, 120, 110, 50, 80, 300, 30_000, (200, 90, 40, 12))


def test_the_foremost_target_at_a_place_is_the_one_that_was_clicked() -> None:
    one = of([], [BACK, FRONT])
    assert source_at(one, 0.15, 130, 120) == FRONT
    assert source_at(one, 0.15, 105, 105) == BACK
    assert source_at(one, 0.15, 205, 95) == FRONT, "its label is clicked as well"


@pytest.mark.parametrize(("at_s", "x"), [(0.15, 400), (0.05, 130), (0.2, 130), (-1, 130)])
def test_beside_all_targets_and_beside_the_film_there_is_no_source(at_s: float, x: float) -> None:
    assert source_at(of([], [BACK, FRONT]), at_s, x, 120) is None


@given(maps)
def test_a_map_comes_back_as_it_was_written(one: SynopsisMap) -> None:
    assert decode_map(encode_map(one)) == one


@given(maps, st.data())
def test_every_target_is_found_at_a_place_where_nothing_is_before_it(
    one: SynopsisMap, data: st.DataObject
) -> None:
    for number, frame in enumerate(one.frames):
        if not frame:
            continue
        front = frame[-1]
        x = data.draw(st.integers(front.x, front.x + front.w - 1))
        y = data.draw(st.integers(front.y, front.y + front.h - 1))
        at = source_at(one, (number + 0.5) / one.fps, x, y)
        assert at is not None
        assert at == front or at.label is not None


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SynopsisMapError):
        decode_map(data)


@given(maps, st.data())
def test_a_map_with_a_changed_byte_is_read_or_refused(
    one: SynopsisMap, data: st.DataObject
) -> None:
    whole = bytearray(encode_map(one))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_map(bytes(whole))
    except SynopsisMapError:
        return
    assert all(t.source_frame < found.source_frames for frame in found.frames for t in frame)


def test_a_target_of_a_frame_that_the_film_does_not_have_is_refused() -> None:
    wrong = of([MappedTarget(1, 0, 0, 5, 5, 1000, 100_000)])
    with pytest.raises(SynopsisMapError, match="frame 0"):
        decode_map(encode_map(wrong))


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    """`python -c "from ingest.video.synopsis.synopsis_map import map_schema; print(map_schema(),
    end='')" > docs/synopsis-map.schema.json` writes it."""
    page = PROJECT_ROOT / "docs" / "synopsis-map.schema.json"
    assert page.read_text(encoding="utf-8") == map_schema()
