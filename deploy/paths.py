"""Where things are: the project, its environment's Python, the cache of bought software.

In: nothing but the process's environment. Out: paths. Never: creating or reading anything there.
"""

from __future__ import annotations

import os
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = PROJECT_ROOT / "docs" / "benchmarks.json"  # every figure that `bench` has kept
PACKAGES = ("bus", "broker", "ingest", "alarm", "monitor", "dr_mirror", "spark_apps", "deploy")


def cache_dir() -> Path:
    """Where fetched jars are kept: outside the repository, shared by all clones (ADR 0002)."""
    chosen = os.environ.get("DATABUS_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "databus"
