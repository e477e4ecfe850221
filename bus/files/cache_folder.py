"""Where fetched software is kept.

In: nothing but the process's environment. Out: a path. Never: creating or reading anything there.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Outside the repository, shared by all clones (ADR 0002)."""
    chosen = os.environ.get("DATABUS_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "databus"
