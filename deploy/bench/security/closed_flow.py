"""Camera → alarm on one machine with everything closed, beside the same with everything open.

In: nothing. Out: the ratio of two p99s, of an open demo and of a closed one right after it. Never:
another city, another rate or another rule for one of them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.bench.flow_bench import command, fresh_folder, warm_percentiles, watched_demo
from deploy.bench.samples import Say
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

INIT_TIMEOUT_S = 120
OPEN, CLOSED = "open", "closed"


def closed_beside_open(say: Say) -> float:
    """TLS, logins, ACLs and page tokens of every process; open first. Raises OperatorError."""
    found = {}
    for name in (OPEN, CLOSED):
        try:
            found[name] = _alarm_p99_s(is_closed=name == CLOSED)
        except OperatorError as error:
            raise OperatorError(f"the {name} one: {error}") from error
        say(f"  captured → raised, p99: {name} {found[name]:.3f} s")
    return found[CLOSED] / found[OPEN]


def _alarm_p99_s(*, is_closed: bool) -> float:
    with fresh_folder() as (folder, flags):
        if is_closed:
            flags = [*flags, f"security.folder={folder / 'secure'}"]
            _make_folder(folder, flags)
        watched_demo(folder, flags)
        return warm_percentiles(folder)["alarm"]


def _make_folder(folder: Path, flags: list[str]) -> None:
    """Its passphrase is made, said once, and of no use to anybody."""
    done = subprocess.run(
        [*command(folder, flags), "secure", "init", "--brokers", "1"], cwd=PROJECT_ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INIT_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise OperatorError(f"the folder of a secured site was not made: {done.stderr[-400:]}")
