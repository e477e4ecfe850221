"""One log file per module, as Kafka's brokers keep them, beside the log directories.

The files rotate at a bounded size. Levels are not set here: IncrementalAlterConfigs on
BROKER_LOGGER changes them while the broker runs, for these files and for standard error alike.

| file | what |
|---|---|
| server.log | start and stop, the control plane, why the process failed, everything else |
| controller.log | elections, registrations, fencing |
| state-change.log | each partition's changes as the controller decides them |
| request.log | each request, while `broker.handlers` is at DEBUG |
| coordinator.log | groups: loading, members, generations |
| cleaner.log | logs: recovery, retention, deletion, cleaning |
| authorizer.log | what was refused, by which ACL, at most ten lines a second |
| replication.log | fetchers, truncation, in-sync sets |
"""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from broker.server.control_plane import StartError
from bus.runtime.log_format import FORMAT, PerLineFormatter

MAX_FILE_BYTES = 10 * 1024 * 1024
"""A file's size before it rotates: some hundred thousand lines."""

KEPT_FILES = 5
"""Older files kept of each module; with the present one 60 MB for a log that fills up."""

PACKAGES = ("broker", "bus")
"""`bus.runtime.tasks` says why a process failed."""

FILES = {
    "broker": "server",
    "broker.controller": "controller",
    "broker.controller.state_change": "state-change",
    "broker.authorizer": "authorizer",
    "broker.handlers": "request",
    "broker.coordinator": "coordinator",
    "broker.log": "cleaner",
    "broker.cleaner_process": "cleaner",
    "broker.replica": "replication",
}


COMPLAIN_EVERY_S = 60.0
"""How often standard error reports lines that cannot be written: it mostly ends up on the same
disk, and a trace for each line, as Python's own handler writes it, would fill the space left
there."""


class ModuleLogFile(RotatingFileHandler):
    """One module's file. Invariant: `_missing` lines were not written since the last report."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True
        )
        self.setFormatter(PerLineFormatter(FORMAT))
        self._missing = 0
        self._complained = -COMPLAIN_EVERY_S

    def handleError(self, record: logging.LogRecord) -> None:
        """Mostly a full disk. A wrong call of the logger keeps its trace."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._missing += 1
        now = record.created
        if 0 <= now - self._complained < COMPLAIN_EVERY_S:
            return
        self._complained = now
        text = f"{self.baseFilename} cannot be written ({error.strerror}), {self._missing} lines"
        self._missing = 0
        try:
            print(f"{text} are missing", file=sys.stderr, flush=True)
        except OSError:
            return  # the same disk


class ModuleFiles(logging.Handler):
    """Writes each record to the file of the nearest module above its logger."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        directory.mkdir(parents=True, exist_ok=True)
        self._by_module = {
            module: ModuleLogFile(directory / f"{name}.log") for module, name in FILES.items()
        }
        self._by_logger: dict[str, ModuleLogFile] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        handler = self._by_logger.get(record.name)
        if handler is None:
            handler = self._by_logger[record.name] = self._nearest(record.name)
        handler.handle(record)

    def close(self) -> None:
        """Close the files."""
        for handler in self._by_module.values():
            handler.close()
        super().close()

    def _nearest(self, name: str) -> ModuleLogFile:
        while name not in self._by_module and "." in name:
            name = name.rpartition(".")[0]
        return self._by_module.get(name, self._by_module["broker"])


def open_logs(directory: Path) -> ModuleFiles:
    """Start to write this process' logs into `directory`. Raises StartError."""
    try:
        files = ModuleFiles(directory)
    except OSError as error:
        raise StartError(
            f"the process' logs cannot be written to {directory} ({error.strerror}); "
            "set process.log.dir to a directory that can be written"
        ) from error
    for package in PACKAGES:
        logging.getLogger(package).addHandler(files)
    return files


def close_logs(files: ModuleFiles) -> None:
    """Stop writing."""
    for package in PACKAGES:
        logging.getLogger(package).removeHandler(files)
    files.close()
