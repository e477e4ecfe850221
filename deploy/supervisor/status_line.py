"""One line that tells how things stand, redrawn in place on a terminal, printed rarely elsewhere.

In: text. Out: stderr. Never: the result of a command (that goes to stdout).
"""

from __future__ import annotations

import shutil
import sys
import time

QUIET_INTERVAL_S = 10.0  # how often a log, which is no terminal, gets a line


class StatusLine:
    """The live line of `demo` and `up`."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._printed_s = 0.0

    def show(self, text: str) -> None:
        """Redraw the line; off a terminal only every so often."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + text[:width])
            sys.stderr.flush()
        elif time.monotonic() - self._printed_s >= QUIET_INTERVAL_S:
            self._printed_s = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
        print(text, file=sys.stderr, flush=True)
