"""Stories as text: commands with the transcript they are expected to give.

A file has comments (`#`), commands (`> verb words`) and below each command its transcript. A test
passes to `check_transcript` the file and a function that runs one command and returns its lines.

DATABUS_REWRITE=1 writes the actual transcripts into the file instead; a reviewer reads the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

REWRITE = "DATABUS_REWRITE"
PROMPT = "> "

Run = Callable[[str], Iterable[str]]


def check_transcript(path: Path, run: Run) -> None:
    """Runs every command of the file and compares its output with the transcript below it."""
    expected = path.read_text(encoding="utf-8")
    found = transcript_of(expected, run)
    if os.environ.get(REWRITE) == "1":
        path.write_text(found, encoding="utf-8")
        return
    assert found == expected, f"{path.name} tells another story; {REWRITE}=1 writes the new one"


def transcript_of(text: str, run: Run) -> str:
    """The file with its comments and commands and with new transcripts."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(PROMPT):
            lines.append(line)
            lines += [f"  {output}".rstrip() for output in run(line[len(PROMPT) :].strip())]
        elif line.startswith("#") or not line.strip():
            lines.append(line)
    return "\n".join(lines) + "\n"
