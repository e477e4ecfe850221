"""What a list of a million plates, or a gallery of faces, costs in memory: the machine, and each
further process of it.

In: a table's file. Out: megabytes. Two processes look the same plates up, one after the other, in a
list that takes look-alikes, or compare the same faces; the first one's growth is what the machine
holds of the file and what a process needs beside it, the second one's is what only it has. Never:
what importing the program costs, which is there before.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from alarm.lists.table import PlateTable
from deploy.bench.plates.drawing import drawn_plate
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

LOOK_UPS = 200_000
"""Nearly each page of the indexes is touched."""
COMPARED = 100
_MEBI, _KIBI = 1 << 20, 1 << 10


def memory_of(path: Path) -> tuple[float, float]:
    """MB of the machine, and of each further process."""
    processes = [_reader(path) for _ in range(2)]
    try:
        first, second = (_growth(process) for process in processes)
    finally:
        for process in processes:
            process.communicate("")
    return first[0], max(0.0, second[1])


def _reader(path: Path) -> subprocess.Popen[str]:
    """It has read nothing yet."""
    words = [sys.executable, "-m", "deploy.bench.alarms.list_memory", str(path)]
    return subprocess.Popen(
        words, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _growth(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Resident, and that of it which no other process has."""
    if process.stdin is None or process.stdout is None:
        raise OperatorError("a reader of the table has no pipe")
    process.stdin.write("read\n")
    process.stdin.flush()
    words = process.stdout.readline().split()
    if len(words) != 2:
        raise OperatorError(f"a reader of the table ended with {process.wait()}")
    return float(words[0]), float(words[1])


def _resident() -> tuple[int, int]:
    """Bytes: all, and those of this process alone."""
    sizes = {}
    for line in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()[1:]:
        name, kibibytes = line.split(":")
        sizes[name] = int(kibibytes.split()[0]) * _KIBI
    return sizes["Rss"], sizes["Private_Clean"] + sizes["Private_Dirty"]


def _measured(work: Callable[[], object]) -> None:
    """In its own process: told to read, it says how much it has grown, and stays until its input
    ends."""
    before = _resident()
    sys.stdin.readline()
    kept = work()
    grown = [(now - then) / _MEBI for now, then in zip(_resident(), before, strict=True)]
    sys.stdout.write(f"{grown[0]:.1f} {grown[1]:.1f}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del kept


def _read_plates(path: Path) -> Callable[[], object]:
    rng = random.Random(1)
    plates = [drawn_plate(rng)[0] for _ in range(LOOK_UPS)]

    def work() -> object:
        table = PlateTable.open(path)
        for plate in plates:
            table.lines_like(plate, "look-alikes")
        return table

    return work


def _compare_faces(path: Path) -> Callable[[], object]:
    """A batch of faces, each with all rows."""
    import numpy as np

    from alarm.lists.face_table import FaceTable

    def work() -> object:
        table = FaceTable.open(path)
        readings = np.random.default_rng(1).standard_normal((COMPARED, table.dimensions))
        table.nearest(readings.astype(np.float32), "inner product", ())
        return table

    return work


if __name__ == "__main__":
    _file = Path(sys.argv[1])
    _measured(_compare_faces(_file) if _file.suffix == ".faces" else _read_plates(_file))
