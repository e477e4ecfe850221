"""A line every few seconds while something long runs, so that nobody takes it for dead.

In: what runs, in words. Out: lines on standard error. Never: a line after it has ended.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 5.0


def say(sentence: str) -> None:
    """One line for people, where it does not mix with what a command prints."""
    print(f"databus: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def still_at_it(
    what: str, every_s: float = EVERY_S, print_line: Callable[[str], None] = say
) -> Iterator[None]:
    """Say what runs, and again how long it has, until the block ends."""
    ended, begun_s = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not ended.wait(every_s):
            print_line(f"{what} … {time.monotonic() - begun_s:.0f} s")

    print_line(what)
    thread = threading.Thread(target=repeat, name="still at it", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
