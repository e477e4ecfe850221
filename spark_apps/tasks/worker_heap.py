"""The heap of a Python worker: what its packages have made is looked through once.

PySpark's daemon runs a full `gc.collect()` after every task. In a worker of ours it looks through
the sixty thousand objects of the imported packages and finds nothing; a task of a small batch costs
less than that look (decision 0087). So what lives there when all is imported is put aside
(`gc.freeze`). Never: a freeze for every task, which would put aside what tasks leave behind.
"""

from __future__ import annotations

import gc
import sys

MAX_FREEZES = 8
"""Of a worker's life. The three kinds of tasks of a batch import different packages; a package that
went on making modules would otherwise put a leak aside with each of them."""


class WorkerHeap:
    """What is frozen is still freed when nothing refers to it any more; only cycles among it stay.
    Invariant: frozen at most `MAX_FREEZES` times, each time behind a collection."""

    def __init__(self) -> None:
        self._freezes = 0
        self._modules = 0

    def settle(self) -> None:
        """At the begin of a task: if packages were imported since the last one, what lives now is
        not looked through again."""
        modules = len(sys.modules)
        if modules == self._modules or self._freezes == MAX_FREEZES:
            return
        gc.collect()
        gc.freeze()
        self._modules = modules
        self._freezes += 1
