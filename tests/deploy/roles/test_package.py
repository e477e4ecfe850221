"""The zip of our packages for Spark: complete, importable, the same to the byte."""

import subprocess
import sys
import zipfile

from deploy.paths import PACKAGES, PROJECT_ROOT
from deploy.roles.package import build_zip, source_files


def test_the_zip_holds_every_package_and_nothing_else(tmp_path):
    """No tests, no caches, no data."""
    names = zipfile.ZipFile(build_zip(tmp_path / "packages.zip")).namelist()
    assert {name.split("/")[0] for name in names} == set(PACKAGES)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    assert len(names) == len(list(source_files()))


def test_the_same_tree_makes_the_same_bytes(tmp_path):
    """So that executors' caches hold."""
    assert build_zip(tmp_path / "a.zip").read_bytes() == build_zip(tmp_path / "b.zip").read_bytes()


def test_what_an_executor_needs_is_imported_from_the_zip_alone(tmp_path):
    """Python reads the pure packages out of it, away from the repository."""
    path = build_zip(tmp_path / "packages.zip")
    script = (
        "import ingest.normalise, alarm.rules, bus.contracts.topics; print(alarm.rules.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys_path(path)!r}; {script}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(path))


def sys_path(path) -> list[str]:
    """The zip first, then what is installed; never the repository."""
    return [str(path), *(p for p in sys.path if p and p != str(PROJECT_ROOT))]
