"""A failing `check()` planted into each kind of background work of each process: the process ends
with its status and the trace in its log, so that its supervisor starts it again."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bus.runtime.tasks import FAILED_STATUS
from deploy.servers.process import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import asyncio, logging, sys, threading
from bus.errors import check

logging.basicConfig()

def boom(*_, **__):
    check(False, "planted")

async def boom_later(*_, **__):
    boom()
"""

BROKER = """
from broker.server import process

def plant(broker):
    loop = asyncio.get_running_loop()
    print("planted now", flush=True)
    {plant}

process.announce = plant
sys.exit(process.run({{"listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "-1"}},
                     data_dir=sys.argv[1]))
"""

IN_A_BROKER = {
    "task": "broker.clock.spawn(boom_later(), name='planted')",
    "timer": "broker.clock.call_later(0, boom)",
    "timer of the purgatory": "broker.components.timer.add(1, boom)",
    "loop callback": "loop.call_soon(boom)",
    "work of the disk that nobody awaits": "asyncio.ensure_future(broker.disk.run(boom))",
    "thread": "threading.Thread(target=boom).start()",
    "gather": """broker.clock.spawn(asyncio.wait((asyncio.gather(
        broker.clock.spawn(boom_later(), name='planted'), return_exceptions=True),)), name='g')""",
    "idle sweep": "broker._sweep_idle = boom; broker.clock.spawn(boom_later(), name='sweep')",
}

ROLE = """
import msgspec
import deploy.roles.run
from deploy.settings.composed import compose
from deploy.settings.sources import from_flags
from pathlib import Path
deploy.roles.run._topics_in_the_background = lambda _: None

{plant}

flags = ["site.data_dir=" + sys.argv[1], "bus.bootstrap_servers=127.0.0.1:1",
         "edge.port=" + sys.argv[2], "console.port=" + sys.argv[2]]
sys.exit(deploy.roles.run.run({role!r}, compose(from_flags(flags), base=Path(sys.argv[1]))))
"""

IN_A_ROLE = {
    ("edge", "the forwarder's thread"): """
from ingest.edge.forwarder import SpoolForwarder
SpoolForwarder._run_session = boom""",
    ("edge", "the spool's thread"): """
from ingest.spool.writer import SpoolWriter
SpoolWriter._next_group = boom""",
    ("edge", "the pictures' thread"): """
from ingest.pictures.writer import PictureWriter
PictureWriter._retry_loop = boom""",
    ("console", "a task beside the requests"): """
from monitor.live.live_hub import LiveHub
LiveHub.tick = boom""",
    ("console", "a question to the cluster in a worker thread"): """
from monitor.cluster.poller import ClusterPoller
ClusterPoller._query_snapshot = boom""",
    ("console", "the tail's thread"): """
from monitor.live.live_consumer import LiveConsumer
LiveConsumer._refresh_assignment = boom""",
    ("dispatcher", "the verdicts"): """
import alarm.dispatch.worker as worker
worker.wait_for_topics = boom""",
    ("dispatcher", "the recorder"): """
import alarm.dispatch.recorder as recorder
recorder.wait_for_topics = boom""",
    ("dispatcher", "the decider"): """
import alarm.dispatch.decider as decider
decider.wait_for_topics = boom""",
    ("dispatcher", "the notices"): """
from bus.notify.notice_table import NoticeTable
NoticeTable.due = boom""",
    ("city", "the city's own tasks"): """
import ingest.senders.simulator.simulator as service
service.put_watch_rules = boom_later""",
}  # fmt: skip


def run_planted(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(directory), str(free_port())],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("kind", IN_A_BROKER)
def test_a_broker_ends_when_a_check_fails_in_the_background(kind: str, tmp_path: Path):
    """It leaves its logs like a killed one: without the clean-shutdown file."""
    done = run_planted(BROKER.format(plant=IN_A_BROKER[kind]), tmp_path)
    assert done.returncode == FAILED_STATUS, done.stderr
    assert "planted now" in done.stdout
    assert "Traceback" in done.stderr
    assert "CheckFailed: planted" in done.stderr
    assert not list(tmp_path.rglob(".kafka_cleanshutdown"))


@pytest.mark.parametrize(("role", "kind"), IN_A_ROLE)
def test_a_role_ends_when_a_check_fails_in_the_background(role: str, kind: str, tmp_path: Path):
    """Each of its parts ends it; the bus is unavailable meanwhile, which does not count as a
    failure."""
    done = run_planted(ROLE.format(plant=IN_A_ROLE[role, kind], role=role), tmp_path)
    assert done.returncode == FAILED_STATUS, done.stderr
    assert "this process ends" in done.stderr
    assert "CheckFailed: planted" in done.stderr


IN_A_REQUEST = """
from broker.handlers import registry
import broker.handlers.dispatch as dispatch
from broker.server import process
from bus.protocol.apis import ApiKey

def bug(*_):
    raise KeyError("planted")

real = dispatch.load_handler
dispatch.load_handler = lambda key: (
    boom if key == ApiKey.FIND_COORDINATOR else bug if key == ApiKey.LIST_GROUPS else real(key)
)

def say(broker):
    print(broker.addresses[0].port, flush=True)

process.announce = say
sys.exit(process.run({"listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "-1"},
                     data_dir=sys.argv[1]))
"""


def request(port: int, key: int, version: int) -> bytes:
    """Sends a request with an empty client id and no body; returns the answer, b"" if the broker
    closes."""
    body = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + b"\xff\xff"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(len(body).to_bytes(4, "big") + body)
        try:
            return connection.recv(1000)
        except ConnectionResetError:
            return b""


API_VERSIONS, LIST_GROUPS, FIND_COORDINATOR = 18, 16, 10


def test_a_request_that_stumbles_costs_its_connection_and_one_that_fails_a_check_the_process(
    tmp_path: Path,
):
    """The first means that a client sent something invalid, the second that the broker is wrong."""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + IN_A_REQUEST, str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        for _ in range(2):
            assert request(port, LIST_GROUPS, 0) == b""
            assert request(port, API_VERSIONS, 0)
        find = b"\0\1g"
        body = b"\0\x0a\0\0\0\0\0\7\xff\xff" + find
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(len(body).to_bytes(4, "big") + body)
            connection.recv(1000)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == FAILED_STATUS
    assert "CheckFailed: planted" in stderr
    logged = (tmp_path.with_name(f"{tmp_path.name}-log") / "server.log").read_text()
    assert "KeyError: 'planted'" in logged
    assert "CheckFailed: planted" in logged
