"""Java's archive of Spark's classes: made by the first driver's run, used by every later one.

In: a `java`, the class path's jars, the JVM's options. Out: the JVM option that uses the archive or
makes it. Never: a reason not to start. The JVM compares the class path with the archive's own note
of it and loads the classes from the jars as ever if they differ (ADR 0022).
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import IO

from bus.files.cache_folder import cache_folder
from bus.files.lock_file import hold_lock_file

FOLDER = "class-archives"
MIN_FREE_BYTES = 1 << 30  # an archive takes about 200 MB; a nearly full disk has better uses
MAX_ARCHIVES = 4  # of other jars and other options: versions gone by
QUIET = "-Xlog:cds=off,cds+dynamic=off"  # signed jars are skipped, hundreds of lines say so
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """What one driver does with the archive: uses it, makes it, or neither (no option)."""

    path: Path
    option: str = ""
    partial: Path | None = None  # where the JVM leaves it at its end; None: nothing is made

    def keep(self) -> None:
        """After the JVM has ended: what it left becomes the archive. A failure costs only time."""
        if self.partial is None or not self.partial.is_file():
            return
        with suppress(OSError):
            size = self.partial.stat().st_size
            self.partial.rename(self.path)
            log.info("class archive: %d MB kept in %s", size >> 20, self.path)
            _forget_the_oldest(self.path.parent)


@contextmanager
def class_archive(java: Path, jars: Iterable[Path], options: str) -> Iterator[ClassArchive]:
    """The archive for this Java, these jars and options. One driver at a time makes it."""
    path = cache_folder() / FOLDER / f"spark-{_key(java, jars, options)}.jsa"
    if path.is_file():
        with suppress(OSError):
            path.touch()  # the oldest is the one unused for longest
        yield ClassArchive(path, f"-Xshare:auto -XX:SharedArchiveFile={path} {QUIET}")
        return
    lock = _hold_lock(path)
    if lock is None:
        yield ClassArchive(path)
        return
    with lock:
        yield _to_be_made(path)


def spark_jars() -> list[Path]:
    """The jars inside the installed pyspark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    return sorted((Path(found.origin).parent / "jars").glob("*.jar"))


def _to_be_made(path: Path) -> ClassArchive:
    if " " in str(path) or disk_usage(path.parent).free < MIN_FREE_BYTES:
        return ClassArchive(path)  # Spark splits the options at blanks
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    log.info("class archive: the next start is quicker; made once, when this driver stops")
    return ClassArchive(path, f"-XX:ArchiveClassesAtExit={partial} {QUIET}", partial)


def _hold_lock(path: Path) -> IO[str] | None:
    """None while another driver makes the archive, and where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return hold_lock_file(path.with_suffix(".lock"))
    except BlockingIOError:
        return None
    except OSError as error:
        log.info("class archive: none, %s", error)
        return None


def _key(java: Path, jars: Iterable[Path], options: str) -> str:
    """What the JVM would refuse an archive for: another Java, other jars, another memory model."""
    digest = hashlib.sha256(f"{java.resolve()}\0{options}\0".encode())
    for file in (java.resolve().parent.parent / "release", *jars):
        with suppress(OSError):
            about = file.stat()
            digest.update(f"{file}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _forget_the_oldest(folder: Path) -> None:
    archives = sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime)
    for old in archives[:-MAX_ARCHIVES]:
        old.unlink(missing_ok=True)
        old.with_suffix(".lock").unlink(missing_ok=True)
