"""Java's archive of Spark's classes: its key, its creation, and that a bad one does no harm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.setup import class_archive as class_archive_module
from deploy.setup.class_archive import MAX_ARCHIVES, class_archive
from deploy.setup.java import find_java

OPTIONS = "-XX:+UseSerialGC 1g"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java's folder, and a cache of our own."""
    monkeypatch.setenv("DATABUS_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    java = home / "bin" / "java"
    java.touch()
    return java


def made(java: Path, jars: list[Path], options: str = OPTIONS) -> Path:
    """What a driver's run that made the archive leaves."""
    with class_archive(java, jars, options) as archive:
        assert archive.partial is not None
        archive.partial.write_bytes(b"classes")
        archive.keep()
    return archive.path


def test_the_first_run_makes_it_and_the_second_uses_it(java: Path) -> None:
    """One option each, and the file has its name only when it is whole."""
    with class_archive(java, [], OPTIONS) as archive:
        assert archive.partial is not None
        assert f"-XX:ArchiveClassesAtExit={archive.partial} " in archive.option
        assert not archive.path.exists()
        archive.partial.write_bytes(b"classes")
        archive.keep()
    assert archive.path.read_bytes() == b"classes"
    with class_archive(java, [], OPTIONS) as archive:
        assert f"-XX:SharedArchiveFile={archive.path} " in archive.option
        assert archive.partial is None


def test_a_run_that_was_killed_leaves_nothing_to_use(java: Path) -> None:
    """No file, or half of one beside its place: the next run recreates it."""
    with class_archive(java, [], OPTIONS) as archive:
        assert archive.partial is not None
        archive.partial.write_bytes(b"half")
    with class_archive(java, [], OPTIONS) as archive:
        assert archive.partial is not None
        assert not archive.partial.exists()


def test_two_drivers_do_not_make_it_at_once(java: Path) -> None:
    """The second runs without: nothing waits for an archive."""
    with class_archive(java, [], OPTIONS), class_archive(java, [], OPTIONS) as second:
        assert (second.option, second.partial) == ("", None)


def test_another_java_jar_or_option_is_another_archive(java: Path, tmp_path: Path) -> None:
    """What the JVM would refuse an archive for has a key of its own."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    paths = [made(java, [jar]), made(java, [jar], "-XX:+UseG1GC 1g"), made(java, [])]
    os.utime(jar, (1, 1))
    paths.append(made(java, [jar]))
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.15"')
    paths.append(made(java, [jar]))
    assert len(set(paths)) == len(paths)


def test_archives_of_versions_gone_by_are_forgotten(java: Path) -> None:
    """Old archives, two hundred megabytes each, are deleted."""
    paths = [made(java, [], f"-Xmx{number}g") for number in range(MAX_ARCHIVES + 2)]
    assert len(list(paths[0].parent.glob("*.jsa"))) == MAX_ARCHIVES
    assert paths[-1].is_file()


def test_a_cache_that_cannot_be_written_is_no_reason_not_to_start(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is a disk that is nearly full."""
    monkeypatch.setattr(class_archive_module, "MIN_FREE_BYTES", 1 << 62)
    with class_archive(java, [], OPTIONS) as archive:
        assert archive.option == ""
    (tmp_path / "file").touch()
    monkeypatch.setenv("DATABUS_CACHE", str(tmp_path / "file"))
    with class_archive(java, [], OPTIONS) as archive:
        assert archive.option == ""


@pytest.mark.java
def test_java_starts_with_an_archive_that_is_rubbish(java: Path) -> None:
    """It reads the classes from the jars and prints no alarming message."""
    found = find_java()
    if found is None:
        pytest.skip("no Java 17 or 21 here")
    made(java, [])
    with class_archive(java, [], OPTIONS) as archive:
        command = [str(found), *archive.option.split(), "-Xmx64m", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "cds" not in done.stderr
