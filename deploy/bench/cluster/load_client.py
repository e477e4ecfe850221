"""The load programs beside a cluster, each in a process of its own.

In: a target and words. Out: what `deploy.bench.load` answers. Never: a client in this process.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from deploy.bench.cluster.targets import ClusterTarget
from deploy.bench.program import answer_of_program, module_command
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

TIMEOUT_S = 900.0


def run(target: ClusterTarget, program: str, *words: str) -> dict[str, Any]:
    """One program to its end."""
    command = _command(target, program, *words)
    return answer_of_program(command, f"{program} on {target.name}", TIMEOUT_S)


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
    return module_command("deploy.bench.load", program, "--bootstrap", target.bootstrap, *words)
