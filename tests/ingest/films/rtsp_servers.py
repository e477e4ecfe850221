"""Starts GStreamer's RTSP server; skips by name where it cannot be had."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SYSTEM_PYTHON = Path("/usr/bin/python3")
PACKAGES = (
    "gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
)
_NEEDED = """
import gi
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gst, GstRtspServer
Gst.init(None)
for name in ("openh264enc", "h264parse", "rtph264pay", "vp8enc", "rtpvp8pay"):
    assert Gst.ElementFactory.find(name), name
"""


@dataclass(slots=True)
class RunningRtspServer:
    """A server with the films `/film` and `/other`."""

    process: subprocess.Popen[str]
    port: int

    def url(self, path: str = "/film") -> str:
        return f"rtsp://127.0.0.1:{self.port}{path}"

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(30)


def start_rtsp_server(
    *, user: str = "", password: str = "", gop: int = 25, codec: str = "h264", bits: int = 500_000
) -> RunningRtspServer:
    """Listens when this returns."""
    if not SYSTEM_PYTHON.exists() or subprocess.run(
        [str(SYSTEM_PYTHON), "-c", _NEEDED], capture_output=True, timeout=60, check=False
    ).returncode:
        pytest.skip(f"GStreamer's RTSP server is not here (Debian: {PACKAGES})")
    process = subprocess.Popen(
        [str(SYSTEM_PYTHON), str(Path(__file__).with_name("gst_server.py"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = {"user": user, "password": password, "gop": gop, "codec": codec, "bits": bits}
    process.stdin.write(json.dumps(wanted) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line.startswith("port "), line
    return RunningRtspServer(process, int(line.split()[1]))


def make_film(
    path: Path, *, seconds: int, gop: int, mux: str = "mp4mux", encoder: str = ""
) -> Path:
    """A film of 25 pictures a second, made by GStreamer; skips where that is not here."""
    if shutil.which("gst-launch-1.0") is None:
        pytest.skip("gst-launch-1.0 is not here (Debian: gstreamer1.0-tools)")
    chain = encoder or f"openh264enc gop-size={gop} ! h264parse ! {mux}"
    words = (
        f"gst-launch-1.0 -q videotestsrc num-buffers={25 * seconds} pattern=ball"
        f" ! video/x-raw,width=320,height=240,framerate=25/1 ! {chain} ! filesink location={path}"
    )
    done = subprocess.run(words.split(), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"GStreamer has no encoder for it: {done.stderr.strip()[-200:]}")
    return path
