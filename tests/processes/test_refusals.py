"""Errors reported before anything is started, each with its remedy."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from running_product import RunningProduct

from deploy.supervisor.state_file import is_held

pytestmark = pytest.mark.slow


def test_a_taken_port_is_an_error_that_says_whose_it_is_and_what_to_change(tmp_path: Path) -> None:
    """No process is left running."""
    place = RunningProduct(tmp_path / "data")
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", place.edge))
        stranger.listen()
        refused = place.databus("up")
    assert refused.returncode == 1
    assert f"port 127.0.0.1:{place.edge} for edge is taken by" in refused.stderr
    assert f"(process {os.getpid()})" in refused.stderr
    assert "--set edge.port=" in refused.stderr
    assert not is_held(place.folder)
