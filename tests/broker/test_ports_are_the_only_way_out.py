"""Law 2: the broker's packages use time, randomness, files, sockets and threads only through ports.

The next step simulates all of it; one ``time.time()`` in the wrong place would make a seed's run
differ from itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "broker"
FORBIDDEN = {"time", "os", "socket", "random", "threading"}
ALSO_FORBIDDEN = {"secrets", "select", "selectors", "subprocess", "tempfile", "shutil", "datetime"}
MAY = {"clock", "disk", "network", "cleaner_process"}
"""Packages whose ``real`` implementations stand behind the ports."""
OUTSIDE = {
    "server/process.py",
    "server/process_logs.py",
}
"""A broker's process as the system sees it: the simulation does not use it."""


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def is_real(path: Path) -> bool:
    if path.relative_to(ROOT).as_posix() in OUTSIDE:
        return True
    room, *rest = path.relative_to(ROOT).parts
    return room in MAY and bool(rest) and rest[-1].startswith("real")


def outside_calls(path: Path) -> Iterator[tuple[int, str]]:
    """``open(...)`` and ``Path(...)``: they need no import that would give them away."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


def test_only_the_real_ports_import_the_system() -> None:
    bad = [
        f"{path.relative_to(ROOT.parent)}:{line}: {name}"
        for path in modules()
        if not is_real(path)
        for line, name in imports(path)
        if name.partition(".")[0] in FORBIDDEN | ALSO_FORBIDDEN
    ]
    assert not bad, "these go around the ports:\n" + "\n".join(bad)


def test_nobody_opens_files_by_hand() -> None:
    bad = [
        f"{path.relative_to(ROOT.parent)}:{line}: {name}"
        for path in modules()
        if not is_real(path)
        for line, name in outside_calls(path)
        if name in ("open", "Path", "input")
    ]
    assert not bad, "these go around the ports:\n" + "\n".join(bad)


def test_the_law_is_looked_at_everywhere_there_is_code() -> None:
    assert {p.relative_to(ROOT).parts[0] for p in modules()} >= {"clock", "disk", "log", "replica"}
