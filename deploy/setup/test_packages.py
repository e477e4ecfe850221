"""What only tests, simulations and benches need: Python packages of a lock of their own, and tools.

In: requirements-test.lock, the system's package manager. Out: both installed, one line a step.
Never: a failure hidden: what cannot be installed is named, and the tests that need it are skipped.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.setup.packages import install
from deploy.setup.still_at_it import say, still_at_it

LOCK = PROJECT_ROOT / "requirements-test.lock"
STAMP = Path(sys.prefix) / ".databus-test-ready"
INSTALL_TIMEOUT_S = 900  # a slow mirror
SBIN = "/usr/sbin"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Tool:
    """A third-party program that tests use. `commands`: any of them will do. Packages with what it
    needs besides come with it."""

    debian: str
    fedora: str
    commands: tuple[str, ...]
    debian_besides: tuple[str, ...] = ()
    fedora_besides: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether one of the commands is on the path; sbin counts, where root's tools are."""
        path = os.environ.get("PATH", "") + os.pathsep + SBIN
        return any(shutil.which(command, path=path) for command in self.commands)


TOOLS = (
    Tool("kcat", "kcat", ("kcat", "kafkacat")),
    Tool("nftables", "nftables", ("nft",)),
    Tool("iproute2", "iproute", ("ip",)),
    Tool("strace", "strace", ("strace",)),
    Tool("chromium", "chromium", CHROMIUM),
    Tool("openjdk-17-jre-headless", "java-21-openjdk-headless", ("java",)),
    Tool("maven", "maven", ("mvn",)),
    Tool(
        "gstreamer1.0-tools", "gstreamer1", ("gst-launch-1.0",),
        ("gstreamer1.0-plugins-good", "gstreamer1.0-plugins-bad", "gir1.2-gst-rtsp-server-1.0",
         "python3-gi"),
        ("gstreamer1-plugins-good", "gstreamer1-plugins-bad-free", "gstreamer1-rtsp-server",
         "python3-gobject"),
    ),
)
FONTS = Path("/usr/share/fonts/opentype/noto")  # Chinese in the browser's pictures
FONT_PACKAGES = ("fonts-noto-cjk", "google-noto-sans-cjk-fonts")
ATOMIC = "libatomic.so.1"
"""What steers the browser is a Node.js that needs it, and no package of Debian asks for it."""
ATOMIC_PACKAGES = ("libatomic1", "libatomic")


def ensure_test_packages() -> None:
    """Install what requirements-test.lock adds; nothing happens if this lock is installed."""
    wanted = LOCK.read_text(encoding="ascii")
    if STAMP.exists() and STAMP.read_text(encoding="ascii") == wanted:
        return
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "-r", str(LOCK)]
    what = "installing the packages of the tests (requirements-test.lock; this happens once)"
    try:
        with still_at_it(what):
            done = subprocess.run(command, timeout=INSTALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OperatorError(f"the packages of the tests could not be installed: {error}") from error
    if done.returncode != 0:
        raise OperatorError(
            "the packages of the tests could not be installed (see above); repeat the command"
        )
    STAMP.write_text(wanted, encoding="ascii")


def ensure_test_tools() -> None:
    """Install what is missing of the tools where that is ours to do; name what stays missing."""
    for tool in TOOLS:
        packages = [tool.debian, *tool.debian_besides], [tool.fedora, *tool.fedora_besides]
        if not tool.is_here and not (install(*packages) and tool.is_here):
            say(f"SKIPPED {tool.debian}: it is not here and cannot be installed; "
                "the tests that need it are skipped")  # fmt: skip
    if not FONTS.exists():
        install([FONT_PACKAGES[0]], [FONT_PACKAGES[1]])
    if not _loads(ATOMIC):
        install([ATOMIC_PACKAGES[0]], [ATOMIC_PACKAGES[1]])


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True

