"""Fetches Java and Spark's connector while `./databus` installs the Python packages.

In: nothing. Out: both in their places, or one sentence that says what is missing, and status 1.
Never: an import of a package that is not Python's own: none is installed yet.
"""

from __future__ import annotations

import signal
import sys

from deploy.errors import Unavailable
from deploy.setup.jars import spark_connector_jars
from deploy.setup.java import ensure_java
from deploy.setup.still_at_it import say


def main() -> int:
    """Status 1 is no fault of the set-up: the command that needs them tries again, and stops."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        ensure_java()
        spark_connector_jars()
    except Unavailable as missing:
        say(str(missing))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
