"""Differences of the account that a person has looked into and answers for: a file of them.

In: what somebody states, with a name and a reason. Out: a line that stays for ever, if the account
differs by just that. Never: taken by a demo, a test or a bench: only the command `account` reads
the file.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bus.runtime.wall_clock import now_ms
from deploy.errors import OperatorError
from deploy.reconcile.balance import AcceptedDifference, Reconciliation

FILE = "accepted_differences.jsonl"
MAX_CHARACTERS = 500


def read_accepted(folder: Path) -> list[AcceptedDifference]:
    """All of a data directory. Raises `OperatorError`: a line that cannot be read is not passed
    over, for the account would differ again."""
    path = folder / FILE
    try:
        return msgspec.json.Decoder(AcceptedDifference).decode_lines(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path} cannot be read: {error}") from error


def accept(
    folder: Path, account: Reconciliation, stated: str, by: str, reason: str
) -> AcceptedDifference:
    """Write it down, if the account differs by what is stated (`data.vehicle:-21`). Raises
    `OperatorError`."""
    kind, _, number = stated.rpartition(":")
    by, reason = by.strip(), reason.strip()
    if not by or not reason or max(len(by), len(reason)) > MAX_CHARACTERS:
        raise OperatorError("who accepts a difference says so: --by NAME --reason WHY")
    if account.is_alive:
        raise OperatorError("records still come; accept a difference when none do")
    differs = {flow.kind: flow.difference for flow in account.flows if flow.difference}
    if kind not in differs or str(differs[kind]) != number.removeprefix("+"):
        text = ", ".join(f"{name}:{count:+d}" for name, count in differs.items()) or "nothing"
        raise OperatorError(f"{stated} is not what the account differs by; that is {text}")
    made = AcceptedDifference(
        kind=kind, difference=differs[kind], by=by, reason=reason, at_ms=now_ms()
    )
    try:
        with (folder / FILE).open("ab") as file:
            file.write(msgspec.json.encode(made) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OperatorError(f"{folder / FILE} cannot be written: {error}") from error
    return made
