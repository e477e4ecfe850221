"""The limits on log-ins (pure; time comes in): failures per account and address, failures per
address alone, and passwords that are being judged at this moment.

In: names, addresses, times. Out: an attempt that may be judged, or how long to wait. Never:
passwords.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

MAX_KEYS = 10_000  # forgets the oldest; an attacker with more addresses meets scrypt's cost instead
# Each judgement costs scrypt's time and 32 MiB. One address may have a third of them, so that one
# attacker does not keep everybody else from logging in.
MAX_JUDGED_AT_ONCE = 12
MAX_JUDGED_AT_ONCE_PER_ADDRESS = 4
BUSY_WAIT_MS = 1_000  # by then the judgements in progress are over on any but a stalled machine
IPV6_NETWORK_BITS = 64  # what one subscriber is given: each has 2^64 addresses to try from


class FailedAttempts:
    """Failed log-ins per key within a window.

    Invariant: a key's deque holds at most `limit` times, ascending.
    """

    def __init__(self, limit: int, window_ms: int) -> None:
        self._limit = limit
        self._window_ms = window_ms
        self._failures: OrderedDict[str, deque[int]] = OrderedDict()

    def wait_ms(self, key: str, now_ms: int) -> int:
        """0 when the key may try; else the time until it may."""
        times = self._failures.get(key)
        if times is None or len(times) < self._limit:
            return 0
        return max(0, times[0] + self._window_ms - now_ms)

    def failed(self, key: str, now_ms: int) -> None:
        """Count one failure."""
        times = self._failures.setdefault(key, deque(maxlen=self._limit))
        while times and times[0] + self._window_ms <= now_ms:
            times.popleft()
        times.append(now_ms)
        self._failures.move_to_end(key)
        while len(self._failures) > MAX_KEYS:
            self._failures.popitem(last=False)

    def withdraw(self, key: str, at_ms: int) -> None:
        """Take back one failure that was counted in advance."""
        times = self._failures.get(key)
        if times is None or at_ms not in times:
            return
        times.remove(at_ms)
        if not times:
            del self._failures[key]

    def succeeded(self, key: str) -> None:
        """Forget the failures of a key that has shown the password."""
        self._failures.pop(key, None)


class TooManyAttempts(Exception):
    """The password is not looked at; the sender may try again after `wait_ms`."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"too many attempts; try again in {-(-wait_ms // 1000)} s")
        self.wait_ms = wait_ms

    @property
    def retry_after_s(self) -> int:
        """The whole seconds of `Retry-After`, at least one."""
        return max(1, -(-self.wait_ms // 1000))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One password that is being judged."""

    account: str
    address: str
    begun_ms: int


class LoginLimiter:
    """Decides whether a password is judged at all.

    Invariant: `_judging` counts the attempts begun and not ended. An attempt counts as a failure
    from its beginning, so that attempts made at once cannot pass the limit together.
    """

    def __init__(self, per_account: int, per_address: int, window_ms: int) -> None:
        self._accounts = FailedAttempts(per_account, window_ms)
        self._addresses = FailedAttempts(per_address, window_ms)
        self._judging: Counter[str] = Counter()

    def check(self, name: str, address: str, now_ms: int) -> None:
        """Raise `TooManyAttempts` while the address, or this name from it, is shut out."""
        network = network_of(address)
        wait_ms = max(
            self._accounts.wait_ms(_account_key(network, name), now_ms),
            self._addresses.wait_ms(network, now_ms),
        )
        if wait_ms:
            raise TooManyAttempts(wait_ms)

    def begin(self, name: str, address: str, now_ms: int) -> Attempt:
        """Count an attempt before it is judged. Raises `TooManyAttempts`."""
        self.check(name, address, now_ms)
        network = network_of(address)
        if (
            self._judging[network] >= MAX_JUDGED_AT_ONCE_PER_ADDRESS
            or self._judging.total() >= MAX_JUDGED_AT_ONCE
        ):
            raise TooManyAttempts(BUSY_WAIT_MS)
        attempt = Attempt(_account_key(network, name), network, now_ms)
        self._judging[network] += 1
        self._accounts.failed(attempt.account, now_ms)
        self._addresses.failed(network, now_ms)
        return attempt

    def right(self, attempt: Attempt) -> None:
        """The password fitted: forgets the account's failures; the address keeps its others."""
        self._end(attempt)
        self._accounts.succeeded(attempt.account)
        self._addresses.withdraw(attempt.address, attempt.begun_ms)

    def wrong(self, attempt: Attempt) -> None:
        """The failure was counted at the beginning."""
        self._end(attempt)

    def unjudged(self, attempt: Attempt) -> None:
        """The password could not be judged, which is no fault of the sender."""
        self._end(attempt)
        self._accounts.withdraw(attempt.account, attempt.begun_ms)
        self._addresses.withdraw(attempt.address, attempt.begun_ms)

    def _end(self, attempt: Attempt) -> None:
        self._judging[attempt.address] -= 1
        if not self._judging[attempt.address]:
            del self._judging[attempt.address]


def network_of(address: str) -> str:
    """What counts as one address: IPv4 as it is, of IPv6 the subscriber's network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_NETWORK_BITS), strict=False))


def _account_key(network: str, name: str) -> str:
    return f"{network} {name}"
