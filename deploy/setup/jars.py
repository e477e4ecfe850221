"""Jars by pom: resolved once by Maven into the cache, found there ever after.

A set of jars is a pom in this repository; the folder in the cache carries the pom's hash, so a
changed pom is fetched again and clones with different poms do not meet. A folder appears whole or
not at all (fetched beside it and renamed), so an interruption leaves nothing half.
Never: a jar in the repository, a network access when the folder is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from bus.files.cache_folder import cache_folder
from deploy.errors import Unavailable
from deploy.setup.child import run_child
from deploy.setup.java import ensure_java, java_home
from deploy.setup.packages import command_of
from deploy.setup.still_at_it import still_at_it

FETCH_TIMEOUT_S = 900
HERE = Path(__file__).resolve().parent
SPARK_CONNECTOR_POM = HERE / "spark-connector.xml"


@lru_cache(maxsize=1)
def ensure_maven() -> Path:
    """The `mvn` command, installed by the package manager if need be; else `Unavailable`."""
    ensure_java()
    found = command_of("mvn", "maven")
    if found is None:
        raise Unavailable(
            "needs Maven (mvn) to fetch jars; install it (Debian: apt-get install maven)"
        )
    return found


def jars_of(pom: Path, name: str) -> list[Path]:
    """All runtime jars of a pom, fetched if the cache does not hold them; else `Unavailable`."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / "jars" / f"{name}-{digest}"
    if not folder.is_dir():
        with _fetching(folder):
            if not folder.is_dir():
                _fetch(pom, folder, name)
    return sorted(folder.glob("*.jar"))


def spark_connector_jars() -> list[Path]:
    """Spark's own Kafka connector in the pinned mix of versions (ADR 0003)."""
    return jars_of(SPARK_CONNECTOR_POM, "spark-connector")


@contextmanager
def _fetching(folder: Path) -> Iterator[None]:
    """One process at a time fetches a folder; the lock goes with the process."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(pom: Path, folder: Path, name: str) -> None:
    mvn = ensure_maven()
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [
        str(mvn),
        "-B",
        "-q",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={partial}",
        "-DincludeScope=runtime",
    ]
    try:
        with still_at_it(f"fetching the jars of {name} (once)"):
            done = run_child(command, FETCH_TIMEOUT_S, {"JAVA_HOME": str(java_home())})
    except subprocess.TimeoutExpired as timeout:
        raise Unavailable(f"the jars of {name} did not arrive in {FETCH_TIMEOUT_S} s") from timeout
    if done.returncode != 0 or not any(partial.glob("*.jar")):
        reason = next(
            (line for line in done.stdout.splitlines() if "ERROR" in line), "no reason given"
        )
        raise Unavailable(f"the jars of {name} could not be fetched: {reason.strip()[:300]}")
    partial.rename(folder)
