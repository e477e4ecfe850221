"""Where things are: the project, its packages, the figures of benches.

In: nothing. Out: paths. Never: creating or reading anything there.
"""

from __future__ import annotations

from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = PROJECT_ROOT / "docs" / "benchmarks.json"  # every figure that `bench` has kept
PACKAGES = ("bus", "broker", "ingest", "alarm", "monitor", "dr_mirror", "spark_apps", "deploy")
