"""The child's end of the pipe: reads orders, runs each request in a thread, reports.

In: standard input. Out: standard output, one line a message. Never: what a request does; a life
beyond that of the broker: whoever holds the other end of standard input is dead when it closes,
however it died, and what is not reported by then nobody wants.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator

from msgspec import Raw

from broker.cleaner_process.messages import (
    MAX_LINE_BYTES,
    Answer,
    CancelRequest,
    MessageError,
    RequestEnd,
    RequestReport,
    RunRequest,
    encode,
    order_of,
)
from broker.cleaner_process.port import FailureKind
from broker.disk.port import DiskError, DiskFull
from bus.errors import CheckFailed

NICENESS = 10
"""Behind whatever serves clients on this machine; not so far that cleaning would stand still."""

Pause = Callable[[int], None]
"""Called between batches with the bytes read and written since; may sleep, and may raise."""
Work = Callable[[bytes, Pause], Iterator[bytes]]
"""What a request does: its reports. ValueError: it cannot be read."""


class RequestCancelled(Exception):
    """Nobody wants the rest."""


class RateLimit:
    """Bytes in a second, of all threads together.

    Invariant: a thread sleeps as long as the bytes since the last pause take at this rate.
    """

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        self._lock = threading.Lock()
        self._free_at = 0.0

    def seconds_for(self, count: int, now: float) -> float:
        """How long to wait for so many bytes."""
        with self._lock:
            began = max(self._free_at, now)
            self._free_at = began + count / self.bytes_per_second
            return self._free_at - now


class ChildRequests:
    """The requests under way. Invariant: ``_cancelled`` has an event for each."""

    def __init__(self, work: Work, send: Callable[[Answer], None]) -> None:
        self._work = work
        self._send = send
        self._cancelled: dict[int, threading.Event] = {}
        self.rate = RateLimit()

    def begin(self, number: int, request: bytes) -> None:
        """Run it in a thread of its own."""
        cancelled = self._cancelled[number] = threading.Event()
        work = (number, request, cancelled)
        threading.Thread(target=self._run, args=work, name=f"request-{number}", daemon=True).start()

    def cancel(self, number: int) -> None:
        """It ends at its next pause; one that has ended is none of these any more."""
        event = self._cancelled.get(number)
        if event is not None:
            event.set()

    def _run(self, number: int, request: bytes, cancelled: threading.Event) -> None:
        def pause(count: int) -> None:
            if cancelled.wait(self.rate.seconds_for(count, time.monotonic())):
                raise RequestCancelled

        try:
            for body in self._work(request, pause):
                self._send(RequestReport(number, Raw(body)))
            ended = RequestEnd(number)
        except (Exception, CheckFailed) as error:
            ended = end_of(number, error)
        del self._cancelled[number]
        self._send(ended)


def end_of(number: int, error: BaseException) -> RequestEnd:
    """What to say of a request that ended with an error."""
    if isinstance(error, RequestCancelled):
        return RequestEnd(number)
    if isinstance(error, DiskFull):
        return RequestEnd(number, FailureKind.DISK_FULL, str(error))
    if isinstance(error, DiskError):
        return RequestEnd(number, FailureKind.DISK, str(error))
    if isinstance(error, ValueError):
        return RequestEnd(number, FailureKind.REFUSED, str(error))
    return RequestEnd(number, FailureKind.BROKEN, "".join(traceback.format_exception(error)))


def serve(work: Work) -> None:
    """Serve orders until the broker is gone; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the broker says when to end
    os.nice(NICENESS)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    pipe, lock = sys.stdout.buffer, threading.Lock()

    def send(message: Answer) -> None:
        with lock:
            try:
                pipe.write(encode(message))
                pipe.flush()
            except OSError:
                os._exit(0)

    requests = ChildRequests(work, send)
    while line := sys.stdin.buffer.readline(MAX_LINE_BYTES + 1):
        try:
            order = order_of(line)
        except MessageError as error:
            logging.getLogger(__name__).error("an order that cannot be read: %s", error)
            os._exit(1)
        if isinstance(order, RunRequest):
            requests.begin(order.number, bytes(order.request))
        elif isinstance(order, CancelRequest):
            requests.cancel(order.number)
        else:
            requests.rate.bytes_per_second = order.bytes_per_second
    os._exit(0)  # not sys.exit: that would wait for what nobody wants
