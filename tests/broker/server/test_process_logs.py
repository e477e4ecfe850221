"""One file per module."""

from __future__ import annotations

import logging
from pathlib import Path

from broker.server.process_logs import close_logs, open_logs


def test_each_module_has_its_file_and_the_rest_goes_to_the_server_log(tmp_path: Path) -> None:
    """By the nearest name above the logger."""
    files = open_logs(tmp_path)
    try:
        for name in (
            "broker.controller.state_change", "broker.controller.zk", "broker.replica",
            "broker.log.cleaner", "broker.network", "broker.coordinator",
        ):  # fmt: skip
            logging.getLogger(name).warning("from %s", name)
    finally:
        close_logs(files)
    found = {
        path.name: [line.rpartition("from ")[2] for line in path.read_text().splitlines()]
        for path in tmp_path.iterdir()
    }
    assert found == {
        "state-change.log": ["broker.controller.state_change"],
        "controller.log": ["broker.controller.zk"],
        "replication.log": ["broker.replica"],
        "cleaner.log": ["broker.log.cleaner"],
        "server.log": ["broker.network"],
        "coordinator.log": ["broker.coordinator"],
    }
    logging.getLogger("broker.replica").warning("afterwards")
    assert "afterwards" not in (tmp_path / "replication.log").read_text()
