"""Property: whatever strangers try behind one address, bounds hold and nobody else pays for it."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from monitor.accounts.login_limiter import (
    MAX_JUDGED_AT_ONCE_PER_SENDER,
    MAX_SLOWED_PER_ADDRESS,
    SLOWED_MS,
    Attempt,
    LoginLimiter,
    LoginSender,
    TooManyAttempts,
)

PER_ACCOUNT, PER_ADDRESS, WINDOW_MS = 3, 6, 60_000
ROOM = "10.0.0.1"
# Moment after the one before, name, whether the password is right (of an account of his own).
tried = st.tuples(
    st.integers(0, 2 * SLOWED_MS), st.sampled_from([f"name-{i}" for i in range(30)]), st.booleans()
)
attacks = st.lists(tried, min_size=15, max_size=60)


def made() -> LoginLimiter:
    return LoginLimiter(PER_ACCOUNT, PER_ADDRESS, WINDOW_MS)


def judged(limiter: LoginLimiter, name: str, now_ms: int, right: bool) -> Attempt | None:
    """The attempt, ended; None if it is refused."""
    try:
        attempt = limiter.begin(name, LoginSender(ROOM), now_ms)
    except TooManyAttempts:
        return None
    (limiter.right if right else limiter.wrong)(attempt)
    return attempt


def over_time(limiter: LoginLimiter, attack: list[tuple[int, str, bool]]) -> Iterator[int]:
    """The moment after each attempt of one who waits for each answer, as a script does."""
    now_ms = 0
    for after_ms, name, right in attack:
        now_ms += after_ms
        attempt = judged(limiter, name, now_ms, right)
        now_ms += attempt.held_back_ms(now_ms) if attempt and not right else 0
        yield now_ms


@given(attacks)
def test_who_has_no_failure_of_his_own_is_never_refused(attack: list[tuple[int, str, bool]]) -> None:
    """With the right password, from a browser that nobody knows, at every moment of the attack."""
    limiter = made()
    for now_ms in over_time(limiter, attack):
        limiter.right(limiter.begin("li", LoginSender(ROOM), now_ms))


@given(attacks, st.integers(0, PER_ACCOUNT - 1))
def test_a_known_device_is_never_refused(attack: list[tuple[int, str, bool]], mistyped: int) -> None:
    """Though the attack is at his own name, waits for no answer, and he mistypes now and then."""
    limiter, now_ms = made(), 0
    own = LoginSender(ROOM, "his browser")
    for after_ms, _, right in attack:
        now_ms += after_ms
        judged(limiter, "li", now_ms, False)
        judged(limiter, f"name-{now_ms}", now_ms, right)
        for _ in range(mistyped):
            attempt = limiter.begin("li", own, now_ms)
            assert attempt.held_back_ms(now_ms) == 0
            limiter.wrong(attempt)
        limiter.right(limiter.begin("li", own, now_ms))


@given(attacks)
def test_one_name_is_guessed_no_oftener_than_its_lock_says(attack: list[tuple[int, str, bool]]) -> None:
    """As before: so often in any window."""
    limiter, now_ms = made(), 0
    wrong: dict[str, list[int]] = {}
    for after_ms, name, _ in attack:
        now_ms += after_ms // 20
        if judged(limiter, name, now_ms, False):
            wrong.setdefault(name, []).append(now_ms)
    for times in wrong.values():
        for begin in times:
            assert sum(begin <= t < begin + WINDOW_MS for t in times) <= PER_ACCOUNT


@given(st.lists(st.integers(0, 500), min_size=20, max_size=80))
def test_many_names_are_slow(gaps: list[int]) -> None:
    """Never more answers than the address's limit in a window, and so many at a time beyond; and
    beyond it a name only once. Who leaves before his answer gains nothing.
    """
    limiter, now_ms = made(), 0
    quick, slow = [], []
    for number, gap in enumerate(gaps):
        now_ms += gap
        if attempt := judged(limiter, f"name-{number}", now_ms, False):
            (slow if attempt.is_slowed else quick).append(now_ms)
            if attempt.is_slowed:
                assert judged(limiter, f"name-{number}", now_ms, False) is None
    for times, most, window_ms in (
        (quick, PER_ADDRESS, WINDOW_MS), (slow, MAX_SLOWED_PER_ADDRESS, SLOWED_MS),
    ):  # fmt: skip
        for begin in times:
            assert sum(begin <= t < begin + window_ms for t in times) <= most


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")), max_size=60))
def test_no_sender_takes_more_places_than_his(steps: list[tuple[bool, str]]) -> None:
    """Begun and ended in any order."""
    limiter, open_ = LoginLimiter(10**6, 10**6, WINDOW_MS), list[Attempt]()
    for begins, name in steps:
        if begins:
            try:
                open_.append(limiter.begin(name, LoginSender(ROOM), 0))
            except TooManyAttempts:
                assert len(open_) == MAX_JUDGED_AT_ONCE_PER_SENDER
        elif open_:
            limiter.wrong(open_.pop(0))
        assert len(open_) <= MAX_JUDGED_AT_ONCE_PER_SENDER
