"""The boot marker: which former process a broker can verify as complete (ADR 0032)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.disk.port import DiskError, DiskFull
from broker.disk.real import RealDisk
from broker.log.errors import storage_error
from broker.log.log_dir_files import read_boot_marker, write_boot_marker, write_clean_shutdown
from broker.log.manager import LogManager


class RestartableDisk(RealDisk):
    """A disk whose machine can reboot, and of which a part can refuse all operations."""

    boot = "first"
    broken = ""

    def boot_id(self) -> str:
        return self.boot

    def remove(self, path: str) -> None:
        if self.broken and path.startswith(self.broken):
            raise DiskError("input/output error")
        super().remove(path)


def manager(root: Path, disk: RestartableDisk, names: str = "a") -> LogManager:
    directories = ",".join(str(root / name) for name in names)
    config = BrokerConfig.from_mapping({"log.dirs": directories})
    made = LogManager(config=config, disk=disk, clock=RealClock(1))
    for directory in made.directories:
        disk.mkdirs(directory)
    return made


def test_a_killed_broker_names_its_last_epoch(tmp_path: Path):
    """The page cache outlives the process."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk)
    assert made.dirs.previous_broker_epoch() == -1
    made.dirs.begin_boot_marker(17)
    assert made.dirs.previous_broker_epoch() == 17


def test_after_the_machine_was_started_again_it_names_none(tmp_path: Path):
    """Unflushed writes may be gone."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk)
    made.dirs.begin_boot_marker(17)
    disk.boot = "second"
    assert made.dirs.previous_broker_epoch() == -1


def test_a_clean_stop_counts_on_any_start_of_the_machine(tmp_path: Path):
    """Everything was flushed."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk)
    made.dirs.begin_boot_marker(17)
    write_clean_shutdown(disk, made.directories[0], 17)
    disk.boot = "second"
    assert made.dirs.previous_broker_epoch() == 17


def test_one_directory_that_cannot_vouch_is_enough(tmp_path: Path):
    """A disk that was replaced has lost its replicas."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk, "ab")
    made.dirs.begin_boot_marker(17)
    disk.remove(f"{made.directories[1]}/.databus_life")
    assert made.dirs.previous_broker_epoch() == -1


def test_the_oldest_epoch_counts_where_directories_differ(tmp_path: Path):
    """The process was killed while it stored its new epoch in one after the other."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk, "ab")
    made.dirs.begin_boot_marker(17)
    write_boot_marker(disk, made.directories[0], disk.boot_id(), 23)
    assert made.dirs.previous_broker_epoch() == 17


def test_a_directory_that_was_only_full_is_vouched_for(tmp_path: Path):
    """What had been written is all there; the follower that took over may lose more than we did."""
    made = manager(tmp_path, RestartableDisk())
    made.dirs.begin_boot_marker(17)
    made.handle_directory_failure(made.directories[0], storage_error(DiskFull("no space left")))
    assert made.dirs.previous_broker_epoch() == 17


def test_a_directory_that_has_failed_is_not_vouched_for_though_it_refuses_to_forget(tmp_path: Path):
    """The other directory's marker is removed; all directories must have one."""
    disk = RestartableDisk()
    made = manager(tmp_path, disk, "ab")
    made.dirs.begin_boot_marker(17)
    failed = disk.broken = made.directories[0]
    made.handle_directory_failure(failed, storage_error(DiskError("input/output error")))
    assert made.dirs.previous_broker_epoch() == -1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"bootId": "first", "brokerEpoch": "x"}'])
def test_a_damaged_file_vouches_for_nothing(tmp_path: Path, text: str):
    """With any content."""
    disk = RestartableDisk()
    (tmp_path / ".databus_life").write_text(text)
    assert read_boot_marker(disk, str(tmp_path), "first") == -1


def test_a_system_without_boot_ids_counts_clean_stops_only(tmp_path: Path):
    """Empty is not equal to empty."""
    disk = RestartableDisk()
    write_boot_marker(disk, str(tmp_path), "", 17)
    assert read_boot_marker(disk, str(tmp_path), "") == -1
