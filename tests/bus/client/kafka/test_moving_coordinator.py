"""What groups have committed, asked of a broker whose coordinator has only just begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import start_broker

ASKED = 300
QUESTIONS = f"""
import sys
from bus.client.kafka.admin import Admin
from bus.errors import BusError
from bus.settings import BusSettings

admin = Admin(BusSettings(bootstrap_servers=sys.argv[1]), client_id="test")
answers = []
for number in range({ASKED}):
    try:
        answers.append(admin.committed(f"group-{{number % 60}}"))
    except BusError as error:
        assert error.retriable, error
assert answers and not any(answers), answers
"""


def test_a_coordinator_that_only_begins_ends_no_client(tmp_path: Path) -> None:
    """The first questions of a fresh cluster hear that there is no coordinator yet: librdkafka's
    admin client died of such an answer by a null pointer, and the watch with it."""
    broker = start_broker(tmp_path)
    try:
        asked = subprocess.run(
            [sys.executable, "-c", QUESTIONS, broker.bootstrap],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
    finally:
        broker.stop()
    assert asked.returncode == 0, asked.stderr[-2000:]
