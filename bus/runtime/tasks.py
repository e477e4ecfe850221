"""Background tasks whose failures are heard, and the one place where a failure ends its process.

In: an event loop, tasks, threads. Out: a task, timer, callback, thread or unawaited executor future
that ends with an error is logged with its trace, and the process ends with FAILED_STATUS, so that
its supervisor starts it again. A process with a dead task would go on looking well.

Not a failure of the process: what a transport reports of one connection, and what code of other
people's libraries raised without a frame of ours in its trace; both are logged. A failed `check()`
always is one. Errors that an input can provoke are handled where the input is read.
Never: a clean stop after a failure; what this process believes may be wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, TypeVar

from bus.errors import CheckFailed

log = logging.getLogger("bus.runtime.tasks")

Result = TypeVar("Result")
Item = TypeVar("Item")

FAILED_STATUS = 70
"""EX_SOFTWARE of sysexits.h. Neither 1 (an operator must repair something) nor a signal's."""

END_TIMEOUT_S = 10.0
"""How long a failed process may take for its `finally` blocks and threads; then it is cut off."""

OURS = frozenset(
    {"bus", "broker", "ingest", "alarm", "monitor", "dr_mirror", "spark_apps", "deploy", "__main__"}
)
"""Packages whose frames in a trace make it a failure of this process."""


def spawn(coroutine: Coroutine[Any, Any, Result], *, name: str) -> asyncio.Task[Result]:
    """A task whose error goes to the loop's exception handler at once, awaited or not."""
    return watch(asyncio.get_running_loop().create_task(coroutine, name=name))


async def in_slices(items: Iterable[Item], size: int = 16) -> AsyncIterator[Item]:
    """The same items, as they are now; after each `size` of them the loop serves others first."""
    for number, one in enumerate(list(items), 1):
        yield one
        if number % size == 0:
            await asyncio.sleep(0)


def watch(task: asyncio.Task[Result]) -> asyncio.Task[Result]:
    """The same for a task that other code made, as a TaskGroup does."""
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        report(f"task {task.get_name()} ended with an error", error, task=task)


def report(message: str, error: BaseException, **more: object) -> None:
    """Hand an error to the supervisor of the running loop."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": message, "exception": error, "supervised": True, **more}
    )


class TaskSupervisor:
    """Ends the process at the first failure of anything that runs on its loop or in its threads.

    Invariant: `failure` is the first one; the process ends at most END_TIMEOUT_S after it.
    """

    def __init__(self, end_process: Callable[[int], object] = os._exit) -> None:
        """`end_process` ends a process that does not end by itself."""
        self.failure: BaseException | None = None
        self._end_process = end_process
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_hook = threading.excepthook
        self._lock = threading.Lock()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear the loop's errors and those of all threads."""
        self._loop = loop
        loop.set_exception_handler(self.on_loop_error)
        self._thread_hook, threading.excepthook = threading.excepthook, self.on_thread_error

    def detach(self) -> None:
        """Give the threads' errors back."""
        threading.excepthook = self._thread_hook

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """asyncio's exception handler."""
        if is_fatal(context):
            self.fail(str(context.get("message", "")), context["exception"])
        else:
            loop.default_exception_handler(context)

    def on_thread_error(self, args: threading.ExceptHookArgs) -> None:
        """`threading.excepthook`."""
        if args.exc_type is SystemExit or args.exc_value is None:
            return
        name = args.thread.name if args.thread is not None else "of unknown name"
        self.fail(f"thread {name} ended with an error", args.exc_value)

    def fail(self, message: str, error: BaseException) -> None:
        """Log the error with its trace and end the process. From any thread."""
        log.critical("%s: this process ends", message, exc_info=error)
        with self._lock:
            if self.failure is not None:
                return
            self.failure = error
        threading.Thread(target=self._end_process_late, name="failed-process", daemon=True).start()
        with contextlib.suppress(RuntimeError):  # a loop that is closed has ended already
            if self._loop is not None:
                self._loop.call_soon_threadsafe(_end)

    def _end_process_late(self) -> None:
        """The loop, a `finally` or a thread that hangs must not keep a failed process alive."""
        threading.Event().wait(END_TIMEOUT_S)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        self._end_process(FAILED_STATUS)


def _end() -> None:
    raise SystemExit(FAILED_STATUS)


def run(
    main: Coroutine[Any, Any, Result],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    end_process: Callable[[int], object] = os._exit,
) -> Result:
    """`asyncio.run` of a process' main coroutine, supervised. Raises `SystemExit` with
    FAILED_STATUS after a failure; `main` is cancelled then."""
    supervisor = TaskSupervisor(end_process)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        supervisor.attach(runner.get_loop())
        try:
            return runner.run(main)
        except BaseException as error:
            if not has_failed_check(error):
                raise
            supervisor.fail("a check failed", error)
            raise SystemExit(FAILED_STATUS) from error
        finally:
            supervisor.detach()


def is_fatal(context: dict[str, object]) -> bool:
    """Whether what asyncio reports is a failure of the process."""
    error = context.get("exception")
    if not isinstance(error, BaseException):
        return False
    if has_failed_check(error) or context.get("supervised"):
        return True
    # A connection whose protocol raised is closed by its transport: it was its peer's bytes.
    is_connection = "transport" in context or "protocol" in context or "socket" in context
    return not is_connection and _is_ours(error.__traceback__)


def has_failed_check(error: BaseException) -> bool:
    """Whether it is a failed `check()`, or a group with one."""
    if isinstance(error, BaseExceptionGroup):
        return any(has_failed_check(one) for one in error.exceptions)
    return isinstance(error, CheckFailed)


def _is_ours(trace: TracebackType | None) -> bool:
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        # `bus.runtime.tasks` itself is in no trace; the entry points are above the loop, not in it.
        if module.partition(".")[0] in OURS:
            return True
        trace = trace.tb_next
    return False


class RequestFailures:
    """How many HTTP requests of this process ended with an error of ours: 500, with its trace in
    the log."""

    def __init__(self) -> None:
        self.count = 0


class RequestFailureReporter:
    """An ASGI layer for all others to be inside: servers swallow every exception of an application,
    a failed check too.

    What a client's bytes provoke is one failed request, counted; a failed check ends the process.
    """

    def __init__(self, app: Callable[..., Any], failures: RequestFailures) -> None:
        self._app = app
        self._failures = failures

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failures.count += 1
            if has_failed_check(error):
                report("a request ended with a failed check", error)
            raise
