"""The memory of all responses that the kernel has not taken yet, bounded for each class.

In: bytes that connections hold. Out: how much a read of the log may bring now. Never: a wait; a
bound that queued readers would let those who do not read stop those who do (KIP-74 gives every
fetch at least one batch, which is what the bound can be passed by: one batch per connection).
"""

from __future__ import annotations


class ResponseMemory:
    """What some connections may hold together. `share`: a read gets at most one part in so many of
    what is left, so that a few that do not read cannot take everything.

    Invariant: `used_bytes` is what was taken and not given back.
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

    def cut(self, wanted_bytes: int) -> int:
        """How much of it may be read now; 0 still means one whole batch."""
        left = (self.limit_bytes - self.used_bytes) // self._share
        return min(wanted_bytes, left) if left > 0 else 0

    def take(self, size: int) -> None:
        """Somebody holds more (or less, if `size` is below zero)."""
        self.used_bytes += size


class MemoryOfBrokers:
    """What each follower may hold beside the clients on a shared listener.

    Anybody can say that he is a broker, so each known id has one memory of one answer's size, and
    one connection has it: the one that has asked last.
    """

    def __init__(self) -> None:
        self._of: dict[int, ResponseMemory] = {}
        self._holders: dict[int, MemoryHolder] = {}

    def give_to(self, broker_id: int, holder: MemoryHolder, limit_bytes: int) -> None:
        """`holder` fetches as this broker from now on."""
        if self._holders.get(broker_id) is holder:
            return
        former = self._holders.pop(broker_id, None)
        if former is not None:
            former.charge_to(former.usual_memory)
        memory = self._of.setdefault(broker_id, ResponseMemory(limit_bytes, share=1))
        memory.limit_bytes = limit_bytes
        self._holders[broker_id] = holder
        holder.charge_to(memory)

    def forget(self, holder: MemoryHolder) -> None:
        """The connection is gone."""
        for broker_id in [number for number, one in self._holders.items() if one is holder]:
            del self._holders[broker_id]


class MemoryHolder:
    """Somebody whose held bytes are counted somewhere.

    Invariant: `charged` of `memory.used_bytes` are his.
    """

    def __init__(self, memory: ResponseMemory) -> None:
        self.usual_memory = memory
        self.memory = memory
        self.charged = 0

    def charge(self, held_bytes: int) -> None:
        """He holds so much now."""
        if held_bytes != self.charged:
            self.memory.take(held_bytes - self.charged)
            self.charged = held_bytes

    def charge_to(self, memory: ResponseMemory) -> None:
        """What he holds counts there from now on."""
        self.memory.take(-self.charged)
        memory.take(self.charged)
        self.memory = memory
