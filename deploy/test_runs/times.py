"""Where the time of the tests goes: measured seconds, kept in one file, shown on one page.

In: what a run measured. Out: `tests/times.json`, which the draw reads too, and its page
`docs/test-times.md`. Never: a bound that a test is judged by; seconds depend on the machine.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.paths import PROJECT_ROOT
from deploy.test_runs.outcomes import Outcomes
from deploy.test_runs.turn import Turn

TIMES = PROJECT_ROOT / "tests" / "times.json"
PAGE = PROJECT_ROOT / "docs" / "test-times.md"
LONG_TEST_S = 5.0  # shorter tests are kept as part of their file only
LISTED_FILES = 40
HEAD = """# Where the time of the tests goes

Written by `./databus test --write-times`; not by hand. Seconds of one worker, as measured when
a file last ran in such a run; two workers share them. What one run leaves out by turn
(`tests/rotation.py`) keeps the seconds of its last turn.

A run has all quick tests, the slow ones of files that take less than ten seconds, and the thin
flow through all packages (`ALWAYS`); of the stories, each a marked test or the slow tests of a
long file, a tenth by turn, and up to five minutes of one worker more for packages that the last
ten commits changed. A story that was never measured counts as a minute.
"""


@dataclass(frozen=True, slots=True)
class Times:
    """`files`: path → seconds of all its tests. `tests`: node id → seconds, of long ones only."""

    files: Mapping[str, float]
    tests: Mapping[str, float]

    def of(self, name: str, otherwise: float) -> float:
        """Seconds of a file or a test; `otherwise` where it was never measured or is short."""
        return self.tests.get(name, self.files.get(name, otherwise))


def read_times() -> Times:
    if not TIMES.exists():
        return Times({}, {})
    stored = json.loads(TIMES.read_text(encoding="utf-8"))
    return Times(stored["files"], stored["tests"])


def merged(old: Times, seconds: Mapping[str, float]) -> Times:
    """The old times, replaced where this run measured; files that are gone are left out.

    `seconds`: node id → seconds of tests that ran.
    """
    files: dict[str, float] = defaultdict(float)
    for node_id, spent in seconds.items():
        files[node_id.split("::")[0]] += spent
    kept = {name: spent for name, spent in old.files.items() if (PROJECT_ROOT / name).exists()}
    long_ones = {one: spent for one, spent in seconds.items() if spent >= LONG_TEST_S}
    old_tests = {
        one: spent for one, spent in old.tests.items() if one.split("::")[0] in kept | files
    }
    return Times(_rounded({**kept, **files}), _rounded({**old_tests, **long_ones}))


def page(times: Times, run: str) -> str:
    """The page: seconds by folder, then the longest files."""
    folders: dict[str, float] = defaultdict(float)
    for name, spent in times.files.items():
        folders["/".join(name.split("/")[:2])] += spent
    whole = sum(times.files.values())
    lines = [HEAD, f"Last measured: {run}. Sum of all files: {whole:.0f} s.", ""]
    lines += _table("folder", folders, whole)
    lines += ["", f"The {LISTED_FILES} longest files:", ""]
    lines += _table("file", dict(_longest(times.files)[:LISTED_FILES]), whole)
    return "\n".join(lines) + "\n"


def write_page(outcomes: Outcomes, turn: Turn) -> None:
    """Merge what the run measured into the file and write the page from it."""
    times = merged(read_times(), outcomes.seconds)
    files, tests = (dict(sorted(each.items())) for each in (times.files, times.tests))
    stored = {"files": files, "tests": tests}
    TIMES.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(times, f"turn {turn.number}"), encoding="utf-8")
    print(f"databus: wrote {_names((TIMES, PAGE))}", flush=True)


def _table(word: str, seconds: Mapping[str, float], whole: float) -> list[str]:
    rows = [
        f"| {name} | {spent:.0f} s | {spent / whole:.0%} |" for name, spent in _longest(seconds)
    ]
    return [f"| {word} | seconds | share |", "|---|---|---|", *rows]


def _longest(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: (-item[1], item[0]))


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(spent, 1) for name, spent in seconds.items() if spent >= 0.05}


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(str(path.relative_to(PROJECT_ROOT)) for path in paths)
