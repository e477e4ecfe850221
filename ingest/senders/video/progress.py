"""Progress of `recognise`: a bar on a terminal, otherwise a line now and then, so that a log is
neither silent for minutes nor full of lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 10.0


class ProgressDisplay(Protocol):
    """What `recognise` tells while it works."""

    def at(self, frame: int) -> None:
        """So many frames are looked at."""
        ...

    def found(self, count: int) -> None:
        """So many records are sent."""
        ...


class LineProgress:
    """A line at the start and then one per `LINE_EVERY_S`, for files, pipes and journals."""

    def __init__(
        self,
        name: str,
        frames: int,
        write: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._frames, self._write = name, frames, write
        self._monotonic = monotonic
        self._begun = self._printed_s = monotonic()
        self._found = 0
        total = f"{frames} frames" if frames else "a film of unknown length"
        write(f"{name}: looking through {total}")

    def at(self, frame: int) -> None:
        now = self._monotonic()
        if now - self._printed_s < LINE_EVERY_S:
            return
        self._printed_s = now
        of = f" of {self._frames} ({100 * frame // self._frames} %)" if self._frames else ""
        passed = round(now - self._begun)
        self._write(f"{self._name}: frame {frame}{of}, {self._found} found, {passed} s")

    def found(self, count: int) -> None:
        self._found = count


class BarProgress:
    """A progress bar that is gone when the film is over."""

    def __init__(self, name: str, frames: int, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=frames or None, found=0)

    def at(self, frame: int) -> None:
        self._progress.update(self._task, completed=frame)

    def found(self, count: int) -> None:
        self._progress.update(self._task, found=count)


@contextmanager
def progress_display(name: str, frames: int, stream: TextIO) -> Iterator[ProgressDisplay]:
    """A bar if the stream is a terminal, lines otherwise."""
    console = Console(file=stream)
    if not console.is_terminal:
        yield LineProgress(name, frames, lambda line: print(line, file=stream, flush=True))
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[found]} found"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        yield BarProgress(name, frames, progress)
