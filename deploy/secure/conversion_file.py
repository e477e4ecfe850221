"""How far a site is on its way from open to closed, as a file of its folder says it.

In: the folder. Out: a stage; on the device when a call returns. Without a file the site is closed.
Raises OperatorError. Never: a stage that the file does not name.
"""

from __future__ import annotations

import json
from pathlib import Path

from deploy.errors import OperatorError
from deploy.secure.broker_keys import ConversionStage
from deploy.secure.layout import CONVERSION_FILE, PROCESSES_MARK
from deploy.secure.secret_files import replace_secret


def read_stage(folder: Path) -> ConversionStage:
    """The stage that every process of this machine starts with."""
    path = folder / CONVERSION_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ConversionStage[found["stage"]]
    except FileNotFoundError:
        return ConversionStage.CLOSED
    except (OSError, ValueError, KeyError, TypeError) as error:
        stages = ", ".join(ConversionStage.__members__)
        raise OperatorError(
            f'{path} does not say how far the site is: {error!r}; write {{"stage": "NAME"}} with'
            f" one of {stages}, the one that `./databus secure convert status` shows of the brokers"
        ) from error


def write_stage(folder: Path, stage: ConversionStage) -> None:
    """From now on whoever starts goes by it. Raises OperatorError."""
    _replace(folder / CONVERSION_FILE, json.dumps({"stage": stage.name}).encode() + b"\n")


def mark_processes(folder: Path) -> None:
    """Whoever of our own processes has started before now is to start again. Ahead of the stage:
    a process that is started once too often loses nothing. Raises OperatorError."""
    _replace(folder / PROCESSES_MARK, b"")


def is_converting(folder: Path) -> bool:
    """Whether a conversion has begun; it stays so once the site is closed."""
    return (folder / CONVERSION_FILE).exists()


def _replace(path: Path, data: bytes) -> None:
    try:
        replace_secret(path, data)
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error}") from error
