"""A Java runtime of a version Spark and Kafka run on: found, or installed, or asked for.

In: the environment and the usual folders. Out: the path of a `java`. Never: a JDK of our own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from deploy.errors import Unavailable
from deploy.setup.packages import install

SUPPORTED = (17, 21)  # Spark 4 and the test servers run on these
PROBE_TIMEOUT_S = 20
REMEDY = (
    "needs a Java runtime 17 or 21; install one (Debian: apt-get install openjdk-17-jre-headless, "
    "Fedora: dnf install java-21-openjdk-headless) or point JAVA_HOME at it"
)


def major_version(banner: str) -> int | None:
    """The major version in what `java -version` prints, old (`1.8.0`) and new (`17.0.15`) style."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', banner)
    if found is None:
        return None
    first = int(found.group(1))
    return int(found.group(2) or 0) if first == 1 else first


def candidates() -> Iterator[Path]:
    """Every `java` worth asking, the explicitly chosen one first."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for folder in ("/usr/lib/jvm", "/opt/java", "/opt", "/Library/Java/JavaVirtualMachines"):
        yield from sorted(Path(folder).glob("*/bin/java"))
        yield from sorted(Path(folder).glob("*/Contents/Home/bin/java"))


def find_java() -> Path | None:
    """The first supported `java` here, or None."""
    return next((path for path in candidates() if _version_of(path) in SUPPORTED), None)


@lru_cache(maxsize=1)
def ensure_java() -> Path:
    """A supported `java`, installed by the package manager if need be; else `Unavailable`."""
    java = find_java()
    if java is None and install(["openjdk-17-jre-headless"], ["java-21-openjdk-headless"]):
        java = find_java()
    if java is None:
        raise Unavailable(REMEDY)
    return java


def java_home() -> Path:
    """The folder Spark expects in JAVA_HOME."""
    return ensure_java().resolve().parent.parent


def _version_of(java: Path) -> int | None:
    if not java.is_file():
        return None
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(answer.stderr + answer.stdout)
