"""The load programs beside a cluster, each in a process of its own.

In: a target and words. Out: what `deploy.bench.load` answers. Never: a client in this process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from deploy.bench.cluster.targets import ClusterTarget
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

TIMEOUT_S = 900.0


def run(target: ClusterTarget, program: str, *words: str) -> dict[str, Any]:
    """One program to its end."""
    done = subprocess.run(
        _command(target, program, *words),
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise OperatorError(f"{program} failed on {target.name}: {done.stderr[-400:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


class GapWriter:
    """Writes on while something happens to the cluster; tells the longest gap afterwards."""

    def __init__(self, target: ClusterTarget, topic: str) -> None:
        self._name = target.name
        words = ("--topic", topic, "--record-bytes", "100", "--seconds", "300")
        self._process = subprocess.Popen(
            _command(target, "gap", *words),
            cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._process.stdout is None or not self._process.stdout.readline():
            raise OperatorError(f"nothing was acknowledged by {self._name}")

    def end(self) -> dict[str, Any]:
        """Stop writing: `longest_s`, `acknowledged`, `lost`."""
        output, errors = self._process.communicate("", timeout=TIMEOUT_S)
        if self._process.returncode != 0:
            raise OperatorError(f"the writer failed on {self._name}: {errors[-400:]}")
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        return answer

    def __enter__(self) -> GapWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _command(target: ClusterTarget, program: str, *words: str) -> list[str]:
    module = [sys.executable, "-m", "deploy.bench.load", program]
    return [*module, "--bootstrap", target.bootstrap, *words]
