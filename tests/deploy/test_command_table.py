"""The table of commands is that of the modules, and a command loads no more than it needs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence

import pytest
import typer

from deploy.cli import mount_commands
from deploy.command_table import COMMANDS, CommandRow
from deploy.paths import PROJECT_ROOT

MODULES = sorted({row.module for row in COMMANDS})
DEAR = frozenset(
    {
        "cv2", "fastapi", "fsspec", "happybase", "httpx", "kazoo",
        "nicegui", "numpy", "prometheus_client", "pyarrow", "pyspark", "scramp", "uvicorn",
    }
)  # fmt: skip
"""What takes a tenth of a second or more to import."""
LIBRDKAFKA = "confluent_kafka"
"""Half of that: modules whose commands speak with a broker may import it."""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_mounts_the_commands_of_its_rows(module: str) -> None:
    """Each with the line that the list of all commands shows without loading it."""
    app = typer.Typer()
    importlib.import_module(module).mount(app)
    names = [one.name for one in (*app.registered_commands, *app.registered_groups)]
    rows = [row for row in COMMANDS if row.module == module]
    assert sorted(map(str, names)) == sorted(row.name for row in rows)
    app.command("another")(lambda: None)  # one command alone would be no group
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for row in rows:
        said = (commands[row.name].help or "").split("\n\n")[0].replace("\n", " ")
        assert said == row.help


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_one_command_alone_is_loaded_and_the_others_are_named(row: CommandRow) -> None:
    app = typer.Typer()
    mount_commands(app, lambda one: one.name == row.name)
    tree = typer.main.get_command(app)
    assert set(tree.commands) == {one.name for one in COMMANDS}  # type: ignore[attr-defined]


def imported(words: Sequence[str]) -> set[str]:
    """The dear packages that a command of this line imports, in a process of its own."""
    program = (
        "import sys\nfrom deploy.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n', *sys.modules, file=sys.__stderr__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=PROJECT_ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return (DEAR | {LIBRDKAFKA}) & {
        name.split(".")[0] for name in done.stderr.splitlines()[-1].split()
    }


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_what_a_command_is_loaded_from_loads_nothing_dear(module: str) -> None:
    """Regression: every command took 1.3 s of CPU, most of it for what other commands import."""
    name = next(row.name for row in COMMANDS if row.module == module)
    assert imported([name, "--help"]) <= {LIBRDKAFKA}


@pytest.mark.slow
def test_what_is_typed_most_loads_what_it_uses_only(tmp_path) -> None:
    data = ["--data-dir", str(tmp_path)]
    (tmp_path / "m.json").write_text("{}")
    assert imported(["--help"]) == set()
    assert imported([*data, "status"]) == set()
    assert imported([*data, "config"]) == set()
    assert imported([*data, "check-message", str(tmp_path / "m.json")]) == set()
    nowhere = ["--set", "bus.bootstrap_servers=127.0.0.1:1"]
    assert imported([*data, *nowhere, "topics", "list"]) <= {LIBRDKAFKA}
