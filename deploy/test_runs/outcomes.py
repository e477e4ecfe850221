"""What one run of pytest did, as its own process writes it for `databus test`.

In: a file of JSON. Out: counts and failures. Never: a judgement.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OUTCOMES_VARIABLE = "DATABUS_TEST_OUTCOMES"
"""Names the file; the process that counts writes it when its run has ended."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`counts`: tests by `passed`, `failed`, `skipped`. `failures`: node id → its reason, one line.
    `seconds`: of each file."""

    counts: Mapping[str, int]
    failures: Mapping[str, str]
    seconds: Mapping[str, float]

    @property
    def summary(self) -> str:
        """pytest's own closing line, without its decoration.

        >>> Outcomes({"passed": 3, "skipped": 1}, {}, {}).summary
        '3 passed, 0 failed, 1 skipped'
        """
        counts = Counter(self.counts)
        return ", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped"))

    def write(self, path: Path) -> None:
        stored = {"counts": dict(self.counts), "failures": self.failures, "seconds": self.seconds}
        path.write_text(json.dumps(stored), encoding="utf-8")


def read_outcomes(path: Path) -> Outcomes:
    """None of anything where the run ended before it could write."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Outcomes({}, {}, {})
    return Outcomes(stored["counts"], stored["failures"], stored["seconds"])
