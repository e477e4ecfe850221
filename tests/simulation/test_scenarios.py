"""Stories of replication and election as text; DATABUS_REWRITE=1 writes what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.transcript import check_transcript
from tests.simulation.stage import Stage

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path):
    """Every command gives the transcript below it."""
    stage = Stage(path.stem)
    try:
        check_transcript(path, stage.run)
    finally:
        stage.end()
