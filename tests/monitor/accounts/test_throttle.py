"""The limit on failed log-ins."""

import random

from monitor.accounts.throttle import MAX_KEYS, FailedLogins


def test_the_door_stays_shut_after_the_limit_and_opens_with_the_window() -> None:
    """The oldest failure decides when."""
    failures = FailedLogins(3, 1000)
    for now_ms in (0, 100, 200):
        assert failures.wait_ms("li", now_ms) == 0
        failures.failed("li", now_ms)
    assert failures.wait_ms("li", 300) == 700
    assert failures.wait_ms("wang", 300) == 0
    assert failures.wait_ms("li", 1000) == 0


def test_success_forgets_failures() -> None:
    """A typo or two costs nothing."""
    failures = FailedLogins(2, 1000)
    failures.failed("li", 0)
    failures.succeeded("li")
    failures.failed("li", 1)
    assert failures.wait_ms("li", 2) == 0


def test_never_more_than_the_limit_in_any_window() -> None:
    """Property: whoever tries whenever the door is open fails at most `limit` times per window."""
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    limit, window_ms = dice.randint(1, 6), dice.randint(10, 5000)
    failures, tried, now_ms = FailedLogins(limit, window_ms), [], 0
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
    failures = FailedLogins(1, 10**9)
    for i in range(MAX_KEYS + 1):
        failures.failed(str(i), 0)
    assert failures.wait_ms("0", 1) == 0
    assert failures.wait_ms(str(MAX_KEYS), 1) > 0
