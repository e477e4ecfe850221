"""A checkpoint is never used twice, and never taken from a driver that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from bus.settings import SiteSettings
from deploy.paths import PROJECT_ROOT
from spark_apps.queries.checkpoint import QueryCheckpoint
from spark_apps.settings import JobSettings, StreamsSettings

HELD = """
import sys, time
from tests.spark_apps.test_checkpoint import settings_in
from pathlib import Path
from spark_apps.queries.checkpoint import QueryCheckpoint
held = QueryCheckpoint.create(settings_in(Path(sys.argv[1])), "a+b")
print(held.folder, flush=True)
time.sleep(600)
"""


def settings_in(folder: Path) -> JobSettings:
    """Settings with a blank in the name of the folder."""
    return JobSettings(
        site=SiteSettings(data_dir=str(folder / "var")),
        streams=StreamsSettings(checkpoint_dir=str(folder / "check points")),
    )


def test_every_start_gets_an_empty_checkpoint_and_what_a_killed_driver_left_is_gone(
    tmp_path: Path,
) -> None:
    """What broke: the folder was removed under one name and used under another (`+` quoted as %2B),
    so that a driver began at an old checkpoint and left records out.
    """
    held = subprocess.Popen(
        [sys.executable, "-c", HELD, str(tmp_path)],
        cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert held.stdout is not None
    first = Path(held.stdout.readline().strip())
    (first / "offsets").mkdir()
    beside = QueryCheckpoint.create(settings_in(tmp_path), "a+b")
    assert (first / "offsets").is_dir(), "the other driver runs"
    os.kill(held.pid, signal.SIGKILL)
    held.wait()
    after = QueryCheckpoint.create(settings_in(tmp_path), "a+b")
    assert not first.exists()
    assert beside.folder.is_dir()
    assert after.folder != beside.folder
    assert list(after.folder.iterdir()) == []
    beside.close()
    after.close()
    assert list((tmp_path / "check points" / "a+b").iterdir()) == []
    held.stdout.close()


def test_what_an_earlier_version_left_is_removed(tmp_path: Path) -> None:
    """It knew no lock."""
    old = tmp_path / "check points" / "q" / "0123"
    (old / "offsets").mkdir(parents=True)
    QueryCheckpoint.create(settings_in(tmp_path), "q").close()
    assert not old.exists()
