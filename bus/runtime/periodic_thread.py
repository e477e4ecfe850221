"""A thread that does the same again and again until it is stopped.

In: a step, a pause. Out: calls of the step. Never: a stop that waits for a step without a limit.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

STOP_S = 1.0


class PeriodicThread(ABC):
    """A daemon thread. What a step raises ends it: errors that pass are caught in there."""

    def __init__(self, name: str, *, every_s: float) -> None:
        """`every_s`: the pause before each step."""
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, after the first pause."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a step that still waits for an answer ends after `STOP_S` by itself."""
        self._stopping.set()
        self._thread.join(STOP_S)

    @abstractmethod
    def _step(self) -> None: ...

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._step()
