"""Election, fencing, eligible leaders and reassignment as stories with their transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metadata.versions import MAX_LEVEL, MIN_LEVEL
from tests.broker.controller.decisions.story import DecisionStory
from tests.broker.transcript import check_transcript

STORIES = Path(__file__).parent / "stories"
OLDER = {"unclean.txt"}
"""Stories of a cluster whose metadata.version has no eligible leader replicas."""


@pytest.mark.parametrize("name", sorted(path.name for path in STORIES.glob("*.txt")))
def test_the_story_goes_as_it_is_written(name: str) -> None:
    """Each command's transcript has the answer, then every partition that changed."""
    older = name in OLDER
    story = DecisionStory(MIN_LEVEL if older else MAX_LEVEL, min_isr=1 if older else 2)
    check_transcript(STORIES / name, story.run)
