"""The laws of docs/ARCHITECTURE.md, run with the tests: who imports whom, names, purity, style."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT, ROOMS

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
# Law 2: shells of the broker reach these only through the ports clock, disk and network.
IMPURE = {
    "time",
    "os",
    "socket",
    "random",
    "threading",
    "secrets",
    "tempfile",
    "shutil",
    "subprocess",
}
REAL_PORTS = (
    "broker/clock/real.py", "broker/disk/real.py", "broker/disk/real_guard.py",
    "broker/network/real.py",
    # the process itself: signals, arguments, exit status
    "broker/server/process.py", "broker/server/embedded.py", "broker/server/embedded_cluster.py",
    "broker/verbs.py",
)  # fmt: skip
LONGEST_FUNCTION_LINES = 60
LONGEST_FILE_LINES = 600
GENERATED = "bus/protocol/generated"


def sources() -> Iterator[Path]:
    """Every Python file of the rooms that a person wrote."""
    for room in ROOMS:
        for path in sorted((PROJECT_ROOT / room).rglob("*.py")):
            if GENERATED not in path.as_posix():
                yield path


def run(*words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def test_every_package_at_the_root_is_a_room_with_its_place_in_the_contracts():
    """A new room is placed on purpose."""
    packages = {path.parent.name for path in PROJECT_ROOT.glob("*/__init__.py")}
    text = (PROJECT_ROOT / ".importlinter").read_text()
    contracted = set(re.search(r"root_packages =\n((?:    \w+\n)+)", text).group(1).split())
    assert packages == set(ROOMS) == contracted


def test_nobody_imports_against_the_direction_of_the_house():
    """import-linter's contracts."""
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_folder_or_file_is_called_utils_common_or_helpers():
    """A name that says nothing gathers everything."""
    wrong = [
        path.relative_to(PROJECT_ROOT).as_posix()
        for path in sources()
        if FORBIDDEN_NAMES & {part.removesuffix(".py") for part in path.parts}
    ]
    assert wrong == []


def imported(path: Path) -> set[str]:
    """First parts of the names that a file imports at run time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_the_broker_touches_clock_disk_dice_and_sockets_only_through_its_ports():
    """So that all of it can be simulated in one thread."""
    wrong = {
        path.relative_to(PROJECT_ROOT).as_posix(): sorted(found)
        for path in sources()
        if path.is_relative_to(PROJECT_ROOT / "broker")
        and path.relative_to(PROJECT_ROOT).as_posix() not in REAL_PORTS
        and (found := imported(path) & IMPURE)
    }
    assert wrong == {}


def test_every_module_says_what_it_is_for():
    """A docstring in every file that a person wrote and that holds code."""
    wrong = []
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if tree.body and ast.get_docstring(tree) is None:
            wrong.append(path.relative_to(PROJECT_ROOT).as_posix())
    assert wrong == []


def test_functions_and_files_stay_small():
    """The 99th percentile of function length is under sixty lines, and no file is a giant."""
    lengths, giants = [], []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > LONGEST_FILE_LINES:
            giants.append(f"{path.relative_to(PROJECT_ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
    lengths.sort()
    assert lengths[len(lengths) * 99 // 100] <= LONGEST_FUNCTION_LINES
    assert giants == []


def test_every_room_has_a_page_about_itself():
    """One page: what for, entry point, what may live here, what may not."""
    missing = [room for room in ROOMS if not (PROJECT_ROOT / room / "README.md").is_file()]
    assert missing == []


def test_ruff_has_nothing_to_say():
    """Style is not discussed, it is run."""
    done = run("ruff", "check", "--no-cache", "--output-format", "concise", ".")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_strict_has_nothing_to_say():
    """Types of all rooms, strict."""
    done = run("mypy")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_worker_finds_the_same_tests():
    """No name of a test hangs on the second or on the order of a set: the workers would disagree."""
    found = []
    for hash_seed in ("1", "2"):  # one after the other, so that a clock in a name shows
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:]
        found.append([line for line in done.stdout.splitlines() if "::" in line])
    assert found[0] == found[1]
