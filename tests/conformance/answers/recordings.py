"""What Apache Kafka 4.4 answered, one line of JSON per row.

In: rows and answers. Out: `recorded/AREA.jsonl`, in the order of the rows' names. Never: edited
manually; `DATABUS_RECORD=1` writes Kafka's answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "recorded"


@cache
def recorded(area: str) -> Mapping[str, Any]:
    """label -> answers."""
    return _read(area)


def record(area: str, label: str, said: Any, known: frozenset[str]) -> None:
    """Replaces one row's answers; rows that no longer exist are removed from the file."""
    lines = {**_read(area), label: said}
    text = "".join(
        json.dumps({"row": one, "answers": lines[one]}, ensure_ascii=False) + "\n"
        for one in sorted(lines)
        if one in known
    )
    _file(area).write_text(text, encoding="utf-8")


def _read(area: str) -> dict[str, Any]:
    path = _file(area)
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {one["row"]: one["answers"] for one in map(json.loads, lines)}


def _file(area: str) -> Path:
    return FOLDER / f"{area}.jsonl"
