"""When the keys of tokens are fetched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.security.token_keys import LEAST_BETWEEN_WANTED_S, FetchSchedule, TokenSettings
from bus.security.oauth_bearer import TokenRules

SETTINGS = TokenSettings(TokenRules((), None), "https://tokens/keys", 60.0, 0.5, 4.0)


def test_the_first_fetch_is_due_at_once_and_others_when_the_time_is_over() -> None:
    schedule = FetchSchedule(SETTINGS)
    assert schedule.due_at <= 0
    schedule.on_fetched(100)
    assert schedule.due_at == 160


def test_after_failures_it_is_waited_longer_and_longer_up_to_a_bound() -> None:
    schedule, waits = FetchSchedule(SETTINGS), []
    for _ in range(6):
        schedule.on_failed(100)
        waits.append(schedule.due_at - 100)
    assert waits == [0.5, 1, 2, 4, 4, 4]
    schedule.on_fetched(100)
    schedule.on_failed(200)
    assert schedule.due_at == 200.5


def test_an_unknown_key_brings_a_fetch_forward_but_seldom() -> None:
    schedule = FetchSchedule(SETTINGS)
    schedule.on_fetched(100)
    schedule.on_unknown_key(101)
    assert schedule.due_at == 101
    schedule.on_fetched(101)
    schedule.on_unknown_key(101 + LEAST_BETWEEN_WANTED_S - 0.1)
    assert schedule.due_at == 161
    schedule.on_unknown_key(101 + LEAST_BETWEEN_WANTED_S)
    assert schedule.due_at == 101 + LEAST_BETWEEN_WANTED_S


def test_an_unknown_key_does_not_shorten_the_wait_after_a_failure() -> None:
    schedule = FetchSchedule(SETTINGS)
    for _ in range(4):
        schedule.on_failed(100)
    schedule.on_unknown_key(101)
    assert schedule.due_at == 104


@given(st.lists(st.tuples(st.floats(0, 0.5), st.booleans()), max_size=300))
def test_whatever_tokens_come_fetches_are_seldom(moments: list[tuple[float, bool]]) -> None:
    """At each moment a client shows an unknown key; what is due is fetched, with or without
    success. A fetch that fails is one of two that may come sooner."""
    schedule, now = FetchSchedule(SETTINGS), 0.0
    fetched, failed = 0, 0
    ends: list[float] = []
    for passes_s, is_good in moments:
        now += passes_s
        schedule.on_unknown_key(now)
        if now < schedule.due_at:
            continue
        ends.append(now)
        if is_good:
            fetched += 1
            schedule.on_fetched(now)
        else:
            failed += 1
            schedule.on_failed(now)
    assert fetched <= 2 + now / LEAST_BETWEEN_WANTED_S + failed
    assert failed <= 1 + now / SETTINGS.backoff_s
