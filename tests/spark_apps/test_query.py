"""A checkpoint is never used twice."""

from __future__ import annotations

from pathlib import Path

from bus.settings import SiteSettings
from spark_apps.query import checkpoint
from spark_apps.settings import JobSettings, StreamsSettings


def test_every_start_gets_an_empty_checkpoint_and_the_old_one_is_gone(tmp_path: Path) -> None:
    """What broke: the folder was removed under one name and used under another (`+` quoted as %2B),
    so that a driver began at an old checkpoint and left records out.
    """
    settings = JobSettings(
        site=SiteSettings(data_dir=str(tmp_path / "var")),
        streams=StreamsSettings(checkpoint_dir=str(tmp_path / "check points")),
    )
    first = checkpoint(settings, "a+b")
    (first / "offsets").mkdir()
    second = checkpoint(settings, "a+b")
    assert first != second
    assert not first.exists()
    assert list(second.iterdir()) == []
