"""The limits on failed log-ins. Any attacks over time: test_login_limiter_over_time.py."""

import random

import pytest

from monitor.accounts.login_limiter import (
    BUSY_WAIT_MS,
    MAX_JUDGED_AT_ONCE,
    MAX_JUDGED_AT_ONCE_PER_SENDER,
    MAX_KEYS,
    MAX_SLOWED_PER_ADDRESS,
    SLOWED_MS,
    FailedAttempts,
    LoginLimiter,
    LoginSender,
    TooManyAttempts,
    network_of,
)


def test_the_door_stays_shut_after_the_limit_and_opens_with_the_window() -> None:
    """The oldest failure decides when."""
    failures = FailedAttempts(3, 1000)
    for now_ms in (0, 100, 200):
        assert failures.wait_ms("li", now_ms) == 0
        failures.failed("li", now_ms)
    assert failures.wait_ms("li", 300) == 700
    assert failures.wait_ms("wang", 300) == 0
    assert failures.wait_ms("li", 1000) == 0


def test_success_forgets_failures() -> None:
    """A typo or two costs nothing."""
    failures = FailedAttempts(2, 1000)
    failures.failed("li", 0)
    failures.succeeded("li")
    failures.failed("li", 1)
    assert failures.wait_ms("li", 2) == 0


