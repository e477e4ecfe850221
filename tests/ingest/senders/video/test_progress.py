"""A long film says how far it is, on a terminal and in a file."""

from __future__ import annotations

import io

from ingest.senders.video.progress import LineProgress, progress_display


def test_where_there_is_no_terminal_a_line_comes_now_and_then() -> None:
    """Before, eight minutes of a film passed without a word when redirected. Not a line per frame
    either."""
    lines: list[str] = []
    now = 0.0
    progress = LineProgress("yard.avi", 800, lines.append, lambda: now)
    for frame in range(0, 800, 2):
        now += 0.125
        progress.at(frame)
        progress.found(frame // 100)
    assert lines[0] == "yard.avi: looking through 800 frames"
    assert lines[1] == "yard.avi: frame 158 of 800 (19 %), 1 found, 10 s"
    assert len(lines) == 6


def test_a_film_of_unknown_length_has_no_percentage() -> None:
    """Some containers do not contain the length."""
    lines: list[str] = []
    now = 0.0
    progress = LineProgress("live.ts", 0, lines.append, lambda: now)
    now = 60.0
    progress.at(7)
    assert lines == ["live.ts: looking through a film of unknown length",
                     "live.ts: frame 7, 0 found, 60 s"]  # fmt: skip


def test_a_redirected_stream_gets_lines_without_control_characters() -> None:
    """At once, not when the buffer is full."""
    stream = io.StringIO()
    with progress_display("yard.avi", 5, stream):
        assert stream.getvalue() == "yard.avi: looking through 5 frames\n"
