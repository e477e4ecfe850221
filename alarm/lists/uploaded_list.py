"""Imports a file that somebody has sent to the console; fits `monitor.ports.ImportList` by shape.

In: where the file lies, what is said of the list. Out: `ListImport`. Never: a file that stays: the
report is read and goes, too.
"""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path

import msgspec

from alarm.lists.columns import NoPlateColumn
from alarm.lists.excel_rows import ExcelUnreadable
from alarm.lists.import_file import TooManyLines
from alarm.lists.importer import ListFile, ListImporter
from alarm.lists.list_file import ListFileError
from alarm.lists.lists_topic import CatchUpTimeout
from alarm.lists.wanted_model import WantedModel
from bus.client.kafka.command_client import CommandNotAcknowledged
from bus.domain.command_error import CommandError
from bus.domain.feature_models import Models
from bus.domain.list_check import check_list_id
from bus.domain.list_import import ListImport, ListUpload, RefusedRow
from bus.errors import BusError
from bus.settings import BusSettings, SiteSettings

CLIENT_ID = "console-import"
ISSUER = "console"
SHOWN_REFUSED = 1_000


def import_uploaded(
    site: SiteSettings, bus: BusSettings, models: Models, upload: ListUpload
) -> ListImport:
    """Whether plates or faces stand in it is recognised by its headings, unless a model or a
    threshold says that it is faces. One after the other is enough. Raises `CommandError` for what
    is wrong with the file or the words, `CommandNotAcknowledged` while the bus is away,
    `CommandUnanswered`."""
    check_list_id(upload.list_id)
    report = Path(f"{upload.path}.refused.csv")
    try:
        with closing(ListImporter(bus, site.name, CLIENT_ID)) as importer:
            return _import(importer, models, upload, report)
    except (ListFileError, NoPlateColumn, TooManyLines, ExcelUnreadable) as error:
        text = str(error).replace(str(report), "the report").replace(upload.path, "the file")
        raise CommandError("file", text, "file") from error
    except (CatchUpTimeout, BusError, OSError) as error:
        raise CommandNotAcknowledged(str(error)) from error
    finally:
        report.unlink(missing_ok=True)


def _import(
    importer: ListImporter, models: Models, upload: ListUpload, report: Path
) -> ListImport:
    wanted = WantedModel(models, upload.model, upload.threshold)
    may_be_plates = not upload.model and upload.threshold is None
    file = ListFile(Path(upload.path), report, upload.text, wanted, may_be_plates=may_be_plates)
    tried = importer.try_file(upload.list_id, file, lambda *_: None)
    command = msgspec.structs.replace(
        tried.command, author=upload.account, account=upload.account, issuer=ISSUER,
        reason=upload.reason, case=upload.case, confirms_removal=upload.confirms_removal,
    )  # fmt: skip
    if upload.seen_version >= 0:
        command = msgspec.structs.replace(command, seen_version=upload.seen_version)
    outcome = msgspec.structs.replace(
        tried.outcome, seen_version=command.seen_version, report="",
        refused_lines=_refused_rows(report),
    )  # fmt: skip
    if upload.is_dry_run:
        return outcome
    answer = importer.put(command, tried.read, lambda *_: None)
    return msgspec.structs.replace(outcome, answer=answer)


def _refused_rows(report: Path) -> list[RefusedRow]:
    """The first ones."""
    found: list[RefusedRow] = []
    if not report.exists():
        return found
    with report.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        next(rows, None)
        for line, text, reason, reason_zh in rows:
            found.append(RefusedRow(line=int(line), text=text, reason=reason, reason_zh=reason_zh))
            if len(found) == SHOWN_REFUSED:
                break
    return found
