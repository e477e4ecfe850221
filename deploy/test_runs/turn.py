"""Which turn of the rotation a run has, and which packages have changed in the last commits.

In: the repository's history, if there is one. Out: a `Turn`. Never: the draw itself; that is
`tests/rotation.py`, which reads the turn from the environment.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from deploy.paths import PACKAGES, PROJECT_ROOT

TURN_VARIABLE = "DATABUS_TURN"
CHANGED_VARIABLE = "DATABUS_CHANGED"
TURNS = 10
"""So many commits in a row draw each story at least once; their changes count as recent."""
GIT_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Turn:
    """`number`: of commits, so that the next commit has the next turn. `changed`: packages whose
    own files the last commits changed. `source`: where both come from, for the first lines."""

    number: int
    changed: tuple[str, ...]
    source: str

    @property
    def environment(self) -> dict[str, str]:
        """What the tests read; workers inherit it."""
        return {TURN_VARIABLE: str(self.number), CHANGED_VARIABLE: ",".join(self.changed)}

    @property
    def text(self) -> str:
        again = " ".join(f"{name}={value}" for name, value in self.environment.items())
        packages = ", ".join(self.changed) or "none"
        return (
            f"turn {self.number} ({self.source}); packages changed lately: {packages} "
            f"(repeat with {again})"
        )


def turn_of_this_run(seed: int) -> Turn:
    """As the environment says; else the number of commits; without git the seed's own turn."""
    given = os.environ.get(TURN_VARIABLE)
    if given is not None:
        changed = tuple(filter(None, os.environ.get(CHANGED_VARIABLE, "").split(",")))
        return Turn(int(given), changed, f"given in {TURN_VARIABLE}")
    count = _git("rev-list", "--count", "HEAD")
    names = _git("log", f"-{TURNS}", "--format=", "--name-only")
    if count is None or names is None:
        return Turn(seed, (), "without git: by the run's seed, whatever has changed")
    return Turn(int(count), packages_of(names.split("\n")), "the number of commits")


def packages_of(paths: Iterable[str]) -> tuple[str, ...]:
    """The packages that own these files; tests and docs belong to none.

    >>> packages_of(["broker/log/log.py", "tests/alarm/test_a.py", "README.md"])
    ('broker',)
    """
    found = {path.split("/")[0] for path in paths if "/" in path}
    return tuple(sorted(found & set(PACKAGES)))


def _git(*words: str) -> str | None:
    """What git answers; None without git, or where this is no repository."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=GIT_TIMEOUT_S,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
