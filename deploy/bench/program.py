"""The programs of a bench that run to their end in a process of their own: they answer in JSON.

In: a command. Out: what its last line says. Never: a program that is still needed meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT


def module_command(module: str, *words: str) -> list[str]:
    """A module of ours, by this Python."""
    return [sys.executable, "-m", module, *words]


def answer_of_program(command: Sequence[str], what: str, timeout_s: float) -> dict[str, Any]:
    """Run it. Raises OperatorError, which begins with ``what`` failed, and ``TimeoutExpired``."""
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise OperatorError(f"{what} failed: {done.stderr[-400:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
