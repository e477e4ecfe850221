"""The limits on log-ins (pure; time comes in): an account's own lock, the pace of an address with
many failures, and passwords that are being judged at this moment (ADR 0080).

In: names, who sends them, times. Out: an attempt that may be judged, or how long to wait; how long
a wrong one's answer is held back. Never: passwords; whether a name is an account's.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

MAX_KEYS = 10_000  # forgets the oldest; an attacker with more addresses meets scrypt's cost instead
# Each judgement costs scrypt's time and 32 MiB. One address may have a third of them, so that one
# attacker does not keep everybody else from logging in. Known devices have as many of their own.
MAX_JUDGED_AT_ONCE = 12
MAX_JUDGED_AT_ONCE_PER_SENDER = 4
BUSY_WAIT_MS = 1_000  # by then the judgements in progress are over on any but a stalled machine
# An address past its limit gets the answer to a wrong password so long after its question. As many
# questions may be open meanwhile; more cost memory and scrypt's time.
SLOWED_MS = 10_000
MAX_SLOWED_PER_ADDRESS = 16
MAX_SLOWED = 256
IPV6_NETWORK_BITS = 64  # what one subscriber is given: each has 2^64 addresses to try from
_ALL = ""


class FailedAttempts:
    """Failed log-ins per key within a window.

    Invariant: a key's deque holds at most `limit` times, ascending.
    """

    def __init__(self, limit: int, window_ms: int) -> None:
        self.limit = limit
        self._window_ms = window_ms
        self._failures: OrderedDict[str, deque[int]] = OrderedDict()

    def wait_ms(self, key: str, now_ms: int, *, limit: int = 0) -> int:
        """0 when the key may try; else the time until it may. `limit`: a lower one for once."""
        allowed = limit or self.limit
        times = self._failures.get(key)
        if times is None or len(times) < allowed:
            return 0
        return max(0, times[-allowed] + self._window_ms - now_ms)

    def failed(self, key: str, now_ms: int) -> None:
        """Count one failure."""
        times = self._failures.setdefault(key, deque(maxlen=self.limit))
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

    def waiting(self, now_ms: int) -> dict[str, int]:
        """The keys that must wait, and how long."""
        waits = {key: self.wait_ms(key, now_ms) for key in self._failures}
        return {key: wait_ms for key, wait_ms in waits.items() if wait_ms}

    def remembered(self) -> list[str]:
        """The keys with failures."""
        return list(self._failures)


class JudgementsAtOnce:
    """Places for passwords that are being judged, so many for each sender and so many in all."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def acquire(self, sender: str) -> None:
        """One place. Raises `TooManyAttempts`."""
        if (
            self._taken[sender] >= MAX_JUDGED_AT_ONCE_PER_SENDER
            or self._taken.total() >= MAX_JUDGED_AT_ONCE
        ):
            self._forget(sender)
            raise TooManyAttempts(BUSY_WAIT_MS)
        self._taken[sender] += 1

    def release(self, sender: str) -> None:
        """A judgement is over."""
        self._taken[sender] -= 1
        self._forget(sender)

    def _forget(self, sender: str) -> None:
        if self._taken[sender] <= 0:
            del self._taken[sender]


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
class LoginSender:
    """Who sends a name and a password: an address, and `device`, the id of a browser in which this
    very name has logged in before; empty for every other."""

    address: str
    device: str = ""

    @property
    def key(self) -> str:
        """What an account's failures are counted by, beside its name. No space is in it."""
        return f"device:{self.device}" if self.device else self.network

    @property
    def network(self) -> str:
        """What counts as one address."""
        return network_of(self.address)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One password that is being judged."""

    account: str
    sender: LoginSender
    begun_ms: int
    is_slowed: bool

    def held_back_ms(self, now_ms: int) -> int:
        """How long the answer still waits if the password is wrong. It comes at one moment for
        every name, however long the judgement took."""
        passed_ms = max(0, now_ms - self.begun_ms)  # a clock may have been set back
        return max(0, SLOWED_MS - passed_ms) if self.is_slowed else 0


class LoginLimiter:
    """Decides whether a password is judged at all.

    An account's own lock goes first: `per_account` failures of a name, from one address or one
    known device. An address with `per_address` failures over all names is never shut: it is slowed,
    and may try each name once. A known device is not touched by what its address does.

    Invariant: an attempt counts as a failure from its beginning, so that attempts made at once
    cannot pass a limit together. Every table is bounded by `MAX_KEYS`.
    """

    def __init__(self, per_account: int, per_address: int, window_ms: int) -> None:
        self._accounts = FailedAttempts(per_account, window_ms)
        self._addresses = FailedAttempts(per_address, window_ms)
        self._slowed = FailedAttempts(MAX_SLOWED_PER_ADDRESS, SLOWED_MS)
        self._slowed_in_all = FailedAttempts(MAX_SLOWED, SLOWED_MS)
        self._strangers = JudgementsAtOnce()
        self._known_devices = JudgementsAtOnce()

    def check(self, name: str, sender: LoginSender, now_ms: int) -> None:
        """Raise `TooManyAttempts` while this name is locked for the sender."""
        once = 1 if self._is_slowed(sender, now_ms) else 0
        wait_ms = self._accounts.wait_ms(_account_key(sender, name), now_ms, limit=once)
        if wait_ms:
            raise TooManyAttempts(wait_ms)

    def begin(self, name: str, sender: LoginSender, now_ms: int) -> Attempt:
        """Count an attempt before it is judged. Raises `TooManyAttempts`."""
        self.check(name, sender, now_ms)
        is_slowed = self._is_slowed(sender, now_ms)
        attempt = Attempt(_account_key(sender, name), sender, now_ms, is_slowed)
        if is_slowed:
            self._check_pace(sender, now_ms)
        self._places(sender).acquire(sender.key)
        for counted, key in self._counted(attempt):
            counted.failed(key, now_ms)
        return attempt

    def right(self, attempt: Attempt) -> None:
        """The password fitted: forgets the account's failures; the address keeps its others."""
        self.unjudged(attempt)
        self._accounts.succeeded(attempt.account)

    def wrong(self, attempt: Attempt) -> None:
        """The failure was counted at the beginning."""
        self._places(attempt.sender).release(attempt.sender.key)

    def unjudged(self, attempt: Attempt) -> None:
        """The password could not be judged, which is no fault of the sender."""
        self._places(attempt.sender).release(attempt.sender.key)
        for counted, key in self._counted(attempt):
            counted.withdraw(key, attempt.begun_ms)

    def locked(self, now_ms: int) -> dict[str, int]:
        """The names that are locked for some address or device, and how long yet."""
        names: dict[str, int] = {}
        for key, wait_ms in self._accounts.waiting(now_ms).items():
            name = _name_in(key)
            names[name] = max(wait_ms, names.get(name, 0))
        return names

    def unlock(self, name: str) -> None:
        """Forget a name's failures, wherever they came from."""
        for key in self._accounts.remembered():
            if _name_in(key) == name:
                self._accounts.succeeded(key)

    def _is_slowed(self, sender: LoginSender, now_ms: int) -> bool:
        return not sender.device and self._addresses.wait_ms(sender.network, now_ms) > 0

    def _check_pace(self, sender: LoginSender, now_ms: int) -> None:
        wait_ms = max(
            self._slowed.wait_ms(sender.network, now_ms), self._slowed_in_all.wait_ms(_ALL, now_ms)
        )
        if wait_ms:
            raise TooManyAttempts(wait_ms)

    def _places(self, sender: LoginSender) -> JudgementsAtOnce:
        return self._known_devices if sender.device else self._strangers

    def _counted(self, attempt: Attempt) -> list[tuple[FailedAttempts, str]]:
        """Where an attempt is a failure until it is known to be none."""
        counted = [(self._accounts, attempt.account)]
        if attempt.is_slowed:
            counted += [(self._slowed, attempt.sender.network), (self._slowed_in_all, _ALL)]
        elif not attempt.sender.device:
            counted.append((self._addresses, attempt.sender.network))
        return counted


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


def _account_key(sender: LoginSender, name: str) -> str:
    return f"{sender.key} {name}"


def _name_in(key: str) -> str:
    return key.partition(" ")[2]
