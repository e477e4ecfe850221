"""The limit on failed log-ins."""

import random

from monitor.accounts.login_limiter import (
    BUSY_WAIT_MS,
    MAX_JUDGED_AT_ONCE,
    MAX_JUDGED_AT_ONCE_PER_ADDRESS,
    MAX_KEYS,
    FailedAttempts,
    LoginLimiter,
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


def refused(limiter: LoginLimiter, name: str, address: str, now_ms: int) -> int:
    """How long the limiter makes an attempt wait; 0 when it begins."""
    try:
        limiter.begin(name, address, now_ms)
    except TooManyAttempts as error:
        return error.wait_ms
    return 0


def test_attempts_made_at_once_cannot_pass_the_limit_together() -> None:
    """An attempt counts from its start, not from its result."""
    limiter = LoginLimiter(per_account=2, per_address=100, window_ms=1000)
    waits = [refused(limiter, "li", "10.0.0.1", 5) for _ in range(4)]
    assert waits == [0, 0, 1000, 1000]
    assert refused(limiter, "li", "10.0.0.2", 5) == 0


def test_one_address_with_many_names_meets_its_own_limit() -> None:
    """The names do not matter; another address does not suffer."""
    limiter = LoginLimiter(per_account=5, per_address=10, window_ms=1000)
    for i in range(10):
        limiter.wrong(limiter.begin(f"name-{i}", "10.0.0.1", 0))
    assert refused(limiter, "name-10", "10.0.0.1", 1) == 999
    assert refused(limiter, "name-10", "10.0.0.2", 1) == 0


def test_one_address_cannot_take_all_judgements() -> None:
    """What waits for scrypt is bounded per address first, then for all."""
    limiter = LoginLimiter(per_account=100, per_address=100, window_ms=1000)
    waits = [refused(limiter, f"n{i}", "10.0.0.1", 0) for i in range(6)]
    assert waits == [0] * MAX_JUDGED_AT_ONCE_PER_ADDRESS + [BUSY_WAIT_MS] * 2
    others = [refused(limiter, "li", f"10.0.1.{i}", 0) for i in range(20)]
    assert others.count(0) == MAX_JUDGED_AT_ONCE - MAX_JUDGED_AT_ONCE_PER_ADDRESS


def test_a_right_password_takes_back_its_own_failures_only() -> None:
    """An owner of one account does not buy guesses at others with it."""
    limiter = LoginLimiter(per_account=5, per_address=2, window_ms=1000)
    limiter.wrong(limiter.begin("li", "10.0.0.1", 0))
    for now_ms in range(1, 5):
        limiter.right(limiter.begin("own", "10.0.0.1", now_ms))
    limiter.wrong(limiter.begin("li", "10.0.0.1", 9))
    assert refused(limiter, "own", "10.0.0.1", 10) > 0


def test_an_attempt_that_could_not_be_judged_leaves_no_trace() -> None:
    """A damaged account store is not the sender's failure."""
    limiter = LoginLimiter(per_account=1, per_address=1, window_ms=1000)
    for now_ms in range(20):
        limiter.unjudged(limiter.begin("li", "10.0.0.1", now_ms))


def test_addresses_of_one_subscriber_count_as_one() -> None:
    """A network of IPv6 has addresses without end."""
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db9::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") == "10.0.0.1"
    assert network_of("testclient") == "testclient"
