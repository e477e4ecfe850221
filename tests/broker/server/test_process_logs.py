"""One file per module."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.server.process_logs import ModuleLogFile, close_logs, open_logs
from bus.runtime.log_format import FORMAT, PerLineFormatter
from deploy.servers.databus import RunningBroker


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


def test_lines_for_a_full_disk_are_counted_and_cost_no_trace_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python's own handler wrote a trace per line, 486 kB of them, to the disk that was full."""
    file = ModuleLogFile(Path("/dev/full"))
    try:
        for number in range(50):
            record = logging.LogRecord("broker", logging.ERROR, "", 0, "%d", (number,), None)
            file.handle(record)
    finally:
        file.stream = None  # type: ignore[assignment]
        file.close()
    told = capsys.readouterr().err.splitlines()
    assert told == ["/dev/full cannot be written (No space left on device), 1 lines are missing"]


def test_a_mistake_in_a_line_keeps_its_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the program's fault, not the disk's."""
    file = ModuleLogFile(tmp_path / "a.log")
    file.handle(logging.LogRecord("broker", logging.ERROR, "", 0, "%d", ("no number",), None))
    file.close()
    assert "Traceback" in capsys.readouterr().err


def test_the_active_controller_of_a_quorum_writes_its_state_changes(
    shared_broker: RunningBroker,
) -> None:
    """Under ZooKeeper it always did."""
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic("noted", 1, 1)])["noted"].result(30)
    text = (shared_broker.data_dir / "logs-log" / "state-change.log").read_text()
    assert "noted-0 NON_EXISTENT → ONLINE leader 1 epoch 0" in text


def test_each_line_of_a_message_has_the_head_of_its_record() -> None:
    """A thousand partitions that change at once are one record and a thousand lines."""
    record = logging.LogRecord("broker.x", logging.INFO, "", 0, "%s", ("one\ntwo",), None)
    first, second = PerLineFormatter(FORMAT).format(record).split("\n")
    assert first.endswith(" INFO broker.x: one")
    assert second.endswith(" INFO broker.x: two")
    assert first.removesuffix("one") == second.removesuffix("two")
