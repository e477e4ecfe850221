"""A lasting silence is logged rarely."""

from __future__ import annotations

import itertools

from broker.peer.log_limiter import MAX_PAUSE_S, LogRateLimiter


def test_an_hour_of_silence_is_told_a_dozen_times() -> None:
    """At once, after five seconds, then ever more seldom; asked every second."""
    silence = LogRateLimiter()
    told = [second for second in range(3600) if silence.should_log(float(second))]
    assert told[:5] == [0, 5, 15, 35, 75]
    assert len(told) <= 13
    assert max(b - a for a, b in itertools.pairwise(told)) <= MAX_PAUSE_S


def test_after_an_answer_the_next_silence_is_told_at_once() -> None:
    """And how long the last one was is known."""
    silence = LogRateLimiter()
    assert silence.ended(1.0) == 0.0
    assert silence.should_log(10.0)
    assert not silence.should_log(11.0)
    assert silence.ended(12.5) == 2.5
    assert silence.should_log(13.0)
