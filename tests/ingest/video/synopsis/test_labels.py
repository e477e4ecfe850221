"""Labels say the true time, and lie on no target and on no other label."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.boxes import Box
from ingest.video.synopsis.labels import LabelOffset, label_box, label_text, place_labels

PICTURE, SIZE = (640, 360), (52, 14)
boxes = st.builds(
    lambda x, y, w, h: Box(float(x), float(y), float(w), float(h)), st.integers(-20, 620),
    st.integers(-20, 340), st.integers(5, 120), st.integers(5, 200),
)  # fmt: skip


@pytest.mark.parametrize(
    ("at_ms", "fps", "begun_ms", "text"),
    [
        (0, 10, None, "0:00.0"),
        (71_300, 10, None, "1:11.3"),
        (71_320, 25, None, "1:11.32"),
        (3_671_320, 25, None, "1:01:11.32"),
        (5000, 1, None, "0:05"),
        (1500, 10, 86_399_000, "00:00:00.5"),
        (300.00000000000006, 10, None, "0:00.3"),
        (1100 / 30 * 10, 30, None, "0:00.36"),
    ],
)
def test_a_label_is_the_time_of_its_frame(
    at_ms: float, fps: float, begun_ms: int | None, text: str
) -> None:
    assert label_text(at_ms, fps, begun_ms) == text


@given(st.floats(1, 120), st.integers(0, 100_000))
def test_two_frames_one_after_the_other_never_have_one_label(fps: float, frame: int) -> None:
    texts = [label_text(1000 * n / fps, fps) for n in (frame, frame + 1)]
    assert texts[0] != texts[1]


@given(st.lists(boxes, max_size=12))
def test_a_label_lies_in_the_picture_on_no_target_and_no_other_label(found: list[Box]) -> None:
    targets = dict(enumerate(found))
    offsets = place_labels(targets, dict.fromkeys(targets, SIZE), {}, PICTURE)
    labels = [label_box(targets[key], offset, SIZE) for key, offset in offsets.items()]
    for label in labels:
        assert label.x >= 0
        assert label.x + label.w <= PICTURE[0]
        assert label.y >= 0
        assert label.y + label.h <= PICTURE[1]
        assert all(label.common(one) == 0 for one in found)
    assert all(one.common(other) == 0 for one, other in combinations(labels, 2))


def test_a_label_goes_with_its_target() -> None:
    before: dict[int, LabelOffset] = {}
    for n in range(30):
        targets = {1: Box(100 + 5.0 * n, 100, 30, 80)}
        now = place_labels(targets, {1: SIZE}, before, PICTURE)
        assert not before or now == before
        before = now


def test_a_label_without_room_is_left_out() -> None:
    assert place_labels({1: Box(0, 0, 640, 360)}, {1: SIZE}, {}, PICTURE) == {}