def test_never_more_than_the_limit_in_any_window() -> None:
    """Property: an attacker who tries as often as allowed fails at most `limit` times per window."""
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    limit, window_ms = dice.randint(1, 6), dice.randint(10, 5000)
    failures, tried, now_ms = FailedAttempts(limit, window_ms), [], 0
    for _ in range(500):
        now_ms += dice.randint(0, window_ms // 2)
        if failures.wait_ms("li", now_ms) == 0:
            failures.failed("li", now_ms)
            tried.append(now_ms)
    for start in tried:
        inside = [t for t in tried if start <= t < start + window_ms]
        assert len(inside) <= limit, f"seed {seed}"


def test_memory_is_bounded() -> None:
    """The oldest keys are forgotten."""
    failures = FailedAttempts(1, 10**9)
    for i in range(MAX_KEYS + 1):
        failures.failed(str(i), 0)
    assert failures.wait_ms("0", 1) == 0
    assert failures.wait_ms(str(MAX_KEYS), 1) > 0


OFFICE = LoginSender("10.0.0.1")


def refused(limiter: LoginLimiter, name: str, address: str, now_ms: int, device: str = "") -> int:
    """How long the limiter makes an attempt wait; 0 when it begins."""
    try:
        limiter.begin(name, LoginSender(address, device), now_ms)
    except TooManyAttempts as error:
        return error.wait_ms
    return 0


def test_attempts_made_at_once_cannot_pass_the_limit_together() -> None:
    """An attempt counts from its start, not from its result."""
    limiter = LoginLimiter(per_account=2, per_address=100, window_ms=1000)
    waits = [refused(limiter, "li", "10.0.0.1", 5) for _ in range(4)]
    assert waits == [0, 0, 1000, 1000]
    assert refused(limiter, "li", "10.0.0.2", 5) == 0


def past_its_limit(limiter: LoginLimiter, now_ms: int = 0) -> None:
    """Ten wrong names from the office."""
    for i in range(10):
        limiter.wrong(limiter.begin(f"name-{i}", OFFICE, now_ms))


def test_an_address_with_many_wrong_names_is_slowed_and_not_shut() -> None:
    """Each name once; the answer comes at one moment, however long the judgement took."""
    limiter = LoginLimiter(per_account=5, per_address=10, window_ms=1000)
    past_its_limit(limiter)
    attempt = limiter.begin("li", OFFICE, 1)
    assert attempt.held_back_ms(1) == SLOWED_MS
    assert attempt.held_back_ms(91) == SLOWED_MS - 90
    assert attempt.held_back_ms(-(10**6)) == SLOWED_MS  # a clock that was set back
    limiter.wrong(attempt)
    assert refused(limiter, "li", "10.0.0.1", 2) == 999
    assert refused(limiter, "name-3", "10.0.0.1", 2) == 998
    assert limiter.begin("wang", LoginSender("10.0.0.2"), 2).held_back_ms(2) == 0


def test_a_slowed_address_has_so_many_questions_open_and_no_more() -> None:
    """Nor is it the faster for leaving before the answer: the question counts, not its client."""
    limiter = LoginLimiter(per_account=5, per_address=10, window_ms=10**6)
    past_its_limit(limiter)
    for i in range(MAX_SLOWED_PER_ADDRESS):
        limiter.wrong(limiter.begin(f"more-{i}", OFFICE, 5))
    assert refused(limiter, "one-more", "10.0.0.1", 6) == SLOWED_MS - 1
    assert refused(limiter, "one-more", "10.0.0.1", 5 + SLOWED_MS) == 0


def test_a_right_password_behind_a_slowed_address_makes_it_no_quicker() -> None:
    """Who has an account of his own cannot take the address's failures back with it."""
    limiter = LoginLimiter(per_account=5, per_address=10, window_ms=10**6)
    past_its_limit(limiter)
    for now_ms in range(1, MAX_SLOWED_PER_ADDRESS):
        limiter.right(limiter.begin("own", OFFICE, now_ms))
        guess = limiter.begin(f"guess-{now_ms}", OFFICE, now_ms)
        assert guess.is_slowed
        limiter.wrong(guess)


def test_a_known_device_is_not_touched_by_its_address() -> None:
    """Neither by other names nor by its own one, wrongly typed elsewhere in the room."""
    limiter = LoginLimiter(per_account=2, per_address=10, window_ms=1000)
    for now_ms in range(2):
        limiter.wrong(limiter.begin("li", OFFICE, now_ms))
    past_its_limit(limiter, 2)
    assert refused(limiter, "li", "10.0.0.1", 3) > 0
    attempt = limiter.begin("li", LoginSender("10.0.0.1", "d1"), 3)
    assert attempt.held_back_ms(3) == 0
    limiter.wrong(attempt)
    assert refused(limiter, "li", "10.0.0.1", 4, "d1") == 0


def test_a_known_device_has_a_lock_of_its_own_wherever_it_is() -> None:
    """A stolen one guesses no more than an address does."""
    limiter = LoginLimiter(per_account=2, per_address=100, window_ms=1000)
    waits = [refused(limiter, "li", f"10.0.0.{i}", 0, "d1") for i in range(4)]
    assert waits == [0, 0, 1000, 1000]
    assert refused(limiter, "li", "10.0.0.1", 0) == 0


def test_one_address_cannot_take_all_judgements() -> None:
    """What waits for scrypt is bounded per address first, then for all."""
    limiter = LoginLimiter(per_account=100, per_address=100, window_ms=1000)
    waits = [refused(limiter, f"n{i}", "10.0.0.1", 0) for i in range(6)]
    assert waits == [0] * MAX_JUDGED_AT_ONCE_PER_SENDER + [BUSY_WAIT_MS] * 2
    others = [refused(limiter, "li", f"10.0.1.{i}", 0) for i in range(20)]
    assert others.count(0) == MAX_JUDGED_AT_ONCE - MAX_JUDGED_AT_ONCE_PER_SENDER
    assert refused(limiter, "li", "10.0.0.1", 0, "d1") == 0  # known devices have their own places


@pytest.mark.parametrize("device", ["", "d1"])
@pytest.mark.parametrize("end", ["right", "wrong", "unjudged"])
def test_a_judgement_that_is_over_gives_its_place_back(device: str, end: str) -> None:
    """However it ended."""
    limiter = LoginLimiter(per_account=10**6, per_address=10**6, window_ms=1000)
    for now_ms in range(3 * MAX_JUDGED_AT_ONCE):
        attempt = limiter.begin("li", LoginSender("10.0.0.1", device), now_ms)
        getattr(limiter, end)(attempt)


def test_a_right_password_takes_back_its_own_failures_only() -> None:
    """An owner of one account does not buy guesses at others with it."""
    limiter = LoginLimiter(per_account=5, per_address=2, window_ms=1000)
    limiter.wrong(limiter.begin("li", OFFICE, 0))
    for now_ms in range(1, 5):
        limiter.right(limiter.begin("own", OFFICE, now_ms))
    limiter.wrong(limiter.begin("li", OFFICE, 9))
    assert refused(limiter, "li", "10.0.0.1", 10) > 0
    assert limiter.begin("wang", OFFICE, 10).is_slowed


def test_an_attempt_that_could_not_be_judged_leaves_no_trace() -> None:
    """A damaged account store is not the sender's failure."""
    limiter = LoginLimiter(per_account=1, per_address=1, window_ms=1000)
    for now_ms in range(20):
        limiter.unjudged(limiter.begin("li", OFFICE, now_ms))


def test_addresses_of_one_subscriber_count_as_one() -> None:
    """A network of IPv6 has addresses without end."""
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db9::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") == "10.0.0.1"
    assert network_of("testclient") == "testclient"
