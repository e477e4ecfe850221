"""A plugin for the workers of a run: one whose test does not end is ended, and its other tests run elsewhere.

pytest-timeout raises in the main thread by a signal. A call into C that does not come back never gets
it, and an event loop that is inside a callback writes it down and goes on; such a test would hold the
whole run for ever. So the interpreter's own watchdog ends the process some time later, with the stacks
of all its threads: pytest-xdist reports the test as failed, starts another worker and goes on.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

GRACE_S = 90.0  # after a test's own time limit: its fixtures may end servers meanwhile
_stderr: list[int] = []


def pytest_configure() -> None:
    """Remember where stderr leads before a test's is captured."""
    _stderr.append(os.dup(sys.stderr.fileno()))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    """A run of whole files goes on when one of its workers ends; other runs are pytest-xdist's."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """No test holds the run for ever, whatever keeps it from hearing its time limit."""
    watch_over(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_of(item: pytest.Item) -> float:
    """The time limit of this test in seconds, as pytest-timeout reads it; 0: none."""
    marker = item.get_closest_marker("timeout")
    if marker is None:
        return float(item.config.getoption("timeout", None) or item.config.getini("timeout") or 0)
    return float(marker.args[0] if marker.args else marker.kwargs.get("timeout", 0))


def watch_over(item: pytest.Item) -> None:
    """End this process GRACE_S after the test's time limit, unless it is over by then."""
    seconds = limit_of(item)
    if seconds > 0 and not item.config.getoption("usepdb", False):
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_stderr[-1])


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests on one worker, also after a worker ended in the midst of them.

    pytest-xdist 3.8 gives the test that ended a worker to the next one, which it may end as well, and
    the new worker one file: with one test in it that worker waits for a second, and the run for it.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that ran while the worker ended, or None; the rest of its files is for others."""
        files = self.assigned_work.pop(node)
        waiting = [(file, test) for file in files for test, over in files[file].items() if not over]
        if not waiting:
            return None
        file, ended = waiting[0]
        files[file][ended] = True
        self.workqueue.update({file: files[file] for file, test in waiting[1:]})
        for other in self.assigned_work:
            self._reschedule(other)
        return str(ended)

    def schedule(self) -> None:
        """A second file, too: a worker begins a test once it knows the next one."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)
