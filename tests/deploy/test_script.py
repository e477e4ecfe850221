"""The script `databus`: makes its environment once, repeatably, and hands its words over unchanged.

It runs here on a small project of its own whose lock holds the installer alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
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
    """A kill in the middle leaves no stamp, or a Python that no longer exists."""
    databus(project)
    (project / ".venv" / ".databus-ready").unlink()
    (project / ".venv" / "bin" / "python").unlink()
    healed = databus(project, "x")
    assert healed.returncode == 0, healed.stderr
    assert healed.stdout == "['x']\n"


def test_the_lock_of_a_dead_set_up_is_taken_over(project: Path):
    """The process that held it has ended."""
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


class BarePython:
    """A Python without ensurepip, as Debian's python3 alone, and an apt-get that can put it in."""

    def __init__(self, folder: Path, *, uid: int) -> None:
        self.folder, self.installed = folder, folder / "installed"
        folder.mkdir()
        self._program(
            "python3.11",
            f'[ -e "{self.installed}" ] || case "$*" in *ensurepip*) exit 1;; esac\n'
            f'exec "{sys.executable}" "$@"',
        )
        self._program("apt-get", f'case "$1" in install) echo "$*" >"{self.installed}";; esac')
        self._program("id", f"echo {uid}")

    def databus(self, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        python = str(self.folder / "python3.11")
        venv = str(self.folder / "venv")
        given = {"PATH": path, "DATABUS_PYTHON": python, "DATABUS_VENV": venv, **environment}
        return databus(root, "x", **given)

    def _program(self, name: str, text: str) -> None:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


def test_on_a_debian_with_python3_alone_root_gets_what_is_missing(project: Path, tmp_path: Path):
    """Put in, said in one line; before, the first command stopped with "apt-get install"."""
    bare = BarePython(tmp_path / "bin", uid=0)
    done = bare.databus(project)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['x']\n"
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert done.stderr.splitlines()[0] == f"databus: set-up: installing {package} with apt-get"
    assert package in bare.installed.read_text()


@pytest.mark.parametrize(
    ("uid", "environment"), [(1000, {}), (0, {"DATABUS_NO_INSTALL": "1"})], ids=["a user", "told"]
)
def test_where_nothing_may_be_installed_the_remedy_is_said_before_anything_else(
    project: Path, tmp_path: Path, uid: int, environment: dict[str, str]
):
    """One sentence, and nothing was begun."""
    bare = BarePython(tmp_path / "bin", uid=uid)
    done = bare.databus(project, **environment)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert "apt-get install python3-venv" in sentence
    assert not bare.installed.exists()
    assert not (bare.folder / "venv").exists()


class FirstStart:
    """What is fetched beside the packages, as a program of the small project: `text` is what it does."""

    def __init__(self, project: Path, folder: Path, text: str, *, anew: bool = False) -> None:
        databus(project)  # the environment is copied, too, unless it is to be made anew
        left_out = shutil.ignore_patterns(".venv" if anew else ".databus-ready")
        self.root = Path(shutil.copytree(project, folder / "small", symlinks=True, ignore=left_out))
        self.done = folder / "done"
        setup = self.root / "deploy" / "setup"
        setup.mkdir(exist_ok=True)
        (setup / "__init__.py").touch()
        head = f"import os, pathlib, sys, time\ndone = pathlib.Path({str(self.done)!r})\n"
        (setup / "first_start.py").write_text(head + text)

    def databus(self, *words: str) -> subprocess.CompletedProcess[str]:
        return databus(self.root, *words)


WAITS_FOR_PACKAGES = """
end = time.monotonic() + 60
while not list(pathlib.Path('.venv').glob('lib/*/site-packages/uv')):
    if time.monotonic() > end:
        sys.exit('the packages were not installed meanwhile')
    time.sleep(0.05)
time.sleep(1.5)
done.write_text('fetched')
"""


def test_java_is_fetched_while_the_packages_are_installed_and_waited_for(project: Path, tmp_path: Path):
    """It ends after the installer has come, and begins before: one after the other it would wait for ever."""
    beside = FirstStart(project, tmp_path, WAITS_FOR_PACKAGES, anew=True)
    (beside.root / "deploy" / "__main__.py").write_text(
        f"import pathlib\nprint(pathlib.Path({str(beside.done)!r}).read_text())\n"
    )
    done = beside.databus("demo")
    assert (done.returncode, done.stdout) == (0, "fetched\n"), done.stderr
    assert "meanwhile" not in done.stderr
    assert not list(beside.root.glob(".venv.*"))


def test_a_command_without_spark_fetches_nothing_beside(project: Path, tmp_path: Path):
    beside = FirstStart(project, tmp_path, "done.write_text('fetched')\n")
    assert beside.databus("topics", "list").returncode == 0
    assert not beside.done.exists()


def test_what_could_not_be_fetched_is_said_and_the_command_runs(project: Path, tmp_path: Path):
    """It may need nothing of it, and says the remedy itself where it does."""
    beside = FirstStart(project, tmp_path, "sys.exit('databus: needs a Java runtime 17 or 21')\n")
    done = beside.databus("setup")
    assert (done.returncode, done.stdout) == (0, "['setup']\n")
    lines = done.stderr.splitlines()
    assert lines.index("databus: needs a Java runtime 17 or 21") < lines.index(
        "databus: set-up: Java or Spark's connector is not there yet; it is tried again"
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_who_stops_the_set_up_stops_what_runs_beside_it(project: Path, tmp_path: Path, how: signal.Signals):
    """No process stays, and no lock. A shell without a terminal lets Ctrl-C pass its children by."""
    beside = FirstStart(project, tmp_path, "done.write_text(str(os.getpid()))\ntime.sleep(600)\n")
    script = subprocess.Popen(
        [str(beside.root / "databus"), "demo"], cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "DATABUS_PYTHON": sys.executable},
        # A run in the background has it ignored, and no shell can trap what it finds ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (beside.done.exists() and beside.done.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    script.send_signal(how)
    assert script.wait(60) == 128 + how
    assert not Path(f"/proc/{beside.done.read_text()}").exists()
    assert not (beside.root / ".venv.lock").exists()
