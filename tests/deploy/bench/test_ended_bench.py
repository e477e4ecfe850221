"""A bench that is ended takes its servers with it: what idles beside the next one falsifies it."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from deploy.paths import PROJECT_ROOT
from tests.dr_mirror.two_sites import wait_until

BROKERS = 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_bench_that_is_terminated_leaves_no_broker_running() -> None:
    words = ["bench", "mirror", "--only", "forced", "--repeat", "1"]
    bench = subprocess.Popen(
        [sys.executable, "-m", "deploy", *words], cwd=PROJECT_ROOT, stderr=subprocess.DEVNULL
    )
    started: set[psutil.Process] = set()

    def are_up() -> bool:
        started.update(psutil.Process(bench.pid).children(recursive=True))
        return len(started) >= BROKERS

    try:
        wait_until(are_up, "its brokers run")
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 128 + signal.SIGTERM
        assert [one for one in started if one.is_running()] == []
    finally:
        bench.kill()
        for one in started:
            if one.is_running():
                one.kill()
