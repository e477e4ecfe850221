"""The client of the camera figures, against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import start_broker

PROGRAM = [sys.executable, "-m", "deploy.bench.cameras", "--connections=40", "--rate=10"]


def run(bootstrap: str, topic: str) -> subprocess.CompletedProcess[str]:
    words = [f"--bootstrap={bootstrap}", f"--topic={topic}", "--seconds=1"]
    return subprocess.run(
        [*PROGRAM, *words], cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_every_record_of_every_camera_is_acknowledged_and_timed(tmp_path: Path):
    """Otherwise the program fails: a result with refused records would be wrong."""
    broker = start_broker(tmp_path)
    try:
        made = run(broker.bootstrap, "not-there")
        create = [sys.executable, "-m", "deploy.bench.load", "create", "--topic=cameras"]
        subprocess.run(
            [*create, f"--bootstrap={broker.bootstrap}"], cwd=PROJECT_ROOT, check=True, timeout=60
        )
        seen = run(broker.bootstrap, "cameras")
    finally:
        broker.stop()
    assert made.returncode != 0
    assert "were not acknowledged" in made.stderr
    assert seen.returncode == 0, seen.stderr
    said = json.loads(seen.stdout)
    assert said["acknowledged"] == 400
    assert 0 < said["p50"] <= said["p99"]
