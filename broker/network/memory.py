"""The memory of all responses that the kernel has not taken yet, bounded for each class.

In: bytes that connections hold. Out: how much a read of the log may return now. Never: a wait; if
readers queued for memory, clients that do not read would stop those that do (KIP-74 gives every
fetch at least one batch, so the bound can be exceeded by one batch per connection).
"""

from __future__ import annotations


class ResponseMemory:
    """Bytes that some connections may hold together. `share`: a read gets at most this fraction
    (1/share) of what is left, so that a few clients that do not read cannot take everything.

    Invariant: `used_bytes` is the sum of all `add`.
    """

    __slots__ = ("_share", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, share: int = 2) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._share = share

    @property
    def is_short(self) -> bool:
        """Whether a connection may only have one response at a time."""
        return self.used_bytes >= self.limit_bytes

    def limit_read(self, wanted_bytes: int) -> int:
        """How many of the wanted bytes may be read now; 0 still means one whole batch."""
        left = (self.limit_bytes - self.used_bytes) // self._share
        return min(wanted_bytes, left) if left > 0 else 0

    def add(self, size: int) -> None:
        """Count more held bytes (fewer, if `size` is below zero)."""
        self.used_bytes += size


class BrokerMemory:
    """Response memory of each follower, apart from the clients on a shared listener.

    Any client can claim to be a broker, so each known id has one memory of one response's size, and
    one connection uses it: the last one that fetched.
    """

    def __init__(self) -> None:
        self._by_broker: dict[int, ResponseMemory] = {}
        self._accounts: dict[int, MemoryAccount] = {}

    def assign(self, broker_id: int, account: MemoryAccount, limit_bytes: int) -> None:
        """The connection of `account` fetches as this broker from now on."""
        if self._accounts.get(broker_id) is account:
            return
        former = self._accounts.pop(broker_id, None)
        if former is not None:
            former.charge_to(former.usual_memory)
        memory = self._by_broker.setdefault(broker_id, ResponseMemory(limit_bytes, share=1))
        memory.limit_bytes = limit_bytes
        self._accounts[broker_id] = account
        account.charge_to(memory)

    def release(self, account: MemoryAccount) -> None:
        """The connection is gone."""
        for broker_id in [number for number, one in self._accounts.items() if one is account]:
            del self._accounts[broker_id]


class MemoryAccount:
    """The held bytes of one connection, counted in one memory.

    Invariant: `charged` of `memory.used_bytes` belong to this account.
    """

    def __init__(self, memory: ResponseMemory) -> None:
        self.usual_memory = memory
        self.memory = memory
        self.charged = 0

    def charge(self, held_bytes: int) -> None:
        """Set the bytes held now."""
        if held_bytes != self.charged:
            self.memory.add(held_bytes - self.charged)
            self.charged = held_bytes

    def charge_to(self, memory: ResponseMemory) -> None:
        """Count the held bytes in `memory` from now on."""
        self.memory.add(-self.charged)
        memory.add(self.charged)
        self.memory = memory
