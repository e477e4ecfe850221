"""The script `databus`: makes its environment once, repeatably, and hands its words over unchanged.

It runs here on a small project of its own whose lock holds the installer alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT

pytestmark = pytest.mark.slow

LOCK = (PROJECT_ROOT / "requirements.lock").read_text()
INSTALLER = "".join(line for line in LOCK.splitlines(keepends=True) if line.startswith("uv=="))

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "small"
version = "1"
"""

# The smallest build back-end (PEP 660) there is: a wheel that puts the project on the path.
BACKEND = """
import os, zipfile

INFO = "small-1.dist-info/"

def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(folder, "small-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("small.pth", os.getcwd())
        wheel.writestr(INFO + "METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n")
        wheel.writestr(INFO + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(INFO + "RECORD", "")
    return "small-1-py3-none-any.whl"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the real script and a `deploy` that prints its words."""
    root = tmp_path_factory.mktemp("small")
    shutil.copy(PROJECT_ROOT / "databus", root / "databus")
    (root / "requirements.lock").write_text(INSTALLER)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "deploy").mkdir()
    (root / "deploy" / "__init__.py").touch()
    (root / "deploy" / "__main__.py").write_text("import sys\nprint(sys.argv[1:])\n")
    return root


def databus(root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(root / "databus"), *words],
        env={"PATH": os.environ["PATH"], "DATABUS_PYTHON": sys.executable, **environment},
        cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


def test_it_is_plain_posix_shell():
    """No bash needed."""
    for shell in filter(shutil.which, ("dash", "sh")):
        assert subprocess.run([shell, "-n", PROJECT_ROOT / "databus"], check=False).returncode == 0


def test_the_first_start_sets_up_the_second_does_not_and_words_arrive_unchanged(project: Path):
    """Spaces, quotes and stars included."""
    words = ["demo", "--for", "90 s", "a'b\"c", "*", ""]
    first = databus(project, *words)
    assert first.returncode == 0, first.stderr
    assert "set-up 1/4" in first.stderr
    assert first.stdout == f"{words}\n"
    second = databus(project, *words)
    assert (second.stdout, second.stderr) == (first.stdout, "")


def test_a_changed_lock_sets_up_again(project: Path):
    """And only then."""
    databus(project)
    (project / "requirements.lock").write_text(INSTALLER + "# changed\n")
    assert "set-up 4/4" in databus(project).stderr
    assert databus(project).stderr == ""


def test_an_environment_that_was_left_half_made_is_made_anew(project: Path):
    """Killed in the middle: no stamp, a Python that is gone."""
    databus(project)
    (project / ".venv" / ".databus-ready").unlink()
    (project / ".venv" / "bin" / "python").unlink()
    healed = databus(project, "x")
    assert healed.returncode == 0, healed.stderr
    assert healed.stdout == "['x']\n"


def test_the_lock_of_a_dead_set_up_is_taken_over(project: Path):
    """Its process is gone."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    (project / ".venv" / ".databus-ready").unlink(missing_ok=True)
    (project / ".venv.lock").mkdir()
    (project / ".venv.lock" / "pid").write_text(f"{dead.pid}\n")
    assert databus(project, "x").stdout == "['x']\n"
    assert not (project / ".venv.lock").exists()


def test_something_else_in_the_place_of_the_environment_is_left_alone(
    project: Path, tmp_path: Path
):
    """It says so and touches nothing."""
    (tmp_path / "mine").write_text("precious")
    refused = databus(project, DATABUS_VENV=str(tmp_path))
    assert refused.returncode == 1
    assert "is no virtual environment" in refused.stderr
    assert (tmp_path / "mine").read_text() == "precious"
