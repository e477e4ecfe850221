"""The newest offset of each key, in memory of a fixed size.

In: digests of keys, as two numbers of 64 bits, with rising offsets. Out: the newest offset of a
digest. Never: a key; more memory than was granted.

A table of open addresses in three arrays: ``BYTES_PER_SLOT`` bytes a slot, of which at most
``load_factor`` are taken, and memory that no key has reached yet is not the process's. Apache
Kafka's map has the same size a key. Digests are looked up together: a round looks at one slot for
each that is still looked for, so that a round costs the same for one key and for a thousand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BYTES_PER_SLOT = 24
NOT_FOUND = -1

_MIN_SLOTS = 3

Offsets = NDArray[np.int64]
Positions = NDArray[np.intp]
Words = NDArray[np.uint64]


class KeyDigests(NamedTuple):
    """Digests of 128 bits, each in a high and a low half."""

    high: Words
    low: Words

    def at(self, positions: Positions | NDArray[np.bool_] | slice) -> KeyDigests:
        """Some of them."""
        return KeyDigests(self.high[positions], self.low[positions])


class OffsetMap:
    """Invariant: fewer keys than slots, so that each search ends at an empty one. Invariant: the
    number of slots is a prime, so that any step reaches all of them. A slot holds its offset plus
    one; zero is an empty one."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """At least one key fits, whatever is granted."""
        self._slots = _prime_up_to(max(memory_bytes // BYTES_PER_SLOT, _MIN_SLOTS))
        self.max_keys = min(max(int(self._slots * load_factor), 1), self._slots - 1)
        self.keys = 0
        self._high = np.zeros(self._slots, np.uint64)
        self._low = np.zeros(self._slots, np.uint64)
        self._next = np.zeros(self._slots, np.int64)

    def put(self, digests: KeyDigests, offsets: Offsets) -> int:
        """Note the offsets, which rise, of keys; how many were noted before one did not fit."""
        begin = 0
        while begin < len(offsets):
            room = self.max_keys - self.keys
            if not room:
                known = self.get(digests.at(slice(begin, None))) != NOT_FOUND
                stop = len(offsets) if known.all() else begin + int(known.argmin())
                self._put(digests.at(slice(begin, stop)), offsets[begin:stop])
                return stop
            self._put(digests.at(slice(begin, begin + room)), offsets[begin : begin + room])
            begin += room
        return len(offsets)

    def get(self, digests: KeyDigests) -> Offsets:
        """The newest offset of each, NOT_FOUND for one without."""
        found = np.full(len(digests.high), NOT_FOUND, np.int64)
        wanted = _Search(digests, self._slots)
        while len(wanted.slots):
            held = self._next[wanted.slots]
            same = (held > 0) & self._is_held(wanted)
            found[wanted.origin[same]] = held[same] - 1
            wanted.probe_next(~same & (held > 0))
        return found

    def _put(self, digests: KeyDigests, offsets: Offsets) -> None:
        """Put them, for which there is room. Of equal digests, and of those that claim the same
        slot in one round, the last one is written."""
        fresh = offsets + 1
        pending = _Search(digests, self._slots)
        while len(pending.slots):
            slots, own = pending.slots, fresh[pending.origin]
            claims = self._next[slots] == 0
            claimed = slots[claims]
            self._high[claimed] = pending.digests.high[claims]
            self._low[claimed] = pending.digests.low[claims]
            held = self._is_held(pending)
            self._next[slots[held]] = own[held]
            self.keys += int((self._next[claimed] == own[claims]).sum())
            pending.probe_next(~held)

    def _is_held(self, search: _Search) -> NDArray[np.bool_]:
        slots, digests = search.slots, search.digests
        same: NDArray[np.bool_] = self._high[slots] == digests.high
        same &= self._low[slots] == digests.low
        return same


class _Search:
    """Digests still looked for: their index among all, the slot to look at, the step to the next.

    Invariant: all arrays have one entry a digest.
    """

    def __init__(self, digests: KeyDigests, slots: int) -> None:
        self._count = slots
        self.digests = digests
        self.origin: Positions = np.arange(len(digests.high))
        self.slots: Positions = (digests.high % np.uint64(slots)).astype(np.intp)
        self._steps: Positions = (digests.low % np.uint64(slots - 1)).astype(np.intp) + 1

    def probe_next(self, going_on: NDArray[np.bool_]) -> None:
        """Keep some of them, at their next slot."""
        self.origin = self.origin[going_on]
        self.digests = self.digests.at(going_on)
        self._steps = self._steps[going_on]
        slots = self.slots[going_on] + self._steps
        self.slots = np.where(slots < self._count, slots, slots - self._count)


def _prime_up_to(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
