"""What machine the figures belong to: cores, memory, versions. No names, no paths.

In: the running system. Out: plain facts. Never: anything that tells where this machine stands.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import psutil


def facts() -> dict[str, str]:
    """Facts in the order in which they are printed."""
    return {
        "processor": _processor(),
        "cores": str(psutil.cpu_count() or "unknown"),
        "memory": f"{psutil.virtual_memory().total / (1 << 30):.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "pyspark": version("pyspark"),
        "librdkafka client": f"confluent-kafka {version('confluent-kafka')}",
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()
