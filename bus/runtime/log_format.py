"""The form of the processes' log lines.

`log_to_stderr` is for entry points only: it configures the root logger.
"""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class PerLineFormatter(logging.Formatter):
    """Gives each line of a message the head of its record. So one record, which costs a write and
    some twenty microseconds, may carry a line for each of a thousand partitions."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The message, each of its lines behind time, level and logger."""
        if "\n" not in record.message:
            return super().formatMessage(record)
        lines = []
        for line in record.message.split("\n"):
            record.message = line
            lines.append(super().formatMessage(record))
        return "\n".join(lines)


def log_to_stderr() -> None:
    """Write what is logged at INFO and above to standard error, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(PerLineFormatter(FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
