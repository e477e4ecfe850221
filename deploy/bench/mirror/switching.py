"""How long nobody takes records while the primary changes.

In: two clusters of ours with a mirror between them, producers at both. Out: milliseconds. Never: a
time of the command's own: what counts is what producers were told.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.bench.mirror.bench_mirror import (
    OURS,
    PARTITIONS,
    TOPIC,
    MirroringRun,
    command_of,
    mirroring,
    pair_of_ours,
)
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

WARM_S = 20
PERIOD_S = 0.001
SETTLED_S = 3.0
SWITCH_TIMEOUT_S = 120.0
RETRY_MS = 5
DEMO_TIME = "40s"
DEMO_TIMEOUT_S = 600.0


class SteadyProducer:
    """A thousand records a second to one cluster, which may refuse them for a while."""

    def __init__(self, bootstrap: str) -> None:
        self.first_s = 0.0
        """When the first was acknowledged, by the monotonic clock; 0: none was."""
        self.last_s = 0.0
        self._producer = Producer(
            BusSettings(bootstrap_servers=bootstrap), client_id="bench",
            overrides={"retry.backoff.ms": RETRY_MS, "retry.backoff.max.ms": RETRY_MS},
        )  # fmt: skip
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self._thread.join()
        self._producer.close(0)

    def _run(self) -> None:
        number, begin = 0, time.monotonic()
        while not self._stopping.wait(max(0.0, begin + number * PERIOD_S - time.monotonic())):
            with suppress(BusError):  # its queue is full while nobody takes records
                self._producer.send(
                    TOPIC, b"x" * 300, partition=number % PARTITIONS, on_delivery=self._on_delivery
                )
            number += 1

    def _on_delivery(self, outcome: DeliveryReport) -> None:
        if not isinstance(outcome, DeliveryError):
            self.last_s = time.monotonic()
            self.first_s = self.first_s or self.last_s


def planned_ms() -> dict[str, float]:
    """From the last record that the former primary has acknowledged to the first of the new one."""
    with running() as (run, at_source, at_target):
        switch(run)
        _wait_for_first(at_target)
        return {"switch": (at_target.first_s - at_source.last_s) * 1000}


def forced_ms() -> dict[str, float]:
    """From the command's start, the primary being dead, to the first record at the new one."""
    with running() as (run, _, at_target):
        run.pair.clusters[0].kill(1)
        begin = time.monotonic()
        switch(run, "--force")
        _wait_for_first(at_target)
        return {"forced": (at_target.first_s - begin) * 1000}


def stored_ms() -> dict[str, float]:
    """From the last record that the former primary has acknowledged, at a planned switch of two
    whole sites, to the first one of its own in the new primary's store."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        command = [
            sys.executable, "-m", "deploy", "--set", f"site.data_dir={folder}", "demo", "--sites",
            "2", "--planned", "--for", DEMO_TIME, "--json",
        ]  # fmt: skip
        output = _run(command, DEMO_TIMEOUT_S, "the demo of two sites")
    found = json.loads(output.strip().splitlines()[-1])["first_stored_ms"]
    if found is None:
        raise OperatorError("the new primary's store was not seen to go on")
    return {"switch-stored": float(found)}


def switch(run: MirroringRun, *words: str) -> None:
    """To the target, to its end. Raises OperatorError where it fails."""
    command = [*command_of(run.folder, run.pair), "mirror", "switch", "--to", "B", *words]
    _run(command, SWITCH_TIMEOUT_S, "the switch")


def _run(command: list[str], timeout_s: float, what: str) -> str:
    """What the command prints. Raises OperatorError where it fails."""
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode:
        raise OperatorError(f"{what}: {(done.stdout + done.stderr)[-300:]}")
    return done.stdout


def _wait_for_first(producer: SteadyProducer) -> None:
    deadline = time.monotonic() + SWITCH_TIMEOUT_S
    while not producer.first_s:
        if time.monotonic() > deadline:
            raise OperatorError("the new primary takes no records")
        time.sleep(0.01)
    time.sleep(SETTLED_S)  # what the former primary has acknowledged meanwhile is told


@contextmanager
def running() -> Iterator[tuple[MirroringRun, SteadyProducer, SteadyProducer]]:
    """The mirror copies, a producer sends to each site; the one at the target is refused."""
    with mirroring(OURS, pair_of_ours, warm_s=WARM_S) as run, ExitStack() as producers:
        at_source, at_target = SteadyProducer(run.pair.source), SteadyProducer(run.pair.target)
        for producer in (at_source, at_target):
            producers.callback(producer.stop)
        time.sleep(SETTLED_S)
        if at_target.first_s:
            raise OperatorError("the target took records before the switch")
        yield run, at_source, at_target
