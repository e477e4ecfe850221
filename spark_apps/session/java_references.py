"""References of ours to objects of the JVM, and when they are let go.

py4j's object and each of its methods refer to each other, so that only Python's collector frees
one; until then the JVM keeps what it names, a batch's plan and data set. Counting objects, the
collector would come every few minutes, because a batch has a hundred thousand that hold no cycles
(`driver.run`), and what a batch had in use at that moment it would look at again after hours. So
it comes by the clock, too. In: the clock. Out: what is garbage is freed, here and in the JVM.
Never: more than one collection in `COLLECT_EVERY_S`, however much is made.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from py4j.finalizer import ThreadSafeFinalizer

COLLECT_EVERY_S = 30.0
"""A collection takes 25 ms, the objects that live as long as the driver being most of it."""


class GarbageCollector:
    """For one thread, which is not that of a batch: it holds up nothing but itself."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._due_s = clock_s() + COLLECT_EVERY_S

    def collect_due(self) -> None:
        """Collect if it was not done for a while."""
        if self._clock_s() >= self._due_s:
            gc.collect()
            self._due_s = self._clock_s() + COLLECT_EVERY_S


def java_references() -> int:
    """How many objects the JVM keeps because this process may use them."""
    return len(ThreadSafeFinalizer.finalizers)
