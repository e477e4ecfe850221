"""Stories of replication and election as text; DATABUS_REWRITE=1 rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.transcript import check_transcript
from tests.simulation.stage import ScriptStage

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path):
    """Every command yields the transcript below it."""
    stage = ScriptStage(path.stem)
    try:
        check_transcript(path, stage.run)
    finally:
        stage.end()
