"""Measures how a reader errs: `./databus bench plates`.

In: how many plates. Out: two tables of counts, one to fit prices by and one that is held out, and
the module that has them. Never: a plate in both tables.
"""

from __future__ import annotations

import random
from pathlib import Path
from unicodedata import east_asian_width

import cv2
import numpy as np

from bus.domain.plate_alignment import ConfusionTally
from bus.domain.plate_confusion import DROPPED, ConfusionCounts, is_misreading, text_of
from bus.domain.plates import UNREAD
from deploy.bench.plates.degrading import degraded
from deploy.bench.plates.drawing import drawn_plate, picture_of
from deploy.bench.plates.reader import PlateReader
from deploy.paths import PROJECT_ROOT

SEED = 30
PLATES = 20_000
_LINE = 100
TABLES = PROJECT_ROOT / "bus" / "domain" / "plate_confusion_tables.py"

_HEAD = '''"""How often a reader took one character of a plate for another: counts, generated.

{origin}
How they were measured: docs/plate-confusion.md. Change nothing here by hand.
"""

from __future__ import annotations

from bus.domain.plate_confusion import ConfusionCounts, counts_of
'''


def measure(plates: int) -> tuple[ConfusionCounts, ConfusionCounts]:
    """The table to fit by and the one held out: half of the plates each, none in both."""
    cv2.setNumThreads(1)
    reader = PlateReader()
    rng, noise = random.Random(f"plates:{SEED}"), np.random.default_rng((SEED, 30))
    seen: set[str] = set()
    counters = ConfusionTally(), ConfusionTally()
    while len(seen) < plates:
        plate, style = drawn_plate(rng)
        if plate in seen:
            continue
        counter = counters[len(seen) % 2]
        seen.add(plate)
        reading = reader.read(degraded(picture_of(plate, style), noise))
        counter.add(plate, reading.text, reading.sure)
    fit, held_out = counters
    return fit.counts(), held_out.counts()


def write_tables(fit: ConfusionCounts, held_out: ConfusionCounts, read_by: str, to: Path) -> None:
    """The module with both."""
    origin = f"{fit.plates + held_out.plates} plates drawn with seed {SEED}, read by {read_by}."
    parts = [_HEAD.format(origin=origin), _table("FIT", fit), _table("HELD_OUT", held_out)]
    to.write_text("\n".join(parts), encoding="utf-8")


def summary(counts: ConfusionCounts) -> dict[str, float]:
    """What people read of a table; shares in per cent of plates or letters."""
    rows, letters = counts.rows, max(1, counts.letters)

    def per_cent(of: str) -> float:
        return round(100 * sum(row.get(of, 0) for row in rows.values()) / letters, 3)

    misread = sum(
        count
        for true, row in rows.items()
        for read, count in row.items()
        if is_misreading(true, read)
    )
    return {
        "plates": counts.plates,
        "read exactly, %": round(100 * counts.exact / max(1, counts.plates), 2),
        "lost, %": round(100 * counts.lost / max(1, counts.plates), 2),
        "letters": counts.letters,
        "misread, %": round(100 * misread / letters, 3),
        "unread, %": per_cent(UNREAD),
        "dropped, %": per_cent(DROPPED),
        "inserted, %": round(100 * sum(counts.inserted.values()) / letters, 3),
    }


def _table(name: str, counts: ConfusionCounts) -> str:
    lines = [
        f"{name} = ConfusionCounts(",
        f"    plates={counts.plates},",
        f"    lost={counts.lost},",
        f"    exact={counts.exact},",
        "    rows={",
        *(line for true, row in counts.rows.items() for line in _row(true, text_of(row))),
        "    },",
        "    inserted=counts_of(",
        *_wrapped(text_of(counts.inserted)),
        "    ),",
        f"    right={counts.right},",
        f"    wrong={counts.wrong},",
        ")",
        "",
    ]
    return "\n".join(lines)


def _row(true: str, text: str) -> list[str]:
    line = f'        "{true}": counts_of("{text}"),'
    if _width(line) <= _LINE:
        return [line]
    return [f'        "{true}": counts_of(', *_wrapped(text), "        ),"]


def _wrapped(text: str) -> list[str]:
    """String literals that stand behind each other, none longer than a line may be."""
    lines, line = [], ""
    for part in text.split():
        if _width(line) + _width(part) > _LINE - 15:
            lines.append(line)
            line = ""
        line += f"{part} "
    return [f'            "{one}"' for one in (*lines, line.rstrip())]


def _width(text: str) -> int:
    """As ruff counts: a Chinese character is two columns wide."""
    return sum(1 + (east_asian_width(one) in "WF") for one in text)
