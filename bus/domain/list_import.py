"""What is asked of a file of plates or faces, and what becomes of it: one shape for command line
and API.

In/out: structs. Never: a line of the file.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bus.contracts.commands import ANY_VERSION, CommandAnswer
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import Severity, Tolerance


class ListText(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a list; None: it stays as it is, or is usual."""

    name: str | None = None
    owner: str | None = None
    source: str | None = None
    legal_ground: str | None = None
    date: str | None = None
    severity: Severity | None = None
    tolerance: Tolerance | None = None
    alarms: bool | None = None
    renewal_days: int | None = None


class ListUpload(NamedTuple):
    """A file that somebody has sent, where it lies. `is_dry_run`: only what would change. `model`,
    `threshold`: of faces, as `alarm.lists.wanted_model` has them."""

    list_id: str
    path: str
    text: ListText
    account: str
    reason: str = ""
    case: str = ""
    seen_version: int = ANY_VERSION
    confirms_removal: bool = False
    is_dry_run: bool = False
    model: str = ""
    threshold: float | None = None


class ListDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A line is changed where its note or its date is another. `…_plates`: examples."""

    added: int
    removed: int
    changed: int
    added_plates: list[str] = []
    removed_plates: list[str] = []
    changed_plates: list[str] = []


class RefusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file that was not taken, and why in both languages."""

    line: int
    text: str
    reason: str
    reason_zh: str


class ListImport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file. `report`: the file that has all refused lines, or empty;
    `refused_lines`: the first ones, where there is no such file; `model`: of faces, with the
    threshold. Without `answer` nothing was asked for."""

    list_id: str
    lines: int
    refused: int
    refused_reasons: dict[str, int]
    report: str
    difference: ListDifference
    seen_version: int
    refused_lines: list[RefusedRow] = []
    model: FeatureModel | None = None
    answer: CommandAnswer | None = None
