"""A program of others that is run to its end, and ended when we are.

In: its command. Out: its status and what it printed. Never: left running behind us; killed before
it was asked to end, for an installer may be writing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

END_S = 20.0


def run_child(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Without input. Raises OSError, subprocess.TimeoutExpired."""
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            printed, complained = child.communicate(timeout=timeout_s)
        except BaseException:
            child.terminate()
            try:
                child.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
    return subprocess.CompletedProcess(command, child.returncode, printed, complained)
